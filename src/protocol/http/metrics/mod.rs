//! `GET /metrics`: what the server counts, for Prometheus. What queues have is counted when it is
//! asked for, a part in each pass; the rest is there already.

mod form;
mod stream;
#[cfg(test)]
mod tests;
mod text;

pub(super) use form::Form;
pub(super) use stream::Stream;

use super::answer::Problem;
use super::openapi::{Answer, Content, Description};
use super::route::{Call, Operation};
use crate::base::limits::{FIGURES_NAME_MAX, FIGURES_QUEUES};
use crate::model::figures::{Census, Counted, Page, Tally};
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

/// How the answer to a request is to be written, if it asks for metrics.
pub(super) fn form(verdict: &Result<Call, Problem>, head: &RequestHead<'_>) -> Form {
    match verdict {
        Ok(Call { operation: Operation::Metrics, .. }) => Form::of(head.accept),
        _ => Form::default(),
    }
}

/// A census under way.
#[derive(Debug)]
pub(super) struct Gather {
    part: Census,
    /// The largest queues so far, the smallest of them first.
    largest: BinaryHeap<Reverse<Ranked>>,
    found: Found,
    numbers: HashMap<u64, usize>,
}

/// Jobs, number and name of a queue.
type Ranked = (u32, u64, Box<[u8]>);

/// What a census has brought.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The queues with the most jobs, in the order of their making.
    pub(super) queues: Vec<Queue>,
    /// All other queues together.
    pub(super) others: Tally,
    /// How many they are.
    pub(super) other_queues: u64,
}

/// A queue that has figures of its own.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: Box<[u8]>,
    pub(super) tally: Tally,
}

impl Default for Gather {
    fn default() -> Self {
        Self {
            part: Census::Queues(0),
            largest: BinaryHeap::new(),
            found: Found::default(),
            numbers: HashMap::new(),
        }
    }
}

impl Gather {
    /// What is to be asked next.
    pub(super) fn ask(&self) -> Census {
        self.part
    }

    /// Takes a part of the answer; gives everything once there are no more. O(page log queues).
    pub(super) fn take(&mut self, page: Page) -> Option<Found> {
        match self.part {
            Census::Queues(_) => {
                for queue in page.queues {
                    self.consider(queue);
                }
                self.part = page.next.map_or(Census::Jobs(0), Census::Queues);
                if self.part == Census::Jobs(0) {
                    self.choose();
                }
                None
            }
            Census::Jobs(_) => {
                for (serial, tally) in page.tallies {
                    let own =
                        self.numbers.get(&serial).map(|&number| &mut self.found.queues[number]);
                    own.map_or(&mut self.found.others, |queue| &mut queue.tally).add(&tally);
                }
                match page.next {
                    Some(next) => self.part = Census::Jobs(next),
                    None => return Some(std::mem::take(&mut self.found)),
                }
                None
            }
        }
    }

    fn consider(&mut self, queue: Counted) {
        let Counted { serial, name, jobs } = queue;
        if name.len() > FIGURES_NAME_MAX {
            self.found.other_queues += 1;
            return;
        }
        self.largest.push(Reverse((jobs, serial, name)));
        if self.largest.len() > FIGURES_QUEUES {
            self.largest.pop();
            self.found.other_queues += 1;
        }
    }

    /// The largest queues are known.
    fn choose(&mut self) {
        let mut chosen: Vec<_> =
            std::mem::take(&mut self.largest).into_iter().map(|Reverse(queue)| queue).collect();
        chosen.sort_unstable_by_key(|&(_, serial, _)| serial);
        for (_, serial, name) in chosen {
            self.numbers.insert(serial, self.found.queues.len());
            self.found.queues.push(Queue { name, tally: Tally::default() });
        }
    }
}
