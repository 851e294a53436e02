//! The engine's replies as answers of the oracle.

use super::requests::{PRIORITIES, QUEUES, urgency};
use crate::oracle::consumers::Counted;
use crate::oracle::keys::Put;
use crate::oracle::types::{Answer, Details, LeaseFacts, Load, Queue, Text, View};
use jobcentre::model::action::{ActionDetails, ActionState};
use jobcentre::model::consumer::{ConsumerReply, JobStats};
use jobcentre::model::indexed_queue::{IndexedPage, IndexedReply};
use jobcentre::model::job::Status;
use jobcentre::model::manage::{
    BlockedBy, JobDetails, JobState, ManageReply, PutOutcome, QueueDetails,
};
use jobcentre::model::reply::{JobView, Rejection, Reply};
use jobcentre::model::show::ConstraintDetails;
use jobcentre::model::worker::{ConstraintReply, TrackedReply, WorkerReply};

/// # Panics
/// If there is no such queue.
fn number_of(name: &[u8]) -> Queue {
    QUEUES.iter().position(|known| *known == name).unwrap()
}

impl View {
    /// # Panics
    /// If the queue or the priority is none that was ever put.
    fn of(view: &JobView<'_>) -> Self {
        assert!(PRIORITIES.contains(&view.priority), "{:?}", view.priority);
        Self {
            id: view.id.0,
            queue: number_of(view.queue),
            priority: urgency(view.priority),
            load: Load::of(view.payload),
            lease: view.lease.0,
        }
    }
}

impl Details {
    pub(super) fn of(job: &JobDetails) -> Self {
        let text = |text: &str| Text::new(text.as_bytes());
        Self {
            view: View {
                id: job.id.0,
                queue: number_of(&job.queue),
                priority: urgency(job.priority.view()),
                load: Load { encoding: job.encoding, text: Text::new(&job.payload) },
                lease: 0,
            },
            state: match job.state {
                // Which ready jobs constraints block is the engine's own affair.
                JobState::Blocked if job.blocked_by != Some(BlockedBy::Dependency) => {
                    JobState::Ready
                }
                state => state,
            },
            ttl: job.expires_at,
            due: Some(job.available_at).filter(|_| job.state == JobState::Scheduled),
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            lease: job.lease.as_ref().map(|lease| LeaseFacts {
                worker: lease.worker.as_deref().map(text),
                protocol: lease.protocol,
                since: lease.since,
                until: lease.until,
            }),
            error: job.last_error.as_ref().map(|error| {
                let [kind, message] = [&error.error, &error.message].map(|part| text(part));
                (kind, message, error.at)
            }),
            progress: job.progress,
            message: job.progress_message.as_deref().map(text),
            result: job
                .result
                .as_ref()
                .map(|(encoding, bytes)| Load { encoding: *encoding, text: Text::new(bytes) }),
            key: job.key.as_deref().map(Text::new),
            group: job.group.as_deref().map(Text::new),
            after: job.after.iter().map(|id| id.0).collect(),
        }
    }
}

impl Counted {
    fn of(job: &JobStats) -> Self {
        Self {
            id: job.id.0,
            queue: number_of(&job.queue),
            state: job.state,
            priority: job.priority,
            lease_ms: job.lease_ms,
            left_s: job.left_s,
            reserves: job.reserves,
            tally: job.tally,
        }
    }
}

impl Answer {
    pub(super) fn of(reply: &Reply<'_>) -> Self {
        match *reply {
            Reply::Cancelled => Self::Cancelled,
            Reply::Done | Reply::Attached(_) => Self::Done,
            Reply::Job(ref view) => Self::Job(View::of(view)),
            Reply::LeaseEnding => Self::LeaseEnding,
            Reply::Consumer(ConsumerReply::Job(job)) => Self::Counted(Box::new(Counted::of(job))),
            Reply::Kicked(count) => Self::Kicked(count),
            Reply::NoJob => Self::NoJob,
            Reply::Packets(_) | Reply::KeyGroup(_) => {
                let own = reply
                    .packets()
                    .into_iter()
                    .flatten()
                    .map(|packet| (packet.key_len, Text::new(&packet.bytes)));
                Self::Packets(own.collect())
            }
            Reply::Put(id) => Self::Put(id.0),
            Reply::Rejected(refusal) => Self::Refused(refusal),
            Reply::Peeked(ref sight) => Self::Seen {
                view: View::of(&sight.job),
                // When an engine puts a job away that may not run is its own affair.
                status: match sight.status {
                    Status::Blocked => Status::Ready,
                    status => status,
                },
                due: sight.due,
                retries: sight.retries,
                result: sight.result.map(Load::of),
            },
            Reply::TooLarge(id) => Self::TooLarge(id.0),
            Reply::Registered(id) => Self::Worker(id.0),
            Reply::Worker(reply) => Self::of_worker(reply),
            Reply::Tracked(reply) => Self::of_tracked(reply),
            Reply::Constraint(reply) => Self::of_constraint(reply),
            Reply::Indexed(reply) => Self::of_indexed(reply),
            Reply::IndexedPage(page) => Self::of_page(page),
            Reply::Manage(reply) => Self::of_manage(reply),
            Reply::JobStatus(ref progress) => Self::Progress {
                view: View::of(&progress.info.job),
                word: progress.status(),
                due: progress.info.due,
                retries: progress.info.retries,
                result: progress.info.result.map(Load::of),
                worker: progress.worker.map(|worker| worker.0),
                message: progress.message.map(|text| Text::new(text.as_bytes())),
            },
            ref other => panic!("nothing is answered by {other:?}"),
        }
    }

    fn of_worker(reply: WorkerReply) -> Self {
        match reply {
            WorkerReply::Done => Self::Done,
            WorkerReply::NoWorker => Self::NoWorker,
            WorkerReply::Full => Self::Refused(Rejection::Full),
            WorkerReply::DiskFull => Self::Refused(Rejection::DiskFull),
        }
    }

    fn of_tracked(reply: TrackedReply) -> Self {
        match reply {
            TrackedReply::Removed => Self::Done,
            TrackedReply::Deleted => Self::Gone,
            TrackedReply::NoJob => Self::NoJob,
            TrackedReply::NotYet => Self::NotYet,
            TrackedReply::Cancelled => Self::Cancelled,
            TrackedReply::TooLate => Self::TooLate,
        }
    }

    fn of_constraint(reply: ConstraintReply) -> Self {
        match reply {
            ConstraintReply::Set { new } => Self::Constrained(new),
            ConstraintReply::Removed => Self::Done,
            ConstraintReply::NoConstraint => Self::NoConstraint,
            ConstraintReply::Full => Self::Refused(Rejection::Full),
            ConstraintReply::DiskFull => Self::Refused(Rejection::DiskFull),
        }
    }

    fn of_list(reply: &ManageReply) -> Self {
        match reply {
            ManageReply::Workers(page) => Self::Listed(
                page.workers.iter().map(|details| details.worker.id.0.to_string()).collect(),
            ),
            ManageReply::Constraints(page) => {
                let name = |found: &ConstraintDetails| found.constraint.name.to_string();
                Self::Listed(page.constraints.iter().map(name).collect())
            }
            ManageReply::History(details) => {
                Self::History(details.steps.iter().map(|step| u64::from(step[0])).sum())
            }
            ManageReply::Queues(page) => {
                let ready = |queue: &QueueDetails| queue.counts[JobState::Ready as usize];
                let by_ready = page.queues.is_sorted_by(|a, b| ready(a) >= ready(b));
                let oldest = |queue: &QueueDetails| queue.oldest_ready_ms;
                let by_age = page.queues.is_sorted_by(|a, b| oldest(a) >= oldest(b));
                assert!(by_ready || by_age, "queues are in no order: {page:?}");
                let mut known: Vec<Queue> =
                    page.queues.iter().map(|queue| number_of(&queue.name)).collect();
                known.sort_unstable();
                Self::Ranked(known)
            }
            other => panic!("nothing is answered by {other:?}"),
        }
    }

    fn of_manage(reply: &ManageReply) -> Self {
        match reply {
            ManageReply::Job(job) => Self::Details(Box::new(Details::of(job))),
            ManageReply::Jobs(jobs) => Self::Reserved(jobs.iter().map(Details::of).collect()),
            ManageReply::Puts(puts) => {
                let id = |put: &PutOutcome| match *put {
                    PutOutcome::Added(id) => Put::Added(id.0),
                    PutOutcome::Duplicate(id) => Put::Duplicate(id.0),
                    PutOutcome::KeyTaken(id) => Put::KeyTaken(id.0),
                    PutOutcome::Rejected(why) => Put::Refused(why),
                };
                Self::Puts(puts.iter().map(id).collect())
            }
            ManageReply::Duplicate(job) => Self::Duplicate(Box::new(Details::of(job))),
            ManageReply::Completed(id) => Self::Completed(id.0),
            ManageReply::KeyTaken(id) => Self::KeyTaken(id.0),
            ManageReply::StaleToken => Self::StaleToken,
            ManageReply::Cancelled => Self::RunCancelled,
            ManageReply::Queue(queue) => {
                let [scheduled, ready, blocked, reserved, buried, completed] = queue.counts;
                Self::QueueDetails {
                    queue: number_of(&queue.name),
                    paused: queue.paused,
                    until: queue.paused_until,
                    indexed: queue.indexed,
                    counts: [scheduled, ready + blocked, reserved, buried, completed],
                    waiting: queue.waiting_consumers,
                    puts: (queue.rates.0[0] * 60).div_ceil(1_000),
                }
            }
            ManageReply::Missing(missing) => Self::Missing(*missing),
            ManageReply::Rejected(rejection) => Self::Refused(*rejection),
            ManageReply::Done => Self::Done,
            ManageReply::WrongState(JobState::Blocked) => Self::WrongState(JobState::Ready),
            ManageReply::WrongState(state) => Self::WrongState(*state),
            ManageReply::TooLarge => Self::TooLargeChange,
            ManageReply::NoIndex => Self::NoIndex,
            ManageReply::Index { on, building } => {
                assert!(!building, "there are few jobs");
                Self::Index(*on)
            }
            ManageReply::JobPage(page) => {
                Self::JobList(page.jobs.iter().map(Details::of).collect())
            }
            ManageReply::QueueBusy(reserved) => Self::Busy(*reserved),
            ManageReply::Action(action) => {
                assert_eq!(action.state, ActionState::Finished, "few jobs are changed at once");
                let ActionDetails { verb, dry_run, matched, done, .. } = **action;
                Self::Acted { verb, dry_run, matched, done }
            }
            other => Self::of_list(other),
        }
    }

    fn of_indexed(reply: &IndexedReply) -> Self {
        match reply {
            IndexedReply::Conflict(state) => Self::Conflict(Text::new(state)),
            IndexedReply::Done => Self::Done,
            IndexedReply::Full => Self::Refused(Rejection::Full),
            IndexedReply::DiskFull => Self::Refused(Rejection::DiskFull),
            IndexedReply::MemoryFull => Self::Refused(Rejection::MemoryFull),
            IndexedReply::Draining => Self::Refused(Rejection::Draining),
            IndexedReply::LogFull => Self::LogFull,
            IndexedReply::NoJob => Self::NoJob,
            IndexedReply::NoQueue => Self::NoQueue,
            IndexedReply::QueryRows(rows) => {
                Self::Found(rows.iter().map(|row| (**row).clone()).collect())
            }
            IndexedReply::Queue(name) => Self::Queue(number_of(name)),
            IndexedReply::QueueExists => Self::QueueExists,
            IndexedReply::Row(row) => Self::Row(Box::new((**row).clone())),
            IndexedReply::Rows(rows) => {
                Self::Rows(rows.values().map(|row| (**row).clone()).collect())
            }
            IndexedReply::BadQuery(why) => panic!("{why}"),
        }
    }

    fn of_page(page: &IndexedPage) -> Self {
        match page {
            IndexedPage::NotYet => Self::NotYet,
            IndexedPage::QueueDropped { jobs, more: false } => Self::Dropped(*jobs),
            IndexedPage::Queues { queues, next: None } => {
                let sizes = queues.iter().map(|queue| (number_of(&queue.name), queue.jobs));
                let mut sizes: Vec<_> = sizes.collect();
                sizes.sort_unstable();
                Self::Queues(sizes)
            }
            page => panic!("so few jobs are answered by {page:?}"),
        }
    }
}
