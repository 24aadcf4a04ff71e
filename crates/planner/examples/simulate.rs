//! Simulates the scenario of a file and prints the report.
fn main() {
    let path = std::env::args().nth(1).unwrap();
    let scenario =
        espalier_planner::Scenario::parse(&std::fs::read_to_string(path).unwrap()).unwrap_or_else(|e| panic!("{e}"));
    let begun = std::time::Instant::now();
    let report = espalier_planner::simulate(&scenario, 1, tokio::time::Instant::now()).unwrap();
    eprintln!("{:?} {} events", begun.elapsed(), report.events);
    println!("{}", serde_json::to_string(&report).unwrap());
}
