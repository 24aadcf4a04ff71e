//! Both relations as a plot: confidence to the left, entropy to the right.

use espalier_command::report::figure;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::bins::Bin;
use super::report::Report;
use crate::plot::{Area, Chart, PlotError, SMALL, TEXT, TITLE, colour, dashed, svg};

const SIZE: (u32, u32) = (880, 400);

/// Points of a curve.
const STEPS: u32 = 100;

/// SVIP's estimate of the acceptance probability from the entropy `h` (its section 2), at its released weight.
fn svip_estimate(h: f64) -> f64 {
    1.0 - (0.15 * h).sqrt()
}

/// The plot of a report.
pub(super) fn chart(report: &Report) -> Result<String, PlotError> {
    svg(SIZE, |root| {
        let body = root.titled(&format!("Drafter {}, target {}", report.drafter, report.target), TITLE)?;
        let body = body.titled(&facts(report), TEXT)?;
        let (left, right) = body.split_horizontally(SIZE.0 / 2);
        draw_confidence(&left, &report.confidence)?;
        if report.entropy.is_empty() {
            let nothing = "This drafter has no distribution, and so no entropy.";
            return right.draw_text(nothing, &TextStyle::from(TEXT), (60, 20));
        }
        draw_entropy(&right, &report.entropy)
    })
}

fn facts(report: &Report) -> String {
    format!(
        "{} prompts, {} tokens guessed (how many per bin stands above it), accepted {}, mean confidence {}, expected \
         calibration error {}",
        report.prompts,
        report.guessed,
        figure(report.acceptance, 3),
        figure(report.mean_confidence, 3),
        figure(report.calibration_error, 3),
    )
}

fn draw_confidence(area: &Area<'_>, bins: &[Bin]) -> Result<(), PlotError> {
    let area = noted(area, "Dashed: acceptance = confidence. Whiskers: 95 % intervals.")?;
    let mut chart = panel(&area, 1.0, "confidence of the drafter")?;
    draw_bins(&mut chart, bins, colour(0))?;
    chart.draw_series(dashed([(0.0, 0.0), (1.0, 1.0)].into_iter())).map(drop)
}

fn draw_entropy(area: &Area<'_>, bins: &[Bin]) -> Result<(), PlotError> {
    let area = noted(area, "Dashed: SVIP's estimate 1 - sqrt(0.15 entropy). Whiskers: 95 % intervals.")?;
    let max = bins.last().map_or(1.0, |bin| bin.high);
    let mut chart = panel(&area, max, "entropy of the drafter's distribution in nats")?;
    draw_bins(&mut chart, bins, colour(1))?;
    let points = (0..=STEPS).map(|i| max * f64::from(i) / f64::from(STEPS)).map(|h| (h, svip_estimate(h)));
    chart.draw_series(dashed(points.filter(|(_, share)| *share >= 0.0))).map(drop)
}

/// What is left of an area with a note at its foot.
fn noted<'a>(area: &Area<'a>, note: &str) -> Result<Area<'a>, PlotError> {
    let height = area.dim_in_pixel().1;
    let (above, foot) = area.split_vertically(height - 20);
    foot.draw_text(note, &TextStyle::from(SMALL), (60, 4))?;
    Ok(above)
}

/// Shares over values up to `max`.
fn panel<'a, 'b>(area: &Area<'b>, max: f64, title: &str) -> Result<Chart<'a, 'b>, PlotError> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(10).margin_top(20).x_label_area_size(36).y_label_area_size(50);
    let mut chart = builder.build_cartesian_2d(0.0..max, 0.0..1.0)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).label_style(TEXT).x_desc(title).y_desc("share accepted").draw()?;
    Ok(chart)
}

/// A bar for each bin with observations, its interval at their mean, their number above.
fn draw_bins(chart: &mut Chart<'_, '_>, bins: &[Bin], fill: RGBColor) -> Result<(), PlotError> {
    for bin in bins {
        let (Some(mean), Some(acceptance), Some(low), Some(high)) =
            (bin.mean, bin.acceptance, bin.acceptance_low, bin.acceptance_high)
        else {
            continue;
        };
        let mut bar = Rectangle::new([(bin.low, 0.0), (bin.high, acceptance)], fill.filled());
        bar.set_margin(0, 0, 1, 1);
        chart.draw_series([bar])?;
        chart.draw_series([ErrorBar::new_vertical(mean, low, acceptance, high, BLACK.filled(), 6)])?;
        let above = TextStyle::from(SMALL).pos(Pos::new(HPos::Center, VPos::Bottom));
        chart.draw_series([Text::new(count_text(bin.count), ((bin.low + bin.high) / 2.0, high), above)])?;
    }
    Ok(())
}

/// A count in at most four characters, up to a million.
fn count_text(count: usize) -> String {
    match count {
        0..10_000 => count.to_string(),
        _ => format!("{}k", count / 1000),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
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
        let bars = |entropy| chart(&report(entropy)).unwrap().matches("<rect").count();
        assert_eq!((bars(Some(0.2)), bars(None)), (1 + 2 + 1, 1 + 2));
    }

    #[test]
    fn counts_stay_short() {
        assert_eq!([9999, 10_000, 123_456].map(count_text), ["9999", "10k", "123k"]);
    }
}
