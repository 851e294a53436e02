//! Naive owners of records: things with a value, each with an id that is never used again. A thing
//! is put, set, and deleted; the journal knows its slot. Things with an odd id have slots from
//! [`UPPER_KEYS`] on, the others from 0 on: so each slot is in use in both ranges of record keys.

use crate::rng::TestRng;
use jobcentre::journal::{RecordRole, UPPER_KEYS};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    pub(crate) slot: u32,
    pub(crate) value: u64,
    pub(crate) size: usize,
}

/// What there is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Harness {
    pub(crate) things: BTreeMap<u64, Thing>,
    /// The ids by slot, in the lower and in the upper range.
    slots: [Vec<Option<u64>>; 2],
    /// The highest id that was given out.
    pub(crate) last_id: u64,
}

fn fill(id: u64, value: u64, size: usize) -> Vec<u8> {
    vec![(id ^ value).to_le_bytes()[0]; size]
}

pub(crate) fn put_record(id: u64, value: u64, size: usize) -> Vec<u8> {
    let mut record = vec![b'P'];
    record.extend(id.to_le_bytes());
    record.extend(value.to_le_bytes());
    record.extend(fill(id, value, size));
    record
}

pub(crate) fn set_record(id: u64, value: u64) -> Vec<u8> {
    let mut record = vec![b'S'];
    record.extend(id.to_le_bytes());
    record.extend(value.to_le_bytes());
    record
}

pub(crate) fn delete_record(id: u64) -> Vec<u8> {
    let mut record = vec![b'D'];
    record.extend(id.to_le_bytes());
    record
}

impl Harness {
    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn id_of(&self, slot: u32) -> u64 {
        let id = match slot.checked_sub(UPPER_KEYS) {
            None => self.slots[0][slot as usize],
            Some(slot) => self.slots[1][slot as usize],
        };
        id.expect("the journal names an owner that is there")
    }

    /// The slots in the range of an id, and the first of them as a record key.
    fn range(&mut self, id: u64) -> (&mut Vec<Option<u64>>, u32) {
        let [lower, upper] = &mut self.slots;
        if id.is_multiple_of(2) { (lower, 0) } else { (upper, UPPER_KEYS) }
    }

    pub(crate) fn pick(&self, rng: &mut TestRng) -> Option<u64> {
        let from = rng.below(usize::try_from(self.last_id).unwrap() + 1) as u64;
        self.things.range(from..).next().or_else(|| self.things.iter().next()).map(|(&id, _)| id)
    }

    /// Does what a record says: when it is written, and when it is read again.
    pub(crate) fn apply(&mut self, record: &[u8]) -> Result<RecordRole, String> {
        let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().unwrap());
        if record.len() < 9 {
            return Err("it is too short".to_owned());
        }
        let id = number(1);
        match record[0] {
            b'P' => {
                let (value, size) = (number(9), record.len() - 17);
                assert_eq!(record[17..], fill(id, value, size), "a record is not what was written");
                self.last_id = self.last_id.max(id);
                let slot = match self.things.get(&id) {
                    Some(thing) => thing.slot,
                    None => self.seat(id),
                };
                self.things.insert(id, Thing { slot, value, size });
                Ok(RecordRole::Base(slot))
            }
            b'S' => {
                if let Some(thing) = self.things.get_mut(&id) {
                    thing.value = number(9);
                }
                Ok(RecordRole::None)
            }
            b'D' => Ok(match self.things.remove(&id) {
                Some(thing) => {
                    let (slots, first) = self.range(id);
                    slots[(thing.slot - first) as usize] = None;
                    RecordRole::Delete(thing.slot)
                }
                None => RecordRole::None,
            }),
            _ => Err(format!("unknown record '{}'", record[0] as char)),
        }
    }

    /// A free slot for a new thing.
    fn seat(&mut self, id: u64) -> u32 {
        let (slots, first) = self.range(id);
        let free = slots.iter().position(Option::is_none);
        let slot = free.unwrap_or(slots.len());
        if slot == slots.len() {
            slots.push(None);
        }
        slots[slot] = Some(id);
        first + u32::try_from(slot).unwrap()
    }

    /// What there is, whatever the slots.
    pub(crate) fn values(&self) -> BTreeMap<u64, (u64, usize)> {
        self.things.iter().map(|(&id, thing)| (id, (thing.value, thing.size))).collect()
    }
}
