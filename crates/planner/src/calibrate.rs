//! Entries of a scenario from what `espalier bench kernels --json` measured.

use serde::Deserialize;

/// Tokens of context behind the rows that `bench kernels` measures.
const CONTEXT: f64 = 256.0;

/// What a target's passes cost.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Calibration {
    /// The model.
    pub name: String,
    /// How its weights are stored and multiplied.
    pub weights: String,
    /// Rows and milliseconds, with nothing behind them.
    pub curve: Vec<(usize, f64)>,
    /// Microseconds for each token of a prompt.
    pub prompt_us: f64,
    /// Microseconds for each token that a sequence has behind it.
    pub context_us: f64,
    /// Its layers.
    pub layers: usize,
}

#[derive(Deserialize)]
struct Line {
    target: String,
    weights: String,
    shape: Shape,
    passes: Vec<Pass>,
    together: Vec<Together>,
    reading: Reading,
}

#[derive(Deserialize)]
struct Reading {
    tokens: f64,
    ms: f64,
}

#[derive(Deserialize)]
struct Shape {
    layers: usize,
}

#[derive(Deserialize)]
struct Pass {
    rows: usize,
    ms: f64,
}

#[derive(Deserialize)]
struct Together {
    sequences: usize,
    rows: usize,
    ms: f64,
}

/// Reads the lines of `espalier bench kernels --json`; what is said of the machine is left out.
///
/// # Errors
/// A line that is neither.
pub fn calibrations(lines: &str) -> Result<Vec<Calibration>, serde_json::Error> {
    let of_models = lines.lines().filter(|line| line.contains("\"passes\""));
    of_models.map(|line| Ok(Calibration::of(serde_json::from_str(line)?))).collect()
}

impl Calibration {
    /// Several sequences in a pass read keys and values of their own, and rows of one sequence the same: what they take
    /// longer is the price of contexts.
    fn of(line: Line) -> Self {
        let alone = |rows: usize| line.passes.iter().find(|pass| pass.rows == rows).map(|pass| pass.ms);
        let price = |together: &Together| {
            let more = (together.ms - alone(together.sequences)?).max(0.0);
            Some(more / ((together.sequences - 1) as f64 * CONTEXT))
        };
        let plain = line.together.iter().filter(|together| together.rows == 1 && together.sequences > 1);
        let mut prices: Vec<f64> = plain.filter_map(price).collect();
        prices.sort_unstable_by(f64::total_cmp);
        let price = prices.get(prices.len() / 2).copied().unwrap_or(0.0);
        let least = line.passes.iter().map(|pass| pass.ms).fold(f64::INFINITY, f64::min) / 2.0;
        let curve: Vec<_> =
            line.passes.iter().map(|pass| (pass.rows, (pass.ms - price * CONTEXT).max(least))).collect();
        // The last token's row decides.
        let decides = curve.first().map_or(0.0, |&(_, ms)| ms);
        Self {
            name: line.target,
            weights: line.weights,
            prompt_us: 1e3 * (line.reading.ms - decides).max(0.0) / (line.reading.tokens - 1.0).max(1.0),
            curve,
            context_us: 1e3 * price,
            layers: line.shape.layers,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_price_of_contexts_is_told_from_that_of_rows() {
        // A row costs 0.1 ms after 1 ms, and a token of context a microsecond.
        let pass = |rows: u32| serde_json::json!({"rows": rows, "ms": 1.256 + 0.1 * f64::from(rows)});
        let together = |n: u32| serde_json::json!({"sequences": n, "rows": 1, "ms": 1.0 + 0.356 * f64::from(n)});
        let (passes, together) = ([1, 2, 4, 8].map(pass), [2, 4, 8].map(together));
        let line = serde_json::json!({
            "target": "m", "weights": "as stored", "shape": {"layers": 12},
            "passes": passes, "together": together, "reading": {"tokens": 129, "ms": 1.1 + 12.8},
        });
        let lines = format!("{{\"threads\": 2}}\n{line}\n");
        let found = calibrations(&lines).unwrap();
        assert_eq!((found.len(), found[0].layers), (1, 12));
        assert!((found[0].context_us - 1.0).abs() < 1e-9);
        assert!((found[0].curve[0].1 - 1.1).abs() < 1e-9 && found[0].curve[0].0 == 1);
        assert!((found[0].prompt_us - 100.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_line_of_it_is_an_error() {
        assert!(calibrations("{\"passes\": 3}").is_err());
        assert_eq!(calibrations("").unwrap(), []);
    }
}
