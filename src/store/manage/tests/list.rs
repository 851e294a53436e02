//! Lists of jobs, page after page, while the queue changes.

use super::*;
use crate::base::rng::Rng;
use crate::model::manage::{JobCursor, JobPage, JobState};
use std::collections::{BTreeMap, BTreeSet};

/// More than are listed in order.
const JOBS: u64 = 1_300;

struct Listing {
    harness: Harness,
    rng: Rng,
    /// The jobs that have been there in their state since the first page.
    stayed: BTreeSet<u64>,
}

impl Listing {
    fn put(&mut self, delayed: bool) -> u64 {
        let number = i64::try_from(self.rng.below(5)).unwrap_or_default();
        let options = JobOptions {
            delay_ms: if delayed { 1_000 * (1 + self.rng.below(5)) } else { 0 },
            ..JobOptions::default()
        };
        let packet = self.rng.below(10) == 0;
        let priority = if packet { Priority::Unselected } else { Priority::Small(number) };
        let encoding = if packet { Encoding::Packet { key_len: 1 } } else { Encoding::Json };
        let put = Command::Put {
            queue: b"a",
            priority,
            tie_break: if self.rng.below(2) == 0 { TieBreak::Fifo } else { TieBreak::Lifo },
            payload: Payload { encoding, bytes: b"{}" },
            options: (delayed || self.rng.below(2) == 0).then_some(&options),
        };
        match self.harness.apply(0, &put)[0] {
            Answer::Put(id) => id,
            ref other => panic!("{other:?}"),
        }
    }

    /// Something that changes the queue between two pages.
    fn change(&mut self) {
        match self.rng.below(4) {
            0 | 1 => {
                let delayed = self.rng.below(2) == 0;
                self.put(delayed);
            }
            2 => {
                let place = self.rng.below(self.stayed.len() as u64);
                let id = *self.stayed.iter().nth(usize::try_from(place).unwrap_or(0)).unwrap();
                self.stayed.remove(&id);
                self.harness.apply(0, &Command::Delete { id: JobId(id) });
            }
            _ => {
                let Answer::Job(id) = self.harness.reserve(&[b"a"], Wait::No)[0] else { return };
                self.stayed.remove(&id);
                if self.rng.below(2) == 0 {
                    // It is ready again, and may be shown once more.
                    self.harness.apply(1, &Command::Release { id: JobId(id), lease: None });
                }
            }
        }
    }

    fn page(&mut self, state: Option<JobState>, from: &JobCursor, limit: usize) -> JobPage {
        let jobs = ManageCommand::Jobs { queue: b"a", state, from, limit };
        match self.harness.manage(jobs).remove(0) {
            Answer::Manage(ManageReply::JobPage(page)) => *page,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_stays_while_the_queue_changes_at_every_page_is_listed_exactly_once() {
    for (seed, state) in [None, Some(JobState::Ready), Some(JobState::Scheduled)].iter().enumerate()
    {
        let (harness, rng) = (Harness::new(100), Rng::new(seed as u64));
        let mut listing = Listing { harness, rng, stayed: BTreeSet::new() };
        for _ in 0..JOBS {
            let delayed = match state {
                None => listing.rng.below(2) == 0,
                Some(state) => *state == JobState::Scheduled,
            };
            let id = listing.put(delayed);
            listing.stayed.insert(id);
        }
        let (mut shown, mut from) = (BTreeMap::<u64, u32>::new(), JobCursor::Start);
        for page_number in 0.. {
            assert!(page_number < 200, "the list has no end");
            let limit = 1 + usize::try_from(listing.rng.below(80)).unwrap_or(0);
            let page = listing.page(*state, &from, limit);
            assert!(page.jobs.len() <= limit);
            for job in page.jobs {
                *shown.entry(job.id.0).or_default() += 1;
            }
            let Some(next) = page.next else { break };
            from = next;
            for _ in 0..3 {
                listing.change();
            }
        }
        for id in &listing.stayed {
            assert_eq!(shown.get(id), Some(&1), "job {id} of {state:?}");
        }
    }
}
