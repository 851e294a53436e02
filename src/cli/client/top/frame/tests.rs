//! Frames of a small and a large screen, with colours and without, as they are kept in
//! `tests/texts/top`. `UPDATE_DOCS=1` writes them anew; look at them then (`cat`).

use super::*;
use crate::cli::client::table::width_of;
use crate::cli::client::top::view::ServerView;
use std::fs;

/// A server under way, whose figures are made up.
fn view() -> View {
    let queue = |name: &str, counts, oldest_ms, rates| QueueView {
        name: name.to_owned(),
        counts,
        oldest_ms,
        rates,
        waiting: 3,
        ..QueueView::default()
    };
    let wave = |scale: f64| {
        (0..90)
            .map(|n| scale * (1.0 + (f64::from(n) / 9.0).sin()) * f64::from(n % 7 + 20))
            .collect()
    };
    let mut queues = vec![
        queue("mail", [1_204_113, 64, 312, 0, 7, 0], Some(83_000), [4_210.5, 4_198.2, 1.2]),
        queue("thumbnails", [51_200, 128, 0, 0, 0, 0], Some(4_200), [812.0, 790.4, 0.0]),
        queue("reports", [640, 8, 12_000, 96, 2, 40], Some(7_500_000), [1.5, 1.25, 0.1]),
        queue("日本語の待ち行列", [17, 0, 0, 0, 0, 0], Some(900), [0.2, 0.0, 0.0]),
        queue(
            "invoices-of-the-previous-year-that-are-sent-again",
            [3, 0, 0, 0, 0, 0],
            None,
            [0.0; 3],
        ),
        queue("web\u{1b}[31mhooks", [0, 0, 0, 0, 0, 0], None, [0.0; 3]),
    ];
    queues[2].paused = true;
    queues.extend((1..60).map(|n| {
        queue(&format!("tenant-{n:03}"), [60 - n, 0, 0, 0, 0, 0], Some(n * 1_000), [0.0; 3])
    }));
    View {
        period_ms: 2_000,
        server: ServerView {
            version: "0.1.0".to_owned(),
            uptime_ms: 273_600_000,
            counts: [1_256_073, 200, 12_312, 96, 9, 40],
            queues: 65,
            clients: 412,
            waiting: 96,
            resident_bytes: 310 << 20,
            memory: Some((290 << 20, 1 << 30)),
            busy_millionths: 634_000,
            journal: Some((300 << 20, 512 << 20)),
            ..ServerView::default()
        },
        queues,
        rates: [wave(120.0), wave(119.0), wave(0.01)],
        chosen: 1,
        ..View::new("127.0.0.1:11400")
    }
}

fn text(view: &View, columns: usize, lines: usize, is_coloured: bool) -> String {
    frame(view, (columns, lines), Style::new(is_coloured)).join("\n") + "\n"
}

/// A text without its colours.
fn plain(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('m').unwrap().1)
}

#[test]
fn frames_are_those_that_are_kept() {
    for (columns, lines) in [(80, 24), (120, 40)] {
        for is_coloured in [false, true] {
            let colours = if is_coloured { "-colours" } else { "" };
            let root = env!("CARGO_MANIFEST_DIR");
            let path = format!("{root}/tests/texts/top/{columns}x{lines}{colours}.txt");
            let text = text(&view(), columns, lines, is_coloured);
            if std::env::var_os("UPDATE_DOCS").is_some() {
                fs::write(&path, &text).unwrap();
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), text, "{path}");
        }
    }
}

#[test]
fn frame_fits_every_screen_and_colours_change_no_text() {
    let mut view = view();
    for (columns, lines) in [(0, 0), (1, 1), (7, 3), (20, 9), (40, 12), (80, 24), (250, 90)] {
        for (shows_help, is_typing) in [(false, false), (true, false), (false, true)] {
            (view.shows_help, view.is_typing) = (shows_help, is_typing);
            let bare = text(&view, columns, lines, false);
            let coloured = text(&view, columns, lines, true);
            let trimmed = |text: &str| {
                text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(trimmed(&plain(&coloured)), trimmed(&bare), "{columns}x{lines}");
            assert_eq!(frame(&view, (columns, lines), Style::new(false)).len(), lines);
            for line in bare.lines() {
                assert!(width_of(line) <= columns, "{columns}x{lines}: {line}");
                assert!(!line.contains('\u{1b}'), "{line}");
            }
        }
    }
}

#[test]
fn server_without_jobs_has_a_frame() {
    let view = View::default();
    let text = text(&view, 80, 24, false);
    assert!(text.contains("jobs in memory only") && text.contains("0/0"), "{text}");
}
