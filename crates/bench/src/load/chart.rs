//! The figures as a plot: tokens a second over requests at once, or over requests a second, a line for each arm.

use plotters::prelude::*;

use super::figures::Figures;
use crate::plot::{PlotError, TEXT, TITLE, axis_end, colour, svg};

const SIZE: (u32, u32) = (560, 380);

/// The radius of a point.
const DOT: u32 = 3;

/// The plot of all figures.
pub(super) fn chart(found: &[Figures]) -> Result<String, PlotError> {
    let greatest = |value: fn(&Figures) -> f64| axis_end(found.iter().map(value).fold(0.0, f64::max));
    let closed = found.first().is_none_or(|figures| figures.concurrency.is_some());
    let targets = found.first().map_or_else(String::new, |figures| figures.targets.join(", "));
    svg(SIZE, |root| {
        let mut builder = ChartBuilder::on(root);
        builder.caption(format!("Under load, targets {targets}"), TITLE).margin(12);
        builder.x_label_area_size(36).y_label_area_size(56);
        let mut chart = builder.build_cartesian_2d(0.0..greatest(level), 0.0..greatest(pace))?;
        let mut mesh = chart.configure_mesh();
        mesh.light_line_style(TRANSPARENT).label_style(TEXT).y_desc("tokens a second");
        mesh.x_desc(if closed { "requests at once" } else { "requests a second" }).draw()?;
        for (i, (arm, of_arm)) in by_arm(found).into_iter().enumerate() {
            let points = of_arm.iter().map(|figures| (level(figures), pace(figures)));
            chart.draw_series(points.clone().map(|point| Circle::new(point, DOT, colour(i).filled())))?;
            let line = chart.draw_series(LineSeries::new(points, colour(i).stroke_width(2)))?;
            line.label(arm).legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 10, y + 5)], colour(i).filled()));
        }
        let mut legend = chart.configure_series_labels();
        legend.position(SeriesLabelPosition::LowerRight).label_font(TEXT).background_style(WHITE.mix(0.8)).draw()
    })
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
#[allow(clippy::unwrap_used)]
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
        let document = chart(&found).unwrap();
        // A line and two points for each, and a mark in the legend.
        assert_eq!(document.matches("<circle").count(), 4);
        for text in ["plain (small)", "shared (small)", "requests at once"] {
            assert_eq!(document.matches(text).count(), 1, "{text}");
        }
    }

    #[test]
    fn nothing_to_show_is_an_empty_plot() {
        assert!(chart(&[]).unwrap().ends_with("</svg>\n"));
    }
}
