//! From what is shown to the lines of the screen. Nothing here knows a terminal or a clock.
//!
//! Invariant: a frame has as many lines as the screen, none wider than it.

use super::line::Line;
use super::view::{QueueView, STATES, SortBy, View};
use crate::cli::bench::float;
use crate::cli::client::style::{Ink, Style, state_ink};
use crate::cli::client::units;

/// Lines above the queues, with their header; the last line names the keys.
const HEAD_LINES: usize = 8;

/// From this width on there are more columns.
const WIDE: usize = 100;

/// How many queues are shown on a screen with this many lines.
pub(super) fn queue_rows(lines: usize) -> usize {
    lines.saturating_sub(HEAD_LINES + 1)
}

/// The lines of the screen.
pub(super) fn frame(view: &View, (columns, lines): (usize, usize), style: Style) -> Vec<String> {
    let mut frame = vec![title(view, columns, style)];
    frame.extend(meters(view, columns, style));
    frame.push(states(view, columns, style));
    frame.push(String::new());
    if view.shows_help {
        frame.extend(help(columns, style));
    } else {
        frame.push(queue_header(view.sort, columns, style));
        let shown = view.queues.iter().enumerate().skip(view.first).take(queue_rows(lines));
        frame.extend(shown.map(|(place, queue)| {
            queue_line(queue, view.has_mark && place == view.chosen, columns, style)
        }));
    }
    frame.resize(lines.saturating_sub(1), String::new());
    frame.push(footer(view, columns, style));
    frame.truncate(lines);
    frame
}

/// Address, version and uptime.
fn title(view: &View, columns: usize, style: Style) -> String {
    let server = &view.server;
    let mut line = Line::new(columns, style);
    line.push(Ink::Bold, "jobcentre ");
    line.push(Ink::Cyan, &view.address);
    if server.draining {
        line.push(Ink::Yellow, "  draining");
    }
    if view.is_frozen {
        line.push(Ink::Yellow, "  held");
    }
    if let Some(error) = &view.error {
        line.push(Ink::Red, &format!("  {error}"));
    }
    let period = units::time(view.period_ms);
    let right = format!("{}  up {}  every {period}", server.version, units::time(server.uptime_ms));
    if line.left() > right.len() + 1 {
        line.push_right(Ink::Dim, &right, line.left());
    }
    line.finish()
}

/// Four lines: meters at the left, rates and counts at the right.
fn meters(view: &View, columns: usize, style: Style) -> [String; 4] {
    let server = &view.server;
    let half = columns.saturating_sub(1) / 2;
    let total: u64 = server.counts.iter().sum();
    let jobs: Vec<_> = server.counts.iter().zip(STATES.map(state_ink)).collect();
    let busy = share(server.busy_millionths, 1_000_000);
    let (memory, memory_text) = match server.memory {
        Some((used, most)) => {
            (share(used, most), format!("{}/{}", units::bytes(used), units::bytes(most)))
        }
        None => (0.0, units::bytes(server.resident_bytes)),
    };
    let (disk, disk_text) = match server.journal {
        Some((live, total)) => {
            (share(live, total), format!("{}/{}", units::bytes(live), units::bytes(total)))
        }
        None => (0.0, "jobs in memory only".to_owned()),
    };
    let bars = [
        ("Jobs", jobs, units::grouped(&total.to_string())),
        ("Mem", vec![(&0, level(memory))], memory_text),
        ("Loop", vec![(&0, level(busy))], format!("{:.1}%", busy * 100.0)),
        ("Disk", vec![(&0, Ink::Green)], disk_text),
    ];
    let parts = [None, Some(memory), Some(busy), Some(disk)];
    let rates = ["Put/s", "Taken/s", "Failed/s"].into_iter().zip(&view.rates);
    let mut rates = rates.zip([Ink::Green, Ink::Cyan, Ink::Red]);
    let mut number = 0;
    bars.map(|(name, segments, text)| {
        let mut line = Line::new(columns, style);
        let segments = match parts[number] {
            Some(part) => vec![(part, segments[0].1)],
            None => segments.iter().map(|&(count, ink)| (share(*count, total), ink)).collect(),
        };
        number += 1;
        bar(&mut line, name, &segments, &text, half);
        line.pad_to(half + 1);
        match rates.next() {
            Some(((name, values), ink)) => {
                let values: Vec<f64> = values.iter().copied().collect();
                spark_line(&mut line, name, &values, ink);
            }
            None => counts(&mut line, view),
        }
        line.finish()
    })
}

/// A part of a whole, from 0 to 1.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (float(part) / float(whole)).clamp(0.0, 1.0) }
}

/// The colour of a meter that is full to this part.
fn level(part: f64) -> Ink {
    match part {
        ..0.6 => Ink::Green,
        0.6..0.85 => Ink::Yellow,
        _ => Ink::Red,
    }
}

/// `Name[|||||     text]`, with parts of the whole in their colours.
fn bar(line: &mut Line, name: &str, segments: &[(f64, Ink)], text: &str, columns: usize) {
    line.push_left(Ink::Cyan, name, 5);
    line.push(Ink::Bold, "[");
    let inner = columns.saturating_sub(7);
    let mut cells = vec![(' ', Ink::Plain); inner];
    let (mut filled, mut sum) = (0, 0.0);
    for &(part, ink) in segments {
        sum += part;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to the columns of a screen"
        )]
        let mut end = (sum * float(inner as u64)).round() as usize;
        // What is there is seen, however small it is.
        if part > 0.0 && end <= filled {
            end = filled + 1;
        }
        for cell in cells.iter_mut().take(end).skip(filled) {
            *cell = ('|', ink);
        }
        filled = filled.max(end.min(inner));
    }
    let start = inner.saturating_sub(text.chars().count());
    for (cell, character) in cells.iter_mut().skip(start).zip(text.chars()) {
        cell.0 = character;
        if cell.1 == Ink::Plain {
            cell.1 = Ink::Bold;
        }
    }
    for run in cells.chunk_by(|one, other| one.1 == other.1) {
        let text: String = run.iter().map(|cell| cell.0).collect();
        line.push(run[0].1, &text);
    }
    line.push(Ink::Bold, "]");
}

/// `Name ▁▂▅█ 1,234`: the last values, and the latest one as a number.
fn spark_line(line: &mut Line, name: &str, values: &[f64], ink: Ink) {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const NUMBER: usize = 10;
    line.push_left(Ink::Cyan, name, 9);
    let width = line.left().saturating_sub(NUMBER);
    let shown = &values[values.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let block = |&value: &f64| {
        let part = if most > 0.0 { value / most } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 7")]
        BLOCKS[(part.clamp(0.0, 1.0) * 7.0).round() as usize]
    };
    let text: String = shown.iter().map(block).collect();
    line.push_right(if most > 0.0 { ink } else { Ink::Dim }, &text, width);
    let latest = values.last().copied().unwrap_or(0.0);
    line.push_right(Ink::Bold, &units::rate(latest), NUMBER.min(line.left()));
}

fn counts(line: &mut Line, view: &View) {
    let server = &view.server;
    for (name, number) in
        [("Queues", server.queues), ("Clients", server.clients), ("Waiting", server.waiting)]
    {
        line.push(Ink::Cyan, name);
        line.push(Ink::Bold, &format!(" {}  ", units::short(number)));
    }
}

/// How many jobs are in which state, in the colours of the bar.
fn states(view: &View, columns: usize, style: Style) -> String {
    let mut line = Line::new(columns, style);
    line.push(Ink::Plain, "     ");
    for (state, count) in STATES.iter().zip(view.server.counts) {
        let ink = if count == 0 { Ink::Dim } else { state_ink(state) };
        line.push(ink, &format!(" {state} {}", units::short(count)));
    }
    line.finish()
}

/// A column of the table of queues.
struct QueueColumn {
    name: &'static str,
    sort: Option<SortBy>,
    width: usize,
    is_wide: bool,
    cell: fn(&QueueView) -> (Ink, String),
}

fn count(queue: &QueueView, state: usize) -> (Ink, String) {
    let number = queue.counts[state];
    let ink = if number == 0 { Ink::Dim } else { state_ink(STATES[state]) };
    (ink, units::short(number))
}

fn per_second(rate: f64, ink: Ink) -> (Ink, String) {
    (if rate == 0.0 { Ink::Dim } else { ink }, units::rate(rate))
}

/// How old the oldest job is; old ones stand out.
fn oldest(queue: &QueueView) -> (Ink, String) {
    match queue.oldest_ms {
        None => (Ink::Dim, "-".to_owned()),
        Some(ms) => {
            let ink = match ms {
                ..60_000 => Ink::Plain,
                60_000..600_000 => Ink::Yellow,
                _ => Ink::Red,
            };
            (ink, units::time(ms))
        }
    }
}

const fn numbers(
    name: &'static str,
    sort: Option<SortBy>,
    is_wide: bool,
    cell: fn(&QueueView) -> (Ink, String),
) -> QueueColumn {
    QueueColumn { name, sort, width: 8, is_wide, cell }
}

const QUEUE_COLUMNS: [QueueColumn; 10] = [
    numbers("READY", Some(SortBy::Ready), false, |queue| count(queue, 0)),
    numbers("RESERVED", None, false, |queue| count(queue, 1)),
    numbers("SCHED", None, false, |queue| count(queue, 2)),
    numbers("BLOCKED", None, true, |queue| count(queue, 3)),
    numbers("BURIED", Some(SortBy::Buried), false, |queue| count(queue, 4)),
    numbers("OLDEST", Some(SortBy::Oldest), false, oldest),
    numbers("WAITING", None, true, |queue| (Ink::Plain, units::short(queue.waiting))),
    numbers("PUT/S", Some(SortBy::Put), false, |queue| per_second(queue.rates[0], Ink::Green)),
    numbers("DONE/S", None, false, |queue| per_second(queue.rates[1], Ink::Cyan)),
    numbers("FAIL/S", None, true, |queue| per_second(queue.rates[2], Ink::Red)),
];

/// The columns that a screen of this width has, and what is left for the names.
fn queue_columns(columns: usize) -> (impl Iterator<Item = &'static QueueColumn>, usize) {
    let is_shown = move |it: &&QueueColumn| !it.is_wide || columns >= WIDE;
    let used: usize = QUEUE_COLUMNS.iter().filter(is_shown).map(|it| it.width + 1).sum();
    (QUEUE_COLUMNS.iter().filter(is_shown), columns.saturating_sub(used + 1).max(8))
}

fn queue_header(sort: SortBy, columns: usize, style: Style) -> String {
    let mut line = Line::on(Ink::Header, columns, style);
    let (shown, width) = queue_columns(columns);
    let ink = |is_sorted| if is_sorted { Ink::SortedHeader } else { Ink::Header };
    line.push(Ink::Header, " ");
    line.push_left(ink(sort == SortBy::Name), "QUEUE", width);
    for column in shown {
        line.push(Ink::Header, " ");
        line.push_right(ink(column.sort == Some(sort)), column.name, column.width);
    }
    line.finish()
}

fn queue_line(queue: &QueueView, is_chosen: bool, columns: usize, style: Style) -> String {
    let mut line =
        if is_chosen { Line::on(Ink::Reverse, columns, style) } else { Line::new(columns, style) };
    let of = |ink: Ink| if is_chosen { Ink::Reverse } else { ink };
    let (shown, width) = queue_columns(columns);
    line.push(of(Ink::Bold), if is_chosen { ">" } else { " " });
    if queue.paused {
        line.push_left(of(Ink::Yellow), &format!("{} (paused)", queue.name), width);
    } else {
        line.push_left(of(Ink::Plain), &queue.name, width);
    }
    for column in shown {
        let (ink, text) = (column.cell)(queue);
        line.push(of(Ink::Plain), " ");
        line.push_right(of(ink), &text, column.width);
    }
    line.finish()
}

/// The keys, with what they do.
const KEYS: [(&str, &str, &str); 7] = [
    ("q", "Quit", "end"),
    ("?", "Help", "show this, or the queues"),
    ("s", "Sort", "sort by ready, oldest, buried, put/s, name"),
    ("/", "Filter", "show queues whose names contain a text; Enter ends it, Escape removes it"),
    ("space", "Hold", "let the display stand still, or go on"),
    ("+-", "Period", "longer or shorter periods"),
    ("↑↓", "Choose", "move the mark; also PageUp, PageDown, Home, End, k, j"),
];

fn help(columns: usize, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, _, what) in KEYS {
        let mut line = Line::new(columns, style);
        line.push(Ink::Plain, "  ");
        line.push_left(Ink::Bold, key, 8);
        line.push(Ink::Plain, what);
        lines.push(line.finish());
    }
    for text in [
        "",
        "  Put/s, Taken/s and Failed/s are those of the last period; the rates of queues are",
        "  means of the last minute. OLDEST is how long the oldest ready job has been ready.",
    ] {
        let mut line = Line::new(columns, style);
        line.push(Ink::Plain, text);
        lines.push(line.finish());
    }
    lines
}

/// The keys, or the filter while it is typed.
fn footer(view: &View, columns: usize, style: Style) -> String {
    let mut line = Line::on(Ink::Footer, columns, style);
    if view.is_typing {
        line.push(Ink::Plain, &format!(" Filter: {}_", view.filter));
        return line.finish();
    }
    for (key, name, _) in KEYS {
        line.push(Ink::Bold, key);
        line.push(Ink::Plain, &format!("{name} "));
    }
    let shown = view.queues.len();
    let range = if view.filter.is_empty() {
        format!("{}/{shown} ", (view.chosen + 1).min(shown))
    } else {
        format!("/{}/ {}/{shown} ", view.filter, (view.chosen + 1).min(shown))
    };
    if line.left() > range.chars().count() {
        line.push_right(Ink::Plain, &range, line.left());
    }
    line.finish()
}

#[cfg(test)]
mod tests;
