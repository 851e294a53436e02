//! What is asked about all queues at once, for the figures of the server: a bounded part at a time,
//! and nothing of it is kept, so that nobody pays for it who does not ask.

use super::life::Event;
use super::watch::Watched;
use super::{Effects, Store};
use crate::base::limits::{CENSUS_PLACES, CENSUS_QUEUES, QUEUE_NAMES_AT_ONCE};
use crate::base::time::Now;
use crate::model::figures::{Census, Counted, Deed, Page, StoreFigures, Tally};
use crate::model::id::Ticket;
use crate::model::job::Status;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

impl Store {
    /// Answers one part of a census. O(limit).
    pub(super) fn take_census(&self, ticket: Ticket, census: Census, now: Now, fx: &mut Effects) {
        let page = match census {
            Census::Queues(from) => self.count_queues(from),
            Census::Jobs(from) => self.count_jobs(from, now),
        };
        fx.tell(ticket, Watched::Census(page));
    }

    fn count_queues(&self, from: u32) -> Page {
        let mut page = Page::default();
        let end = self.queues.end();
        let stop = end.min(from.saturating_add(CENSUS_PLACES));
        let (mut place, mut bytes) = (from, 0);
        while place < stop && page.queues.len() < CENSUS_QUEUES && bytes < QUEUE_NAMES_AT_ONCE {
            if let Some(queue) = self.queues.get(place)
                && (queue.jobs > 0 || queue.watch.is_some())
            {
                bytes += queue.name.len();
                let (serial, name) = (queue.serial, queue.name.clone());
                page.queues.push(Counted { serial, name, jobs: queue.jobs });
            }
            place += 1;
        }
        page.next = (place < end).then_some(place);
        page
    }

    fn count_jobs(&self, from: u32, now: Now) -> Page {
        let end = self.jobs.end();
        let stop = end.min(from.saturating_add(CENSUS_PLACES));
        let mut numbers: HashMap<u32, usize, _> = HashMap::with_hasher(FixedState::with_seed(0));
        let mut tallies: Vec<(u64, Tally)> = Vec::new();
        let processor = self.workers.processor();
        for place in from..stop {
            let Some(job) = self.jobs.get(place) else { continue };
            if !self.is_job(place) {
                continue;
            }
            let number = match numbers.entry(job.queue) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    tallies.push((self.queues[job.queue].serial, Tally::default()));
                    *entry.insert(tallies.len() - 1)
                }
            };
            let tally = &mut tallies[number].1;
            match job.status {
                Status::Ready => {
                    tally.ready += 1;
                    tally.oldest_ms = tally.oldest_ms.max(job.ready_for(now));
                }
                Status::Aside => tally.aside += 1,
                Status::Delayed => tally.delayed += 1,
                Status::Held => {
                    tally.held += 1;
                    let ours = processor.is_some() && job.worker() == processor;
                    let processing = job.progress().is_some();
                    tally.dispatched += u64::from(ours && !processing);
                    tally.processing += u64::from(ours && processing);
                }
                Status::Buried => tally.buried += 1,
                Status::Kept => tally.kept += 1,
            }
        }
        Page { tallies, next: (stop < end).then_some(stop), ..Page::default() }
    }

    /// What is counted all the time. O(1).
    #[must_use]
    pub fn figures(&self) -> StoreFigures {
        let counts = self.counts();
        let mut totals = self.totals.clone();
        // Each job that is handed out or popped has been ready before, and was noted there.
        let popped = totals.deeds[Deed::Popped as usize];
        totals.deeds[Deed::Taken as usize] = totals.ready_ms.count() - popped;
        StoreFigures {
            jobs: counts.jobs as u64,
            queues: counts.queues as u64,
            waiters: counts.waiters as u64,
            totals,
        }
    }
}

/// What it is called where it is counted.
#[inline(always)]
pub(super) fn deed(event: Event) -> Deed {
    match event {
        Event::Release => Deed::Released,
        Event::Touch => Deed::Touched,
        Event::Finish => Deed::Finished,
        Event::Fail { .. } => Deed::Failed,
        Event::Bury => Deed::Buried,
        Event::Kick => Deed::Kicked,
        Event::Due => Deed::Due,
    }
}
