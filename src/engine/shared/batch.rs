//! A batch of changes of records on its way to a shared sink: of each field the last change only,
//! so that the order of the fields does not matter.

use crate::model::id::JobId;
use std::collections::HashMap;
use std::ops::Range;

/// What a record is to the job, queue, worker or constraint with this id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Place {
    /// Its base record, which replaces all earlier ones.
    Base(JobId),
    /// Its state, which replaces an earlier one.
    State(JobId),
    /// One more event.
    Event(JobId),
    /// It is gone, with all of its records.
    Gone(JobId),
}

/// A field that holds one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::engine) enum Field {
    /// The base record with this id.
    Base(u64),
    /// Its newest state, if there is one beside that.
    State(u64),
    /// An event beside it, counted from 0.
    Event(u64, u32),
}

impl Field {
    /// Whether it is a base record.
    #[must_use]
    pub(in crate::engine) fn is_base(self) -> bool {
        matches!(self, Self::Base(_))
    }

    /// Where it stands among all that are read: a state behind its base record, and events last.
    pub(in crate::engine) fn place_in_order(self) -> (bool, u64, Self) {
        let (Self::Base(id) | Self::State(id) | Self::Event(id, _)) = self;
        (matches!(self, Self::Event(..)), id, self)
    }

    /// Appends its name: the id in 8 bytes, for an event its number in 4.
    pub(in crate::engine) fn write(self, out: &mut Vec<u8>) {
        let (Self::Base(id) | Self::State(id) | Self::Event(id, _)) = self;
        out.extend_from_slice(&id.to_be_bytes());
        if let Self::Event(_, number) = self {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }

    /// The field of a name. `None`: it is none, as the one is that keeps a hash from being empty.
    #[must_use]
    pub(in crate::engine) fn read(name: &[u8], is_base: bool) -> Option<Self> {
        let (id, number) = name.split_first_chunk::<8>()?;
        let id = u64::from_be_bytes(*id);
        match number {
            [] if is_base => Some(Self::Base(id)),
            [] => Some(Self::State(id)),
            &[a, b, c, d] if !is_base => Some(Self::Event(id, u32::from_be_bytes([a, b, c, d]))),
            _ => None,
        }
    }
}

/// Changes that are written together or not at all.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Values, one behind the other; those that were replaced, too.
    bytes: Vec<u8>,
    /// The last change of each field: its value, or `None` if it is deleted.
    changes: Vec<(Field, Option<Range<usize>>)>,
    places: HashMap<Field, usize>,
}

impl Batch {
    /// Whether nothing changes.
    #[must_use]
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// About how many bytes it has. O(1).
    #[must_use]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + self.changes.len() * 32
    }

    /// Fields that change.
    #[must_use]
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// Sets a field to what `write` appends.
    pub(super) fn set(&mut self, field: Field, write: impl FnOnce(&mut Vec<u8>)) {
        let from = self.bytes.len();
        write(&mut self.bytes);
        self.put(field, Some(from..self.bytes.len()));
    }

    /// Deletes a field.
    pub(super) fn delete(&mut self, field: Field) {
        self.put(field, None);
    }

    fn put(&mut self, field: Field, value: Option<Range<usize>>) {
        let place = *self.places.entry(field).or_insert(self.changes.len());
        debug_assert!(place <= self.changes.len(), "fields get their places one after the other");
        match self.changes.get_mut(place) {
            Some(change) => {
                debug_assert_eq!(change.0, field, "a field has one place in a batch");
                change.1 = value;
            }
            None => self.changes.push((field, value)),
        }
        debug_assert_eq!(self.places.len(), self.changes.len(), "a field changes twice in a batch");
    }

    /// The fields that are set, with their values.
    pub(super) fn sets(&self, bases: bool) -> impl Iterator<Item = (Field, &[u8])> {
        self.changes.iter().filter_map(move |(field, value)| {
            let value = value.clone().filter(|_| field.is_base() == bases)?;
            Some((*field, &self.bytes[value]))
        })
    }

    /// The fields that are deleted.
    pub(super) fn deletes(&self, bases: bool) -> impl Iterator<Item = Field> {
        let is_deleted = move |(field, value): &&(Field, Option<Range<usize>>)| {
            value.is_none() && field.is_base() == bases
        };
        self.changes.iter().filter(is_deleted).map(|&(field, _)| field)
    }

    /// Empties it. Its memory is kept unless it is large.
    pub(super) fn clear(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES || self.changes.capacity() > KEPT_BYTES / 64 {
            *self = Self::default();
        }
        self.bytes.clear();
        self.changes.clear();
        self.places.clear();
    }
}

/// Memory that an empty batch keeps.
const KEPT_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_change_of_a_field_counts() {
        let mut batch = Batch::default();
        batch.set(Field::Base(1), |out| out.extend_from_slice(b"one"));
        batch.set(Field::State(1), |out| out.extend_from_slice(b"state"));
        batch.set(Field::Base(1), |out| out.extend_from_slice(b"other"));
        batch.delete(Field::State(1));
        batch.delete(Field::Event(1, 0));
        batch.delete(Field::Base(2));
        assert_eq!(batch.len(), 4);
        let sets: Vec<_> = batch.sets(true).collect();
        assert_eq!(sets, [(Field::Base(1), &b"other"[..])]);
        assert_eq!(batch.sets(false).count(), 0);
        assert_eq!(batch.deletes(true).collect::<Vec<_>>(), [Field::Base(2)]);
        let more: Vec<_> = batch.deletes(false).collect();
        assert_eq!(more, [Field::State(1), Field::Event(1, 0)]);
        batch.clear();
        assert!(batch.is_empty() && batch.bytes() == 0);
    }

    #[test]
    fn names_of_fields_are_read_back() {
        for field in [Field::Base(u64::MAX), Field::State(7), Field::Event(7, 9)] {
            let mut name = Vec::new();
            field.write(&mut name);
            assert_eq!(Field::read(&name, field.is_base()), Some(field));
        }
        for (name, is_base) in [(&b"-"[..], true), (b"-", false), (b"012345678901", true)] {
            assert_eq!(Field::read(name, is_base), None, "{name:?}");
        }
    }
}
