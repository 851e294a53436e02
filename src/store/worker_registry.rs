//! The list of workers: who they are, who acts for them.
//!
//! A worker has a place among the jobs, like a declared queue, so that a journal keeps it like one,
//! and its number is an id that finds no job. A number that is known only from the jobs that its
//! worker holds has a record too, while a journal is read: the worker itself may come behind them.
//!
//! Invariants: a record of a worker that is not on the list is there only between the records of a
//! journal; a worker is found by its address unless another one was enlisted there after it. All
//! operations are O(log w) for w workers.

use crate::base::paged::PagedSlab;
use crate::base::strings::{StringList, Strings};
use crate::model::id::ClientId;
use crate::model::worker::{Worker, WorkerId};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

/// What is known of a worker's number.
#[derive(Debug)]
pub(super) struct WorkerEntry {
    pub(super) id: WorkerId,
    /// Who acts for it.
    pub(super) client: Option<ClientId>,
    /// For how long that client holds what is handed out to it, in milliseconds; 0: as the job
    /// says.
    pub(super) lease_ms: u64,
    /// What it said of itself, if it is on the list.
    pub(super) enlisted: Option<RegisteredWorker>,
}

/// A worker on the list.
#[derive(Debug)]
pub(super) struct RegisteredWorker {
    /// Its place among the jobs.
    pub(super) slot: u32,
    name: Box<str>,
    url: Box<str>,
    max_jobs: u32,
    queues: Option<StringList>,
}

impl RegisteredWorker {
    pub(super) fn new<'a>(
        slot: u32,
        name: &str,
        url: &str,
        max_jobs: u32,
        queues: Option<impl IntoIterator<Item = &'a [u8]>>,
    ) -> Self {
        let queues = queues.map(|names| {
            let mut list = StringList::default();
            for name in names {
                list.push(name);
            }
            list
        });
        Self { slot, name: name.into(), url: url.into(), max_jobs, queues }
    }

    /// Whether it has no URL.
    pub(super) fn is_bus(&self) -> bool {
        self.url.is_empty()
    }

    pub(super) fn view(&self) -> Worker<'_> {
        let queues: Option<Strings<'_>> = self.queues.as_ref().map(|list| list.from(0));
        Worker { name: &self.name, url: &self.url, max_jobs: self.max_jobs, queues }
    }
}

/// All workers, by place and by number.
#[derive(Debug, Default)]
pub(super) struct Workers {
    places: PagedSlab<WorkerEntry>,
    by_id: BTreeMap<WorkerId, u32>,
    /// The place of the worker that was enlisted last at each address.
    by_url: BTreeMap<Box<str>, u32>,
    enlisted: usize,
    /// How often the list was changed.
    changes: u64,
    /// How many have somebody who acts for them.
    attached_count: u32,
    /// The one on the list that has no URL.
    bus_worker: Option<WorkerId>,
}

/// What tells two addresses apart: without the usual port, slashes at the end, and capitals where
/// they mean nothing.
fn address(url: &str) -> Box<str> {
    let server = url.match_indices('/').nth(2).map_or(url.len(), |(at, _)| at);
    let (server, path) = url.split_at(server);
    let server = server.to_ascii_lowercase();
    let usual = if server.starts_with("https:") { ":443" } else { ":80" };
    let server = server.strip_suffix(usual).unwrap_or(&server);
    format!("{server}{}", path.trim_end_matches('/')).into()
}

impl Workers {
    /// How many are on the list.
    pub(super) fn len(&self) -> usize {
        self.enlisted
    }

    /// How often the list was changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether somebody acts for one of them.
    #[inline]
    pub(super) fn any_attached(&self) -> bool {
        self.attached_count > 0
    }

    /// The one on the list that has no URL. O(1).
    #[inline]
    pub(super) fn bus_worker(&self) -> Option<WorkerId> {
        self.bus_worker
    }

    /// For how long a worker holds what its client is handed out, if that is not for the job to
    /// say. O(log w).
    pub(super) fn lease_ms(&self, id: WorkerId) -> Option<u64> {
        let place = self.find(id)?;
        Some(self.places[place].lease_ms).filter(|&lease_ms| lease_ms > 0)
    }

    /// The place of a worker on the list.
    pub(super) fn find(&self, id: WorkerId) -> Option<u32> {
        let place = *self.by_id.get(&id)?;
        self.places[place].enlisted.is_some().then_some(place)
    }

    /// The place of the worker of the list that was enlisted last at this address.
    pub(super) fn find_by_url(&self, url: &str) -> Option<u32> {
        self.by_url.get(&address(url)).copied()
    }

    /// The place of a worker's record, made if need be.
    pub(super) fn find_or_add(&mut self, id: WorkerId) -> u32 {
        let places = &mut self.places;
        let make = || places.insert(WorkerEntry { id, client: None, lease_ms: 0, enlisted: None });
        *self.by_id.entry(id).or_insert_with(make)
    }

    /// Puts a worker on the list, in place of what was known of it.
    pub(super) fn register(&mut self, id: WorkerId, worker: RegisteredWorker) {
        let place = self.find_or_add(id);
        self.changes += 1;
        if worker.url.is_empty() {
            self.bus_worker = Some(id);
        }
        let address = address(&worker.url);
        match self.places[place].enlisted.replace(worker) {
            None => self.enlisted += 1,
            Some(former) => self.leave(place, &former.url),
        }
        self.by_url.insert(address, place);
    }

    /// Takes a worker off the list; its record stays.
    pub(super) fn remove(&mut self, place: u32) -> Option<RegisteredWorker> {
        let removed = self.places[place].enlisted.take();
        self.changes += 1;
        if let Some(removed) = &removed {
            self.enlisted -= 1;
            self.leave(place, &removed.url);
        }
        if self.bus_worker == Some(self.places[place].id) {
            self.bus_worker = None;
        }
        removed
    }

    /// The worker at this place is not to be found at this address any more.
    fn leave(&mut self, place: u32, url: &str) {
        let address = address(url);
        if self.by_url.get(&address) == Some(&place) {
            self.by_url.remove(&address);
        }
    }

    /// Removes the record of a worker that is not on the list.
    pub(super) fn forget(&mut self, place: u32) {
        let record = self.places.remove(place).expect("a worker was forgotten twice");
        assert!(record.enlisted.is_none() && record.client.is_none(), "a worker is in use");
        self.by_id.remove(&record.id);
    }

    /// Who acts for a worker from now on. O(1).
    pub(super) fn set_client(&mut self, place: u32, client: Option<ClientId>) {
        let former = std::mem::replace(&mut self.places[place].client, client);
        self.places[place].lease_ms = 0;
        self.attached_count -= u32::from(former.is_some());
        self.attached_count += u32::from(client.is_some());
    }

    /// The records of workers that are not on the list. O(w).
    pub(super) fn deregistered(&self) -> Vec<u32> {
        let deregistered = self.places.iter().filter(|(_, record)| record.enlisted.is_none());
        deregistered.map(|(place, _)| place).collect()
    }

    /// Those on the list, in the order in which they were enlisted. O(w).
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &WorkerEntry)> {
        self.iter_from(WorkerId(0))
    }

    /// Those on the list with this number or a later one, in the order in which they were enlisted.
    /// O(log w + how many there are).
    pub(super) fn iter_from(&self, first: WorkerId) -> impl Iterator<Item = (u32, &WorkerEntry)> {
        let all = self.by_id.range(first..).map(|(_, &place)| (place, &self.places[place]));
        all.filter(|(_, record)| record.enlisted.is_some())
    }

    /// Asserts that the tables agree. O(w log w): for checks.
    pub(super) fn check_invariants(&self) {
        assert_eq!(self.by_id.len(), self.places.len(), "numbers and workers differ");
        assert_eq!(self.iter().count(), self.enlisted, "the list of workers is miscounted");
        assert_eq!(self.enlisted, self.places.len(), "a worker is remembered without being listed");
        let attached_count = self.iter().filter(|(_, record)| record.client.is_some()).count();
        assert_eq!(
            attached_count, self.attached_count as usize,
            "the attached workers are miscounted"
        );
        for (at, &place) in &self.by_url {
            let enlisted = self.places[place].enlisted.as_ref();
            assert_eq!(enlisted.map(|worker| address(&worker.url)).as_ref(), Some(at));
        }
        let silent =
            |record: &&WorkerEntry| record.enlisted.as_ref().is_some_and(RegisteredWorker::is_bus);
        let silent: Vec<_> = self.iter().map(|(_, record)| record).filter(silent).collect();
        let bus_worker: Vec<_> = silent.into_iter().map(|record| record.id).collect();
        assert_eq!(
            bus_worker,
            self.bus_worker.into_iter().collect::<Vec<_>>(),
            "a bus_worker's URL"
        );
        for (&id, &place) in &self.by_id {
            assert_eq!(self.places[place].id, id, "a worker is found by another number");
        }
    }
}

impl Index<u32> for Workers {
    type Output = WorkerEntry;
    fn index(&self, place: u32) -> &WorkerEntry {
        &self.places[place]
    }
}

impl IndexMut<u32> for Workers {
    fn index_mut(&mut self, place: u32) -> &mut WorkerEntry {
        &mut self.places[place]
    }
}
