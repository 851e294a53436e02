//! What `top` shows: the server, its queues, and the last rates.

use crate::cli::client::record::Record;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Rates that are kept for the sparklines.
const RATES_KEPT: usize = 240;

/// The states of jobs, in the order in which they are shown.
pub(super) const STATES: [&str; 6] =
    ["ready", "reserved", "scheduled", "blocked", "buried", "completed"];

/// The order of queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SortBy {
    #[default]
    Ready,
    Oldest,
    Buried,
    Put,
    Name,
}

impl SortBy {
    /// The next order.
    pub(super) fn next(self) -> Self {
        match self {
            Self::Ready => Self::Oldest,
            Self::Oldest => Self::Buried,
            Self::Buried => Self::Put,
            Self::Put => Self::Name,
            Self::Name => Self::Ready,
        }
    }
}

/// A moment of the server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerView {
    pub(super) version: String,
    pub(super) uptime_ms: u64,
    pub(super) draining: bool,
    /// Jobs by [`STATES`].
    pub(super) counts: [u64; 6],
    pub(super) queues: u64,
    pub(super) clients: u64,
    pub(super) waiting: u64,
    pub(super) resident_bytes: u64,
    /// `--max-memory`, and what counts against it.
    pub(super) memory: Option<(u64, u64)>,
    /// How much of the time the event loop works.
    pub(super) busy_millionths: u64,
    /// Bytes of the journal that are live, and all of them.
    pub(super) journal: Option<(u64, u64)>,
    /// Since the start: puts, jobs handed out, failed runs.
    pub(super) totals: [u64; 3],
}

/// A queue.
#[derive(Clone, Debug, Default)]
pub(super) struct QueueView {
    pub(super) name: String,
    pub(super) paused: bool,
    /// Jobs by [`STATES`].
    pub(super) counts: [u64; 6],
    pub(super) oldest_ms: Option<u64>,
    pub(super) waiting: u64,
    /// Puts, completions and failures a second, over the last minute.
    pub(super) rates: [f64; 3],
}

/// Everything that a frame shows.
#[expect(clippy::struct_excessive_bools, reason = "each is a mode of the display")]
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) address: String,
    pub(super) period_ms: u64,
    pub(super) server: ServerView,
    pub(super) queues: Vec<QueueView>,
    /// Puts, jobs handed out and failed runs a second, the latest last.
    pub(super) rates: [VecDeque<f64>; 3],
    pub(super) sort: SortBy,
    /// The number of the chosen queue, and of the first one that is shown.
    pub(super) chosen: usize,
    pub(super) first: usize,
    /// The chosen queue is marked: there are keys to choose another one.
    pub(super) has_mark: bool,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    /// The display does not change.
    pub(super) is_frozen: bool,
    pub(super) shows_help: bool,
    /// What went wrong with the last request.
    pub(super) error: Option<String>,
}

fn counts(record: &Record) -> [u64; 6] {
    STATES.map(|state| record.number(&format!("counts.{state}")).unwrap_or(0))
}

impl ServerView {
    /// The view of the answer to `stats`.
    pub(super) fn of(stats: &Record) -> Self {
        let number = |path: &str| stats.number(path).unwrap_or(0);
        let clients = stats.get("connections").and_then(|it| Record::parse(it.as_bytes()).ok());
        let clients = clients.unwrap_or_default();
        let open = |(_, text): (&str, &str)| text.parse::<u64>().unwrap_or(0);
        let journal = stats.number("journal.total_bytes");
        Self {
            version: stats.text("version").unwrap_or_default(),
            uptime_ms: number("uptime_ms"),
            draining: stats.is_true("draining"),
            counts: counts(stats),
            queues: number("queues"),
            clients: clients.members().map(open).sum(),
            waiting: number("waiting_consumers"),
            resident_bytes: number("memory.resident_bytes"),
            memory: stats
                .number("limits.max_memory")
                .map(|most| (number("memory.jobs_bytes") + number("memory.buffers_bytes"), most)),
            busy_millionths: number("loop.busy_millionths"),
            journal: journal.map(|total| (number("journal.live_bytes"), total)),
            totals: [
                number("totals.put"),
                number("totals.reserved") + number("totals.popped"),
                number("totals.failed"),
            ],
        }
    }
}

impl QueueView {
    /// The view of an item of `queues`.
    pub(super) fn of(queue: &Record) -> Self {
        let rate = |name: &str| queue.fraction(&format!("rates.{name}")).unwrap_or(0.0);
        Self {
            name: queue.text("name").unwrap_or_default(),
            paused: queue.is_true("paused"),
            counts: counts(queue),
            oldest_ms: queue.number("oldest_ready_ms"),
            waiting: queue.number("waiting_consumers").unwrap_or(0),
            rates: ["put", "completed", "failed"].map(rate),
        }
    }
}

impl View {
    pub(super) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), has_mark: true, ..Self::default() }
    }

    /// Takes the next moment of the server. The rates are counted from the moment before.
    pub(super) fn update(&mut self, server: ServerView, mut queues: Vec<QueueView>) {
        let elapsed_ms = server.uptime_ms.saturating_sub(self.server.uptime_ms);
        let is_same_run = self.server.uptime_ms > 0 && elapsed_ms > 0;
        if is_same_run {
            let pairs = server.totals.iter().zip(self.server.totals);
            for (rates, (now, before)) in self.rates.iter_mut().zip(pairs) {
                let change = crate::cli::bench::float(now.saturating_sub(before));
                rates.push_back(change * 1_000.0 / crate::cli::bench::float(elapsed_ms));
                if rates.len() > RATES_KEPT {
                    rates.pop_front();
                }
            }
        }
        self.server = server;
        self.sort_queues(&mut queues);
        let name = self.queues.get(self.chosen).map(|queue| queue.name.clone());
        // The mark stays with its queue, but at the top it stays at the top.
        if let Some(name) = name.filter(|_| self.chosen > 0)
            && let Some(place) = queues.iter().position(|queue| queue.name == name)
        {
            self.chosen = place;
        }
        self.queues = queues;
        self.chosen = self.chosen.min(self.queues.len().saturating_sub(1));
    }

    fn sort_queues(&self, queues: &mut [QueueView]) {
        match self.sort {
            SortBy::Ready => queues.sort_by_key(|queue| Reverse(queue.counts[0])),
            SortBy::Oldest => queues.sort_by_key(|queue| Reverse(queue.oldest_ms)),
            SortBy::Buried => queues.sort_by_key(|queue| Reverse(queue.counts[4])),
            SortBy::Put => queues.sort_by(|a, b| b.rates[0].total_cmp(&a.rates[0])),
            SortBy::Name => queues.sort_by(|a, b| a.name.cmp(&b.name)),
        }
    }

    /// Sorts once more, by the order that is chosen now.
    pub(super) fn resort(&mut self) {
        let mut queues = std::mem::take(&mut self.queues);
        self.sort_queues(&mut queues);
        self.queues = queues;
        (self.chosen, self.first) = (0, 0);
    }

    /// Moves the mark, and what is shown so that it is seen; `rows` queues are.
    pub(super) fn choose(&mut self, place: usize, rows: usize) {
        self.chosen = place.min(self.queues.len().saturating_sub(1));
        if self.chosen < self.first {
            self.first = self.chosen;
        }
        if self.chosen >= self.first + rows {
            self.first = self.chosen + 1 - rows.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_changes_between_two_moments() {
        let at =
            |uptime_ms, put| ServerView { uptime_ms, totals: [put, 0, 0], ..ServerView::default() };
        let mut view = View::default();
        for (uptime_ms, put) in [(1_000, 5), (3_000, 105), (3_000, 105), (3_500, 105)] {
            view.update(at(uptime_ms, put), Vec::new());
        }
        assert_eq!(view.rates[0], [50.0, 0.0]);
        // The server was started anew.
        view.update(at(10, 3), Vec::new());
        assert_eq!(view.rates[0], [50.0, 0.0]);
    }

    #[test]
    fn mark_stays_with_its_queue() {
        let queue = |name: &str, ready| QueueView {
            name: name.into(),
            counts: [ready, 0, 0, 0, 0, 0],
            ..QueueView::default()
        };
        let mut view = View::default();
        view.update(ServerView::default(), vec![queue("a", 3), queue("b", 2), queue("c", 1)]);
        view.choose(2, 2);
        assert_eq!((view.chosen, view.first), (2, 1));
        view.update(ServerView::default(), vec![queue("a", 3), queue("c", 9)]);
        assert_eq!((view.chosen, &*view.queues[0].name), (0, "c"));
    }
}
