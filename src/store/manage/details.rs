//! Jobs and queues as the native API shows them.

use crate::base::api_limits::{
    ANSWER_BYTES_ENOUGH, EVENTS_SHOWN, GLOB_STEPS_MAX, LISTED_NAMES_PER_STEP, QUEUE_JOBS_SCANNED,
    QUEUE_WAITERS_COUNTED, SCANNED_PER_PAGE,
};
use crate::base::time::{Now, Wall};
use crate::model::id::JobId;
use crate::model::job::Status;
use crate::model::manage::{
    BlockedBy, ErrorDetails, JobDetails, JobState, JobTerms, LeaseDetails, PastEvent, QueueDetails,
    QueuePage,
};
use crate::store::idx::{HolderKind, QueueIdx};
use crate::store::job::Job;
use crate::store::jobs::Jobs;
use crate::store::queues::Queue;
use crate::store::spread_work::HoldMarks;
use crate::store::{JobIdx, Store};

/// Whether the whole name matches, in at most [`GLOB_STEPS_MAX`] steps, which are added to `steps`.
/// O(name * glob).
pub(super) fn matches_glob(glob: &[u8], name: &[u8], steps: &mut usize) -> bool {
    let end = steps.saturating_add(GLOB_STEPS_MAX);
    let (mut at, mut from) = (0, 0);
    // Where to go on if a later part does not match: behind the last star, one byte further.
    let mut retry: Option<(usize, usize)> = None;
    while at < name.len() {
        *steps += 1;
        if *steps >= end {
            return false;
        }
        match glob.get(from) {
            Some(b'*') => {
                from += 1;
                retry = Some((from, at));
            }
            Some(b'?') => (at, from) = (at + character_bytes(name[at]), from + 1),
            Some(&byte) if byte == name[at] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((star, start)) = retry else { return false };
                (from, at) = (star, start + 1);
                retry = Some((star, start + 1));
            }
        }
    }
    glob[from..].iter().all(|&byte| byte == b'*')
}

/// The bytes of the UTF-8 character with this first byte; 1 if there is none.
fn character_bytes(first: u8) -> usize {
    match first {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    }
}

/// The state of the API for a status.
pub(super) fn state(status: Status) -> JobState {
    match status {
        Status::Ready | Status::GroupOnly => JobState::Ready,
        Status::Blocked => JobState::Blocked,
        Status::Delayed => JobState::Scheduled,
        Status::Reserved | Status::Popped => JobState::Reserved,
        Status::Completed => JobState::Completed,
        Status::Buried => JobState::Buried,
    }
}

/// The state of a job.
pub(super) fn state_of(job: &Job) -> JobState {
    state(job.counted_status())
}

/// The last error of a job: of the native API, or of a registered worker.
fn last_error(job: &Job) -> Option<ErrorDetails> {
    if let Some(error) = job.runs().and_then(|runs| runs.error.as_ref()) {
        let (error, message, at) = (error.kind.clone(), error.message.clone(), Some(error.at));
        return Some(ErrorDetails { error, message, at });
    }
    let message = job.result_message().filter(|_| job.status() != Status::Completed)?;
    Some(ErrorDetails { error: "Error".into(), message: message.into(), at: None })
}

/// The numbers of jobs of a queue by state, in the order of [`JobState::ALL`]. O(exclusion sets).
pub(in crate::store) fn state_counts(queue: &Queue) -> [u64; JobState::ALL.len()] {
    let counts = queue.status_counts();
    JobState::ALL.map(|state| match state {
        JobState::Scheduled => counts.delayed,
        JobState::Ready => counts.ready + counts.group_only,
        JobState::Blocked => counts.blocked,
        JobState::Reserved => counts.reserved,
        JobState::Buried => counts.buried,
        JobState::Completed => counts.completed,
    })
}

/// For how long the oldest of the first [`QUEUE_JOBS_SCANNED`] ready jobs has been ready.
fn oldest_ready(queue: &Queue, jobs: &Jobs, now: Now) -> Option<u64> {
    let excluded = queue.excluded.iter().flat_map(|excluded| excluded.iter());
    let heaps = std::iter::once(&queue.ready).chain(excluded.map(|heap| &heap.ready));
    let slots = heaps.flat_map(|heap| {
        let count = u32::try_from(heap.len()).unwrap_or(u32::MAX);
        (0..count).map(|index| heap.at(index).slot)
    });
    let ages = slots.take(QUEUE_JOBS_SCANNED).map(|slot| u64::from(jobs[slot].ready_for(now)));
    ages.max()
}

/// How many jobs and waiters showing a queue has looked at.
pub(super) fn looked_at(queue: &QueueDetails) -> usize {
    let ready = usize::try_from(queue.counts[JobState::Ready as usize]).unwrap_or(usize::MAX);
    let waiters = usize::try_from(queue.waiting_consumers).unwrap_or(usize::MAX);
    ready.min(QUEUE_JOBS_SCANNED) + waiters.min(QUEUE_WAITERS_COUNTED)
}

impl Store {
    /// All that is known of a job. O(bytes).
    pub(super) fn details(&self, slot: JobIdx, now: Now) -> JobDetails {
        let job = &self.jobs[slot];
        let status = job.status();
        let payload = job.payload();
        let created = match job.row() {
            Some(row) => row.events.oldest_first().first().map_or(0, |event| event.at),
            None => u64::from(job.created()),
        };
        let due = job.due(&self.deadlines);
        // A job that was buried while it was delayed was never ready.
        let ready_since = Wall(now.wall.0.saturating_sub(u64::from(job.ready_for(now))));
        let ready_since = ready_since.max(Wall(created * 1_000));
        let available_at = match status {
            Status::Delayed => {
                let due = if job.is_held() { job.held_until() } else { due };
                due.map_or(ready_since, |at| now.wall_at(at))
            }
            _ => ready_since,
        };
        let reserved = status == Status::Reserved;
        let ended = if job.is_tracked() && job.max_attempts() == 0 {
            let over = matches!(status, Status::Buried | Status::Completed);
            job.retries() + u32::from(over)
        } else {
            job.ended_attempts()
        };
        JobDetails {
            id: JobId(job.id()),
            queue: (*self.queues[job.queue].name).into(),
            state: state_of(job),
            priority: job.priority().into(),
            encoding: payload.encoding,
            payload: payload.bytes.into(),
            created_at: Wall(created * 1_000),
            available_at,
            expires_at: job.has_ttl().then(|| now.wall_at(job.expires())),
            attempts: ended.saturating_add(u32::from(reserved)),
            max_attempts: Some(job.max_attempts()).filter(|&most| most > 0),
            lease: reserved.then(|| self.lease_details(slot, now)),
            last_error: last_error(job),
            progress: job.progress(),
            progress_message: job.runs().and_then(|runs| runs.progress_message.clone()),
            result: (status == Status::Completed)
                .then(|| job.result().map(|result| (result.encoding, result.bytes.into())))
                .flatten(),
            key: job.key_of_queue().map(|key| key.bytes.clone()),
            group: job.deps().and_then(|deps| Some((*deps.group.as_ref()?.name).into())),
            after: job.deps().map_or_else(Box::default, |deps| deps.after.clone()),
            blocked_by: (state_of(job) == JobState::Blocked).then(|| self.blocked_by(slot)),
            terms: None,
        }
    }

    /// All that is known of a job. O(bytes).
    pub(super) fn details_and_terms(&self, slot: JobIdx, now: Now) -> JobDetails {
        let job = &self.jobs[slot];
        let is_over = matches!(job.status(), Status::Completed | Status::Buried);
        let due = job.due(&self.deadlines).filter(|_| is_over);
        let terms = JobTerms {
            options: job.options(),
            key_ttl_ms: job.key_of_queue().map_or(0, |key| key.ttl_ms),
            after_group: job.deps().and_then(|deps| Some((*deps.after_group.as_ref()?.0).into())),
            runs_if_lost: job.deps().is_some_and(|deps| deps.runs_if_lost),
            retries: job.retries(),
            kept_until: due.map(|at| now.wall_at(at)),
            history: None,
        };
        JobDetails { terms: Some(Box::new(terms)), ..self.details(slot, now) }
    }

    /// The last events of a job of an indexed queue, oldest first. O(`EVENTS_SHOWN`).
    pub(super) fn history_of(&self, slot: JobIdx) -> Option<Box<[PastEvent]>> {
        let row = self.jobs[slot].row()?;
        let newest = row.events.newest_first().take(EVENTS_SHOWN);
        let mut events: Vec<_> = newest
            .map(|one| PastEvent {
                event: one.kind.word().into(),
                at: Wall(one.at.saturating_mul(1000)),
            })
            .collect();
        events.reverse();
        Some(events.into())
    }

    /// The reservation of a reserved job. O(log w).
    fn lease_details(&self, slot: JobIdx, now: Now) -> LeaseDetails {
        let job = &self.jobs[slot];
        let protocol = match (job.worker(), job.holder().kind()) {
            (Some(_), _) | (None, HolderKind::Detached(_)) => "worker",
            (None, HolderKind::Client(_)) => "connection",
            (None, HolderKind::Token) => "http",
        };
        let until = job.due(&self.deadlines).map(|at| now.wall_at(at));
        let lease = job.token_lease();
        let said = lease.map(|lease| &*lease.worker);
        let registered = || self.workers.name(job.worker()?);
        LeaseDetails {
            worker: said.or_else(registered).filter(|name| !name.is_empty()).map(Into::into),
            protocol,
            since: lease.map(|lease| lease.since),
            until,
            token: None,
        }
    }

    /// What holds a blocked job back: other jobs, or the limiter at which its class waits. O(1).
    fn blocked_by(&self, slot: JobIdx) -> BlockedBy {
        if self.jobs[slot].is_held() {
            return BlockedBy::Dependency;
        }
        let constraint = self.constraints.constraint_of(self.jobs[slot].expect_class());
        BlockedBy::Constraint(self.constraint(constraint).name.clone())
    }

    /// Queues by name. O(limit + `LISTED_NAMES_PER_STEP` log q + `SCANNED_PER_PAGE`).
    pub(super) fn queue_page(
        &self,
        behind: Option<&[u8]>,
        glob: Option<&[u8]>,
        limit: usize,
        now: Now,
    ) -> QueuePage {
        let mut page = QueuePage::default();
        let (mut steps, mut bytes, mut looked) = (0, 0, 0);
        let mut names = self.queues.names_behind(behind).enumerate().peekable();
        while let Some((seen, (name, queue))) = names.next() {
            if glob.is_none_or(|glob| matches_glob(glob, name, &mut steps)) {
                bytes += name.len();
                let details = self.queue_details(queue, now);
                looked += looked_at(&details);
                page.queues.push(details);
            }
            let full = page.queues.len() >= limit || bytes >= ANSWER_BYTES_ENOUGH;
            let full = full || seen + 1 >= LISTED_NAMES_PER_STEP || steps >= GLOB_STEPS_MAX;
            let full = full || looked >= SCANNED_PER_PAGE;
            if full && names.peek().is_some() {
                page.next = Some(name.into());
                break;
            }
        }
        page
    }

    /// The number of ready jobs of a queue. O(exclusion sets).
    pub(super) fn ready_count(&self, queue: QueueIdx) -> u64 {
        let counts = self.queues[queue].status_counts();
        counts.ready + counts.group_only
    }

    /// The age of the oldest ready job of a queue. O(exclusion sets + `QUEUE_JOBS_SCANNED`).
    pub(super) fn oldest_ready_ms(&self, queue: QueueIdx, now: Now) -> Option<u64> {
        oldest_ready(&self.queues[queue], &self.jobs, now)
    }

    /// The counters of a queue. O(exclusion sets + `QUEUE_JOBS_SCANNED` +
    /// `QUEUE_WAITERS_COUNTED`).
    pub(super) fn queue_details(&self, queue: QueueIdx, now: Now) -> QueueDetails {
        let record = &self.queues[queue];
        QueueDetails {
            name: (*record.name).into(),
            paused: record.holds.has(HoldMarks::PAUSED),
            paused_until: self.paused_until(queue).map(|at| now.wall_at(at)),
            indexed: record.is_indexed(),
            counts: state_counts(record),
            rates: self.queue_rates(queue),
            oldest_ready_ms: oldest_ready(record, &self.jobs, now),
            waiting_consumers: self.waiters.count_of(record.waiters, QUEUE_WAITERS_COUNTED) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GLOB_STEPS_MAX, matches_glob};

    #[test]
    fn glob_matches_whole_names() {
        for (glob, name, expected) in [
            ("", "", true),
            ("*", "", true),
            ("*", "a/b", true),
            ("?", "", false),
            ("caf?", "café", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*b*", "aabaa", true),
            ("**?x", "ax", true),
            ("A", "a", false),
            ("a", "ab", false),
        ] {
            let found = matches_glob(glob.as_bytes(), name.as_bytes(), &mut 0);
            assert_eq!(found, expected, "{glob} {name}");
        }
        assert!(matches_glob(b"?", b"\xff", &mut 0) && matches_glob(b"a?", b"a\xf0", &mut 0));
        let (mut steps, name) = (7, vec![b'a'; 100_000]);
        assert!(!matches_glob(b"*aaaaaaaaaaaaaaaaaaaab", &name, &mut steps));
        assert_eq!(steps, GLOB_STEPS_MAX + 7);
    }
}
