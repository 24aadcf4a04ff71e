//! Both relations as a plot: confidence to the left, entropy to the right.

use espalier_command::report::figure;

use super::bins::Bin;
use super::report::Report;
use crate::plot::{Anchor, Panel, Point, Scale, Svg, colour};

const SIZE: Point = (880.0, 396.0);
const TOP: f64 = 72.0;
const BOTTOM: f64 = 326.0;
/// The left and right edges of the panels.
const EDGES: [(f64, f64); 2] = [(60.0, 430.0), (500.0, 870.0)];
/// Between two bars.
const GAP: f64 = 1.5;

/// SVIP's estimate of the acceptance probability from the entropy `h` (its section 2), at its released weight.
fn svip_estimate(h: f64) -> f64 {
    1.0 - (0.15 * h).sqrt()
}

/// The plot of a report.
pub(super) fn chart(report: &Report) -> Svg {
    let mut svg = Svg::new(SIZE.0, SIZE.1);
    svg.text(
        (14.0, 22.0),
        Anchor::Start,
        "title",
        format_args!("Drafter {}, target {}", report.drafter, report.target),
    );
    let facts = format!(
        "{} prompts, {} tokens guessed (how many per bin stands above it), accepted {}, mean confidence {}, expected \
         calibration error {}",
        report.prompts,
        report.guessed,
        figure(report.acceptance, 3),
        figure(report.mean_confidence, 3),
        figure(report.calibration_error, 3),
    );
    svg.text((14.0, 40.0), Anchor::Start, "", facts);
    draw_confidence(&mut svg, report);
    if report.entropy.is_empty() {
        svg.text((EDGES[1].0, TOP + 20.0), Anchor::Start, "", "This drafter has no distribution, and so no entropy.");
    } else {
        draw_entropy(&mut svg, &report.entropy);
    }
    svg
}

fn panel(side: usize, max: f64) -> Panel {
    Panel { x: Scale::new(max, EDGES[side]), y: Scale::new(1.0, (BOTTOM, TOP)) }
}

fn draw_confidence(svg: &mut Svg, report: &Report) {
    let panel = panel(0, 1.0);
    panel.draw_x_axis(svg, "confidence of the drafter");
    panel.draw_y_axis(svg, "share accepted");
    draw_bins(svg, &panel, &report.confidence, colour(0));
    svg.curve([panel.at(0.0, 0.0), panel.at(1.0, 1.0)], "dashed");
    svg.text(
        (EDGES[0].0, BOTTOM + 50.0),
        Anchor::Start,
        "small",
        "Dashed: acceptance = confidence. Whiskers: 95 % intervals.",
    );
}

fn draw_entropy(svg: &mut Svg, bins: &[Bin]) {
    let max = bins.last().map_or(1.0, |bin| bin.high);
    let panel = panel(1, max);
    panel.draw_x_axis(svg, "entropy of the drafter's distribution in nats");
    panel.draw_y_axis(svg, "share accepted");
    draw_bins(svg, &panel, bins, colour(1));
    const STEPS: u32 = 100;
    let points = (0..=STEPS).map(|i| max * f64::from(i) / f64::from(STEPS)).filter(|&h| svip_estimate(h) >= 0.0);
    svg.curve(points.map(|h| panel.at(h, svip_estimate(h))), "dashed");
    svg.text(
        (EDGES[1].0, BOTTOM + 50.0),
        Anchor::Start,
        "small",
        "Dashed: SVIP's estimate 1 - sqrt(0.15 entropy). Whiskers: 95 % intervals.",
    );
}

/// A bar for each bin with observations, its interval at their mean, their number above.
fn draw_bins(svg: &mut Svg, panel: &Panel, bins: &[Bin], fill: &str) {
    for bin in bins {
        let (Some(mean), Some(acceptance), Some(low), Some(high)) =
            (bin.mean, bin.acceptance, bin.acceptance_low, bin.acceptance_high)
        else {
            continue;
        };
        let ((left, bottom), (right, top)) = (panel.at(bin.low, 0.0), panel.at(bin.high, acceptance));
        svg.bar((left + GAP, bottom), (right - GAP, top), fill);
        let highest = panel.at(mean, high);
        svg.whisker(panel.at(mean, low), highest);
        svg.text(((left + right) / 2.0, highest.1 - 4.0), Anchor::Middle, "small", count_text(bin.count));
    }
}

/// A count in at most four characters, up to a million.
fn count_text(count: usize) -> String {
    match count {
        0..10_000 => count.to_string(),
        _ => format!("{}k", count / 1000),
    }
}

#[cfg(test)]
mod tests {
    use super::super::guesses::Observation;
    use super::super::report::Pair;
    use super::*;

    fn report(entropy: Option<f64>) -> Report {
        let seen = |confidence, accepted| Observation { confidence, entropy, accepted };
        Report::new(
            Pair { target: "medium", drafter: "small" },
            1,
            &[seen(0.95, true), seen(0.94, true), seen(0.15, false)],
        )
    }

    #[test]
    fn a_bin_without_observations_has_no_bar() {
        // The ground; two bins of confidence; one of entropy.
        assert_eq!(chart(&report(Some(0.2))).document().matches("<rect").count(), 1 + 2 + 1);
        assert_eq!(chart(&report(None)).document().matches("<rect").count(), 1 + 2);
    }

    #[test]
    fn counts_stay_short() {
        assert_eq!([9999, 10_000, 123_456].map(count_text), ["9999", "10k", "123k"]);
    }
}
