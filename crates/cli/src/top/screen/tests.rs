#![allow(clippy::unwrap_used)]

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;

use super::*;
use crate::top::tests::system;

fn view() -> View {
    let mut view = View::new("http://127.0.0.1:50051", Figures::between(None, &system(1_000, 10)));
    view.update(Figures::between(Some(&system(1_000, 10)), &system(2_000, 20)));
    view
}

/// What a terminal of this size shows, a string for each line.
fn drawn(view: &View, size: Size) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(size.width, size.height)).unwrap();
    terminal.draw(|frame| view.draw(frame)).unwrap();
    let cells = terminal.backend().buffer().content();
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    cells.chunks(usize::from(size.width)).map(|cells| line(cells).trim_end().to_owned()).collect()
}

/// The line that begins with a word.
fn line<'a>(lines: &'a [String], word: &str) -> &'a str {
    lines.iter().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("no `{word}` in {lines:#?}"))
}

#[test]
fn a_screen_shows_the_gateway_the_targets_and_the_drafters() {
    let lines = drawn(&view(), Size::new(80, 20));
    assert_eq!(lines[0], "espalier at http://127.0.0.1:50051");
    assert_eq!(lines[1], "30 tokens/s, tau 3.00, 4.0 nodes, 50 % accepted; up 00:00:02, resident 1.5 GiB");
    assert_eq!(lines[2], "3/64 running, 1 queued");
    assert!(lines[3].starts_with("ended: 20 stop, 0 length"), "{lines:#?}");
    assert!(lines[6].starts_with('█'), "the newest reading is the highest: {lines:#?}");
    for (name, arithmetic) in [("medium", "f32 "), ("sorted", "int8")] {
        let words = format!("{arithmetic}    3/8     2     30       3.00 4.0   12.0  ███▒▒▒░░  38% 1.5 GiB");
        assert!(line(&lines, name).ends_with(&words), "{lines:#?}");
    }
    assert!(line(&lines, "→ medium").contains("3.00"));
    assert_eq!(lines.last().unwrap(), "q leaves");
}

#[test]
fn trouble_is_told_until_there_is_something_newer() {
    let mut view = view();
    view.fail("the gateway does not answer".to_owned());
    let lines = drawn(&view, Size::new(100, 20));
    assert_eq!(lines.last().unwrap(), "the gateway does not answer");
    assert!(line(&lines, "medium").contains("3/8"), "what was known stays");
    view.update(Figures::between(None, &system(3_000, 20)));
    assert_eq!(drawn(&view, Size::new(100, 20)).last().unwrap(), "q leaves");
}

#[test]
fn a_terminal_may_have_any_size() {
    let mut view = view();
    (0..2 * HISTORY_MAX).for_each(|_| view.update(Figures::between(None, &system(3_000, 20))));
    assert_eq!(view.history.len(), HISTORY_MAX);
    for width in [1, 2, 10, 79, 700] {
        for height in [1, 2, 5, 9, 24] {
            assert_eq!(drawn(&view, Size::new(width, height)).len(), usize::from(height));
        }
    }
}
