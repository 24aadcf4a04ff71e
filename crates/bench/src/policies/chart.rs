//! The figures as a plot: a bar for each arm and label, speed-up to the left and tau to the right.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::figures::Figures;
use crate::plot::{Area, CHARACTER, Chart, PlotError, SMALL, TEXT, TITLE, axis_end, colour, dashed, svg};

/// Pixels of a panel, its right margin included.
const PANEL_WIDTH: u32 = 350;
/// Right of a panel: room for the figure at the end of its longest bar.
const GAP: u32 = 48;
/// Above the panels: title and legend.
const TOP: u32 = 56;
/// Below the bars: an axis and its title.
const AXIS: u32 = 40;
/// Below the axis: a note.
const FOOT: u32 = 24;
const BAR: i32 = 11;
const ROW_GAP: i32 = 7;
/// The height of a drafter's name above its policies.
const HEADING: i32 = 24;
const MARGIN: i32 = 14;

const NOTE: &str = "n: prompts. Whiskers: 95 % bootstrap intervals over prompts. The dashed lines are plain decoding.";

/// A line of the plot.
enum Line<'a> {
    /// The name of a drafter, above its policies.
    Heading(&'a str),
    /// An arm, by its place in every group.
    Arm(usize),
}

impl Line<'_> {
    fn height(&self, labels: usize) -> i32 {
        match self {
            Self::Heading(_) => HEADING,
            Self::Arm(_) => BAR * labels as i32 + ROW_GAP,
        }
    }
}

/// A figure with its bounds, as far as it has any.
struct Bounded {
    value: Option<f64>,
    bounds: Option<(f64, f64)>,
}

/// What one panel shows of an arm.
struct Shown {
    title: &'static str,
    figure: fn(&Figures) -> Bounded,
}

const PANELS: [Shown; 2] = [
    Shown {
        title: "speed-up over plain decoding",
        figure: |figures| Bounded { value: figures.speedup, bounds: figures.speedup_low.zip(figures.speedup_high) },
    },
    Shown { title: "tau: tokens a round", figure: |figures| Bounded { value: figures.tau, bounds: None } },
];

/// What is plotted: a group of figures for each label, each with plain decoding first, and the lines they stand on.
struct Rows<'a> {
    groups: &'a [Vec<Figures>],
    lines: Vec<Line<'a>>,
}

/// The plot of all groups, each with plain decoding first.
pub(super) fn chart(groups: &[Vec<Figures>]) -> Result<String, PlotError> {
    let rows = Rows { groups, lines: lines(groups.first().map_or(&[], Vec::as_slice)) };
    let left = names_width(groups);
    let size = (left + PANELS.len() as u32 * PANEL_WIDTH, TOP + rows.height() as u32 + AXIS + FOOT);
    svg(size, |root| {
        let (head, body) = root.split_vertically(TOP);
        let (body, foot) = body.split_vertically(rows.height() as u32 + AXIS);
        let (names, panels) = body.split_horizontally(left);
        draw_head(&head, groups)?;
        rows.draw_names(&names, left as i32)?;
        for (shown, area) in PANELS.iter().zip(panels.split_evenly((1, PANELS.len()))) {
            rows.draw_panel(&area, shown)?;
        }
        foot.draw_text(NOTE, &TextStyle::from(SMALL), (MARGIN, 6))
    })
}

fn draw_head(area: &Area<'_>, groups: &[Vec<Figures>]) -> Result<(), PlotError> {
    let plains: Vec<&Figures> = groups.iter().filter_map(|group| group.first()).collect();
    let target = plains.first().map_or("", |plain| plain.target.as_str());
    area.draw_text(&format!("Draft policies, target {target}"), &TextStyle::from(TITLE), (MARGIN, 8))?;
    let mut x = MARGIN;
    for (i, plain) in plains.iter().enumerate() {
        let entry = format!("{} (n = {})", plain.label, plain.prompts);
        area.draw(&Rectangle::new([(x, 34), (x + 10, 44)], colour(i).filled()))?;
        area.draw_text(&entry, &TextStyle::from(TEXT), (x + 15, 34))?;
        x += 35 + CHARACTER as i32 * entry.chars().count() as i32;
    }
    Ok(())
}

/// Arms under the names of their drafters; plain decoding is the dashed line, not a bar.
fn lines(arms: &[Figures]) -> Vec<Line<'_>> {
    let mut lines = Vec::new();
    let mut drafter = None;
    for (i, figures) in arms.iter().enumerate().skip(1) {
        if drafter != Some(&figures.drafter) {
            lines.push(Line::Heading(&figures.drafter));
        }
        drafter = Some(&figures.drafter);
        lines.push(Line::Arm(i));
    }
    lines
}

/// Pixels for the longest name of a policy.
fn names_width(groups: &[Vec<Figures>]) -> u32 {
    let names = groups.iter().flatten().map(|figures| figures.policy.chars().count() + 2);
    MARGIN as u32 + CHARACTER * names.max().unwrap_or(0).max(12) as u32
}

/// The greatest value of a panel, bounds included.
fn greatest(groups: &[Vec<Figures>], shown: &Shown) -> f64 {
    let values = groups.iter().flatten().map(|figures| {
        let Bounded { value, bounds } = (shown.figure)(figures);
        value.unwrap_or(0.0).max(bounds.map_or(0.0, |(_, high)| high))
    });
    values.fold(1.0, f64::max)
}

impl Rows<'_> {
    /// Pixels of all lines.
    fn height(&self) -> i32 {
        self.lines.iter().map(|line| line.height(self.groups.len())).sum::<i32>() + ROW_GAP
    }

    /// The lines, each with the pixel of its upper edge.
    fn placed(&self) -> impl Iterator<Item = (i32, &Line<'_>)> {
        self.lines.iter().scan(0, |next, line| {
            let top = *next;
            *next += line.height(self.groups.len());
            Some((top, line))
        })
    }

    /// Bars over values; upwards, what is drawn is counted in pixels from the top, and so below nothing.
    fn draw_panel(&self, area: &Area<'_>, shown: &Shown) -> Result<(), PlotError> {
        let mut builder = ChartBuilder::on(area);
        builder.margin_right(GAP).x_label_area_size(AXIS);
        let end = axis_end(greatest(self.groups, shown));
        let mut chart = builder.build_cartesian_2d(0.0..end, f64::from(-self.height())..0.0)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh().y_labels(0).light_line_style(TRANSPARENT).label_style(TEXT).x_desc(shown.title).draw()?;
        for (top, line) in self.placed() {
            let Line::Arm(arm) = line else { continue };
            let of_arm = self.groups.iter().enumerate().filter_map(|(i, group)| Some((i, group.get(*arm)?)));
            for (i, figures) in of_arm {
                let top = top + ROW_GAP / 2 + BAR * i as i32;
                draw_bar(&mut chart, top, &(shown.figure)(figures), colour(i))?;
            }
        }
        chart.draw_series(dashed([(1.0, 0.0), (1.0, f64::from(-self.height()))].into_iter())).map(drop)
    }

    fn draw_names(&self, area: &Area<'_>, width: i32) -> Result<(), PlotError> {
        let arms = self.groups.first().map_or(&[][..], Vec::as_slice);
        for (top, line) in self.placed() {
            let middle = top + line.height(self.groups.len()) / 2;
            match line {
                Line::Heading(drafter) => {
                    let strong =
                        TextStyle::from((TEXT.0, TEXT.1, FontStyle::Bold)).pos(Pos::new(HPos::Left, VPos::Center));
                    area.draw_text(&format!("drafter {drafter}"), &strong, (MARGIN, middle))?;
                }
                Line::Arm(arm) => {
                    // A drafter that no policy guides has its name alone.
                    let policy = arms.get(*arm).map_or("", |figures| figures.policy.as_str()).trim_matches('-');
                    let end = TextStyle::from(TEXT).pos(Pos::new(HPos::Right, VPos::Center));
                    area.draw_text(policy, &end, (width - 8, middle))?;
                }
            }
        }
        Ok(())
    }
}

/// A bar from nothing to a figure, with its bounds and the figure beside it.
fn draw_bar(chart: &mut Chart<'_, '_>, top: i32, bounded: &Bounded, fill: RGBColor) -> Result<(), PlotError> {
    let Some(value) = bounded.value else { return Ok(()) };
    let (top, bottom) = (f64::from(-top - 1), f64::from(-top - BAR + 1));
    let middle = (top + bottom) / 2.0;
    chart.draw_series([Rectangle::new([(0.0, top), (value, bottom)], fill.filled())])?;
    if let Some((low, high)) = bounded.bounds {
        chart.draw_series([ErrorBar::new_horizontal(middle, low, value, high, BLACK.filled(), 6)])?;
    }
    let end = bounded.bounds.map_or(value, |(_, high)| high.max(value));
    let beside = TextStyle::from(SMALL).pos(Pos::new(HPos::Left, VPos::Center));
    let figure = EmptyElement::at((end, middle)) + Text::new(format!("{value:.2}"), (4, 0), beside);
    chart.draw_series([figure]).map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn figures(drafter: &str, policy: &str, speedup: f64) -> Figures {
        Figures {
            target: "medium".to_owned(),
            label: "gsm8k".to_owned(),
            drafter: drafter.to_owned(),
            policy: policy.to_owned(),
            speedup: Some(speedup),
            speedup_low: Some(speedup - 0.1),
            speedup_high: Some(speedup + 0.1),
            tau: Some(2.5),
            ..Figures::default()
        }
    }

    #[test]
    fn every_arm_has_a_bar_in_both_panels_under_its_drafter() {
        let group = vec![figures("none", "-", 1.0), figures("small", "svip", 1.25), figures("small", "pct", 1.5)];
        let document = chart(&[group]).unwrap();
        for text in ["drafter small", "svip", "pct", "1.25", "1.50", "gsm8k (n = 0)"] {
            assert_eq!(document.matches(&format!(">\n{text}\n<")).count(), 1, "{text}");
        }
        // The ground, the legend, and two bars in each panel.
        assert_eq!(document.matches("<rect").count(), 2 + 4);
    }

    #[test]
    fn nothing_to_show_is_an_empty_plot() {
        assert!(chart(&[]).unwrap().ends_with("</svg>\n"));
    }
}
