//! Plots: a few shapes of SVG, scales and axes. Text is left to the viewer's fonts; none is needed here.

use std::fmt::{Display, Write};
use std::path::Path;

use espalier_command::{CommandError, report};

/// Colours of series, told apart by the colour-blind too (Okabe and Ito's palette).
const PALETTE: [&str; 6] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];

/// The colour of series `i`; they repeat after the last.
pub(crate) fn colour(i: usize) -> &'static str {
    PALETTE[i % PALETTE.len()]
}

/// How wide a character of plain text is at most, near enough to reserve room.
pub(crate) const CHARACTER: f64 = 6.4;

const STYLE: &str = "text{font:11px sans-serif;fill:#333}.title{font-size:14px;font-weight:bold}\
    .strong{font-weight:bold}.small{font-size:9px;fill:#666}.grid{stroke:#e4e4e4}.axis{stroke:#888}\
    .mark{stroke:#222;stroke-width:1.2;fill:none}.dashed{stroke:#222;stroke-dasharray:5 4;fill:none}";

/// A point, in pixels from the top left corner.
pub(crate) type Point = (f64, f64);

/// Where a text stands relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// A drawing on a white ground.
pub(crate) struct Svg {
    size: Point,
    body: String,
}

impl Svg {
    /// Nothing yet, so wide and so high.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self { size: (width, height), body: String::new() }
    }

    /// A filled rectangle between two corners.
    pub(crate) fn bar(&mut self, (x0, y0): Point, (x1, y1): Point, fill: &str) {
        let (x, y, width, height) = (x0.min(x1), y0.min(y1), (x1 - x0).abs(), (y1 - y0).abs());
        self.push(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#
        ));
    }

    /// A straight line in the style of `class`.
    pub(crate) fn line(&mut self, (x0, y0): Point, (x1, y1): Point, class: &str) {
        self.push(format_args!(r#"<line class="{class}" x1="{x0:.1}" y1="{y0:.1}" x2="{x1:.1}" y2="{y1:.1}"/>"#));
    }

    /// The bounds of an interval, side by side or one above the other.
    pub(crate) fn whisker(&mut self, from: Point, to: Point) {
        const CAP: f64 = 3.0;
        let (dx, dy) = if from.1 == to.1 { (0.0, CAP) } else { (CAP, 0.0) };
        self.line(from, to, "mark");
        for (x, y) in [from, to] {
            self.line((x - dx, y - dy), (x + dx, y + dy), "mark");
        }
    }

    /// Lines from point to point in the style of `class`.
    pub(crate) fn curve(&mut self, points: impl IntoIterator<Item = Point>, class: &str) {
        let points = joined(points);
        self.push(format_args!(r#"<polyline class="{class}" points="{points}"/>"#));
    }

    /// Lines from point to point in a colour.
    pub(crate) fn trace(&mut self, points: impl IntoIterator<Item = Point>, stroke: &str) {
        let points = joined(points);
        self.push(format_args!(r#"<polyline fill="none" stroke="{stroke}" stroke-width="1.5" points="{points}"/>"#));
    }

    /// A line of text whose baseline is at the point.
    pub(crate) fn text(&mut self, (x, y): Point, anchor: Anchor, class: &str, text: impl Display) {
        let (anchor, text) = (anchor.name(), escape(&text.to_string()));
        self.push(format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#));
    }

    /// A line of text that runs upwards and is centred on the point.
    pub(crate) fn upwards(&mut self, (x, y): Point, text: impl Display) {
        let text = escape(&text.to_string());
        self.push(format_args!(
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle">{text}</text>"#
        ));
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// The whole document.
    pub(crate) fn document(&self) -> String {
        let ((width, height), body) = (self.size, &self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\">\n<style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             {body}</svg>\n"
        )
    }

    /// Writes the document to a file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), CommandError> {
        report::write(path, &self.document())
    }
}

/// Points as a polyline has them.
fn joined(points: impl IntoIterator<Item = Point>) -> String {
    points.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}

/// Text as it must stand in XML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// From values to pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// The greatest value; the least is 0.
    max: f64,
    /// The pixels of 0 and of the greatest value.
    pixels: (f64, f64),
}

impl Scale {
    /// From 0 at the first pixel to `max` at the second.
    pub(crate) fn new(max: f64, pixels: (f64, f64)) -> Self {
        Self { max: if max > 0.0 { max } else { 1.0 }, pixels }
    }

    /// The pixel of a value; values beyond the greatest stay at the edge.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = (value / self.max).clamp(0.0, 1.0);
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// Round values to mark: about `wanted` of them.
    fn ticks(&self, wanted: usize) -> Vec<f64> {
        let step = step(self.max / wanted as f64);
        // A tick at the very edge must not be lost to rounding.
        (0..).map(|i| f64::from(i) * step).take_while(|tick| *tick <= self.max * (1.0 + 1e-9)).collect()
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below `least`.
fn step(least: f64) -> f64 {
    let power = 10_f64.powi(least.log10().floor() as i32);
    let steps = [1.0, 2.0, 5.0].map(|factor| factor * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// A rectangle with two axes.
pub(crate) struct Panel {
    /// Values to the right.
    pub(crate) x: Scale,
    /// Values upwards.
    pub(crate) y: Scale,
}

impl Panel {
    /// The pixel of a pair of values.
    pub(crate) fn at(&self, x: f64, y: f64) -> Point {
        (self.x.at(x), self.y.at(y))
    }

    /// Grid lines, figures and a title along the bottom.
    pub(crate) fn draw_x_axis(&self, svg: &mut Svg, title: &str) {
        let (bottom, top) = self.y.pixels;
        let ticks = self.x.ticks(6);
        for &tick in &ticks {
            let x = self.x.at(tick);
            svg.line((x, bottom), (x, top), "grid");
            svg.text((x, bottom + 14.0), Anchor::Middle, "", tick_text(tick));
        }
        svg.line((self.x.pixels.0, bottom), (self.x.pixels.1, bottom), "axis");
        svg.text(((self.x.pixels.0 + self.x.pixels.1) / 2.0, bottom + 31.0), Anchor::Middle, "", title);
    }

    /// Grid lines, figures and a title along the left side.
    pub(crate) fn draw_y_axis(&self, svg: &mut Svg, title: &str) {
        let (left, right) = self.x.pixels;
        for tick in self.y.ticks(6) {
            let y = self.y.at(tick);
            svg.line((left, y), (right, y), "grid");
            svg.text((left - 6.0, y + 4.0), Anchor::End, "", tick_text(tick));
        }
        svg.line((left, self.y.pixels.0), (left, self.y.pixels.1), "axis");
        svg.upwards((left - 36.0, (self.y.pixels.0 + self.y.pixels.1) / 2.0), title);
    }
}

/// A round value without the dust of binary fractions.
fn tick_text(tick: f64) -> f64 {
    (tick * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_stay_within_the_scale() {
        let ticks = |max| Scale::new(max, (0.0, 100.0)).ticks(6).into_iter().map(tick_text).collect::<Vec<_>>();
        assert_eq!(ticks(1.0), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(ticks(2.7), [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]);
        assert_eq!(ticks(37.0), [0.0, 10.0, 20.0, 30.0]);
        assert_eq!(ticks(0.0), ticks(1.0), "a scale without values is one of shares");
    }

    #[test]
    fn values_beyond_a_scale_stay_at_its_edges() {
        let scale = Scale::new(2.0, (300.0, 100.0));
        assert_eq!([-1.0, 0.0, 1.0, 2.0, 3.0].map(|value| scale.at(value)), [300.0, 300.0, 200.0, 100.0, 100.0]);
    }

    #[test]
    fn text_cannot_break_the_document() {
        let mut svg = Svg::new(100.0, 50.0);
        svg.text((1.0, 2.0), Anchor::End, "small", "a<b> & \"c\"");
        let document = svg.document();
        assert!(document.starts_with("<svg ") && document.ends_with("</svg>\n"));
        assert!(document.contains(
            r#"<text class="small" x="1.0" y="2.0" text-anchor="end">a&lt;b&gt; &amp; &quot;c&quot;</text>"#
        ));
    }

    #[test]
    fn a_bar_may_be_drawn_from_any_corner() {
        let (mut down, mut up) = (Svg::new(9.0, 9.0), Svg::new(9.0, 9.0));
        down.bar((1.0, 2.0), (4.0, 6.0), colour(0));
        up.bar((4.0, 6.0), (1.0, 2.0), colour(PALETTE.len()));
        assert_eq!(down.document(), up.document());
    }
}
