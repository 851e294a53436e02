//! Changes of records in their order, as a leader that offers its lead tells them to the server
//! that follows it.

use super::field::Field;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Change<'a> {
    /// This field has this record. Beside a new base record there is nothing.
    Set(Field, &'a [u8]),
    /// The base record with this id is gone, and what was beside it.
    Gone(u64),
}

const BASE: u8 = 0;
const STATE: u8 = 1;
const EVENT: u8 = 2;
const GONE: u8 = 3;

/// Appends the head of a change to a field: its kind and its id, for an event its number.
fn push_field(out: &mut Vec<u8>, field: Field) {
    out.push(match field {
        Field::Base(_) => BASE,
        Field::State(_) => STATE,
        Field::Event(..) => EVENT,
    });
    field.write(out);
}

impl<'a> Change<'a> {
    /// Appends its bytes: a record has its length in 4 bytes before it.
    ///
    /// # Panics
    /// If a record has 4 GiB.
    pub(in crate::engine::shared) fn push(self, out: &mut Vec<u8>) {
        match self {
            Self::Gone(id) => {
                out.push(GONE);
                out.extend_from_slice(&id.to_be_bytes());
            }
            Self::Set(field, record) => {
                push_field(out, field);
                let length = u32::try_from(record.len()).expect("a record has less than 4 GiB");
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(record);
            }
        }
    }

    /// Takes the next change from `bytes`, which are not empty. `None`: they are damaged.
    pub(in crate::engine) fn take(bytes: &mut &'a [u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let (name, rest) = rest.split_at_checked(if kind == EVENT { 12 } else { 8 })?;
        if kind == GONE {
            *bytes = rest;
            return Some(Self::Gone(u64::from_be_bytes(name.try_into().ok()?)));
        }
        if kind > EVENT {
            return None;
        }
        let field = Field::read(name, kind == BASE)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (record, rest) = rest.split_at_checked(length)?;
        *bytes = rest;
        Some(Self::Set(field, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_back_and_what_is_cut_is_none() {
        let changes = [
            Change::Set(Field::Base(7), b"base"),
            Change::Set(Field::State(u64::MAX), b""),
            Change::Gone(7),
            Change::Set(Field::Event(7, 9), b"event"),
        ];
        let mut bytes = Vec::new();
        for change in changes {
            let from = bytes.len();
            change.push(&mut bytes);
            for end in from + 1..bytes.len() {
                let mut cut = &bytes[from..end];
                assert_eq!(Change::take(&mut cut), None, "{change:?} cut at {end}");
            }
        }
        let mut rest = &bytes[..];
        for change in changes {
            assert_eq!(Change::take(&mut rest), Some(change));
        }
        assert!(rest.is_empty());
        assert_eq!(Change::take(&mut &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]), None);
    }
}
