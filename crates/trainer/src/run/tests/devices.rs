//! What a run does on a device, beside what it does on the processor.

use super::*;

#[test]
fn a_device_takes_the_steps_of_the_processor() {
    let bench = Bench::new();
    bench.train(&bench.recipe(bench.edd()), "drafter");
    let (target, drafter) = (bench.target.path().to_owned(), bench.out("drafter"));
    let predictor = Method::CaliTs(CaliTsMethod { target, drafter });
    for method in [bench.base(), bench.taught(), bench.edd(), bench.early_exit(), predictor] {
        let name = method.name();
        let [processor, device] = [bench.recipe(method.clone()), bench.recipe_on_device(method)].map(|mut recipe| {
            (recipe.options.threads, recipe.data.steps_max) = (1, Some(5));
            let out = format!("{name}-{}", recipe.options.device);
            bench.train(&recipe, &out);
            log(&bench.out(&out))
        });
        assert_eq!((processor.len(), device.len()), (5, 5));
        for (a, b) in processor.iter().zip(&device) {
            let close = |a: f64, b: f64| (a - b).abs() < 1e-3 * a.abs();
            assert!(close(a.loss, b.loss) && close(a.gradient_norm, b.gradient_norm), "{name}: {a:?} {b:?}");
            let validation = a.validation.iter().zip(&b.validation);
            assert!(validation.into_iter().all(|(a, b)| close(a.loss, b.loss) && a.positions == b.positions), "{name}");
        }
    }
}

#[test]
fn a_run_on_a_device_is_of_one_thread_and_goes_on_there() {
    let bench = Bench::new();
    let mut recipe = bench.recipe_on_device(bench.taught());
    recipe.data.steps_max = Some(6);
    ends_at_the_same_bits(&bench, &recipe, &[4]);
    recipe.options.threads = 5;
    bench.train(&recipe, "five");
    assert_eq!(weights(&bench.out("five")), weights(&bench.out("sorted-[4]-whole")));
    let card = fs::read_to_string(bench.out("five").join("README.md")).unwrap();
    assert!(card.contains("| trained on | candle |"), "{card}");
}

#[test]
fn a_device_that_is_not_there_is_refused_before_anything_is_written() {
    let bench = Bench::new();
    let mut recipe = bench.recipe(bench.edd());
    recipe.options.device = DeviceKind::Cuda(1);
    let fault = train(&recipe, &bench.out("never"), &mut Blind, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(fault, TrainError::Model(_)) && fault.to_string().contains("device cuda:1"), "{fault}");
    assert!(!bench.out("never").exists());
}
