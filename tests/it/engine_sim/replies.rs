//! The engine's replies as answers of the oracle.

use super::requests::{PRIORITIES, QUEUES, urgency};
use crate::oracle::types::{Answer, Load, Queue, Text, View};
use jobcentre::model::indexed_queue::{IndexedPage, IndexedReply};
use jobcentre::model::job::Status;
use jobcentre::model::reply::{JobView, Rejection, Reply};
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

impl Answer {
    pub(super) fn of(reply: &Reply<'_>) -> Self {
        match *reply {
            Reply::Cancelled => Self::Cancelled,
            Reply::Done | Reply::Attached(_) => Self::Done,
            Reply::Job(ref view) => Self::Job(View::of(view)),
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

    fn of_indexed(reply: &IndexedReply) -> Self {
        match reply {
            IndexedReply::Conflict(state) => Self::Conflict(Text::new(state)),
            IndexedReply::Done => Self::Done,
            IndexedReply::Full => Self::Refused(Rejection::Full),
            IndexedReply::DiskFull => Self::Refused(Rejection::DiskFull),
            IndexedReply::MemoryFull => Self::Refused(Rejection::MemoryFull),
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
