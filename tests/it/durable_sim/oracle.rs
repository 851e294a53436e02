//! What clients were told, and what may have happened besides.

use super::constraint_model::ConstraintModel;
use super::consumers::Consumed;
use super::coverage::Seen;
use super::dependencies::DependencyModel;
use super::histories::Records;
use super::manage::PauseModel;
use super::native::{self, NativeModel};
use super::workers::Service;
use crate::rng::TestRng;
use crate::seeds;
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::indexed_queue::{IndexedPage, IndexedReply};
use jobcentre::model::job::{Encoding, JobOptions, Payload, Status};
use jobcentre::model::manage::ManageReply;
use jobcentre::model::reply::{JobView, Rejection, Reply};
use jobcentre::model::worker::TrackedReply;
use std::collections::{BTreeMap, BTreeSet};

/// What a client has asked for and was not told yet.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    Put(Vec<u8>),
    /// By the protocol whose answer is the job's row.
    PutRow(Vec<u8>),
    /// Something whose answer is the job's row.
    Row(JobId),
    /// Something whose answer is some job's row, or those of many.
    Rows,
    /// That a queue be declared or dropped.
    Queue(&'static [u8]),
    /// In whose service, if it is a worker's: see [`Service`].
    Take(Option<u32>),
    /// That the constraint of this name be another one, or none.
    Constraint(&'static str),
    /// That a job be put away; by the native API, as the next two.
    Bury(JobId),
    /// That a job be kicked or changed.
    Manage(JobId),
    /// That a job be moved to this queue.
    Move(JobId, &'static [u8]),
    /// That this queue be paused or resumed.
    Pause(&'static [u8]),
    /// The index of a queue is switched on or off.
    Index(&'static [u8]),
    /// That a worker be enlisted.
    Enlist,
    /// By a client that reserves jobs by its connection.
    Consumer(Consumed),
    /// Something that changes nothing by itself.
    Nothing,
    /// By a worker, that the job is done; whether it surely holds it.
    Report(JobId, bool),
    /// How a job is going.
    Follow(JobId),
    Pop(&'static [u8]),
    End(JobId),
    Finish(JobId),
    /// Afterwards the job's status is this one, if that is certain.
    Change(JobId, Option<Status>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    No,
    Possible,
    Certain,
}

#[derive(Debug)]
pub(super) struct Known {
    pub(super) queue: &'static [u8],
    /// Where it may have been moved to since it was certain where it is.
    pub(super) moving: Vec<&'static [u8]>,
    packet: bool,
    pub(super) kept: bool,
    /// Its result goes with the first answer that shows it to a follower.
    pub(super) fetch_once: bool,
    pub(super) put: Certainty,
    pub(super) ended: Certainty,
    pub(super) status: Option<Status>,
    /// Its place among the burials, if that is certain and it is buried.
    pub(super) burial: Option<u64>,
    /// Requests under way that may change its status.
    pub(super) changes: u32,
    /// In which life a worker got it.
    pub(super) got: u64,
}

/// The beginning of a text.
impl Asked {
    /// The job that is asked to change, or to end.
    fn job(&self) -> Option<JobId> {
        match *self {
            Self::End(id)
            | Self::Finish(id)
            | Self::Report(id, _)
            | Self::Follow(id)
            | Self::Change(id, _)
            | Self::Bury(id)
            | Self::Manage(id)
            | Self::Move(id, _)
            | Self::Consumer(Consumed::Job(id, _))
            | Self::Row(id) => Some(id),
            _ => None,
        }
    }
}

fn cut(text: &str) -> String {
    text.chars().take(100).collect()
}

/// The oracle. Jobs are known by what they carry, which is different for each.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    pub(super) jobs: BTreeMap<Vec<u8>, Known>,
    pub(super) ids: BTreeMap<u64, Vec<u8>>,
    pub(super) asked: BTreeMap<Ticket, Asked>,
    held: Vec<(ClientId, JobId)>,
    /// Those that may wait until there is something for them.
    pub(super) waiting: BTreeSet<Ticket>,
    pub(super) records: Records,
    pub(super) service: Service,
    pub(super) constraints: ConstraintModel,
    pub(super) pauses: PauseModel,
    pub(super) dependencies: DependencyModel,
    pub(super) native: NativeModel,
    pub(super) burials: u64,
    pub(super) seen: Seen,
}

impl Oracle {
    /// An id that a client may name: mostly one that it holds.
    pub(super) fn some_id(&self, client: ClientId, rng: &mut TestRng) -> JobId {
        let own: Vec<JobId> =
            self.held.iter().filter(|(holder, _)| *holder == client).map(|&(_, id)| id).collect();
        if !own.is_empty() && rng.percent(70) {
            return *rng.pick(&own);
        }
        let known: Vec<u64> = self.ids.keys().copied().collect();
        if known.is_empty() { self.native.unknown_id() } else { JobId(*rng.pick(&known)) }
    }

    pub(super) fn ask_put(
        &mut self,
        ticket: Ticket,
        queue: &'static [u8],
        payload: Payload<'_>,
        options: Option<JobOptions>,
    ) {
        let known = Known {
            queue,
            moving: Vec::new(),
            packet: matches!(payload.encoding, Encoding::Packet { .. }),
            kept: options.is_some_and(|options| options.result_retention_ms > 0),
            fetch_once: options.is_some_and(|options| options.result_once),
            got: 0,
            put: Certainty::Possible,
            ended: Certainty::No,
            status: None,
            burial: None,
            changes: 0,
        };
        assert!(self.jobs.insert(payload.bytes.to_vec(), known).is_none());
        let text = String::from_utf8_lossy(payload.bytes);
        seeds::say(|| format!("{} > put {} {options:?}", ticket.serial, cut(&text)));
        self.asked.insert(ticket, Asked::Put(payload.bytes.to_vec()));
    }

    pub(super) fn ask_put_row(&mut self, ticket: Ticket, queue: &'static [u8], bytes: &[u8]) {
        self.ask_put(ticket, queue, Payload { encoding: Encoding::Json, bytes }, None);
        self.asked.insert(ticket, Asked::PutRow(bytes.to_vec()));
    }

    /// The queue of an acknowledged job.
    pub(super) fn queue_of(&mut self, id: JobId) -> Option<&'static [u8]> {
        self.known(id).map(|known| known.queue)
    }

    pub(super) fn ask(&mut self, ticket: Ticket, asked: Asked) {
        seeds::say(|| format!("{} > {asked:?}", ticket.serial));
        if let Asked::Index(name) = asked {
            self.records.ask_index(name);
        }
        self.note_ending(&asked);
        if let Asked::Queue(name) = asked {
            self.records.ask(name);
        }
        if let Some(known) = asked.job().and_then(|id| self.known(id)) {
            known.changes += 1;
        }
        self.asked.insert(ticket, asked);
    }

    pub(super) fn known(&mut self, id: JobId) -> Option<&mut Known> {
        self.jobs.get_mut(self.ids.get(&id.0)?)
    }

    pub(super) fn hold(&mut self, client: ClientId, id: JobId) {
        self.held.push((client, id));
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        self.held.retain(|(holder, _)| *holder != client);
        self.end_service(client);
    }

    /// This id is this job's and no other's, for ever.
    fn identify(&mut self, id: JobId, bytes: &[u8]) {
        self.know_dependent(id, bytes);
        let former = self.ids.insert(id.0, bytes.to_vec());
        let is_new = former.is_none();
        assert!(former.is_none_or(|former| former == bytes), "id {} was used twice", id.0);
        let holders = self.ids.values().filter(|content| *content == bytes).count();
        assert_eq!(holders, 1, "a job came twice, with two ids");
        if is_new && let Some(known) = self.jobs.get_mut(bytes) {
            // What was asked about it before its id was told.
            let asked = self.asked.values().filter(|asked| asked.job() == Some(id)).count();
            known.changes = u32::try_from(asked).unwrap();
        }
    }

    pub(super) fn check_job(&mut self, job: &JobView<'_>) {
        let bytes = job.payload.bytes;
        self.identify(job.id, bytes);
        let known = self.jobs.get_mut(bytes).expect("a job that was not put");
        assert_ne!(known.put, Certainty::No, "a job whose put was refused");
        assert_ne!(known.ended, Certainty::Certain, "job {} was ended and is there", job.id.0);
        let is_there = known.queue == job.queue || known.moving.contains(&job.queue);
        assert!(is_there, "job {} is in another queue", job.id.0);
        assert_eq!(known.packet, matches!(job.payload.encoding, Encoding::Packet { .. }));
        (known.put, known.ended) = (Certainty::Certain, Certainty::No);
    }

    /// A client is told something.
    pub(super) fn on_reply(&mut self, ticket: Ticket, reply: &Reply<'_>) {
        let asked = self.asked.remove(&ticket).expect("an answer to nothing");
        seeds::say(|| format!("{} < {}", ticket.serial, cut(&format!("{reply:?}"))));
        if self.waiting.remove(&ticket)
            && (matches!(reply, Reply::Job(_)) || reply.packets().is_some())
        {
            self.seen.waited += 1;
        }
        match (asked, reply) {
            (Asked::Consumer(consumed), reply) => self.on_reply_consumed(ticket, consumed, reply),
            (Asked::Put(bytes), reply) => self.on_reply_put(&bytes, reply),
            (Asked::PutRow(bytes), Reply::Indexed(IndexedReply::Row(row))) => {
                self.identify(row.id, &bytes);
                assert_eq!(*row.payload, *bytes);
                self.jobs.get_mut(&bytes).unwrap().put = Certainty::Certain;
                self.records.on_reply(row);
            }
            (
                Asked::PutRow(bytes),
                Reply::Indexed(IndexedReply::NoQueue | IndexedReply::DiskFull),
            ) => {
                self.jobs.get_mut(&bytes).unwrap().put = Certainty::No;
            }
            (Asked::Queue(name), reply) => self.records.on_reply_queue(name, reply),
            (Asked::Row(id), reply) => {
                if let Reply::Indexed(IndexedReply::Row(row)) = reply {
                    self.records.on_reply(row);
                }
                self.on_reply_end(id, reply, false);
            }
            (Asked::Take(service), Reply::Job(job)) => {
                self.check_job(job);
                self.check_dependent(job.id);
                self.handed_out(job.id, service);
                self.hold(ticket.client, job.id);
            }
            (Asked::Enlist | Asked::Nothing, reply) => self.service.on_reply(reply),
            (Asked::Constraint(name), reply) => self.on_reply_constraint(name, ticket, reply),
            (asked, Reply::Manage(reply)) => {
                self.on_reply_cancel(ticket, reply);
                self.on_reply_managed(ticket, &asked, reply);
            }
            (Asked::Report(id, surely), reply) => self.on_reply_report(id, surely, reply),
            (Asked::Follow(id), Reply::Tracked(TrackedReply::NotYet | TrackedReply::Cancelled)) => {
                self.on_reply_nothing(id);
            }
            (Asked::Follow(id), reply) => self.on_reply_progress(id, reply),
            (Asked::Take(_) | Asked::Pop(_), Reply::Cancelled | Reply::NoJob)
            | (Asked::Rows, Reply::IndexedPage(IndexedPage::NotYet)) => {}
            (Asked::Rows, Reply::Indexed(reply)) => self.on_reply_rows(reply),
            (Asked::Pop(_), reply) if reply.packets().is_some() => {
                self.on_reply_popped(reply.packets().unwrap_or_default());
            }
            (Asked::End(id), reply) => self.on_reply_end(id, reply, true),
            (Asked::Finish(id), reply) => self.on_reply_finish(id, reply),
            (Asked::Change(id, status), reply) => {
                self.on_reply_end(id, reply, false);
                // The id may have been guessed, of a job that outlived the answer to its put.
                if *reply == Reply::Done
                    && let Some(known) = self.known(id)
                {
                    (known.status, known.burial) = (status, None);
                }
            }
            (asked, reply) => panic!("{asked:?} was answered by {reply:?}"),
        }
    }

    fn on_reply_put(&mut self, bytes: &[u8], reply: &Reply<'_>) {
        let id = match reply {
            Reply::Put(id) => *id,
            Reply::Manage(ManageReply::Job(job)) => job.id,
            Reply::Rejected(Rejection::DiskFull)
            | Reply::Manage(ManageReply::Rejected(Rejection::DiskFull)) => {
                self.seen.disk_full += 1;
                return self.on_reply_not_put(bytes);
            }
            reply => panic!("a put was answered by {reply:?}"),
        };
        self.identify(id, bytes);
        self.jobs.get_mut(bytes).unwrap().put = Certainty::Certain;
    }

    fn on_reply_rows(&mut self, reply: &IndexedReply) {
        match reply {
            IndexedReply::Row(row) => self.records.on_reply(row),
            IndexedReply::Rows(rows) => rows.values().for_each(|row| self.records.on_reply(row)),
            IndexedReply::NoJob | IndexedReply::NoQueue | IndexedReply::DiskFull => {}
            other => panic!("rows were answered by {other:?}"),
        }
    }

    fn on_reply_not_put(&mut self, bytes: &[u8]) {
        self.jobs.get_mut(bytes).unwrap().put = Certainty::No;
    }

    /// Nothing came of a request about this job.
    fn on_reply_nothing(&mut self, id: JobId) {
        if let Some(known) = self.known(id) {
            known.changes = known.changes.saturating_sub(1);
        }
    }

    fn on_reply_finish(&mut self, id: JobId, reply: &Reply<'_>) {
        let job = self.known(id).map(|known| known.kept);
        let kept = job == Some(true);
        if *reply == Reply::Rejected(Rejection::DiskFull) {
            // The id may have been guessed, of a job whose put is not answered yet.
            assert_ne!(job, Some(false), "what would have been gone was refused");
            self.seen.notes_refused += u64::from(kept);
        }
        self.on_reply_end(id, reply, !kept);
        if kept && *reply == Reply::Done {
            self.known(id).unwrap().status = Some(Status::Completed);
        }
    }

    pub(super) fn on_reply_end(&mut self, id: JobId, reply: &Reply<'_>, ends: bool) {
        let popping = self.is_popping() || self.may_vanish(id);
        let Some(known) = self.known(id) else { return };
        known.changes = known.changes.saturating_sub(1);
        match reply {
            Reply::Done
            | Reply::Indexed(IndexedReply::Done)
            | Reply::Tracked(TrackedReply::Removed)
                if ends =>
            {
                assert_ne!(known.ended, Certainty::Certain, "job {} was ended twice", id.0);
                known.ended = Certainty::Certain;
            }
            Reply::Done
            | Reply::JobStatus(_)
            | Reply::Rejected(_)
            | Reply::Tracked(TrackedReply::TooLate)
            | Reply::Indexed(
                IndexedReply::Row(_)
                | IndexedReply::Conflict(_)
                | IndexedReply::DiskFull
                | IndexedReply::LogFull,
            ) => {}
            Reply::NoJob
            | Reply::Tracked(TrackedReply::NoJob | TrackedReply::Deleted)
            | Reply::Indexed(IndexedReply::NoJob | IndexedReply::NoQueue) => {
                let under_way = known.changes > 0 || popping;
                assert!(known.ended != Certainty::No || under_way, "job {} is lost", id.0);
            }
            other => panic!("job {} was answered {other:?}", id.0),
        }
    }

    /// The program has ended: what was not answered has happened or not.
    pub(super) fn end_of_life(&mut self) {
        for (_, asked) in std::mem::take(&mut self.asked) {
            match asked {
                Asked::Pop(queue) => {
                    for known in self.jobs.values_mut() {
                        let is_there = known.queue == queue || known.moving.contains(&queue);
                        if is_there && known.ended == Certainty::No {
                            known.ended = Certainty::Possible;
                        }
                    }
                }
                Asked::Follow(id) if self.known(id).is_none_or(|known| !known.fetch_once) => {}
                Asked::End(id) | Asked::Finish(id) | Asked::Report(id, _) | Asked::Follow(id) => {
                    if let Some(known) = self.known(id) {
                        known.status = None;
                        if known.ended == Certainty::No {
                            known.ended = Certainty::Possible;
                        }
                    }
                }
                Asked::Consumer(consumed) => self.may_be_consumed(consumed),
                Asked::Change(id, _) | Asked::Bury(id) | Asked::Manage(id) | Asked::Move(id, _) => {
                    if let Some(known) = self.known(id) {
                        known.status = None;
                    }
                }
                Asked::Put(_)
                | Asked::PutRow(_)
                | Asked::Row(_)
                | Asked::Rows
                | Asked::Queue(_)
                | Asked::Enlist
                | Asked::Constraint(_)
                | Asked::Pause(_)
                | Asked::Index(_)
                | Asked::Nothing
                | Asked::Take(_) => {}
            }
        }
        self.jobs.values_mut().for_each(|known| known.changes = 0);
        self.held.clear();
        self.waiting.clear();
        self.service.client = None;
        self.records.end_of_life();
    }

    /// Looks at everything that came back.
    pub(super) fn examine(&mut self, engine: &mut Engine, generation: u32, now: Now) {
        self.seen.lives += 1;
        let client = ClientId { index: 99, generation };
        let end = self.ids.keys().next_back().copied().unwrap_or(0) + 200;
        let mut found: BTreeSet<Vec<u8>> = BTreeSet::new();
        for id in 1..end {
            let ticket = Ticket { client, serial: u32::try_from(id).unwrap() };
            engine.submit(ticket, &Command::Peek { id: JobId(id) }, now);
            let completion = engine.poll_completion().expect("a look is answered at once");
            let Reply::Peeked(sight) = completion.reply else { continue };
            if native::QUEUES.contains(&sight.job.queue) {
                continue;
            }
            let bytes = sight.job.payload.bytes.to_vec();
            let unanswered =
                self.jobs.get(&bytes).is_some_and(|known| known.put == Certainty::Possible);
            self.seen.unanswered_and_there += u64::from(unanswered);
            self.check_job(&sight.job);
            assert!(found.insert(bytes.clone()), "a job came twice");
            let (queue, known) = (sight.job.queue, self.jobs.get_mut(&bytes).unwrap());
            if let Some(to) = known.moving.iter().find(|to| **to == queue).copied() {
                known.queue = to;
                self.seen.moved += 1;
            }
            known.moving.clear();
            if let Some(status) = self.jobs[&bytes].status {
                assert_eq!(sight.status, status, "job {id} is in another status");
                self.seen.running += u64::from(status == Status::Reserved);
                self.seen.known_status += 1;
            }
            self.seen.there += 1;
        }
        assert!(engine.poll_completion().is_none());
        self.examine_records(engine, client, now);
        self.check_constraints(engine, client, now);
        self.check_pauses(engine, client, now);
        self.check_burials(engine, client, now);
        let ids = self.ids.iter().filter(|(id, _)| self.may_vanish(JobId(**id)));
        let vanishing: BTreeSet<Vec<u8>> = ids.map(|(_, bytes)| bytes.clone()).collect();
        for (content, known) in &mut self.jobs {
            if found.contains(content) {
                continue;
            }
            let lost = known.put == Certainty::Certain && known.ended == Certainty::No;
            let lost = lost && !vanishing.contains(content);
            assert!(!lost, "lost: {}", String::from_utf8_lossy(content));
            self.seen.gone += u64::from(known.ended == Certainty::Certain);
            self.seen.unanswered_and_not += u64::from(known.put == Certainty::Possible);
            if known.put == Certainty::Possible {
                known.put = Certainty::No;
            }
            known.ended = Certainty::Certain;
        }
    }
}
