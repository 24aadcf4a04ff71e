//! What the plots of all commands have in common. Text is left to the viewer's fonts; none is needed here.

use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

/// Why a plot was not drawn.
pub(crate) type PlotError = DrawingAreaErrorKind<io::Error>;

/// A part of a plot, in pixels from its top left corner.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A chart over two axes of numbers.
pub(crate) type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// The fonts of a title, of what is read first, and of what is read last. SVG has them four fifths as large.
pub(crate) const TITLE: (&str, u32) = ("sans-serif", 18);
pub(crate) const TEXT: (&str, u32) = ("sans-serif", 14);
pub(crate) const SMALL: (&str, u32) = ("sans-serif", 12);

/// About the width of a character in the font of [`TEXT`], to reserve room.
pub(crate) const CHARACTER: u32 = 7;

/// Colours of series, told apart by the colour-blind too (Okabe and Ito's palette).
const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
];

/// The colour of series `i`; they repeat after the last.
pub(crate) fn colour(i: usize) -> RGBColor {
    PALETTE[i % PALETTE.len()]
}

/// The document of a plot so wide and so high, on a white ground.
pub(crate) fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut document = String::new();
    let root = SVGBackend::with_string(&mut document, size).into_drawing_area();
    root.fill(&WHITE)?;
    draw(&root)?;
    root.present()?;
    drop(root);
    Ok(document)
}

/// A dashed line through some points: what measurements are held against.
pub(crate) fn dashed<I: Iterator<Item = (f64, f64)> + Clone>(points: I) -> DashedLineSeries<I, u32> {
    DashedLineSeries::new(points, 5, 4, BLACK.stroke_width(1))
}

/// The end of an axis that holds all values up to `greatest`, which may be nothing.
pub(crate) fn axis_end(greatest: f64) -> f64 {
    if greatest > 0.0 { greatest * 1.05 } else { 1.0 }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_the_document() {
        let document = svg((100, 50), |area| area.draw_text("a<b> & \"c\"", &TEXT.into(), (1, 2))).unwrap();
        assert!(document.starts_with("<svg ") && document.ends_with("</svg>\n"));
        assert!(document.contains("a&lt;b&gt; &amp; &quot;c&quot;"));
    }

    #[test]
    fn an_axis_is_never_empty() {
        assert_eq!([0.0, f64::NEG_INFINITY, f64::NAN].map(axis_end), [1.0; 3]);
        assert!(axis_end(3.0) > 3.0);
    }
}
