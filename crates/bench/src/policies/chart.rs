//! The figures as a plot: a bar for each arm and label, speed-up to the left and tau to the right.

use super::figures::Figures;
use crate::plot::{Anchor, CHARACTER, Panel, Scale, Svg, colour};

const PANEL_WIDTH: f64 = 300.0;
/// Right of a panel: room for the figure at the end of its longest bar.
const GAP: f64 = 48.0;
/// Above the panels: title, legend and the panels' own titles.
const TOP: f64 = 62.0;
/// Below the panels: an axis, its title and a note.
const BOTTOM: f64 = 66.0;
const BAR: f64 = 11.0;
const ROW_GAP: f64 = 7.0;
/// The height of a drafter's name above its policies.
const HEADING: f64 = 24.0;
const MARGIN: f64 = 14.0;

/// A line of the plot.
enum Line<'a> {
    /// The name of a drafter, above its policies.
    Heading(&'a str),
    /// An arm, by its place in every group.
    Arm(usize),
}

impl Line<'_> {
    fn height(&self, labels: usize) -> f64 {
        match self {
            Self::Heading(_) => HEADING,
            Self::Arm(_) => BAR * labels as f64 + ROW_GAP,
        }
    }
}

/// A figure with its bounds, as far as it has any.
type Bounded = (Option<f64>, Option<(f64, f64)>);

/// What one panel shows of an arm.
struct Shown {
    title: &'static str,
    figure: fn(&Figures) -> Bounded,
}

const PANELS: [Shown; 2] = [
    Shown {
        title: "speed-up over plain decoding",
        figure: |figures| (figures.speedup, figures.speedup_low.zip(figures.speedup_high)),
    },
    Shown { title: "tau: tokens a round", figure: |figures| (figures.tau, None) },
];

/// The plot of all groups, each with plain decoding first.
pub(super) fn chart(groups: &[Vec<Figures>]) -> Svg {
    let lines = lines(groups.first().map_or(&[], Vec::as_slice));
    let left = MARGIN + CHARACTER * longest_name(groups) as f64;
    let bottom = TOP + lines.iter().map(|line| line.height(groups.len())).sum::<f64>() + ROW_GAP;
    let width = left + PANELS.len() as f64 * (PANEL_WIDTH + GAP) + MARGIN;
    let mut svg = Svg::new(width, bottom + BOTTOM);
    draw_head(&mut svg, groups);
    for (i, shown) in PANELS.iter().enumerate() {
        let from = left + i as f64 * (PANEL_WIDTH + GAP);
        let x = Scale::new(greatest(groups, shown), (from, from + PANEL_WIDTH));
        let panel = Panel { x, y: Scale::new(1.0, (bottom, TOP)) };
        panel.draw_x_axis(&mut svg, shown.title);
        draw_bars(&mut svg, &panel, (groups, &lines), shown);
    }
    draw_names(&mut svg, left, (groups, &lines));
    let note = "n: prompts. Whiskers: 95 % bootstrap intervals over prompts. The dashed lines are plain decoding.";
    svg.text((MARGIN, bottom + BOTTOM - 12.0), Anchor::Start, "small", note);
    svg
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

fn longest_name(groups: &[Vec<Figures>]) -> usize {
    let names = groups.iter().flatten().map(|figures| figures.policy.chars().count() + 2);
    names.max().unwrap_or(0).max(12)
}

/// The greatest value of a panel, bounds included.
fn greatest(groups: &[Vec<Figures>], shown: &Shown) -> f64 {
    let values = groups.iter().flatten().map(|figures| {
        let (value, bounds) = (shown.figure)(figures);
        value.unwrap_or(0.0).max(bounds.map_or(0.0, |(_, high)| high))
    });
    values.fold(1.0, f64::max)
}

fn draw_head(svg: &mut Svg, groups: &[Vec<Figures>]) {
    let plains: Vec<&Figures> = groups.iter().filter_map(|group| group.first()).collect();
    let target = plains.first().map_or("", |plain| plain.target.as_str());
    svg.text((MARGIN, 22.0), Anchor::Start, "title", format_args!("Draft policies, target {target}"));
    let mut x = MARGIN;
    for (i, plain) in plains.iter().enumerate() {
        let entry = format!("{} (n = {})", plain.label, plain.prompts);
        svg.bar((x, 34.0), (x + 10.0, 44.0), colour(i));
        svg.text((x + 15.0, 43.0), Anchor::Start, "", &entry);
        x += 35.0 + CHARACTER * entry.chars().count() as f64;
    }
}

/// The lines of a plot and where the arms' figures are.
type Rows<'a> = (&'a [Vec<Figures>], &'a [Line<'a>]);

fn draw_bars(svg: &mut Svg, panel: &Panel, (groups, lines): Rows<'_>, shown: &Shown) {
    let mut y = TOP;
    for line in lines {
        if let Line::Arm(arm) = line {
            let of_arm = groups.iter().enumerate().filter_map(|(i, group)| Some((i, group.get(*arm)?)));
            for (i, figures) in of_arm {
                let top = y + ROW_GAP / 2.0 + BAR * i as f64;
                draw_bar(svg, panel, top, ((shown.figure)(figures), colour(i)));
            }
        }
        y += line.height(groups.len());
    }
    svg.line((panel.x.at(1.0), TOP), (panel.x.at(1.0), y + ROW_GAP), "dashed");
}

fn draw_bar(svg: &mut Svg, panel: &Panel, top: f64, ((value, bounds), fill): (Bounded, &str)) {
    let Some(value) = value else {
        return;
    };
    let (end, middle) = (panel.x.at(value), top + BAR / 2.0);
    svg.bar((panel.x.at(0.0), top + 1.0), (end, top + BAR - 1.0), fill);
    let mut edge = end;
    if let Some((low, high)) = bounds {
        let (low, high) = (panel.x.at(low), panel.x.at(high));
        svg.whisker((low, middle), (high, middle));
        edge = high;
    }
    svg.text((edge.max(end) + 4.0, middle + 3.0), Anchor::Start, "small", format_args!("{value:.2}"));
}

fn draw_names(svg: &mut Svg, left: f64, (groups, lines): Rows<'_>) {
    let arms = groups.first().map_or(&[][..], Vec::as_slice);
    let mut y = TOP;
    for line in lines {
        let height = line.height(groups.len());
        match line {
            Line::Heading(drafter) => {
                svg.text((MARGIN, y + height - 6.0), Anchor::Start, "strong", format_args!("drafter {drafter}"));
            }
            Line::Arm(arm) => {
                // A drafter that no policy guides has its name alone.
                let policy = arms.get(*arm).map_or("", |figures| figures.policy.as_str()).trim_matches('-');
                svg.text((left - 8.0, y + height / 2.0 + 4.0), Anchor::End, "", policy);
            }
        }
        y += height;
    }
}

#[cfg(test)]
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
        let document = chart(&[group]).document();
        for text in [">drafter small<", ">svip<", ">pct<", ">1.25<", ">1.50<", ">gsm8k (n = 0)<"] {
            assert_eq!(document.matches(text).count(), 1, "{text}");
        }
        // The ground, the legend, and two bars in each panel.
        assert_eq!(document.matches("<rect").count(), 2 + 4);
    }

    #[test]
    fn nothing_to_show_is_an_empty_plot() {
        assert!(chart(&[]).document().ends_with("</svg>\n"));
    }
}
