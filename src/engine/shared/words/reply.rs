//! The table of replies.

use super::error::WordsError;
use super::parts::{fixed_record, get_fixed, put_fixed};
use super::value::{Read, Reader, Word, Writer, record, union};
use crate::model::action::{ActionDetails, ActionState};
use crate::model::backup::{BackupFile, BackupReply};
use crate::model::consumer::{
    ConsumerReply, JobStats, JobTally, QueueNames, QueueStats, QueueTotals,
};
use crate::model::external_id::{QueueScan, ReadyOrderKey, ReservedJob};
use crate::model::indexed_queue::{IndexedPage, IndexedReply, QueueSize};
use crate::model::manage::{
    HistoryDetails, JobPage, ManageReply, Missing, PutOutcome, QueueDetails, QueuePage,
};
use crate::model::rejection::Rejection;
use crate::model::reply::{JobInfo, JobStatus, JobView, Reply};
use crate::model::schedule::{ScheduleDetails, ScheduleReply};
use crate::model::show::{ConstraintDetails, ConstraintPage, WorkerDetails, WorkerPage};
use crate::model::stats::{QueueCount, StatsPage, StatusCounts};
use crate::model::transfer::ExportPage;
use crate::model::worker::{ConstraintReply, TrackedReply, WorkerReply};

union! {
    Reply<'a> {
        0 Cancelled,
        1 Done,
        2 Job(job),
        3 Kicked(count),
        4 LeaseEnding,
        5 NoJob,
        6 Packets(packets),
        7 KeyGroup(packets),
        8 Peeked(info),
        9 Put(id),
        10 Rejected(why),
        11 TooLarge(id),
        12 Indexed(reply),
        13 IndexedPage(page),
        14 Consumer(reply),
        15 Manage(reply),
        16 JobStatus(status),
        17 Tracked(reply),
        18 Registered(worker),
        19 Attached(jobs),
        20 Workers(workers),
        21 Worker(reply),
        22 ConstraintFound(constraint),
        23 Constraint(reply),
        24 QueueScan(scan),
        25 Stats(page),
    }
    Rejection {
        0 Full, 1 DiskFull, 2 MemoryFull, 3 Draining, 4 ReservedByAnother(id), 5 NotReserved(id),
        6 LeaseExpired(id), 7 NotBuried(id), 8 UnknownJob(id), 9 ReplaceAfter(id),
        10 ReplaceInGroup(id), 11 NameTaken(id),
    }
    IndexedReply {
        0 BadQuery(why), 1 Conflict(state), 2 DiskFull, 3 Done, 4 Full, 5 LogFull, 6 MemoryFull,
        7 Draining, 8 NoJob, 9 NoQueue, 10 QueryRows(rows), 11 Queue(name), 12 QueueExists,
        13 Row(row), 14 Rows(rows),
    }
    IndexedPage { 0 NotYet, 1 QueueDropped { jobs, more }, 2 Queues { queues, next } }
    ConsumerReply { 0 Job(job), 1 Queue(queue), 2 Names(names), 3 Totals(totals) }
    ManageReply {
        0 Job(job), 1 Queue(queue), 2 Queues(page), 3 History(history), 4 Workers(page),
        5 Constraints(page), 6 Done, 7 Puts(puts), 8 Jobs(jobs), 9 StaleToken, 10 Cancelled,
        11 JobPage(page), 12 Duplicate(job), 13 Completed(id), 14 KeyTaken(id),
        15 WrongState(state), 16 TooLarge, 17 Action(action), 18 Actions(actions),
        19 Index { on, building }, 20 NoIndex, 21 QueueBusy(count), 22 Missing(what),
        23 Exported(page), 24 Backup(reply), 25 Schedule(reply), 26 Rejected(why),
    }
    PutOutcome { 0 Added(id), 1 Duplicate(id), 2 KeyTaken(id), 3 Rejected(why) }
    Missing { 0 NeverGivenOut, 1 Gone, 2 Queue }
    ActionState { 0 Running, 1 Finished, 2 Cancelled, 3 Failed }
    ScheduleReply {
        0 Schedule { details, made }, 1 Page { schedules, next }, 2 Removed, 3 Missing, 4 TooMany,
    }
    WorkerReply { 0 Done, 1 NoWorker, 2 Full, 3 DiskFull }
    TrackedReply { 0 Removed, 1 Deleted, 2 NoJob, 3 NotYet, 4 Cancelled, 5 TooLate }
    ConstraintReply { 0 Set { new }, 1 Removed, 2 NoConstraint, 3 Full, 4 DiskFull }
}

record! {
    JobView<'a> { id, queue, priority, payload, lease, named }
    JobInfo<'a> { job, status, due, lease_ms, retries, result }
    JobStatus<'a> { info, worker, message }
    QueueSize { name, jobs }
    JobTally { releases, buries, kicks }
    QueueStats {
        counts, urgent, put, using, watching, waiting, pauses, pause_s, pause_left_s,
    }
    QueueNames { names, next }
    QueueTotals { counts, urgent, queues, put, timeouts }
    QueuePage { queues, next }
    QueueDetails {
        name, paused, paused_until, indexed, counts, rates, oldest_ready_ms, waiting_consumers,
    }
    HistoryDetails { step, until, steps, waits }
    WorkerPage { workers, next }
    WorkerDetails { worker, reserved, last_reserved }
    ConstraintPage { constraints, more }
    ConstraintDetails { constraint, keys, blocked_keys, running, tokens }
    JobPage { jobs, next }
    ExportPage { jobs, next }
    BackupFile { number, name, size, head }
    ScheduleDetails { schedule, last_run, next_runs }
    QueueScan { ready, reserved, next }
    ReadyOrderKey { rank, tie, id }
    ReservedJob { id, name, progress, since }
    StatsPage { queues, counts, next }
    QueueCount { serial, name, jobs }
    StatusCounts {
        ready, blocked, group_only, delayed, reserved, dispatched, processing, buried, completed,
        oldest_ms,
    }
}

fixed_record! {
    JobStats {
        state; id, queue, priority, age_s, delay_ms, lease_ms, left_s, reserves, timeouts, tally,
    }
    ActionDetails {
        verb; id, queue, dry_run, matched, done, state, error, started_at, ended_at,
    }
}

impl<'a> Word<'a> for BackupReply {
    fn put(&self, w: &mut Writer<'_>) {
        match self {
            Self::Files(files) => {
                w.out.push(0);
                files.put(w);
            }
            Self::Bytes(bytes) => {
                w.out.push(1);
                bytes.put(w);
            }
            Self::Ended => w.out.push(2),
            Self::Refused(why) => {
                w.out.push(3);
                put_fixed(why, w);
            }
            Self::Failed(why) => {
                w.out.push(4);
                why.put(w);
            }
        }
    }
    fn get(r: &mut Reader<'a>) -> Read<Self> {
        Ok(match r.byte()? {
            0 => Self::Files(Word::get(r)?),
            1 => Self::Bytes(Word::get(r)?),
            2 => Self::Ended,
            3 => Self::Refused(get_fixed(r)?),
            4 => Self::Failed(Word::get(r)?),
            tag => return Err(WordsError::UnknownTag(tag)),
        })
    }
}
