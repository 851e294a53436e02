//! What is done about a partition by hand: it is paused, looked through, and filled from elsewhere.

use super::load::read_hash;
use super::request::Term;
use super::start::{explain, load_library, parts, text, whole};
use super::{Answer, Calls, Loaded, Requests, StartError, Status};
use crate::engine::shared::field::Field;

/// For how long the leader may write after a pause before others may lead.
const LEASE_AFTER_PAUSE_MS: &[u8] = b"3000";

/// What a pause has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// It was paused already.
    pub before: bool,
    /// The name of the server that has led last; empty if it has given the lead back.
    pub leader: String,
}

/// Pauses the partition, or ends that. `None`: there is none.
///
/// # Errors
/// See [`StartError`].
pub fn pause(
    calls: &mut dyn Calls,
    requests: &Requests,
    is_paused: bool,
) -> Result<Option<Paused>, StartError> {
    load_library(calls)?;
    let word: &[u8] = if is_paused { b"1" } else { b"0" };
    let answer = calls.call(&requests.call_with(b"jl_pause", &[word, LEASE_AFTER_PAUSE_MS]))?;
    let parts = parts(&answer)?;
    if parts.first().and_then(|word| word.data()) != Some(b"OK") {
        return Ok(None);
    }
    let before = parts.get(1).and_then(|word| word.data()) == Some(b"1");
    Ok(Some(Paused { before, leader: text(parts.get(2)) }))
}

/// What became of records that were to get other keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adopted {
    /// They have got them.
    Done,
    /// A server leads there.
    Led(String),
    /// There are records.
    Taken,
}

/// The keys of a partition that this server leads get the names of those of another one, which has
/// no records. O(1).
///
/// # Errors
/// See [`StartError`].
pub fn adopt(
    calls: &mut dyn Calls,
    requests: &Requests,
    term: (&[u8], u64),
    to: &Requests,
) -> Result<Adopted, StartError> {
    let term = Term { birth: term.0.to_vec(), epoch: term.1 };
    let answer = calls.call(&requests.adopt(&term, to))?;
    let parts = parts(&answer)?;
    match parts.first().and_then(|word| word.data()) {
        Some(b"OK") => Ok(Adopted::Done),
        Some(b"HELD") => Ok(Adopted::Led(text(parts.get(1)))),
        Some(b"TAKEN") => Ok(Adopted::Taken),
        _ => Err(lost_lead()),
    }
}

fn lost_lead() -> StartError {
    StartError::Fatal("another program has changed these keys meanwhile".to_owned())
}

/// Removes a partition that this server leads.
///
/// # Errors
/// See [`StartError`].
pub fn drop_all(
    calls: &mut dyn Calls,
    requests: &Requests,
    term: (&[u8], u64),
) -> Result<(), StartError> {
    let epoch = term.1.to_string();
    let answer = calls.call(&requests.call_with(b"jl_drop", &[term.0, epoch.as_bytes()]))?;
    let raw = whole(&answer)?;
    match Answer::read(raw) {
        Answer::Ok(_) => Ok(()),
        _ => Err(raw.error().map_or_else(lost_lead, |(_, text)| explain(text))),
    }
}

/// All fields of a partition, as they were found.
#[derive(Debug, Default)]
pub struct Scanned {
    /// Those whose names are of records.
    pub loaded: Loaded,
    /// The names of others, but for the one that keeps a hash from being empty.
    pub unknown: Vec<Vec<u8>>,
    /// Hashes in which that one is missing.
    pub unkept: usize,
}

/// Reads all fields, whether a server leads or not. O(records).
///
/// # Errors
/// See [`StartError`].
pub fn scan(calls: &mut dyn Calls, requests: &Requests) -> Result<Scanned, StartError> {
    let mut scanned = Scanned::default();
    for bases in [true, false] {
        let mut is_kept = false;
        let ask = |_, cursor: &[u8], count| requests.scan(bases, cursor, count);
        read_hash(calls, &ask, &mut |name, value| {
            match Field::read(name, bases) {
                Some(field) => scanned.loaded.push(field, value),
                None if name == b"-" => is_kept = true,
                None if scanned.unknown.len() < UNKNOWN_MAX => scanned.unknown.push(name.to_vec()),
                None => {}
            }
            Ok(())
        })?;
        scanned.unkept += usize::from(!is_kept);
    }
    scanned.loaded.put_in_order();
    Ok(scanned)
}

/// Names that are kept to be shown.
const UNKNOWN_MAX: usize = 20;

impl Status {
    /// A field of the meta; empty if it is not there.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        let found = self.meta.iter().find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The name of the server whose lease has not ended.
    #[must_use]
    pub fn leader(&self) -> Option<&str> {
        let until: u64 = self.value("until").parse().unwrap_or(0);
        Some(self.value("name")).filter(|name| until >= self.now && !name.is_empty())
    }

    /// Whether nothing is to be written.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        !self.value("paused").is_empty()
    }
}
