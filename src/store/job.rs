//! A job: a slot of 64 bytes in the job table, and its payload.
//!
//! Three words of a slot say where the job is linked. They mean what its [`Status`] says, and are
//! read and written by methods that each belong to some statuses only. Rarely used fields are in a
//! boxed [`JobExt`].

use super::JOBS_MAX;
use super::idx::{Holder, JobIdx, QueueIdx};
use super::job_ext::{JobExt, NEVER, RunState};
use super::rank::{UNSELECTED_RANK, number, rank};
use crate::base::heap::HeapEntry;
use crate::base::limits::PACKET_MAX_BYTES;
use crate::base::slab_index::{PackedOption, SlabIndex};
use crate::base::time::{Mono, Now};
use crate::model::id::JobId;
use crate::model::job::{
    Encoding, JobOptions, LeaseEpoch, Packet, Payload, Priority, Retry, Status, TieBreak,
};
use crate::model::reply::JobView;
use crate::model::row::Row;
use std::sync::Arc;

/// One job.
///
/// | status | `place` | `next` | `holder` |
/// |---|---|---|---|
/// | Ready | position in its queue's heap | next older packet of its key | what is newer |
/// | Blocked | position in the heap of its job class | - | - |
/// | `GroupOnly` | - | as for Ready | as for Ready |
/// | Reserved | previous job of the same holder | next one | client, or detached worker |
/// | Buried | job buried before it | job buried after it | - |
/// | Popped | - | - | - |
///
/// [`Job::heap_position`] reads the positions, [`Job::older_packet`] and [`Job::newer_packet`] the
/// links in a key group, [`Job::previous`], [`Job::next`] and [`Job::holder`] those in a list.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    /// Priority as a heap key: smaller is more urgent; 0 for priorities beyond 64 bits.
    rank: u64,
    body: Body,
    pub(super) queue: QueueIdx,
    place: u32,
    next: PackedOption<JobIdx>,
    holder: u32,
    pub(super) status: Status,
    /// Whether the job is no packet and has no [`JobExt`]: no structure but the ready heap has to
    /// be updated when it is enqueued or unlinked.
    plain: bool,
    tie_break: TieBreak,
    encoding: Encoding,
    /// When it was put, in Unix seconds; after a restart, when it was restored.
    created: u32,
    /// When it became ready last, in milliseconds of the monotonic clock, wrapping.
    since: u32,
}

/// The payload, alone or with the rare fields. As large as a pointer to a slice.
#[derive(Debug)]
enum Body {
    Inline(Box<[u8]>),
    Extended(Box<JobExt>),
}

const _: () = assert!(size_of::<Body>() == 16 && size_of::<Job>() == 64);
const _: () = assert!(size_of::<Option<Job>>() == 64, "a vacant slot costs no tag");

/// No position, no link and no holder.
const NONE: u32 = u32::MAX;

/// In place of the next newer packet: [`NewerPacket::Beside`]. No slot of a job is as large.
const BESIDE: u32 = NONE - 1;

const _: () = assert!(JOBS_MAX < BESIDE as usize, "a slot would mean something else");

/// What is before a waiting packet in the list of its key group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NewerPacket {
    /// Nothing: it is the newest in the list.
    None,
    Some(JobIdx),
    /// It is not in the list, but in the set beside it.
    Beside,
}

impl Job {
    /// An unlinked job.
    #[inline(always)]
    pub(super) fn new(
        id: u64,
        queue: QueueIdx,
        priority: Priority<'_>,
        tie_break: TieBreak,
        payload: Payload<'_>,
        now: Now,
    ) -> Self {
        let bytes: Box<[u8]> = payload.bytes.into();
        let (rank, body) = match priority {
            Priority::Small(number) => (rank(number), Body::Inline(bytes)),
            Priority::Unselected => (UNSELECTED_RANK, Body::Inline(bytes)),
            Priority::Big(digits) => {
                let digits = Some(digits.into());
                (0, Body::Extended(Box::new(JobExt { digits, ..JobExt::new(bytes) })))
            }
        };
        Self {
            id,
            rank,
            body,
            queue,
            place: NONE,
            next: PackedOption::NONE,
            holder: NONE,
            status: Status::Reserved,
            plain: matches!(priority, Priority::Small(_))
                && !matches!(payload.encoding, Encoding::Packet { .. }),
            tie_break,
            encoding: payload.encoding,
            created: u32::try_from(now.wall.0 / 1_000).unwrap_or(u32::MAX),
            since: 0,
        }
    }

    /// The position in the heap that it is in: one of ready jobs, or that of its job class.
    #[inline(always)]
    pub(super) fn heap_position(&self) -> u32 {
        debug_assert!(self.is_in_heap(), "only ready and blocked jobs are in heaps");
        self.place
    }

    #[inline(always)]
    pub(super) fn set_heap_position(&mut self, position: u32) {
        debug_assert!(self.is_in_heap(), "only ready and blocked jobs are in heaps");
        self.place = position;
    }

    fn is_in_heap(&self) -> bool {
        matches!(self.status, Status::Ready | Status::Blocked)
    }

    /// The job before this one in the list of its holder, or of buried jobs.
    #[inline(always)]
    pub(super) fn previous(&self) -> PackedOption<JobIdx> {
        debug_assert!(self.is_in_list(), "only reserved and buried jobs are in lists");
        PackedOption::from_bits(self.place)
    }

    #[inline(always)]
    pub(super) fn set_previous(&mut self, previous: PackedOption<JobIdx>) {
        debug_assert!(self.is_in_list(), "only reserved and buried jobs are in lists");
        self.place = previous.bits();
    }

    /// The job after this one in the list of its holder, or of buried jobs.
    #[inline(always)]
    pub(super) fn next(&self) -> PackedOption<JobIdx> {
        debug_assert!(self.is_in_list(), "only reserved and buried jobs are in lists");
        self.next
    }

    #[inline(always)]
    pub(super) fn set_next(&mut self, next: PackedOption<JobIdx>) {
        debug_assert!(self.is_in_list(), "only reserved and buried jobs are in lists");
        self.next = next;
    }

    fn is_in_list(&self) -> bool {
        matches!(self.status, Status::Reserved | Status::Buried)
    }

    /// Who has reserved the job.
    #[inline(always)]
    pub(super) fn holder(&self) -> Holder {
        debug_assert_eq!(self.status, Status::Reserved, "only reserved jobs have a holder");
        Holder::from_bits(self.holder)
    }

    #[inline(always)]
    pub(super) fn set_holder(&mut self, holder: Holder) {
        debug_assert_eq!(self.status, Status::Reserved, "only reserved jobs have a holder");
        self.holder = holder.bits();
    }

    /// Whether a reserved job has this holder; of other jobs it says nothing.
    #[inline(always)]
    pub(super) fn is_held_by(&self, holder: Holder) -> bool {
        self.holder == holder.bits()
    }

    /// The next older packet in the list of its key group.
    pub(super) fn older_packet(&self) -> PackedOption<JobIdx> {
        debug_assert!(self.is_in_group(), "only waiting packets are in key groups");
        self.next
    }

    pub(super) fn set_older_packet(&mut self, older: PackedOption<JobIdx>) {
        debug_assert!(self.is_in_group(), "only waiting packets are in key groups");
        self.next = older;
    }

    /// What is before it in its key group.
    pub(super) fn newer_packet(&self) -> NewerPacket {
        debug_assert!(self.is_in_group(), "only waiting packets are in key groups");
        match self.holder {
            NONE => NewerPacket::None,
            BESIDE => NewerPacket::Beside,
            slot => NewerPacket::Some(JobIdx::from_slot(slot)),
        }
    }

    pub(super) fn set_newer_packet(&mut self, newer: NewerPacket) {
        debug_assert!(self.is_in_group(), "only waiting packets are in key groups");
        self.holder = match newer {
            NewerPacket::None => NONE,
            NewerPacket::Some(slot) => slot.slot(),
            NewerPacket::Beside => BESIDE,
        };
    }

    fn is_in_group(&self) -> bool {
        self.is_packet() && matches!(self.status, Status::Ready | Status::GroupOnly)
    }

    /// Forgets the links of a job that was taken out of its heap or list.
    #[inline(always)]
    pub(super) fn clear_links(&mut self) {
        (self.place, self.next, self.holder) = (NONE, PackedOption::NONE, NONE);
    }

    /// Whether it has a link. A heap does not reset the position of a job that it removes.
    pub(super) fn is_linked(&self) -> bool {
        (self.place, self.next, self.holder) != (NONE, PackedOption::NONE, NONE)
    }

    /// Sets the options of a new job. Its time to live starts now.
    pub(super) fn apply_options(&mut self, options: &JobOptions, now: Now) {
        self.ext_mut_or_insert().set_options(options, now);
    }

    /// Sets the options of a restored job, which expires at `expires`.
    pub(super) fn resume(&mut self, options: &JobOptions, expires: Option<Mono>) {
        let ext = self.ext_mut_or_insert();
        ext.set_options(&JobOptions { ttl_ms: 0, ..*options }, Now::default());
        ext.expires = expires.unwrap_or(NEVER);
    }

    pub(super) fn tie_break(&self) -> TieBreak {
        self.tie_break
    }

    /// Whether it was put with options.
    pub(super) fn counts_leases(&self) -> bool {
        self.ext().is_some_and(|ext| ext.counts_leases)
    }

    /// When its time to live ends.
    pub(super) fn expires(&self) -> Mono {
        self.ext().map_or(NEVER, |ext| ext.expires)
    }

    /// Whether it is no packet and has no rare fields.
    #[inline]
    pub(super) fn is_simple(&self) -> bool {
        self.plain
    }

    #[inline]
    pub(super) fn is_packet(&self) -> bool {
        matches!(self.encoding, Encoding::Packet { .. })
    }

    /// Whether it has no priority of its own.
    pub(super) fn is_group_only(&self) -> bool {
        self.rank == UNSELECTED_RANK
    }

    /// Whether a waiting pop cannot carry it.
    pub(super) fn is_too_large_to_pop(&self) -> bool {
        !self.is_packet() && self.payload().bytes.len() > PACKET_MAX_BYTES
    }

    /// Whether its time to live has ended. That counts only while it waits or goes back to waiting.
    pub(super) fn is_expired(&self, now: Now) -> bool {
        self.ext().is_some_and(|ext| ext.expires <= now.mono)
    }

    /// Whether it waits and is expired: clients no longer see it.
    #[inline]
    pub(super) fn is_expired_waiting(&self, now: Now) -> bool {
        self.is_expired(now) && self.waits()
    }

    /// Whether it is ready, blocked, group-only or delayed.
    pub(super) fn waits(&self) -> bool {
        matches!(self.status, Status::Ready | Status::Blocked | Status::GroupOnly | Status::Delayed)
    }

    pub(super) fn has_ttl(&self) -> bool {
        self.ext().is_some_and(|ext| ext.expires < NEVER)
    }

    /// The heap entry of this job, which is in `slot`.
    pub(super) fn entry(&self, slot: JobIdx) -> HeapEntry<JobIdx> {
        let tie = match self.tie_break {
            TieBreak::Fifo => self.id,
            TieBreak::Lifo => u64::MAX - self.id,
        };
        HeapEntry { rank: self.rank, tie, slot }
    }

    pub(super) fn priority(&self) -> Priority<'_> {
        match self.digits() {
            Some(digits) => Priority::Big(digits),
            None if self.rank == UNSELECTED_RANK => Priority::Unselected,
            None => Priority::Small(number(self.rank)),
        }
    }

    pub(super) fn payload(&self) -> Payload<'_> {
        let bytes = match &self.body {
            Body::Inline(payload) => payload,
            Body::Extended(ext) => ext.payload(),
        };
        Payload { encoding: self.encoding, bytes }
    }

    /// The job as clients see it, with the name of its queue. O(1).
    #[inline]
    pub(super) fn view<'a>(&'a self, queue: &'a [u8]) -> JobView<'a> {
        let (bytes, priority, lease, named) = match &self.body {
            Body::Inline(bytes) if self.rank != UNSELECTED_RANK => {
                (&**bytes, Priority::Small(number(self.rank)), LeaseEpoch(0), false)
            }
            Body::Inline(bytes) => (&**bytes, Priority::Unselected, LeaseEpoch(0), false),
            Body::Extended(ext) => {
                (ext.payload(), self.priority(), ext.lease, self.external_id().is_some())
            }
        };
        JobView {
            id: JobId(self.id),
            queue,
            priority,
            payload: Payload { encoding: self.encoding, bytes },
            lease,
            named,
        }
    }

    /// The key of a packet.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self.encoding {
            Encoding::Packet { key_len } => Some(&self.payload().bytes[..usize::from(key_len)]),
            Encoding::Json | Encoding::JsonLine | Encoding::MsgPack => None,
        }
    }

    /// The packet of a popped job.
    pub(super) fn into_packet(self) -> Packet {
        let key_len = match self.encoding {
            Encoding::Packet { key_len } => key_len,
            Encoding::Json | Encoding::JsonLine | Encoding::MsgPack => 0,
        };
        let bytes = match self.body {
            Body::Inline(payload) => payload,
            Body::Extended(ext) => ext.into_payload(),
        };
        Packet { key_len, bytes }
    }

    #[inline]
    pub(super) fn ext(&self) -> Option<&JobExt> {
        match &self.body {
            Body::Inline(_) => None,
            Body::Extended(ext) => Some(ext),
        }
    }

    #[inline]
    pub(super) fn ext_mut(&mut self) -> Option<&mut JobExt> {
        match &mut self.body {
            Body::Inline(_) => None,
            Body::Extended(ext) => Some(ext),
        }
    }

    /// The rare fields, added if there are none.
    pub(super) fn ext_mut_or_insert(&mut self) -> &mut JobExt {
        self.plain = false;
        if let Body::Inline(payload) = &mut self.body {
            let payload = std::mem::take(payload);
            self.body = Body::Extended(Box::new(JobExt::new(payload)));
        }
        match &mut self.body {
            Body::Extended(ext) => ext,
            Body::Inline(_) => unreachable!("it was added above"),
        }
    }

    pub(super) fn digits(&self) -> Option<&str> {
        self.ext()?.digits.as_deref()
    }

    pub(super) fn work(&self) -> Option<&RunState> {
        self.ext()?.work.as_deref()
    }

    /// When it was put, in Unix seconds.
    pub(super) fn created(&self) -> u32 {
        self.created
    }

    /// Starts the time that the job is ready.
    #[inline(always)]
    pub(super) fn ready_since(&mut self, now: Now) {
        self.since = milliseconds(now);
    }

    /// For how many milliseconds it has been ready.
    #[inline(always)]
    pub(super) fn ready_for(&self, now: Now) -> u32 {
        milliseconds(now).wrapping_sub(self.since)
    }

    /// Whether it has a row, because its queue is indexed.
    #[inline]
    pub(super) fn has_row(&self) -> bool {
        self.row().is_some()
    }

    #[inline]
    pub(super) fn row(&self) -> Option<&Arc<Row>> {
        self.ext()?.row()
    }

    /// Sets the row. The job's payload is the row's from now on.
    pub(super) fn set_row(&mut self, row: Arc<Row>) {
        self.ext_mut_or_insert().set_row(row);
    }

    /// The options that it was put with, without delay and time to live.
    pub(super) fn options(&self) -> JobOptions {
        self.work().map_or_else(JobOptions::default, |work| work.options)
    }

    pub(super) fn retry(&self) -> Option<Retry> {
        self.work()?.options.retry
    }

    pub(super) fn retries(&self) -> u32 {
        self.work().map_or(0, |work| work.retries)
    }

    pub(super) fn retries_left(&self) -> bool {
        self.retry().is_some_and(|retry| self.retries() < retry.limit)
    }

    /// Sets how many retries were made.
    pub(super) fn set_retries(&mut self, retries: u32) {
        if retries != self.retries() {
            self.work_mut().retries = retries;
        }
    }

    pub(super) fn result(&self) -> Option<Payload<'_>> {
        let (encoding, bytes) = self.work()?.result.as_ref()?;
        Some(Payload { encoding: *encoding, bytes })
    }

    /// Stores the result, or the error of the last run.
    pub(super) fn set_result(&mut self, result: Payload<'_>) {
        let work = self.work_mut();
        work.result = Some((result.encoding, result.bytes.into()));
        work.message = None;
    }

    pub(super) fn work_mut(&mut self) -> &mut RunState {
        self.ext_mut_or_insert().work.get_or_insert_default()
    }

    pub(super) fn lease(&self) -> LeaseEpoch {
        self.ext().map_or(LeaseEpoch(0), |ext| ext.lease)
    }

    /// Counts one more reservation, if the job has lease epochs.
    pub(super) fn count_lease(&mut self) {
        if let Some(ext) = self.ext_mut()
            && ext.counts_leases
        {
            ext.lease.0 = ext.lease.0.wrapping_add(1);
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "it wraps")]
#[inline(always)]
fn milliseconds(now: Now) -> u32 {
    (now.mono.0 / 1_000_000) as u32
}
