//! `jobcentre top`: the server and its queues, live.
//!
//! [`view`] is what is shown, [`frame`] draws it, [`screen`] is the terminal. Without a terminal a
//! block is printed each period.

mod frame;
mod line;
mod screen;
mod view;

use super::ClientArgs;
use super::failure::{Exit, Outcome};
use super::line_client::LineClient;
use super::queues::pages;
use super::request::Request;
use super::style::{Colours, Style};
use super::values::parse_time;
use clap::Args;
use screen::{Key, Screen, Woken};
use std::io::{IsTerminal as _, Write as _, stdin, stdout};
use std::time::Duration;
use view::{QueueView, ServerView, SortBy, View};

/// Queues that are fetched in a period.
const QUEUES_MAX: usize = 1_000;

/// The shortest and the longest period.
const PERIODS: [Duration; 2] = [Duration::from_millis(100), Duration::from_mins(10)];

/// Show the server and its queues, live.
///
/// Keys: q quits, ? shows the others. Without a terminal, or with -n, a block is printed each
/// period.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre top -n 1
  jobcentre top -n 2 -d 100ms --color never")]
pub(in crate::cli) struct Top {
    /// The period.
    #[arg(long, short, value_name = "TIME", default_value = "2s", value_parser = parse_time)]
    delay: Duration,

    /// Print this many blocks, and end.
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Whether to use colours. The variable NO_COLOR switches them off as well.
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    color: Colours,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// The size of a terminal that does not tell it.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

fn size() -> (usize, usize) {
    let (columns, lines) = super::terminal_size();
    let or = |reported, default| if reported == 0 { default } else { reported };
    (or(columns, DEFAULT_SIZE.0), or(lines, DEFAULT_SIZE.1))
}

impl Top {
    pub(super) fn run(&self) -> Outcome {
        let mut client = self.client.line_client()?;
        let is_terminal = stdout().is_terminal();
        let style = Style::new(self.color.are_used(is_terminal));
        let delay = self.delay.clamp(PERIODS[0], PERIODS[1]);
        let mut view = View::new(client.shown());
        set_period(&mut view, delay);
        fetch(&mut client, &mut view)?;
        if self.count.is_some() || !is_terminal || !stdin().is_terminal() {
            return self.print_blocks(&mut client, &mut view, style);
        }
        let screen = Screen::enter()?;
        self.show(client, &mut view, &screen, style)
    }

    /// Prints a block each period.
    fn print_blocks(&self, client: &mut LineClient, view: &mut View, style: Style) -> Outcome {
        let mut left = self.count.unwrap_or(u64::MAX);
        view.has_mark = false;
        loop {
            let (columns, lines) = size();
            let mut text = frame::frame(view, (columns, lines), style);
            // No keys work here.
            text.pop();
            let end = text.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
            text.truncate(end);
            let text = text.join("\n") + "\n";
            let mut out = stdout().lock();
            if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
                return Ok(());
            }
            left -= 1;
            if left == 0 {
                return Ok(());
            }
            super::pause(Duration::from_millis(view.period_ms));
            fetch(client, view)?;
            let _ = writeln!(out);
        }
    }

    /// Shows frames until a key or a signal ends it.
    fn show(&self, client: LineClient, view: &mut View, screen: &Screen, style: Style) -> Outcome {
        let mut client = Some(client);
        loop {
            let (columns, lines) = size();
            screen.draw(&frame::frame(view, (columns, lines), style))?;
            match screen.wait(Duration::from_millis(view.period_ms))? {
                Woken::End => return Ok(()),
                Woken::Keys(keys) => {
                    let rows = frame::queue_rows(lines);
                    if keys.into_iter().any(|key| handle(view, key, rows)) {
                        return Ok(());
                    }
                }
                Woken::Timeout if view.is_frozen => {}
                Woken::Timeout => {
                    // A server that is started anew is found again.
                    let found = match &mut client {
                        Some(client) => fetch(client, view),
                        None => self.client.line_client().and_then(|mut fresh| {
                            let fetched = fetch(&mut fresh, view);
                            client = Some(fresh);
                            fetched
                        }),
                    };
                    match found {
                        Ok(()) => view.error = None,
                        Err(failure) if failure.exit == Exit::Unreachable => {
                            (client, view.error) = (None, Some("no connection".to_owned()));
                        }
                        Err(failure) => return Err(failure),
                    }
                }
            }
        }
    }
}

fn set_period(view: &mut View, period: Duration) {
    let period = period.clamp(PERIODS[0], PERIODS[1]);
    view.period_ms = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
}

/// Asks the server how it is.
fn fetch(client: &mut LineClient, view: &mut View) -> Outcome {
    let stats = client.ask(Request::new("stats"), "the server has no counters")?;
    let glob = format!("*{}*", view.filter);
    let request = Request::new("queues");
    let request = if view.filter.is_empty() { request } else { request.text("match", &glob) };
    let request = match view.sort {
        SortBy::Ready => request.text("sort", "ready"),
        SortBy::Oldest => request.text("sort", "oldest"),
        SortBy::Buried | SortBy::Put | SortBy::Name => request,
    };
    let mut queues = Vec::new();
    pages(client, &request, QUEUES_MAX, |queue| {
        queues.push(QueueView::of(&queue));
        true
    })?;
    view.update(ServerView::of(&stats), queues);
    Ok(())
}

/// Does what a key is for. Returns whether it ends the program.
fn handle(view: &mut View, key: Key, rows: usize) -> bool {
    if view.is_typing {
        match key {
            Key::Enter => view.is_typing = false,
            Key::Escape => {
                view.is_typing = false;
                view.filter.clear();
            }
            Key::Backspace => drop(view.filter.pop()),
            Key::Character(character) => view.filter.push(character),
            _ => {}
        }
        (view.chosen, view.first) = (0, 0);
        return false;
    }
    let period = Duration::from_millis(view.period_ms);
    match key {
        Key::Character('q' | 'Q') => return true,
        Key::Character('?' | 'h') => view.shows_help = !view.shows_help,
        Key::Escape => view.shows_help = false,
        Key::Character('s') => {
            view.sort = view.sort.next();
            view.resort();
        }
        Key::Character('/') => view.is_typing = true,
        Key::Character(' ') => view.is_frozen = !view.is_frozen,
        Key::Character('+') => set_period(view, period * 2),
        Key::Character('-') => set_period(view, period / 2),
        Key::Up | Key::Character('k') => view.choose(view.chosen.saturating_sub(1), rows),
        Key::Down | Key::Character('j') => view.choose(view.chosen + 1, rows),
        Key::PageUp => view.choose(view.chosen.saturating_sub(rows), rows),
        Key::PageDown => view.choose(view.chosen + rows, rows),
        Key::Home => view.choose(0, rows),
        Key::End => view.choose(usize::MAX, rows),
        Key::Enter | Key::Backspace | Key::Character(_) => {}
    }
    false
}
