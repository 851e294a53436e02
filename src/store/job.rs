//! A job: a slot of 40 bytes in the job table, and its payload.
//!
//! Three words say where the job is linked. They mean what its [`Status`] says, and are
//! read and written by methods that each belong to some statuses only. Rarely used fields are in a
//! boxed [`JobExt`].

use super::JOBS_MAX;
use super::idx::{Holder, JobIdx, QueueIdx};
use super::job_ext::{JobExt, NEVER, RunState};
use super::payload_head::PayloadHead;
use super::rank::{UNSELECTED_RANK, number, rank, rank_of_digits};
use crate::base::heap::HeapEntry;
use crate::base::limits::{JOB_ID_END, PACKET_MAX_BYTES};
use crate::base::slab_index::{PackedOption, SlabIndex};
use crate::base::thin::{Either, ThinOrBox};
use crate::base::time::{Mono, Now};
use crate::model::id::JobId;
use crate::model::job::{
    Encoding, JobOptions, LeaseEpoch, Packet, Payload, Priority, Status, TieBreak,
};
use crate::model::reply::JobView;
use crate::model::row::Row;
use std::sync::Arc;

/// One job.
///
/// | status | place | `next` | `holder` |
/// |---|---|---|---|
/// | Ready | position in its queue's heap | next older packet of its key | what is newer |
/// | Blocked | position in the heap of its job class | - | - |
/// | `GroupOnly` | - | as for Ready | as for Ready |
/// | Reserved | previous job of the same holder | next one | client, or detached worker |
/// | Buried | job buried before it | job buried after it | burial number |
/// | Popped | - | - | - |
///
/// The place is not in the slot but beside it, in an array of places: a job that leaves a heap
/// moves others, whose slots are in no cache. [`Jobs`](super::jobs::Jobs) reads and sets it.
/// [`Job::older_packet`] and [`Job::newer_packet`] read the links in a key group, [`Job::next`] and
/// [`Job::holder`] those in a list.
#[derive(Debug)]
pub(super) struct Job {
    /// Its id, and above it [`STATUS_SHIFT`], [`PLAIN`] and [`LIFO`].
    pub(super) id_and_flags: u64,
    /// Priority as a heap key: smaller is more urgent; 0 for those beyond 64 bits. With
    /// [`LEASED`] what [`Job::rank`] unpacks.
    pub(super) rank: u64,
    /// The payload, alone or with the rare fields.
    pub(super) body: ThinOrBox<JobExt, 7>,
    pub(super) queue: QueueIdx,
    next: PackedOption<JobIdx>,
    pub(super) holder: u32,
    /// When it became ready last, in milliseconds of the monotonic clock, wrapping.
    pub(super) since: u32,
}

const _: () = assert!(size_of::<Job>() == 40);
const _: () = assert!(size_of::<Option<Job>>() == 40, "a vacant slot costs no tag");

/// Where the status begins in `id_and_flags`: three bits.
const STATUS_SHIFT: u32 = 53;
const STATUS: u64 = 7 << STATUS_SHIFT;
/// Whether the job is no packet and has no [`JobExt`]: no structure but the ready heap has to be
/// updated when it is enqueued or unlinked.
pub(super) const PLAIN: u64 = 1 << 56;
const LIFO: u64 = 1 << 57;
/// Whether its lease is in the head of its payload. A job may be simple with it; when it is
/// reserved it has a deadline, which is a rare field.
pub(super) const SHORT_LEASE: u64 = 1 << 58;
/// Whether its first lease runs, whose deadline is in the slot: see `short_lease`. It has no
/// [`JobExt`], and is not simple.
pub(super) const LEASED: u64 = 1 << 59;

const _: () = assert!(JOB_ID_END <= 1 << STATUS_SHIFT, "an id would be taken for a status");

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
        (payload, lease_s): (Payload<'_>, u16),
        now: Now,
    ) -> Self {
        let stored = PayloadHead::at(now.wall, payload.encoding, lease_s).store(payload.bytes);
        let (rank, body) = match priority {
            Priority::Small(number) => (rank(number), ThinOrBox::bytes(stored)),
            Priority::Unselected => (UNSELECTED_RANK, ThinOrBox::bytes(stored)),
            Priority::Big(digits) => {
                let ext = JobExt { digits: Some(digits.into()), ..JobExt::new(stored) };
                (rank_of_digits(digits), ThinOrBox::boxed(Box::new(ext)))
            }
        };
        let plain = matches!(priority, Priority::Small(_))
            && !matches!(payload.encoding, Encoding::Packet { .. });
        debug_assert!(id < JOB_ID_END, "an id is below 2^53");
        let flags = if plain { PLAIN } else { 0 };
        let lifo = if tie_break == TieBreak::Lifo { LIFO } else { 0 };
        let lease = if lease_s > 0 { SHORT_LEASE } else { 0 };
        Self {
            id_and_flags: id | status_bits(Status::Reserved) | flags | lifo | lease,
            rank,
            body,
            queue,
            next: PackedOption::NONE,
            holder: NONE,
            since: 0,
        }
    }

    #[inline(always)]
    pub(super) fn id(&self) -> u64 {
        self.id_and_flags & ((1 << STATUS_SHIFT) - 1)
    }

    #[inline(always)]
    pub(super) fn status(&self) -> Status {
        match (self.id_and_flags & STATUS) >> STATUS_SHIFT {
            0 => Status::Ready,
            1 => Status::Blocked,
            2 => Status::GroupOnly,
            3 => Status::Delayed,
            4 => Status::Reserved,
            5 => Status::Completed,
            6 => Status::Buried,
            _ => Status::Popped,
        }
    }

    #[inline(always)]
    pub(super) fn set_status(&mut self, status: Status) {
        debug_assert!(!self.is_linked(), "links mean what the status says: they are cleared first");
        self.id_and_flags = self.id_and_flags & !STATUS | status_bits(status);
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

    pub(super) fn is_in_heap(&self) -> bool {
        matches!(self.status(), Status::Ready | Status::Blocked)
    }

    pub(super) fn is_in_list(&self) -> bool {
        matches!(self.status(), Status::Reserved | Status::Buried)
    }

    /// Who has reserved the job.
    #[inline(always)]
    pub(super) fn holder(&self) -> Holder {
        debug_assert_eq!(self.status(), Status::Reserved, "only reserved jobs have a holder");
        Holder::from_bits(self.holder)
    }

    #[inline(always)]
    pub(super) fn set_holder(&mut self, holder: Holder) {
        debug_assert_eq!(self.status(), Status::Reserved, "only reserved jobs have a holder");
        self.holder = holder.bits();
    }

    /// Whether a reserved job has this holder; of other jobs it says nothing.
    #[inline(always)]
    pub(super) fn has_holder(&self, holder: Holder) -> bool {
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
        self.is_packet() && matches!(self.status(), Status::Ready | Status::GroupOnly)
    }

    /// Forgets the links of a job that was taken out of its heap or list, but for its place.
    #[inline(always)]
    pub(super) fn clear_links(&mut self) {
        (self.next, self.holder) = (PackedOption::NONE, NONE);
    }

    /// Whether it has a link.
    pub(super) fn is_linked(&self) -> bool {
        (self.next, self.holder) != (PackedOption::NONE, NONE)
    }

    /// Sets the options of a new job. Its time to live starts now.
    pub(super) fn apply_options(&mut self, options: &JobOptions, now: Now) {
        debug_assert!(!self.is_linked(), "a new job gets its options before its place");
        self.ext_mut_or_insert().set_options(options, now);
    }

    /// Sets the options of a restored job, which expires at `expires`.
    pub(super) fn resume(&mut self, options: &JobOptions, expires: Option<Mono>) {
        let ext = self.ext_mut_or_insert();
        debug_assert!(ext.timer.is_none(), "a restored job has its options before a deadline");
        ext.set_options(&JobOptions { ttl_ms: 0, ..*options }, Now::default());
        ext.expires = expires.unwrap_or(NEVER);
    }

    #[inline]
    pub(super) fn tie_break(&self) -> TieBreak {
        if self.id_and_flags & LIFO == 0 { TieBreak::Fifo } else { TieBreak::Lifo }
    }

    /// Whether it was put with options.
    pub(super) fn counts_leases(&self) -> bool {
        self.has_short_lease() || self.ext().is_some_and(|ext| ext.counts_leases)
    }

    /// When its time to live ends.
    pub(super) fn expires(&self) -> Mono {
        self.ext().map_or(NEVER, |ext| ext.expires)
    }

    /// Whether it is no packet and has no rare fields.
    #[inline]
    pub(super) fn is_simple(&self) -> bool {
        self.id_and_flags & PLAIN != 0
    }

    #[inline]
    pub(super) fn is_packet(&self) -> bool {
        !self.is_simple() && matches!(self.payload().encoding, Encoding::Packet { .. })
    }

    /// Whether it has no priority of its own.
    pub(super) fn is_group_only(&self) -> bool {
        self.rank() == UNSELECTED_RANK && self.digits().is_none()
    }

    /// Whether a waiting pop cannot carry it.
    pub(super) fn is_too_large_to_pop(&self) -> bool {
        !self.is_packet() && self.payload().bytes.len() > PACKET_MAX_BYTES
    }

    /// Whether its time to live has ended. That counts only while it waits or goes back to waiting.
    pub(super) fn is_expired(&self, now: Now) -> bool {
        self.ext().is_some_and(|ext| ext.expires <= now.mono)
    }

    /// It has no time to live any more.
    pub(super) fn end_ttl(&mut self) {
        debug_assert!(self.has_ttl(), "a time to live ends that the job does not have");
        self.ext_mut_or_insert().expires = NEVER;
    }

    /// Whether it waits and is expired: clients no longer see it.
    #[inline]
    pub(super) fn is_expired_waiting(&self, now: Now) -> bool {
        self.is_expired(now) && self.waits()
    }

    /// Whether it is ready, blocked, group-only or delayed.
    pub(super) fn waits(&self) -> bool {
        matches!(
            self.status(),
            Status::Ready | Status::Blocked | Status::GroupOnly | Status::Delayed
        )
    }

    pub(super) fn has_ttl(&self) -> bool {
        self.ext().is_some_and(|ext| ext.expires < NEVER)
    }

    /// The heap entry of this job, which is in `slot`.
    pub(super) fn entry(&self, slot: JobIdx) -> HeapEntry<JobIdx> {
        let tie = match self.tie_break() {
            TieBreak::Fifo => self.id(),
            TieBreak::Lifo => u64::MAX - self.id(),
        };
        debug_assert!(!self.is_leased(), "a reserved job is in no heap");
        HeapEntry { rank: self.rank, tie, slot }
    }

    pub(super) fn priority(&self) -> Priority<'_> {
        match self.digits() {
            Some(digits) => Priority::Big(digits),
            None if self.rank() == UNSELECTED_RANK => Priority::Unselected,
            None => Priority::Small(number(self.rank())),
        }
    }

    /// Changes the priority of an unlinked job.
    pub(super) fn set_priority(&mut self, priority: Priority<'_>) {
        debug_assert!(!self.is_in_heap(), "a heap orders its jobs by their priorities");
        self.unpack_timer();
        let digits = match priority {
            Priority::Big(digits) => Some(digits),
            Priority::Small(_) | Priority::Unselected => None,
        };
        if digits.is_some() || self.digits().is_some() {
            self.ext_mut_or_insert().digits = digits.map(Into::into);
        }
        self.rank = match priority {
            Priority::Small(number) => rank(number),
            Priority::Big(digits) => rank_of_digits(digits),
            Priority::Unselected => {
                self.id_and_flags &= !PLAIN;
                UNSELECTED_RANK
            }
        };
    }

    #[inline]
    pub(super) fn payload(&self) -> Payload<'_> {
        match self.body.get() {
            Either::Bytes(payload) => PayloadHead::of(payload).payload(payload),
            Either::Boxed(ext) => ext.payload(),
        }
    }

    /// Where the payload, or what leads to it, begins: to prefetch it. Reads the slot only.
    #[inline]
    pub(super) fn payload_address(&self) -> *const u8 {
        self.body.address()
    }

    /// The job as clients see it, with the name of its queue. O(1).
    #[inline]
    pub(super) fn view<'a>(&'a self, queue: &'a [u8]) -> JobView<'a> {
        let (payload, priority, lease, named) = match self.body.get() {
            Either::Bytes(payload) => {
                let payload = PayloadHead::of(payload).payload(payload);
                let priority = match self.rank() {
                    UNSELECTED_RANK => Priority::Unselected,
                    rank => Priority::Small(number(rank)),
                };
                (payload, priority, LeaseEpoch(u32::from(self.is_leased())), false)
            }
            Either::Boxed(ext) => {
                (ext.payload(), self.priority(), ext.lease, self.external_id().is_some())
            }
        };
        JobView { id: JobId(self.id()), queue, priority, payload, lease, named }
    }

    /// The key of a packet.
    pub(super) fn key(&self) -> Option<&[u8]> {
        let payload = self.payload();
        match payload.encoding {
            Encoding::Packet { key_len } => Some(&payload.bytes[..usize::from(key_len)]),
            Encoding::Json | Encoding::JsonLine | Encoding::MsgPack | Encoding::Bytes => None,
        }
    }

    /// The packet of a popped job.
    pub(super) fn into_packet(self) -> Packet {
        let key_len = self.payload().encoding.key_len();
        let bytes = match self.body.into_either() {
            Either::Bytes(payload) => payload,
            Either::Boxed(ext) => ext.into_payload(),
        };
        Packet::new(key_len, bytes)
    }

    #[inline]
    pub(super) fn ext(&self) -> Option<&JobExt> {
        self.body.get_boxed()
    }

    #[inline]
    pub(super) fn ext_mut(&mut self) -> Option<&mut JobExt> {
        self.body.get_boxed_mut()
    }

    /// The rare fields, added if there are none.
    pub(super) fn ext_mut_or_insert(&mut self) -> &mut JobExt {
        if self.is_leased() {
            self.unpack_timer();
        }
        self.id_and_flags &= !PLAIN;
        self.body.boxed_with(JobExt::new)
    }

    pub(super) fn digits(&self) -> Option<&str> {
        self.ext()?.digits.as_deref()
    }

    pub(super) fn work(&self) -> Option<&RunState> {
        self.ext()?.work.as_deref()
    }

    /// When it was put, in Unix seconds; 0 if it has a row, which says so.
    pub(super) fn created(&self) -> u32 {
        match self.body.get() {
            Either::Bytes(payload) => PayloadHead::of(payload).created,
            Either::Boxed(ext) => ext.created(),
        }
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
        self.unpack_lease();
        self.ext_mut_or_insert().set_row(row);
    }

    pub(super) fn work_mut(&mut self) -> &mut RunState {
        self.unpack_lease();
        self.ext_mut_or_insert().work.get_or_insert_default()
    }
}

#[inline(always)]
fn status_bits(status: Status) -> u64 {
    let bits: u64 = match status {
        Status::Ready => 0,
        Status::Blocked => 1,
        Status::GroupOnly => 2,
        Status::Delayed => 3,
        Status::Reserved => 4,
        Status::Completed => 5,
        Status::Buried => 6,
        Status::Popped => 7,
    };
    bits << STATUS_SHIFT
}

#[expect(clippy::cast_possible_truncation, reason = "it wraps")]
#[inline(always)]
fn milliseconds(now: Now) -> u32 {
    (now.mono.0 / 1_000_000) as u32
}
