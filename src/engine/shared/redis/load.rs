//! Reading all records, in parts. The next part is asked for before the last one is taken, so that
//! the node and this server work at the same time.

use super::request::Term;
use super::start::{explain, whole};
use super::{Answer, Calls, Requests, StartError};
use crate::engine::shared::field::Field;
use crate::engine::shared::limits::{PART_BYTES, PART_RECORDS_FIRST, PART_RECORDS_MAX};
use crate::wire::resp::{Raw, Reader, Token};
use std::ops::Range;

/// One of this many parts is asked for by the function that renews the lease, and says whether this
/// server still leads; the others by a plain command, which costs Redis less.
pub(in crate::engine) const PARTS_PER_RENEWAL: usize = 8;

/// All records of the partition.
#[derive(Debug, Default)]
pub struct Loaded {
    bytes: Vec<u8>,
    fields: Vec<(Field, Range<usize>)>,
}

/// Gets the name and the value of a field.
type Take<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), StartError>;

/// How many records are asked for: as many as have about [`PART_BYTES`].
pub(in crate::engine) struct PartSize(usize);

impl Default for PartSize {
    fn default() -> Self {
        Self(PART_RECORDS_FIRST)
    }
}

impl PartSize {
    fn note(&mut self, records: usize, bytes: usize) {
        if records > 0 {
            let fitting = PART_BYTES * records / bytes.max(1);
            self.0 = fitting.clamp(1, PART_RECORDS_MAX);
        }
    }
}

/// The next cursor, how many values follow, and a reader of them.
fn open_part(answer: &[u8]) -> Result<(&[u8], u64, Reader<'_>), StartError> {
    let raw = whole(answer)?;
    if let Some((_, error)) = raw.error() {
        return Err(explain(error));
    }
    let mut reader = raw.reader();
    let _ = reader.token();
    let mut cursor = reader.token();
    // The answer of a function; that of the command begins with the cursor.
    if let Some(Token::Bulk(word)) = cursor
        && word.first().is_none_or(|first| !first.is_ascii_digit())
    {
        check_term(raw)?;
        cursor = reader.token();
    }
    match (cursor, reader.token()) {
        (Some(Token::Bulk(cursor)), Some(list @ (Token::Array(_) | Token::Map(_)))) => {
            Ok((cursor, list.values() / 2, reader))
        }
        _ => Err(StartError::Fatal("what it answers is no part of a hash".to_owned())),
    }
}

fn check_term(raw: Raw<'_>) -> Result<(), StartError> {
    match Answer::read(raw) {
        Answer::Ok(_) => Ok(()),
        Answer::Fenced(name) => Err(StartError::Fenced(name)),
        Answer::Gap { .. } | Answer::Gone => {
            Err(StartError::Passing("its jobs have changed while they were read".into()))
        }
        _ => Err(explain(raw.bytes())),
    }
}

/// Makes the request for a part: its number, its cursor, and about how many records it has.
type Ask<'a> = &'a dyn Fn(usize, &[u8], usize) -> Vec<u8>;

/// Reads a whole hash. `ask` makes the request for the part with this number at this cursor.
pub(super) fn read_hash(
    calls: &mut dyn Calls,
    ask: Ask<'_>,
    take: Take<'_>,
) -> Result<(), StartError> {
    let mut size = PartSize::default();
    calls.send(&ask(0, b"0", size.0))?;
    for number in 1.. {
        let answer = calls.receive()?;
        let (cursor, records, reader) = open_part(&answer)?;
        let is_last = cursor == b"0";
        if !is_last {
            size.note(usize::try_from(records).unwrap_or(usize::MAX), answer.len());
            calls.send(&ask(number, cursor, size.0))?;
        }
        let taken = take_all(reader, records, take);
        if taken.is_err() && !is_last {
            // So that the next answer is that of the next request.
            calls.receive()?;
        }
        taken?;
        if is_last {
            break;
        }
    }
    Ok(())
}

fn take_all(mut reader: Reader<'_>, records: u64, take: Take<'_>) -> Result<(), StartError> {
    for _ in 0..records {
        if let (Some(Token::Bulk(name)), Some(Token::Bulk(value))) =
            (reader.token(), reader.token())
        {
            take(name, value)?;
        }
    }
    Ok(())
}

/// Takes a record.
pub(in crate::engine) type TakeField<'a> =
    &'a mut dyn FnMut(Field, &[u8]) -> Result<(), StartError>;

/// Reads a part of the records as they are now, from this cursor on, and returns the next one.
///
/// # Errors
/// See [`StartError`]; or what `take` returns.
pub(in crate::engine) fn read_part(
    calls: &mut dyn Calls,
    requests: &Requests,
    (bases, cursor, size): (bool, &[u8], &mut PartSize),
    take: TakeField<'_>,
) -> Result<Vec<u8>, StartError> {
    let answer = calls.call(&requests.scan(bases, cursor, size.0))?;
    let (cursor, records, reader) = open_part(&answer)?;
    size.note(usize::try_from(records).unwrap_or(usize::MAX), answer.len());
    take_all(reader, records, &mut |name, value| match Field::read(name, bases) {
        Some(field) => take(field, value),
        None => Ok(()),
    })?;
    Ok(cursor.to_vec())
}

/// Reads all records under a term: those beside base records, and then these; each in any order,
/// and perhaps twice. The lease is renewed meanwhile, and in the end this server leads. O(records).
///
/// # Errors
/// See [`StartError`]; or what `take` returns.
pub(in crate::engine) fn load_into(
    calls: &mut dyn Calls,
    requests: &Requests,
    term: (&[u8], u64),
    take: TakeField<'_>,
) -> Result<(), StartError> {
    let named = Term { birth: term.0.to_vec(), epoch: term.1 };
    for bases in [false, true] {
        let ask = |number: usize, cursor: &[u8], count: usize| {
            if number.is_multiple_of(PARTS_PER_RENEWAL) {
                requests.read(&named, bases, cursor, count)
            } else {
                requests.scan(bases, cursor, count)
            }
        };
        read_hash(calls, &ask, &mut |name, value| match Field::read(name, bases) {
            Some(field) => take(field, value),
            None => Ok(()),
        })?;
    }
    // What was read since the last word of it was read under this term, too.
    requests.renew(calls, term)
}

/// All records under a term, in order. O(records log records).
///
/// # Errors
/// See [`StartError`].
pub fn load(
    calls: &mut dyn Calls,
    requests: &Requests,
    term: (&[u8], u64),
) -> Result<Loaded, StartError> {
    let mut loaded = Loaded::default();
    load_into(calls, requests, term, &mut |field, value| {
        loaded.push(field, value);
        Ok(())
    })?;
    loaded.put_in_order();
    Ok(loaded)
}

impl Requests {
    /// Renews the lease of a term, without a write.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn renew(&self, calls: &mut dyn Calls, term: (&[u8], u64)) -> Result<(), StartError> {
        let term = Term { birth: term.0.to_vec(), epoch: term.1 };
        let answer = calls.call(&self.read(&term, false, b"0", 1))?;
        open_part(&answer).map(|_| ())
    }
}

impl Loaded {
    pub(in crate::engine) fn push(&mut self, field: Field, value: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.fields.push((field, from..self.bytes.len()));
    }

    /// A scan may return a field twice. If no server writes meanwhile, both are the same.
    pub(in crate::engine) fn put_in_order(&mut self) {
        self.fields.sort_unstable_by_key(|&(field, _)| field.place_in_order());
        self.fields.dedup_by_key(|&mut (field, _)| field);
    }

    /// How many records there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Bytes of all records.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// All records: base records by id, each with its state behind it, then events in their order.
    pub(in crate::engine) fn records(&self) -> impl Iterator<Item = (Field, &[u8])> {
        self.fields.iter().map(|(field, value)| (*field, &self.bytes[value.clone()]))
    }

    /// A record, if they are in order. O(log records).
    pub(in crate::engine) fn find(&self, field: Field) -> Option<&[u8]> {
        let key = field.place_in_order();
        let place = self.fields.binary_search_by_key(&key, |&(field, _)| field.place_in_order());
        Some(&self.bytes[self.fields[place.ok()?].1.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::buf::Input;
    use crate::engine::shared::Settings;
    use crate::engine::shared::redis::{Address, CallError};
    use crate::model::driver::Target;
    use crate::wire::resp::{Framer, push_array, push_bulk};
    use std::collections::VecDeque;
    use std::sync::Arc;

    /// A node with this number of jobs, whose records have this number of bytes each.
    struct Node {
        jobs: usize,
        bytes: usize,
        /// Whether each request was one that renews the lease, and for how many records of jobs.
        asked: Vec<(bool, usize)>,
        answers: VecDeque<Vec<u8>>,
    }

    impl Node {
        fn answer(&mut self, words: &[&[u8]]) -> Vec<u8> {
            let number = |word: &[u8]| std::str::from_utf8(word).unwrap().parse::<usize>().unwrap();
            let renews = words[0] == b"FCALL";
            let (cursor, count) = match words {
                [b"FCALL", .., which, cursor, count] => {
                    (number(cursor), if *which == b"jobs" { number(count) } else { 0 })
                }
                [b"HSCAN", key, cursor, b"COUNT", count] => {
                    (number(cursor), if key.ends_with(b":jobs") { number(count) } else { 0 })
                }
                _ => panic!("{words:?} is asked"),
            };
            self.asked.push((renews, count));
            let part = cursor..(cursor + count).min(self.jobs);
            let next = if count == 0 || part.end == self.jobs { 0 } else { part.end };
            let mut out = Vec::new();
            push_array(&mut out, if renews { 3 } else { 2 });
            if renews {
                push_bulk(&mut out, b"OK");
            }
            push_bulk(&mut out, next.to_string().as_bytes());
            let kept: &[&[u8]] = if cursor == 0 { &[b"-", b""] } else { &[] };
            push_array(&mut out, part.len() * 2 + kept.len());
            for word in kept {
                push_bulk(&mut out, word);
            }
            for id in part {
                push_bulk(&mut out, &(id as u64).to_be_bytes());
                push_bulk(&mut out, &vec![7; self.bytes]);
            }
            out
        }
    }

    impl Calls for Node {
        fn send(&mut self, request: &[u8]) -> Result<(), CallError> {
            let raw = Framer::new(1000).next(&mut Input::new(request)).unwrap().unwrap();
            let words: Vec<&[u8]> = raw.elements().map(|word| word.data().unwrap()).collect();
            let answer = self.answer(&words);
            self.answers.push_back(answer);
            Ok(())
        }

        fn receive(&mut self) -> Result<Vec<u8>, CallError> {
            Ok(self.answers.pop_front().expect("an answer is waited for that was not asked for"))
        }
    }

    fn requests() -> Requests {
        let node = Arc::new(Target { host: "h".into(), port: 1, tls: false });
        Requests::new(&Settings::new(Address::Node(node), [1; 8], "n"))
    }

    fn node(jobs: usize, bytes: usize) -> Node {
        Node { jobs, bytes, asked: Vec::new(), answers: VecDeque::new() }
    }

    #[test]
    fn parts_of_large_records_have_few_and_those_of_small_ones_many() {
        for (jobs, bytes, most) in [(40, 300_000, 1), (100, 50_000, 5), (9_000, 10, 2_000)] {
            let mut node = node(jobs, bytes);
            let loaded = load(&mut node, &requests(), (b"b", 1)).unwrap();
            assert_eq!((loaded.len(), loaded.bytes()), (jobs, jobs * bytes));
            let counts: Vec<usize> =
                node.asked.iter().map(|asked| asked.1).filter(|&count| count > 0).collect();
            assert_eq!(counts[0], PART_RECORDS_FIRST);
            assert_eq!(counts[1..].iter().max(), Some(&most), "{counts:?}");
        }
    }

    #[test]
    fn lease_is_renewed_at_times_and_in_the_end() {
        let mut node = node(40, 300_000);
        load(&mut node, &requests(), (b"b", 1)).unwrap();
        assert_eq!(node.asked.last(), Some(&(true, 0)));
        let gaps = node.asked.split(|asked| asked.0).map(<[_]>::len);
        assert_eq!(gaps.max(), Some(PARTS_PER_RENEWAL - 1));
    }

    #[test]
    fn connection_can_be_used_after_a_record_that_is_refused() {
        let mut node = node(40, 300_000);
        let refused = || StartError::Fatal("no".to_owned());
        let loaded = load_into(&mut node, &requests(), (b"b", 1), &mut |_, _| Err(refused()));
        assert_eq!(loaded, Err(refused()));
        assert!(node.answers.is_empty(), "an answer would be taken for that of the next request");
    }
}
