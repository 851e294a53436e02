//! `GET /metrics`: counters for Prometheus. Jobs are counted by queue and status on request, a part
//! in each pass; all other counters are kept up to date.

mod form;
mod stream;
#[cfg(test)]
mod tests;
mod text;

pub(super) use form::Form;
pub(super) use stream::Stream;

use super::openapi::{Answer, Content, Description};
use super::response::HttpError;
use super::route::{Operation, RouteMatch};
use crate::base::limits::{METRICS_NAME_MAX_BYTES, METRICS_QUEUES_MAX};
use crate::model::stats::{QueueCount, StatsPage, StatsScan, StatusCounts};
use crate::wire::http::RequestHead;
use form::{CLASSIC, OPENMETRICS};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

pub(super) fn describe() -> Description {
    let when = "The metrics, as OpenMetrics if Accept names that, else as plain text";
    let answer = |kind| Answer { status: 200, when, content: Content::Text(kind) };
    let answers = vec![answer(CLASSIC), answer(OPENMETRICS)];
    Description { summary: "What the server counts, for Prometheus", body: None, answers }
}

/// The text format of the response, if the request is for metrics.
pub(super) fn form(verdict: &Result<RouteMatch, HttpError>, head: &RequestHead<'_>) -> Form {
    match verdict {
        Ok(RouteMatch { operation: Operation::Metrics, .. }) => Form::of(head.accept),
        _ => Form::default(),
    }
}

/// The collection of queue samples by a paged scan.
#[derive(Debug)]
pub(super) struct StatsCollector {
    part: StatsScan,
    /// The largest queues so far, as a min-heap.
    largest: BinaryHeap<Reverse<Ranked>>,
    found: QueueSample,
    numbers: HashMap<u64, usize>,
}

/// Job count, serial and name of a queue.
type Ranked = (u32, u64, Box<[u8]>);

/// The collected samples.
#[derive(Debug, Default)]
pub(super) struct QueueSample {
    /// The queues with the most jobs, in the order of their creation.
    pub(super) queues: Vec<Queue>,
    /// All other queues together.
    pub(super) others: StatusCounts,
    /// The number of other queues.
    pub(super) other_queues: u64,
}

/// A queue that has metrics of its own.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Box<[u8]>,
    pub(super) tally: StatusCounts,
}

impl Default for StatsCollector {
    fn default() -> Self {
        Self {
            part: StatsScan::Queues(0),
            largest: BinaryHeap::new(),
            found: QueueSample::default(),
            numbers: HashMap::new(),
        }
    }
}

impl StatsCollector {
    /// The next step of the scan.
    pub(super) fn next_scan(&self) -> StatsScan {
        self.part
    }

    /// Adds a page; returns the sample after the last one. O(page log queues).
    pub(super) fn add_page(&mut self, page: StatsPage) -> Option<QueueSample> {
        match self.part {
            StatsScan::Queues(_) => {
                for queue in page.queues {
                    self.add_candidate(queue);
                }
                self.part = page.next.map_or(StatsScan::Jobs(0), StatsScan::Queues);
                if self.part == StatsScan::Jobs(0) {
                    self.select_top();
                }
                None
            }
            StatsScan::Jobs(_) => {
                for (serial, tally) in page.counts {
                    let own =
                        self.numbers.get(&serial).map(|&number| &mut self.found.queues[number]);
                    own.map_or(&mut self.found.others, |queue| &mut queue.tally).add(&tally);
                }
                match page.next {
                    Some(next) => self.part = StatsScan::Jobs(next),
                    None => return Some(std::mem::take(&mut self.found)),
                }
                None
            }
        }
    }

    fn add_candidate(&mut self, queue: QueueCount) {
        let QueueCount { serial, name, jobs } = queue;
        if name.len() > METRICS_NAME_MAX_BYTES {
            self.found.other_queues += 1;
            return;
        }
        self.largest.push(Reverse((jobs, serial, name)));
        if self.largest.len() > METRICS_QUEUES_MAX {
            self.largest.pop();
            self.found.other_queues += 1;
        }
    }

    /// Chooses the queues with metrics of their own, after the last page of queues.
    fn select_top(&mut self) {
        let mut chosen: Vec<_> =
            std::mem::take(&mut self.largest).into_iter().map(|Reverse(queue)| queue).collect();
        chosen.sort_unstable_by_key(|&(_, serial, _)| serial);
        for (_, serial, name) in chosen {
            self.numbers.insert(serial, self.found.queues.len());
            self.found.queues.push(Queue { name, tally: StatusCounts::default() });
        }
    }
}
