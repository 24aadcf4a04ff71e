//! The figures as a plot: tokens a second over requests at once, or over requests a second, a line for each arm.

use super::figures::Figures;
use crate::plot::{Anchor, CHARACTER, Panel, Point, Scale, Svg, colour};

const SIZE: Point = (560.0, 380.0);
/// The panel's corners.
const LEFT_TOP: Point = (64.0, 62.0);
const RIGHT_BOTTOM: Point = (536.0, 326.0);
const MARGIN: f64 = 14.0;
const DOT: f64 = 3.0;

/// The plot of all figures.
pub(super) fn chart(found: &[Figures]) -> Svg {
    let mut svg = Svg::new(SIZE.0, SIZE.1);
    let greatest = |value: fn(&Figures) -> f64| found.iter().map(value).fold(0.0, f64::max);
    let x = Scale::new(greatest(level), (LEFT_TOP.0, RIGHT_BOTTOM.0));
    let panel = Panel { x, y: Scale::new(greatest(pace), (RIGHT_BOTTOM.1, LEFT_TOP.1)) };
    let closed = found.first().is_none_or(|figures| figures.concurrency.is_some());
    panel.draw_x_axis(&mut svg, if closed { "requests at once" } else { "requests a second" });
    panel.draw_y_axis(&mut svg, "tokens a second");
    let targets = found.first().map_or_else(String::new, |figures| figures.targets.join(", "));
    svg.text((MARGIN, 22.0), Anchor::Start, "title", format_args!("Under load, targets {targets}"));
    let mut entry_at = MARGIN;
    for (i, (arm, of_arm)) in by_arm(found).into_iter().enumerate() {
        let points: Vec<Point> = of_arm.iter().map(|figures| panel.at(level(figures), pace(figures))).collect();
        for &(x, y) in &points {
            svg.bar((x - DOT, y - DOT), (x + DOT, y + DOT), colour(i));
        }
        svg.trace(points, colour(i));
        svg.bar((entry_at, 34.0), (entry_at + 10.0, 44.0), colour(i));
        svg.text((entry_at + 15.0, 43.0), Anchor::Start, "", &arm);
        entry_at += 35.0 + CHARACTER * arm.chars().count() as f64;
    }
    svg
}

/// The figures of each arm under its name, in the order in which they come.
fn by_arm(found: &[Figures]) -> Vec<(String, Vec<&Figures>)> {
    let mut arms: Vec<(String, Vec<&Figures>)> = Vec::new();
    for figures in found {
        let name = format!("{} ({})", figures.arm, figures.drafter);
        match arms.iter_mut().find(|(arm, _)| *arm == name) {
            Some((_, of_arm)) => of_arm.push(figures),
            None => arms.push((name, vec![figures])),
        }
    }
    arms
}

fn level(figures: &Figures) -> f64 {
    figures.concurrency.map_or(figures.rate.unwrap_or(0.0), |count| count as f64)
}

fn pace(figures: &Figures) -> f64 {
    figures.tokens_per_second.unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(arm: &'static str, concurrency: usize, pace: f64) -> Figures {
        let (concurrency, tokens_per_second) = (Some(concurrency), Some(pace));
        Figures { arm, drafter: "small".to_owned(), concurrency, tokens_per_second, ..Figures::default() }
    }

    #[test]
    fn every_arm_is_a_line_with_a_point_for_each_level() {
        let found = [
            figures("plain", 1, 900.0),
            figures("shared", 1, 1800.0),
            figures("plain", 8, 2000.0),
            figures("shared", 8, 2100.0),
        ];
        let document = chart(&found).document();
        assert_eq!(document.matches("<polyline").count(), 2);
        // The ground, two in the legend, four points.
        assert_eq!(document.matches("<rect").count(), 1 + 2 + 4);
        assert!(document.contains(">plain (small)<") && document.contains(">requests at once<"));
    }

    #[test]
    fn nothing_to_show_is_an_empty_plot() {
        assert!(chart(&[]).document().ends_with("</svg>\n"));
    }
}
