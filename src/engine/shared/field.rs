//! Names of the fields that hold records in a shared sink.

use crate::model::id::JobId;

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

#[cfg(test)]
mod tests {
    use super::*;

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
