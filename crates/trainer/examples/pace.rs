//! tmp
use espalier_trainer::*;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
struct P(std::time::Instant);
impl Observer for P {
    fn began(&mut self, p: &Plan) {
        println!("{p:?}");
        self.0 = std::time::Instant::now();
    }
    fn stepped(&mut self, e: &Entry, s: Speed) {
        println!(
            "{} loss {:.4} gn {:.3} step {:.3}s {:.0} tok/s",
            e.step,
            e.loss,
            e.gradient_norm,
            self.0.elapsed().as_secs_f64(),
            s.tokens_per_second
        );
        self.0 = std::time::Instant::now();
    }
    fn validated(&mut self, s: usize, v: &Validation, _: bool) {
        println!("{s} {v:?}");
    }
    fn saved(&mut self, _: usize) {}
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let m = PathBuf::from("models/medium");
    let method = match a[1].as_str() {
        "edd" => Method::Edd(EddMethod::new(m)),
        "sorted" => Method::Sorted(SortedMethod { init: m, layers: 9, exits: vec![3, 6, 9] }),
        _ => Method::EarlyExit(EarlyExitMethod { target: m, shared_layers: 1 }),
    };
    let out = std::env::temp_dir().join(format!("pace-{}", a[1]));
    let _ = std::fs::remove_dir_all(&out);
    let data = DataOptions {
        files: vec!["/work/shared/data/gsm8k/train.jsonl".into()],
        length: 128,
        validation_share: 0.0,
        steps_max: Some(a[2].parse().unwrap()),
        ..Default::default()
    };
    let mut options = Options { threads: 2, ..Options::default() };
    options.optimiser.learning_rate = method.learning_rate();
    let r = train(&Recipe { method, data, options }, &out, &mut P(std::time::Instant::now()), &AtomicBool::new(false));
    println!("{r:?}");
}
