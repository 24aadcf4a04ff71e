//! Which layers attend through a sliding window.

use super::checks::{CONTEXT_MAX, dimension};
use super::family::Family;
use super::fault::ConfigFault;
use super::raw::RawConfig;

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// The window of each layer, `None` where attention is full.
pub(super) fn parse(raw: &RawConfig, family: Family, layers: usize) -> Result<Vec<Option<usize>>, ConfigFault> {
    match family {
        Family::Llama | Family::GptNeox => Ok(vec![None; layers]),
        Family::Mistral => Ok(vec![window(raw, family)?; layers]),
        Family::Qwen2 | Family::Qwen3 => {
            let enabled = raw.use_sliding_window.unwrap_or(false);
            let window = if enabled { window(raw, family)? } else { None };
            by_layer(raw, window, layers)
        }
    }
}

/// An absent `sliding_window` takes the family's default; an explicit `null` turns it off.
fn window(raw: &RawConfig, family: Family) -> Result<Option<usize>, ConfigFault> {
    raw.sliding_window
        .unwrap_or(family.defaults().sliding_window)
        .map(|size| dimension("sliding_window", Some(size), CONTEXT_MAX))
        .transpose()
}

fn by_layer(raw: &RawConfig, window: Option<usize>, layers: usize) -> Result<Vec<Option<usize>>, ConfigFault> {
    let Some(types) = &raw.layer_types else {
        let first = raw.max_window_layers.unwrap_or(28);
        return Ok((0..layers).map(|layer| window.filter(|_| layer >= first)).collect());
    };
    if types.len() != layers {
        let found = types.len();
        return Err(ConfigFault::LayerTypes { found, layers });
    }
    let of_type = |(layer, name): (usize, &String)| match name.as_str() {
        FULL => Ok(None),
        SLIDING => window.map(Some).ok_or(ConfigFault::NoWindow { layer }),
        _ => Err(ConfigFault::Unknown { field: "layer_types", found: name.clone(), known: &[FULL, SLIDING] }),
    };
    types.iter().enumerate().map(of_type).collect()
}
