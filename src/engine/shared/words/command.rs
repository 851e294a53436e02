//! The table of commands.

use super::error::WordsError;
use super::value::{Read, Reader, Word, Writer, record, union};
use crate::model::action::{ActionFilter, ActionSpec, ActionVerb, JobChange};
use crate::model::backup::BackupStep;
use crate::model::command::{Command, Wait};
use crate::model::consumer::{ConsumerCommand, PeekedState};
use crate::model::external_id::JobRef;
use crate::model::flow::HistoryStep;
use crate::model::indexed_queue::IndexedCommand;
use crate::model::job::TieBreak;
use crate::model::manage::{LeaseTerms, ManageCommand, QueueOrder, ReserveTerms, RunReport};
use crate::model::query::{Expr, Op, Query, Term};
use crate::model::schedule::ScheduleCommand;
use crate::model::stats::StatsScan;
use crate::model::transfer::{ImportedJob, ImportedStage};
use crate::model::worker::{RunOutcome, Worker, WorkerCommand};

union! {
    Command<'a> {
        0 Put { queue, priority, tie_break, payload, options },
        1 Reserve { queues, wait },
        2 Pop { queues, wait },
        3 Subscribe { serial, queue },
        4 Unsubscribe { serial, queue },
        5 Delete { id },
        6 DeleteOwn { id },
        7 Release { id, lease },
        8 Touch { id, lease },
        9 Finish { id, lease, result },
        10 Fail { id, lease, retry, error },
        11 Bury { id, lease },
        12 Kick { id },
        13 KickQueue { queue, limit },
        14 Peek { id },
        15 Indexed(command),
        16 Consumer(command),
        17 Manage(command),
        18 Work(command),
    }
    IndexedCommand<'a> {
        0 Stats(scan),
        1 Queues { from },
        2 CreateQueue { queue },
        3 DropQueue { queue },
        4 List { queue },
        5 Find { queue, query, limit },
        6 Poll { queue, query, state },
        7 Put { queue, payload, state },
        8 Show { queue, id },
        9 Delete { queue, id },
        10 CompareAndSetState { queue, id, old, new },
        11 AppendEvent { queue, id, event },
    }
    ConsumerCommand<'a> {
        0 ReserveJob { id },
        1 Release { id, priority, delay_ms },
        2 Bury { id, priority },
        3 KickJob { id },
        4 KickFirst { queue, among, limit },
        5 PeekFirst { queue, among },
        6 JobStats { id },
        7 QueueStats { queue, exists },
        8 QueueNames { from },
        9 Totals,
        10 Pause { queue, exists, for_ms },
        11 Use { queue, former },
        12 Watch { queue },
        13 Leave { used, watched },
    }
    ManageCommand<'a> {
        0 Show { id },
        1 Queue { queue },
        2 Queues { behind, glob, limit },
        3 Ranked { order, glob, limit },
        4 Workers { from, limit },
        5 Constraints { behind, limit },
        6 History { queue, step },
        7 Pause { queue, for_ms },
        8 Resume { queue },
        9 Bury { id },
        10 Kick { id },
        11 Remove { id },
        12 Cancel { id },
        13 Change { id, change },
        14 Act(spec),
        15 DropQueue { queue, force },
        16 SetIndex { queue, on },
        17 Search { queue, query, behind, limit },
        18 ShowAction { id },
        19 ListActions { below, limit },
        20 CancelAction { id },
        21 Put { queue, job },
        22 PutMany { queue, jobs },
        23 ReserveMore { first, queues, terms },
        24 Jobs { queue, state, from, limit },
        25 Report { id, token, report },
        26 AwaitEnd { id, wait_ms },
        27 Export { queue, state, from },
        28 Import(jobs),
        29 EndImport,
        30 Backup(step),
        31 Schedule(command),
    }
    WorkerCommand<'a> {
        0 Register(worker),
        1 Deregister { worker },
        2 AwaitWorkers { from },
        3 Attach { worker },
        4 AwaitDetach,
        5 AttachWithLease { worker, lease_ms },
        6 Detach,
        7 PutByName { job, priority, payload },
        8 ReportProgress { job, progress },
        9 CompleteByName { job },
        10 DeleteByName { job },
        11 ScanQueue { queue, from },
        12 ReserveAny,
        13 ReserveFor { worker, queues },
        14 AwaitRelease { id, lease },
        15 ReturnUnstarted { id, lease, exclude },
        16 Report { worker, id, report },
        17 GetStatus { id },
        18 AwaitResult { id, wait_ms },
        19 Cancel { id },
        20 SetConstraint(constraint),
        21 RemoveConstraint { name },
        22 GetConstraint { name },
    }
    ScheduleCommand<'a> {
        0 List { behind, limit },
        1 Show { name },
        2 Set { schedule },
        3 Remove { name },
        4 Run { name },
    }
    Wait { 0 No, 1 Forever, 2 Again, 3 Milliseconds(ms), 4 UntilLeaseEnds(ms) }
    TieBreak { 0 Fifo, 1 Lifo }
    StatsScan { 0 Queues(from), 1 Jobs(from) }
    PeekedState { 0 Ready, 1 Delayed, 2 Buried }
    QueueOrder { 0 Ready, 1 Oldest }
    HistoryStep { 0 Short, 1 Long }
    BackupStep { 0 Begin, 1 Read { number, offset, length }, 2 End }
    ActionFilter { 0 States(states), 1 Ids(ids), 2 Query(query) }
    ActionVerb { 0 Delete, 1 Kick, 2 Bury, 3 Move { to }, 4 Change(change) }
    RunReport {
        0 Complete { result },
        1 Fail { error, message, retry, delay_ms },
        2 Release { priority, delay_ms },
        3 Touch { ttr_ms },
        4 Progress { progress, message },
    }
    RunOutcome<'a> {
        0 Success { result },
        1 Failure { retry, error, message },
        2 Rejected { lease, error, message },
    }
    Op {
        0 Is, 1 IsNot, 2 Like, 3 Glob, 4 Equal, 5 NotEqual, 6 Less, 7 LessOrEqual, 8 Greater,
        9 GreaterOrEqual,
    }
    Expr { 0 Text(text), 1 Number(text), 2 Bool(value), 3 Null, 4 Literal(text) }
    ImportedStage { 0 Waiting, 1 Buried(kept_ms), 2 Completed { result, kept_ms } }
}

record! {
    JobRef<'a> { queue, name }
    Worker<'a> { name, url, max_jobs, queues }
    Query { terms }
    Term { op, left, right }
    ReserveTerms { limit, wait, lease }
    LeaseTerms { ttr_ms, worker }
    JobChange { payload, priority, delay_ms, ttl_ms, queue, max_attempts }
    ActionSpec { queue, filter, verb, limit, dry_run, wait }
    ImportedJob {
        id, queue, job, after_here, waits, created_at, stage, attempts, retries, last_error,
        progress, progress_message,
    }
}
