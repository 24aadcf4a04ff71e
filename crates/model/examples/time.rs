use espalier_model::*;
use std::time::Instant;
fn main() {
    let name = std::env::args().nth(1).unwrap_or("medium".into());
    let threads: usize = std::env::args().nth(2).map_or(2, |s| s.parse().unwrap());
    let isa = std::env::args().nth(3);
    let d = Decoder::load(&Checkpoint::open(format!("models/{name}")).unwrap(), &LoadOptions::default()).unwrap();
    let mut w = match isa { Some(i) => Workspace::with_instruction_set(threads, &i).unwrap(), None => Workspace::new(threads) };
    println!("{} {} bytes {}", w.instruction_set(), w.threads(), d.weight_bytes());
    let mut c = d.new_cache();
    let prompt: Vec<u32> = (0..256).map(|i| (i * 37) % 4000 + 5).collect();
    let t = Instant::now();
    for chunk in prompt.chunks(64) {
        d.forward(&mut w, &mut [Segment { cache: &mut c, rows: &Row::chain(chunk, 0), logits: Logits::None }], Depth::default()).unwrap();
        c.keep_path(&(0..chunk.len()).collect::<Vec<_>>()).unwrap();
    }
    println!("prefill 256 {:?}", t.elapsed());
    for rows in [1, 2, 4, 8, 12, 16, 32] {
        let mut times: Vec<f64> = (0..60).map(|_| {
            let r: Vec<Row> = (0..rows).map(|i| Row { token: 100 + i as u32, parent: (i > 0).then(|| (i - 1) / 2) }).collect();
            let t = Instant::now();
            let o = d.forward(&mut w, &mut [Segment { cache: &mut c, rows: &r, logits: Logits::All }], Depth::default()).unwrap();
            std::hint::black_box(o.logits(0, 0)[0]);
            let e = t.elapsed().as_secs_f64() * 1e3;
            c.keep_path(&[]).unwrap();
            e
        }).collect();
        times.sort_by(f64::total_cmp);
        println!("{rows:3} rows: min {:.3} med {:.3} ms", times[0], times[30]);
    }
}
