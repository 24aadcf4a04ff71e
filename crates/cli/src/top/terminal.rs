//! The terminal: taken, drawn on, and given back whatever happens.

use std::thread;
use std::time::Duration;

use espalier_client::{Client, ClientError};
use espalier_proto::SystemStatus;
use espalier_service_kit::{chain, signal};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::args::Top;
use super::figures::Figures;
use super::screen::View;
use crate::error::CliError;

/// How often the thread that reads keys looks whether anybody still wants them.
const KEYS_INTERVAL: Duration = Duration::from_millis(100);

/// A terminal that is given back when this is dropped. A panic gives it back too.
struct Screen(DefaultTerminal);

impl Screen {
    fn take() -> Result<Self, CliError> {
        ratatui::try_init().map(Self).map_err(CliError::Terminal)
    }

    fn draw(&mut self, view: &View) -> Result<(), CliError> {
        self.0.draw(|frame| view.draw(frame)).map(drop).map_err(CliError::Terminal)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What a person does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Leave,
    Redraw,
}

/// Shows reading after reading until a person or a signal ends it.
pub(super) async fn watch(args: &Top, client: Client, first: SystemStatus) -> Result<(), CliError> {
    let mut view = View::new(&args.gateway, Figures::between(None, &first));
    let (stop, mut screen) = (signal()?, Screen::take()?);
    tokio::pin!(stop);
    let (mut wishes, mut readings) = (wishes(), readings(client, args.interval));
    let mut before = first;
    loop {
        screen.draw(&view)?;
        tokio::select! {
            () = &mut stop => return Ok(()),
            wish = wishes.recv() => match wish {
                Some(Wish::Redraw) => {}
                // A keyboard that is gone could not end it any more.
                Some(Wish::Leave) | None => return Ok(()),
            },
            Some(reading) = readings.recv() => match reading {
                Ok(now) => {
                    view.update(Figures::between(Some(&before), &now));
                    before = now;
                }
                Err(error) => view.fail(chain(&error)),
            },
        }
    }
}

/// Readings, one after each interval, until nobody takes them.
fn readings(mut client: Client, interval: Duration) -> mpsc::Receiver<Result<SystemStatus, ClientError>> {
    let (sender, readings) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            sleep(interval).await;
            if sender.send(client.status().await).await.is_err() {
                return;
            }
        }
    });
    readings
}

/// What a person does, until nobody heeds it.
fn wishes() -> mpsc::Receiver<Wish> {
    let (sender, wishes) = mpsc::channel(8);
    thread::spawn(move || {
        while !sender.is_closed() {
            let wish = match event::poll(KEYS_INTERVAL) {
                Ok(false) => None,
                Ok(true) => event::read().ok().and_then(|event| wish(&event)),
                Err(_) => return,
            };
            if let Some(wish) = wish
                && sender.blocking_send(wish).is_err()
            {
                return;
            }
        }
    });
    wishes
}

fn wish(event: &Event) -> Option<Wish> {
    match event {
        Event::Key(key) if leaves(key) => Some(Wish::Leave),
        Event::Resize(..) => Some(Wish::Redraw),
        _ => None,
    }
}

fn leaves(key: &KeyEvent) -> bool {
    let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
    let leaves = match key.code {
        KeyCode::Esc | KeyCode::Char('q') => true,
        KeyCode::Char('c') => with_control,
        _ => false,
    };
    leaves && key.kind != KeyEventKind::Release
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q_escape_and_control_c_leave() {
        let pressed = |code, modifiers| wish(&Event::Key(KeyEvent::new(code, modifiers)));
        for (code, modifiers) in [
            (KeyCode::Char('q'), KeyModifiers::NONE),
            (KeyCode::Esc, KeyModifiers::NONE),
            (KeyCode::Char('c'), KeyModifiers::CONTROL),
        ] {
            assert_eq!(pressed(code, modifiers), Some(Wish::Leave));
        }
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(wish(&Event::Resize(80, 24)), Some(Wish::Redraw));
    }
}
