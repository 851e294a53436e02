//! The table of jobs: one slot of 56 bytes to a job, and its payload.
//!
//! What a job is doing is its [`Status`]; `place` and `next` mean what the status says. What few
//! jobs have sits in a boxed [`Extra`], so that a plain job does not pay for it.

use crate::base::heap::{Entry, Slots, leaves_before};
use crate::base::paged::PagedSlab;
use crate::model::job::{Encoding, Payload, Turn, Urgency};
use std::cmp::Ordering;
use std::ops::{Index, IndexMut};

/// What a job is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It waits in its queue's heap; `place` is its position there.
    Ready,
    /// Client number `holder` works on it; `place` and `next` link the holder's jobs.
    Held,
}

/// One job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    /// Urgency as a heap key: smaller is more urgent, 0 is beyond 64 bits.
    rank: u64,
    body: Body,
    pub(super) queue: u32,
    pub(super) place: u32,
    pub(super) next: u32,
    pub(super) holder: u32,
    pub(super) status: Status,
    turn: Turn,
    encoding: Encoding,
}

/// The payload, alone or with what few jobs have. As large as the payload's own pointer.
#[derive(Debug)]
enum Body {
    Plain(Box<[u8]>),
    Rich(Box<Extra>),
}

/// What few jobs have.
#[derive(Debug)]
struct Extra {
    payload: Box<[u8]>,
    /// The digits of an urgency beyond 64 bits.
    digits: Option<Box<str>>,
}

const _: () = assert!(size_of::<Body>() == 16 && size_of::<Job>() == 56);

/// No slot and no place: the end of a list.
pub(super) const NONE: u32 = u32::MAX;

impl Job {
    pub(super) fn new(
        id: u64,
        queue: u32,
        urgency: Urgency<'_>,
        turn: Turn,
        payload: Payload<'_>,
    ) -> Self {
        let bytes: Box<[u8]> = payload.bytes.into();
        let (rank, body) = match urgency {
            Urgency::Number(number) => (rank(number), Body::Plain(bytes)),
            Urgency::Beyond(digits) => {
                let digits = Some(digits.into());
                (0, Body::Rich(Box::new(Extra { payload: bytes, digits })))
            }
        };
        Self {
            id,
            rank,
            body,
            queue,
            place: NONE,
            next: NONE,
            holder: NONE,
            status: Status::Held,
            turn,
            encoding: payload.encoding,
        }
    }

    /// The key by which this job, in `slot`, stands in a heap.
    pub(super) fn entry(&self, slot: u32) -> Entry {
        let tie = match self.turn {
            Turn::OldestFirst => self.id,
            Turn::NewestFirst => u64::MAX - self.id,
        };
        Entry { rank: self.rank, tie, slot }
    }

    pub(super) fn urgency(&self) -> Urgency<'_> {
        match self.digits() {
            Some(digits) => Urgency::Beyond(digits),
            None => Urgency::Number((!self.rank ^ SIGN).cast_signed()),
        }
    }

    pub(super) fn payload(&self) -> Payload<'_> {
        let bytes = match &self.body {
            Body::Plain(payload) => payload,
            Body::Rich(extra) => &extra.payload,
        };
        Payload { encoding: self.encoding, bytes }
    }

    fn digits(&self) -> Option<&str> {
        match &self.body {
            Body::Plain(_) => None,
            Body::Rich(extra) => extra.digits.as_deref(),
        }
    }
}

const SIGN: u64 = 1 << 63;

/// Turns "bigger is more urgent" into "smaller leaves first". Never 0 for numbers below `i64::MAX`.
fn rank(number: i64) -> u64 {
    assert!(number < i64::MAX, "larger numbers come as digits");
    !(number.cast_unsigned() ^ SIGN)
}

/// All jobs by slot.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    slots: PagedSlab<Job>,
}

impl Jobs {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn insert(&mut self, job: Job) -> u32 {
        self.slots.insert(job)
    }

    pub(super) fn remove(&mut self, slot: u32) {
        let removed = self.slots.remove(slot);
        assert!(removed.is_some(), "a job was removed that is not there");
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Job)> {
        self.slots.iter()
    }

    /// In which order two jobs are handed out.
    pub(super) fn order(&self, a: u32, b: u32) -> Ordering {
        let (first, second) = (self[a].entry(a), self[b].entry(b));
        if leaves_before(&first, &second, self) {
            Ordering::Less
        } else if leaves_before(&second, &first, self) {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }
}

impl Index<u32> for Jobs {
    type Output = Job;
    #[inline]
    fn index(&self, slot: u32) -> &Job {
        &self.slots[slot]
    }
}

impl IndexMut<u32> for Jobs {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Job {
        &mut self.slots[slot]
    }
}

impl Slots for Jobs {
    #[inline]
    fn moved(&mut self, slot: u32, position: u32) {
        self.slots[slot].place = position;
    }

    fn compare_exactly(&self, a: u32, b: u32) -> Ordering {
        // Longer digits without leading zeros are larger; larger is more urgent and leaves first.
        let key = |slot: u32| self[slot].digits().map(|digits| (digits.len(), digits));
        key(b).cmp(&key(a))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(urgency: Urgency<'_>) -> Job {
        let payload = Payload { encoding: Encoding::Json, bytes: b"{}" };
        Job::new(1, 0, urgency, Turn::OldestFirst, payload)
    }

    #[test]
    fn urgencies_come_back_and_sort() {
        let rising = [
            Urgency::Number(i64::MIN),
            Urgency::Number(-1),
            Urgency::Number(0),
            Urgency::Number(i64::MAX - 1),
            Urgency::Beyond("9223372036854775807"),
            Urgency::Beyond("9223372036854775808"),
            Urgency::Beyond("18446744073709551615"),
            Urgency::Beyond("18446744073709551616"),
            Urgency::Beyond("100000000000000000000000000000"),
        ];
        let mut jobs = Jobs::default();
        let slots = rising.map(|urgency| jobs.insert(job(urgency)));
        for (place, (&slot, urgency)) in slots.iter().zip(rising).enumerate() {
            assert_eq!(jobs[slot].urgency(), urgency);
            for &less in &slots[..place] {
                assert_eq!(jobs.order(slot, less), Ordering::Less, "the more urgent leaves first");
                assert_eq!(jobs.order(less, slot), Ordering::Greater);
            }
        }
    }
}
