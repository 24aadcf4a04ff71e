//! The loss over the steps, as a picture.

use std::io;

use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use super::log::Entry;

const SIZE: (u32, u32) = (760, 400);
/// Most points of a line; more steps are averaged.
const POINTS_MAX: usize = 400;

const TRAINING: RGBColor = RGBColor(86, 180, 233);
const VALIDATION: RGBColor = RGBColor(213, 94, 0);
const TITLE: (&str, u32) = ("sans-serif", 18);
const TEXT: (&str, u32) = ("sans-serif", 14);

/// A step and its loss.
type Point = (f64, f64);

/// The drawing: the training loss as a line, validation losses as points on another.
pub(crate) fn draw(entries: &[Entry]) -> Result<String, DrawingAreaErrorKind<io::Error>> {
    let asked = |entry: &Entry| entry.validation.as_ref().map(|validation| (entry.step as f64, validation.loss));
    let validation: Vec<Point> = entries.iter().filter_map(asked).collect();
    let mut document = String::new();
    let root = SVGBackend::with_string(&mut document, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    draw_on(&root, &averaged(entries), &validation)?;
    root.present()?;
    drop(root);
    Ok(document)
}

fn draw_on(
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    training: &[Point],
    validation: &[Point],
) -> Result<(), DrawingAreaErrorKind<io::Error>> {
    let (steps, losses) = ranges(training.iter().chain(validation));
    let mut builder = ChartBuilder::on(root);
    builder.caption("Loss (nats a position)", TITLE).margin(12).x_label_area_size(32).y_label_area_size(44);
    let mut chart = builder.build_cartesian_2d(steps, losses)?;
    chart.configure_mesh().light_line_style(TRANSPARENT).label_style(TEXT).x_desc("step").draw()?;
    for (name, points, colour) in [("training", training, TRAINING), ("validation", validation, VALIDATION)] {
        let line = chart.draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?;
        line.label(name).legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour.filled()));
    }
    chart.draw_series(validation.iter().map(|&point| Circle::new(point, 3, VALIDATION.filled())))?;
    chart.configure_series_labels().label_font(TEXT).background_style(WHITE.mix(0.8)).draw()
}

/// The steps and the losses that are shown; neither is empty, whatever the points are.
fn ranges<'a>(points: impl Iterator<Item = &'a Point>) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
    let (mut last, mut least, mut greatest) = (1.0_f64, f64::INFINITY, f64::NEG_INFINITY);
    for &(step, loss) in points {
        (last, least, greatest) = (last.max(step), least.min(loss), greatest.max(loss));
    }
    if least > greatest {
        return (0.0..last, 0.0..1.0);
    }
    let margin = (0.05 * (greatest - least)).max(0.01);
    (0.0..last, least - margin..greatest + margin)
}

/// (step, loss), neighbours averaged where there are too many.
fn averaged(entries: &[Entry]) -> Vec<(f64, f64)> {
    let group = entries.len().div_ceil(POINTS_MAX).max(1);
    let mean = |entries: &[Entry], of: fn(&Entry) -> f64| entries.iter().map(of).sum::<f64>() / entries.len() as f64;
    let point = |entries: &[Entry]| (mean(entries, |entry| entry.step as f64), mean(entries, |entry| entry.loss));
    entries.chunks(group).map(point).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::output::Validation;

    fn entries(steps: usize) -> Vec<Entry> {
        let entry = |step: usize| Entry {
            step,
            epoch: 1,
            loss: 8.0 / step as f64,
            learning_rate: 0.0,
            gradient_norm: 0.0,
            tokens: 0,
            seconds: 0.0,
            validation: step.is_multiple_of(5).then(|| Validation { loss: 1.0, positions: 1, exits: Vec::new() }),
        };
        (1..=steps).map(entry).collect()
    }

    #[test]
    fn both_losses_are_drawn() {
        let drawing = draw(&entries(20)).unwrap();
        assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
        for name in ["training", "validation"] {
            assert_eq!(drawing.matches(&format!(">\n{name}\n<")).count(), 1, "{name}");
        }
        assert_eq!(drawing.matches("<circle").count(), 4);
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
    }

    #[test]
    fn a_long_training_is_averaged() {
        let points = averaged(&entries(4001));
        assert!(points.len() <= POINTS_MAX);
        assert!(points.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn nothing_and_a_flat_loss_can_be_drawn() {
        assert!(draw(&[]).unwrap().ends_with("</svg>\n"));
        let mut flat = entries(3);
        flat.iter_mut().for_each(|entry| entry.loss = 0.5);
        assert!(!draw(&flat).unwrap().contains("NaN"));
    }
}
