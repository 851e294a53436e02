//! The seven structures of the processor (`docs/protocols/processor.md`, "The state over HTTP") as
//! JSON: the jobs of a queue by what they do, and its workers.
//!
//! Jobs are found by a paged scan and shown one by one. The result is not a snapshot: a job that
//! changes meanwhile may be missing. Memory: 24 bytes per ready job.

use crate::base::limits::HTTP_CHUNK_BYTES;
use crate::base::time::Wall;
use crate::model::external_id::{QueueScan, ReadyOrderKey, ReservedJob};
use crate::model::id::JobId;
use crate::model::job::{Encoding, Status};
use crate::model::reply::{JobView, Reply};
use crate::wire::json::{push_bytes, push_number, push_packet, push_string};
use crate::wire::msgpack::push_json;
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use memchr::memchr;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write as _;

/// A worker as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerRow {
    pub(super) uuid: Box<str>,
    pub(super) busy: bool,
    pub(super) seen: Wall,
}

/// A page of a queue's workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerRows {
    pub(super) list: Vec<WorkerRow>,
    /// The slot at which the next page begins.
    pub(super) next: Option<u32>,
}

/// The lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListKind {
    /// The ready and the blocked jobs, as they were added, in the order in which they are reserved.
    Queued,
    /// The reserved jobs that no worker has accepted yet, as they were added.
    Dispatched,
    /// The same, with the time of the reservation.
    DispatchedSince,
    /// The jobs that workers work on, with the time of the last message about each.
    Processing,
    /// The same, with the progress of each.
    Progress,
    /// The workers, idle or busy, with the time of the last message.
    Workers,
    /// The same without idle or busy.
    Seen,
    Idle,
    Busy,
}

impl ListKind {
    /// The seven structures, in the order in which they are written.
    const ALL: [Self; 7] = [
        Self::Queued,
        Self::DispatchedSince,
        Self::Processing,
        Self::Progress,
        Self::Seen,
        Self::Idle,
        Self::Busy,
    ];

    /// The name of the structure.
    fn name(self) -> &'static str {
        match self {
            Self::Queued => "jobs_queued",
            Self::Dispatched | Self::DispatchedSince => "jobs_dispatched",
            Self::Processing => "jobs_processing",
            Self::Progress => "jobs_progress",
            Self::Workers | Self::Seen => "workers_last_seen",
            Self::Idle => "workers_idle",
            Self::Busy => "workers_busy",
        }
    }

    fn is_of_workers(self) -> bool {
        matches!(self, Self::Workers | Self::Seen | Self::Idle | Self::Busy)
    }
}

/// What a listing needs to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListingNeed {
    /// A page of the queue's jobs, from this slot on.
    JobsPage(u32),
    /// A page of the queue's workers, from this slot on.
    WorkersPage(u32),
    /// This job.
    Peek(JobId),
    /// Output space: about one chunk of text is written.
    OutputSpace,
    /// Nothing: it is complete.
    Nothing,
}

/// The collected ids and workers, and the position of the writer.
#[derive(Debug)]
pub(super) struct QueueListing {
    queue: Vec<u8>,
    /// The one list that is written. `None`: all seven, as an object.
    only: Option<ListKind>,
    survey: Option<u32>,
    members: Option<u32>,
    ready: BinaryHeap<Reverse<ReadyOrderKey>>,
    held: Vec<ReservedJob>,
    workers: Vec<WorkerRow>,
    /// The list that is being written, the position in it, and whether it has an element yet.
    part: usize,
    row: usize,
    begun: bool,
    written: bool,
}

impl QueueListing {
    /// Of one list, or of all seven as an object.
    pub(super) fn new(queue: &[u8], only: Option<ListKind>) -> Self {
        let jobs = only.is_none_or(|part| !part.is_of_workers());
        let workers = only.is_none_or(ListKind::is_of_workers);
        Self {
            queue: queue.to_vec(),
            only,
            survey: jobs.then_some(0),
            members: workers.then_some(0),
            ready: BinaryHeap::new(),
            held: Vec::new(),
            workers: Vec::new(),
            part: 0,
            row: 0,
            begun: false,
            written: false,
        }
    }

    pub(super) fn queue(&self) -> &[u8] {
        &self.queue
    }

    fn wants(&self, parts: &[ListKind]) -> bool {
        self.only.is_none_or(|only| parts.contains(&only))
    }

    /// Adds a page of jobs. O(page log jobs).
    pub(super) fn add_scan_page(&mut self, survey: &QueueScan) {
        if self.wants(&[ListKind::Queued]) {
            self.ready.extend(survey.ready.iter().map(|&place| Reverse(place)));
        }
        if self.only != Some(ListKind::Queued) {
            self.held.extend(survey.reserved.iter().cloned());
        }
        self.survey = survey.next;
        if self.survey.is_none() {
            self.held.sort_unstable_by_key(|job| (job.since, job.id));
        }
    }

    /// Adds a page of workers.
    pub(super) fn add_workers(&mut self, members: WorkerRows) {
        self.workers.extend(members.list);
        self.members = members.next;
    }

    /// Adds the reply to a peek. O(bytes).
    pub(super) fn add_peeked(&mut self, reply: &Reply<'_>, text: &mut Vec<u8>) {
        let queued = self.current() == Some(ListKind::Queued);
        let is_wanted = |status| match status {
            Status::Ready | Status::Blocked => queued,
            Status::Reserved => !queued,
            _ => false,
        };
        if let Reply::Peeked(sight) = reply
            && is_wanted(sight.status)
        {
            separate(&mut self.written, text);
            push_job(&sight.job, None, text);
        }
    }

    fn current(&self) -> Option<ListKind> {
        match self.only {
            Some(part) => (self.part == 0).then_some(part),
            None => ListKind::ALL.get(self.part).copied(),
        }
    }

    /// Writes until something is needed. O(text).
    pub(super) fn write(&mut self, text: &mut Vec<u8>) -> ListingNeed {
        if let Some(from) = self.survey {
            return ListingNeed::JobsPage(from);
        }
        if let Some(from) = self.members {
            return ListingNeed::WorkersPage(from);
        }
        while let Some(part) = self.current() {
            if !std::mem::replace(&mut self.begun, true) {
                self.begin(part, text);
            }
            while text.len() < HTTP_CHUNK_BYTES {
                match self.next_row(part, text) {
                    ListRow::Written => {}
                    ListRow::Job(id) => return ListingNeed::Peek(id),
                    ListRow::Over => {
                        text.push(b']');
                        (self.begun, self.written) = (false, false);
                        (self.part, self.row) = (self.part + 1, 0);
                        break;
                    }
                }
            }
            if self.begun {
                return ListingNeed::OutputSpace;
            }
            if self.only.is_none() && self.current().is_none() {
                text.push(b'}');
            }
        }
        ListingNeed::Nothing
    }

    fn begin(&self, part: ListKind, text: &mut Vec<u8>) {
        if self.only.is_none() {
            text.push(if self.part == 0 { b'{' } else { b',' });
            push_string(text, part.name().as_bytes());
            text.push(b':');
        }
        text.push(b'[');
    }

    fn next_row(&mut self, part: ListKind, text: &mut Vec<u8>) -> ListRow {
        if part == ListKind::Queued {
            return self.ready.pop().map_or(ListRow::Over, |Reverse(place)| ListRow::Job(place.id));
        }
        let row = self.row;
        self.row += 1;
        if part.is_of_workers() {
            return self.write_worker(row, part, text);
        }
        let Some(job) = self.held.get(row) else { return ListRow::Over };
        match (part, job.progress) {
            (ListKind::Dispatched, None) => return ListRow::Job(job.id),
            (ListKind::DispatchedSince, None) => {
                separate(&mut self.written, text);
                push_name(job, text);
                push_moment(",\"dispatched_at\":", job.since, text);
            }
            (ListKind::Processing, Some(_)) => {
                separate(&mut self.written, text);
                push_name(job, text);
                push_moment(",\"last_seen\":", job.since, text);
            }
            (ListKind::Progress, Some(progress)) => {
                separate(&mut self.written, text);
                push_name(job, text);
                // Proof: writing to a `Vec` does not fail.
                write!(text, ",\"progress\":{progress}").expect("a number is written to memory");
            }
            _ => return ListRow::Written,
        }
        text.push(b'}');
        ListRow::Written
    }

    fn write_worker(&mut self, row: usize, part: ListKind, text: &mut Vec<u8>) -> ListRow {
        let Some(worker) = self.workers.get(row) else { return ListRow::Over };
        match part {
            ListKind::Idle | ListKind::Busy => {
                if worker.busy == (part == ListKind::Busy) {
                    separate(&mut self.written, text);
                    push_string(text, worker.uuid.as_bytes());
                }
                return ListRow::Written;
            }
            _ => {}
        }
        separate(&mut self.written, text);
        text.extend_from_slice(b"{\"uuid\":");
        push_string(text, worker.uuid.as_bytes());
        if part == ListKind::Workers {
            let status: &[u8] = if worker.busy { b"\"busy\"" } else { b"\"idle\"" };
            text.extend_from_slice(b",\"status\":");
            text.extend_from_slice(status);
        }
        push_moment(",\"last_seen\":", worker.seen, text);
        text.push(b'}');
        ListRow::Written
    }
}

/// Writes a comma, unless the list is empty yet.
fn separate(written: &mut bool, text: &mut Vec<u8>) {
    if std::mem::replace(written, true) {
        text.push(b',');
    }
}

/// The outcome of writing one row.
enum ListRow {
    Written,
    /// This job has to be peeked.
    Job(JobId),
    Over,
}

fn push_name(job: &ReservedJob, text: &mut Vec<u8>) {
    text.extend_from_slice(b"{\"uuid\":");
    match &job.name {
        Some(name) => push_string(text, name),
        None => push_id(job.id, text),
    }
}

fn push_id(id: JobId, text: &mut Vec<u8>) {
    text.push(b'"');
    push_number(text, id.0);
    text.push(b'"');
}

fn push_moment(name: &str, at: Wall, text: &mut Vec<u8>) {
    text.extend_from_slice(name.as_bytes());
    text.push(b'"');
    push_time(at, text);
    text.push(b'"');
}

const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

/// Writes a time in ISO 8601 with milliseconds. Times beyond the year 9999 become its end.
pub(super) fn push_time(at: Wall, out: &mut Vec<u8>) {
    let moment = i64::try_from(at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let text = PRINTER.timestamp_to_string(&moment.unwrap_or(Timestamp::MAX));
    out.extend_from_slice(text.as_bytes());
}

/// Writes a job as an object, as messages show it: its payload, or a wrapper if it was put by
/// another protocol, with the id by which messages can name it. `dispatched`: the time of its
/// reservation. O(bytes).
pub(super) fn push_job(job: &JobView<'_>, dispatched: Option<&[u8]>, out: &mut Vec<u8>) {
    let start = out.len();
    match job.payload.encoding {
        Encoding::JsonLine => out.extend_from_slice(job.payload.bytes),
        Encoding::Json => push_in_line(job.payload.bytes, out),
        Encoding::MsgPack => push_json(out, job.payload.bytes),
        Encoding::Packet { key_len } => push_packet(out, key_len, job.payload.bytes),
        Encoding::Bytes => push_bytes(out, job.payload.bytes),
    }
    if job.named && dispatched.is_none() {
        return;
    }
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    while out.last().is_some_and(blank) {
        out.pop();
    }
    let first = out[start..].iter().position(|byte| !blank(byte)).map_or(start, |at| start + at);
    if out.get(first) == Some(&b'{') {
        out.pop();
        while out.last().is_some_and(blank) {
            out.pop();
        }
        if out.len() > first + 1 {
            out.push(b',');
        }
    } else {
        // A payload that is not an object is wrapped in one.
        out.splice(start..start, *b"{\"payload\":");
        out.push(b',');
    }
    if !job.named {
        out.extend_from_slice(b"\"uuid\":");
        push_id(job.id, out);
        out.extend_from_slice(b",\"queue_name\":");
        push_string(out, job.queue);
        if dispatched.is_some() {
            out.push(b',');
        }
    }
    if let Some(at) = dispatched {
        out.extend_from_slice(b"\"dispatched_at\":\"");
        out.extend_from_slice(at);
        out.push(b'"');
    }
    out.push(b'}');
}

/// Writes JSON in which other protocols may have left line ends between tokens, with spaces for
/// them.
fn push_in_line(mut text: &[u8], out: &mut Vec<u8>) {
    while let Some(end) = memchr(b'\n', text) {
        out.extend_from_slice(&text[..end]);
        out.push(b' ');
        text = &text[end + 1..];
    }
    out.extend_from_slice(text);
}
