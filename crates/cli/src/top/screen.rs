//! Figures as a screen. What is drawn depends on the view alone.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Sparkline, Table};

use super::cells;
use super::figures::{Figures, Service};
use super::tables::header;

/// Readings whose tokens per second are kept: as many as the widest screen shows.
const HISTORY_MAX: usize = 512;

/// Widths of the columns; the name has the rest, and enough of 80 characters.
const WIDTHS: [u16; 9] = [7, 7, 5, 8, 4, 5, 5, 13, 9];
const NAME_MIN: u16 = 8;

/// All that the screen shows.
#[derive(Debug)]
pub(super) struct View {
    gateway: String,
    figures: Figures,
    /// Tokens per second, the newest last.
    history: VecDeque<u64>,
    /// Why there is nothing newer.
    trouble: Option<String>,
}

impl View {
    pub(super) fn new(gateway: &str, figures: Figures) -> Self {
        Self { gateway: gateway.to_owned(), figures, history: VecDeque::new(), trouble: None }
    }

    /// Shows new figures from now on.
    pub(super) fn update(&mut self, figures: Figures) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        // A reading without a rate is one of a gateway that has just been started.
        self.history.push_back(figures.gateway.pace.tokens_per_second.unwrap_or(0.0).round() as u64);
        (self.figures, self.trouble) = (figures, None);
    }

    /// Keeps what it shows and says why it is old.
    pub(super) fn fail(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// Draws all of it, as far as there is room.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let lines = |services: &[Service]| services.iter().map(|service| cells::rows(service).len()).sum::<usize>();
        let table = |services: &[Service]| Constraint::Length(u16::try_from(lines(services) + 2).unwrap_or(u16::MAX));
        let parts = [
            Constraint::Length(4),
            Constraint::Length(3),
            table(&self.figures.targets),
            table(&self.figures.drafters),
            Constraint::Min(0),
            Constraint::Length(1),
        ];
        let [gateway, history, targets, drafters, _, foot] = Layout::vertical(parts).areas(frame.area());
        self.draw_gateway(frame, gateway);
        self.draw_history(frame, history);
        draw_services(frame, targets, "target", &self.figures.targets);
        draw_services(frame, drafters, "drafter", &self.figures.drafters);
        let foot_line = match &self.trouble {
            None => Line::from("q leaves").dim(),
            Some(why) => Line::from(why.as_str()).red(),
        };
        frame.render_widget(foot_line, foot);
    }

    fn draw_gateway(&self, frame: &mut Frame<'_>, area: Rect) {
        let title = Line::from(format!("espalier at {}", self.gateway)).bold();
        let lines = cells::gateway(&self.figures.gateway).map(Line::from);
        frame.render_widget(Paragraph::new([title].into_iter().chain(lines).collect::<Vec<_>>()), area);
    }

    /// The newest readings, as many as there is room for.
    fn draw_history(&self, frame: &mut Frame<'_>, area: Rect) {
        let older = self.history.len().saturating_sub(usize::from(area.width));
        let newest: Vec<u64> = self.history.iter().skip(older).copied().collect();
        frame.render_widget(Sparkline::default().data(newest).style(Style::new().green()), area);
    }
}

fn draw_services(frame: &mut Frame<'_>, area: Rect, title: &'static str, services: &[Service]) {
    let rows = services.iter().flat_map(|service| {
        let style = if service.up { Style::new() } else { Style::new().red() };
        cells::rows(service).into_iter().map(move |cells| Row::new(cells).style(style))
    });
    let widths = [Constraint::Min(NAME_MIN)].into_iter().chain(WIDTHS.map(Constraint::Length));
    let header = Row::new(header(title)).style(Style::new().bold());
    frame.render_widget(Table::new(rows, widths).header(header), area);
}
