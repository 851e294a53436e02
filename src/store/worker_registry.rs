//! The worker registry, and the clients that are attached to workers.
//!
//! A worker's id comes from the ids of jobs. During recovery there are also entries of ids that are
//! known only from reserved jobs: the record of the worker may come later.
//!
//! Invariants: after recovery every entry is registered, but for workers whose jobs are being
//! requeued after their deregistration (`disconnects`); a worker is found by its URL unless
//! another one was registered with the same URL later. All operations are O(log w) for w workers.

use super::idx::WorkerIdx;
use super::job::Job;
use super::reservations::Reservations;
use crate::base::limits::WORKERS_PER_PAGE;
use crate::base::paged::PagedSlab;
use crate::base::strings::StringList;
use crate::base::time::{Mono, Now, Wall};
use crate::model::id::ClientId;
use crate::model::snapshot::{PersistedWorker, Record};
use crate::model::worker::{OwnedWorker, Worker, WorkerId, WorkerKind};
use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::time::Duration;

/// An entry of the registry.
#[derive(Debug)]
pub(super) struct WorkerEntry {
    pub(super) id: WorkerId,
    /// The attached client.
    pub(super) client: Option<ClientId>,
    /// The lease of jobs that this client reserves, in milliseconds; 0: each job's own.
    pub(super) lease_ms: u64,
    /// `None` during recovery, and while the jobs of a deregistered worker are being requeued.
    pub(super) registered: Option<RegisteredWorker>,
    /// When it got a job last, since the start.
    pub(super) last_reserved: Option<Wall>,
}

/// A registered worker.
#[derive(Debug)]
pub(super) struct RegisteredWorker {
    name: Box<str>,
    url: Box<str>,
    max_jobs: u32,
    queues: Option<StringList>,
}

impl RegisteredWorker {
    pub(super) fn new<'a>(
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
        Self { name: name.into(), url: url.into(), max_jobs, queues }
    }

    fn is_bus(&self) -> bool {
        self.view().kind() == WorkerKind::Bus
    }

    pub(super) fn view(&self) -> Worker<'_> {
        let Self { name, url, max_jobs, queues, .. } = self;
        Worker { name, url, max_jobs: *max_jobs, queues: queues.as_ref() }
    }
}

/// All workers, by slot and by id.
#[derive(Debug, Default)]
pub(super) struct Workers {
    slots: PagedSlab<WorkerEntry, WorkerIdx>,
    by_id: BTreeMap<WorkerId, WorkerIdx>,
    /// The slot of the worker that was registered last with each URL.
    by_url: BTreeMap<Box<str>, WorkerIdx>,
    registered_count: usize,
    /// Number of workers with an attached client.
    attached_count: u32,
    /// The one registered worker of kind [`WorkerKind::Bus`].
    bus_worker: Option<WorkerId>,
}

/// The form in which URLs are compared: without default port and trailing slashes, scheme and host
/// in lower case.
fn address(url: &str) -> Box<str> {
    let server = url.match_indices('/').nth(2).map_or(url.len(), |(at, _)| at);
    let (server, path) = url.split_at(server);
    let server = server.to_ascii_lowercase();
    let usual = if server.starts_with("https:") { ":443" } else { ":80" };
    let server = server.strip_suffix(usual).unwrap_or(&server);
    format!("{server}{}", path.trim_end_matches('/')).into()
}

impl Workers {
    /// Number of registered workers.
    pub(super) fn len(&self) -> usize {
        self.registered_count
    }

    /// Whether any worker has an attached client.
    #[inline]
    pub(super) fn any_attached(&self) -> bool {
        self.attached_count > 0
    }

    /// O(1).
    #[inline]
    pub(super) fn bus_worker(&self) -> Option<WorkerId> {
        self.bus_worker
    }

    /// The lease of jobs that the worker's client reserves, in milliseconds, unless it is each
    /// job's own. O(log w).
    pub(super) fn lease_ms(&self, id: WorkerId) -> Option<u64> {
        let place = self.find(id)?;
        Some(self.slots[place].lease_ms).filter(|&lease_ms| lease_ms > 0)
    }

    /// The name of a registered worker, which may be empty. O(log w).
    pub(super) fn name(&self, id: WorkerId) -> Option<&str> {
        let worker = self.slots[self.find(id)?].registered.as_ref()?;
        Some(&worker.name)
    }

    /// When the lease of a job that the bus worker has reserved started, if it ends at `due`.
    pub(super) fn lease_start(&self, job: &Job, due: Option<Mono>, now: Now) -> Wall {
        let lease_ms = job.worker().and_then(|worker| self.lease_ms(worker)).unwrap_or(0);
        let left = due.map_or(Duration::ZERO, |until| until.until(now.mono));
        let left_ms = u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Wall(now.wall.0.saturating_sub(lease_ms.saturating_sub(left_ms)))
    }

    /// The base record of a registered worker, for the journal.
    ///
    /// # Panics
    /// If it is not registered.
    pub(super) fn record(&self, place: WorkerIdx) -> Record<'_> {
        let entry = &self.slots[place];
        let worker = entry.registered.as_ref().expect("the worker is registered").view();
        let Worker { name, url, max_jobs, queues } = worker;
        let queues = queues.map(|names| names.into_iter().collect());
        Record::Worker(entry.id, PersistedWorker { name, url, max_jobs, queues })
    }

    /// A page of the registered workers from this id on. O(log w), and O(bytes) for each.
    pub(super) fn page(&self, from: WorkerId) -> Box<[OwnedWorker]> {
        let workers = self.iter_from(from).filter_map(|(_, entry)| {
            let worker = entry.registered.as_ref()?;
            Some(OwnedWorker::new(entry.id, &worker.view()))
        });
        workers.take(WORKERS_PER_PAGE).collect()
    }

    /// The slot of a registered worker.
    pub(super) fn find(&self, id: WorkerId) -> Option<WorkerIdx> {
        let place = *self.by_id.get(&id)?;
        debug_assert_eq!(self.slots[place].id, id, "a worker is found by its own id");
        self.slots[place].registered.is_some().then_some(place)
    }

    /// The slot of the worker that was registered last with this URL.
    pub(super) fn find_by_url(&self, url: &str) -> Option<WorkerIdx> {
        let place = self.by_url.get(&address(url)).copied();
        debug_assert!(
            place.is_none_or(|place| self.slots[place].registered.is_some()),
            "a worker that is found by its URL is registered"
        );
        place
    }

    /// The slot of a worker's entry, made if there is none.
    pub(super) fn find_or_add(&mut self, id: WorkerId) -> WorkerIdx {
        let slots = &mut self.slots;
        let make = || {
            let (client, registered, last_reserved) = (None, None, None);
            slots.insert(WorkerEntry { id, client, lease_ms: 0, registered, last_reserved })
        };
        *self.by_id.entry(id).or_insert_with(make)
    }

    /// Registers a worker, replacing what was known of it, and returns its slot.
    pub(super) fn register(&mut self, id: WorkerId, worker: RegisteredWorker) -> WorkerIdx {
        let place = self.find_or_add(id);
        if worker.is_bus() {
            self.bus_worker = Some(id);
        }
        let address = address(&worker.url);
        match self.slots[place].registered.replace(worker) {
            None => self.registered_count += 1,
            Some(former) => self.remove_url(place, &former.url),
        }
        self.by_url.insert(address, place);
        debug_assert!(
            self.by_url.len() <= self.registered_count && self.registered_count <= self.slots.len(),
            "URLs are of registered workers, and these have entries"
        );
        place
    }

    /// Deregisters a worker; its entry stays.
    pub(super) fn remove(&mut self, place: WorkerIdx) -> Option<RegisteredWorker> {
        debug_assert!(self.slots[place].client.is_none(), "a deregistered worker has a client");
        let removed = self.slots[place].registered.take();
        if let Some(removed) = &removed {
            self.registered_count -= 1;
            self.remove_url(place, &removed.url);
        }
        if self.bus_worker == Some(self.slots[place].id) {
            self.bus_worker = None;
        }
        removed
    }

    /// Removes the worker at `place` from the index of URLs, if it is there.
    fn remove_url(&mut self, place: WorkerIdx, url: &str) {
        let address = address(url);
        if self.by_url.get(&address) == Some(&place) {
            self.by_url.remove(&address);
        }
    }

    /// Removes the entry of a worker that is not registered.
    pub(super) fn remove_entry(&mut self, place: WorkerIdx) {
        let record = self.slots.remove(place).expect("a worker was removed twice");
        assert!(
            record.registered.is_none() && record.client.is_none(),
            "a removed worker is registered or has a client"
        );
        let known = self.by_id.remove(&record.id);
        debug_assert_eq!(known, Some(place), "a worker is found by its own id");
        debug_assert_eq!(self.by_id.len(), self.slots.len(), "an entry goes with its id");
    }

    /// The worker to which a client is attached. O(1).
    pub(super) fn of_client(
        &self,
        client: ClientId,
        reservations: &Reservations,
    ) -> Option<WorkerId> {
        let worker = &self.slots[reservations.worker_of(client)?];
        debug_assert_eq!(worker.client, Some(client), "the worker has another client");
        Some(worker.id)
    }

    /// Notes that the worker of a client, if it is attached to one, gets a job, and returns its id.
    /// O(1).
    pub(super) fn note_reserved(
        &mut self,
        client: ClientId,
        reservations: &Reservations,
        now: Now,
    ) -> Option<WorkerId> {
        let worker = &mut self.slots[reservations.worker_of(client)?];
        debug_assert_eq!(worker.client, Some(client), "the worker has another client");
        debug_assert!(worker.registered.is_some(), "only registered workers have clients");
        worker.last_reserved = Some(now.wall);
        Some(worker.id)
    }

    /// Attaches a client, which is attached to no worker, to a worker that has no client. O(1)
    /// amortised.
    pub(super) fn attach(
        &mut self,
        place: WorkerIdx,
        client: ClientId,
        reservations: &mut Reservations,
    ) {
        debug_assert!(self.slots[place].client.is_none(), "a worker has two clients");
        debug_assert!(
            self.slots[place].registered.is_some(),
            "a client is attached to a registered worker"
        );
        debug_assert!(reservations.worker_of(client).is_none(), "a client has two workers");
        reservations.set_worker(client, Some(place));
        self.set_client(place, Some(client));
    }

    /// Ends the attachment of a client to its worker. O(1).
    pub(super) fn detach(
        &mut self,
        place: WorkerIdx,
        client: ClientId,
        reservations: &mut Reservations,
    ) {
        debug_assert_eq!(self.slots[place].client, Some(client), "the worker has another client");
        debug_assert_eq!(reservations.worker_of(client), Some(place), "the client has another one");
        reservations.set_worker(client, None);
        self.set_client(place, None);
    }

    /// Sets the attached client of a worker, and clears its lease. O(1).
    fn set_client(&mut self, place: WorkerIdx, client: Option<ClientId>) {
        let former = std::mem::replace(&mut self.slots[place].client, client);
        self.slots[place].lease_ms = 0;
        self.attached_count -= u32::from(former.is_some());
        self.attached_count += u32::from(client.is_some());
        debug_assert!(
            self.attached_count as usize <= self.registered_count,
            "only registered workers have clients"
        );
    }

    /// The slots of entries that are not registered. O(w).
    pub(super) fn deregistered(&self) -> Vec<WorkerIdx> {
        let deregistered = self.slots.iter().filter(|(_, record)| record.registered.is_none());
        deregistered.map(|(place, _)| place).collect()
    }

    /// The registered workers, in the order of registration. O(w).
    pub(super) fn iter(&self) -> impl Iterator<Item = (WorkerIdx, &WorkerEntry)> {
        self.iter_from(WorkerId(0))
    }

    /// The registered workers from this id on, in the order of registration. O(log w + workers
    /// returned).
    pub(super) fn iter_from(
        &self,
        first: WorkerId,
    ) -> impl Iterator<Item = (WorkerIdx, &WorkerEntry)> {
        let all = self.by_id.range(first..).map(|(_, &place)| (place, &self.slots[place]));
        all.filter(|(_, record)| record.registered.is_some())
    }

    /// Asserts that the tables agree, if this many workers are deregistered and still have entries.
    /// O(w log w): for checks.
    pub(super) fn check_invariants(&self, ending: usize) {
        assert_eq!(self.by_id.len(), self.slots.len(), "ids and workers differ in number");
        assert_eq!(
            self.iter().count(),
            self.registered_count,
            "the registered workers are miscounted"
        );
        assert_eq!(
            self.registered_count + ending,
            self.slots.len(),
            "a worker that is not registered has an entry"
        );
        let attached_count = self.iter().filter(|(_, record)| record.client.is_some()).count();
        assert_eq!(
            attached_count, self.attached_count as usize,
            "the attached workers are miscounted"
        );
        for (at, &place) in &self.by_url {
            let registered = self.slots[place].registered.as_ref();
            assert_eq!(registered.map(|worker| address(&worker.url)).as_ref(), Some(at));
        }
        let bus_workers = |record: &&WorkerEntry| {
            record.registered.as_ref().is_some_and(RegisteredWorker::is_bus)
        };
        let bus_workers: Vec<_> =
            self.iter().map(|(_, record)| record).filter(bus_workers).collect();
        let bus_worker: Vec<_> = bus_workers.into_iter().map(|record| record.id).collect();
        assert_eq!(
            bus_worker,
            self.bus_worker.into_iter().collect::<Vec<_>>(),
            "another worker has no URL"
        );
        for (&id, &place) in &self.by_id {
            assert_eq!(self.slots[place].id, id, "a worker is found by another id");
        }
    }
}

impl Index<WorkerIdx> for Workers {
    type Output = WorkerEntry;
    fn index(&self, place: WorkerIdx) -> &WorkerEntry {
        &self.slots[place]
    }
}

impl IndexMut<WorkerIdx> for Workers {
    fn index_mut(&mut self, place: WorkerIdx) -> &mut WorkerEntry {
        &mut self.slots[place]
    }
}
