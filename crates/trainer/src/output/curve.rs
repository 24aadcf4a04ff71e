//! The loss over the steps, as a picture.

use std::fmt::Write;

use super::log::Entry;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 44.0;
/// Most points of a line; more steps are averaged.
const POINTS_MAX: usize = 400;

const TRAINING: &str = "#56b4e9";
const VALIDATION: &str = "#d55e00";
const STYLE: &str = "text{font:11px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}.grid{stroke:#e4e4e4}\
    .axis{stroke:#888}polyline{fill:none;stroke-width:1.5}";

/// The drawing: the training loss as a line, validation losses as points on another. Without a step it is empty.
pub(crate) fn draw(entries: &[Entry]) -> String {
    let training = averaged(entries);
    let asked = |entry: &Entry| entry.validation.as_ref().map(|validation| (entry.step as f64, validation.loss));
    let validation: Vec<(f64, f64)> = entries.iter().filter_map(asked).collect();
    let mut body = String::new();
    if let Some(scales) = Scales::over(training.iter().chain(&validation)) {
        scales.draw_axes(&mut body);
        scales.draw_line(&mut body, &training, TRAINING);
        scales.draw_line(&mut body, &validation, VALIDATION);
        scales.draw_points(&mut body, &validation);
        draw_legend(&mut body);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\">\n<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// (step, loss), neighbours averaged where there are too many.
fn averaged(entries: &[Entry]) -> Vec<(f64, f64)> {
    let group = entries.len().div_ceil(POINTS_MAX).max(1);
    let mean = |entries: &[Entry], of: fn(&Entry) -> f64| entries.iter().map(of).sum::<f64>() / entries.len() as f64;
    let point = |entries: &[Entry]| (mean(entries, |entry| entry.step as f64), mean(entries, |entry| entry.loss));
    entries.chunks(group).map(point).collect()
}

/// A place in the drawing, in pixels from its upper left corner.
#[derive(Clone, Copy)]
struct At {
    x: f64,
    y: f64,
}

/// From steps and losses to pixels.
struct Scales {
    last_step: f64,
    /// The least and the greatest loss shown.
    losses: (f64, f64),
}

impl Scales {
    fn over<'a>(points: impl Iterator<Item = &'a (f64, f64)>) -> Option<Self> {
        let mut last_step = 0.0_f64;
        let mut losses = (f64::INFINITY, f64::NEG_INFINITY);
        for (step, loss) in points {
            last_step = last_step.max(*step);
            losses = (losses.0.min(*loss), losses.1.max(*loss));
        }
        let step = tick_step(losses.1 - losses.0);
        let losses = ((losses.0 / step).floor() * step, (losses.1 / step).ceil() * step);
        (last_step > 0.0).then_some(Self { last_step, losses })
    }

    fn x(&self, step: f64) -> f64 {
        LEFT + step / self.last_step * (RIGHT - LEFT)
    }

    fn y(&self, loss: f64) -> f64 {
        let (least, greatest) = self.losses;
        BOTTOM - (loss - least) / (greatest - least).max(f64::MIN_POSITIVE) * (BOTTOM - TOP)
    }

    fn draw_axes(&self, body: &mut String) {
        for loss in ticks(self.losses.0, self.losses.1) {
            let y = self.y(loss);
            line(body, At { x: LEFT, y }, At { x: RIGHT, y }, "grid");
            text(
                body,
                At { x: LEFT - 6.0, y: y + 4.0 },
                "end",
                &format!("{:.4}", loss).trim_end_matches('0').trim_end_matches('.'),
            );
        }
        for step in ticks(0.0, self.last_step) {
            text(body, At { x: self.x(step), y: BOTTOM + 16.0 }, "middle", &format!("{step:.0}"));
        }
        let corner = At { x: LEFT, y: BOTTOM };
        line(body, corner, At { x: RIGHT, ..corner }, "axis");
        line(body, corner, At { y: TOP, ..corner }, "axis");
        text(body, At { x: (LEFT + RIGHT) / 2.0, y: BOTTOM + 34.0 }, "middle", &"step");
    }

    fn draw_line(&self, body: &mut String, points: &[(f64, f64)], colour: &str) {
        let points: Vec<String> =
            points.iter().map(|(step, loss)| format!("{:.1},{:.1}", self.x(*step), self.y(*loss))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(body, r#"<polyline stroke="{colour}" points="{}"/>"#, points.join(" "));
    }

    fn draw_points(&self, body: &mut String, points: &[(f64, f64)]) {
        for (step, loss) in points {
            let (x, y) = (self.x(*step), self.y(*loss));
            let _ = writeln!(body, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{VALIDATION}"/>"#);
        }
    }
}

fn draw_legend(body: &mut String) {
    let _ = writeln!(body, r#"<text class="title" x="{LEFT}" y="22">Loss (nats a position)</text>"#);
    for (x, colour, name) in [(RIGHT - 190.0, TRAINING, "training"), (RIGHT - 100.0, VALIDATION, "validation")] {
        let _ = writeln!(body, r#"<rect x="{x}" y="13" width="12" height="12" fill="{colour}"/>"#);
        text(body, At { x: x + 18.0, y: 23.0 }, "start", &name);
    }
}

fn line(body: &mut String, from: At, to: At, class: &str) {
    let At { x, y } = from;
    let _ = writeln!(body, r#"<line class="{class}" x1="{x:.1}" y1="{y:.1}" x2="{:.1}" y2="{:.1}"/>"#, to.x, to.y);
}

fn text(body: &mut String, At { x, y }: At, anchor: &str, text: &impl std::fmt::Display) {
    let _ = writeln!(body, r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#);
}

/// Round values from `least` to `greatest`, about five of them.
fn ticks(least: f64, greatest: f64) -> impl Iterator<Item = f64> {
    let step = tick_step(greatest - least);
    let first = (least / step).ceil();
    (0..=10).map(move |i| (first + f64::from(i)) * step).take_while(move |tick| *tick <= greatest + 1e-9 * step)
}

/// 1, 2 or 5 times a power of ten, a fifth of `range` or a little more.
fn tick_step(range: f64) -> f64 {
    let least = if range > 0.0 { range / 5.0 } else { 1.0 };
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least).unwrap_or(power)
}

#[cfg(test)]
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
        let drawing = draw(&entries(20));
        assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
        assert_eq!(drawing.matches("<polyline").count(), 2);
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
        assert!(!draw(&[]).contains("<polyline"));
        let mut flat = entries(3);
        flat.iter_mut().for_each(|entry| entry.loss = 0.5);
        assert!(!draw(&flat).contains("NaN"));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 10.0).collect::<Vec<_>>(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(
            ticks(3.0, 4.0).map(|tick| format!("{tick:.1}")).collect::<Vec<_>>(),
            ["3.0", "3.2", "3.4", "3.6", "3.8", "4.0"]
        );
    }
}
