use espalier_model::*;
use std::path::Path;
fn main() {
    let mut work = Workspace::new(2);
    for name in ["small", "medium"] {
        let c = Checkpoint::open(Path::new("models").join(name).as_path()).unwrap();
        let d = Decoder::load(&c, &LoadOptions::default()).unwrap();
        for _ in 0..3 {
            println!("{name} {:?}", d.measure_passes(&mut work).unwrap());
        }
    }
    let options = LoadOptions { layers: Some(1), arithmetic: Arithmetic::Int8, ..LoadOptions::default() };
    let m = DraftModel::open_with_progress(
        DraftFolder { dir: Path::new("models/sorted"), target: None },
        &options,
        |_, _| {},
    )
    .unwrap();
    for _ in 0..3 {
        println!("sorted:1 {:?}", m.decoder().measure_passes(&mut work).unwrap());
    }
}
