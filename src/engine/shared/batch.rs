//! A batch of changes of records on its way to a shared sink: of each field the last change only,
//! so that the order of the fields does not matter.

use super::change::Change;
use super::field::Field;
use std::collections::HashMap;
use std::ops::Range;

/// Changes that are written together or not at all.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Values, one behind the other; those that were replaced, too.
    bytes: Vec<u8>,
    /// The last change of each field: its value, or `None` if it is deleted.
    changes: Vec<(Field, Option<Range<usize>>)>,
    places: HashMap<Field, usize>,
    /// All changes in their order, if they are kept: see [`Change`].
    ordered: Option<Vec<u8>>,
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
        self.bytes.len() + self.changes.len() * 32 + self.ordered().map_or(0, <[u8]>::len)
    }

    /// Keeps all changes in their order, too, from now on. It is empty.
    pub(super) fn keep_order(&mut self) {
        debug_assert!(self.is_empty(), "the order of earlier changes is not known");
        self.ordered = Some(Vec::new());
    }

    /// All changes in their order, if they are kept.
    #[must_use]
    pub(super) fn ordered(&self) -> Option<&[u8]> {
        self.ordered.as_deref()
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
        if let Some(ordered) = &mut self.ordered {
            Change::Set(field, &self.bytes[from..]).push(ordered);
        }
        self.put(field, Some(from..self.bytes.len()));
    }

    /// Deletes a field. Those beside a base record are deleted with it, or before a new one is set.
    pub(super) fn delete(&mut self, field: Field) {
        if let (Some(ordered), Field::Base(id)) = (&mut self.ordered, field) {
            Change::Gone(id).push(ordered);
        }
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
            *self = Self { ordered: self.ordered.take(), ..Self::default() };
        }
        if let Some(ordered) = &mut self.ordered {
            ordered.clear();
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
    fn all_changes_are_kept_in_their_order_if_that_is_asked_for() {
        let mut batch = Batch::default();
        assert_eq!(batch.ordered(), None);
        batch.keep_order();
        batch.set(Field::State(1), |out| out.extend_from_slice(b"one"));
        batch.set(Field::State(1), |out| out.extend_from_slice(b"two"));
        batch.delete(Field::State(1));
        batch.delete(Field::Base(1));
        let mut rest = batch.ordered().unwrap();
        assert_eq!(Change::take(&mut rest), Some(Change::Set(Field::State(1), b"one")));
        assert_eq!(Change::take(&mut rest), Some(Change::Set(Field::State(1), b"two")));
        assert_eq!((Change::take(&mut rest), rest), (Some(Change::Gone(1)), &b""[..]));
        batch.clear();
        assert_eq!(batch.ordered(), Some(&b""[..]));
    }
}
