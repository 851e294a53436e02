//! Jobs as bytes, for the journal: what has become of a job, not what was asked.
//!
//! ```text
//! record  = kind u8, then
//!   1 job    id, flags u8, queue text, urgency, payload text,
//!            [terms: lease, keep, bury, [limit u32, first, factor, max, jitter u8]],
//!            [expires moment], [state]
//!   2 state  id, state
//!   3 gone   id
//! state   = stage u8, [moment], retries, result flag u8, [text]
//! flags   = bits 0-1 urgency: 0 number, 1 digits, 2 never; bit 2 newest first; bits 3-4
//!           encoding: 0 JSON, 1 JSON line, 2 packet (then its key's length stands before the
//!           payload), 3 MessagePack; bit 5 terms; bit 6 expires; bit 7 state
//! text    = length, bytes; numbers without a width are LEB128, signed ones zigzag
//! moment  = milliseconds of the wall clock since 1970
//! ```
//!
//! Moments count on the wall clock, because the monotonic one begins anew with each start. A record
//! that is no record is an error value; bytes from disk never panic.

use crate::base::time::{Mono, Now};
use crate::model::id::JobId;
use crate::model::job::{Encoding, Payload, Retry, Terms, Turn, Urgency};
use crate::model::snapshot::{Record, Snapshot, Stage, State};
use std::fmt;
use std::time::Duration;

const JOB: u8 = 1;
const STATE: u8 = 2;
const GONE: u8 = 3;

const DIGITS: u8 = 1;
const NEVER: u8 = 2;
const NEWEST_FIRST: u8 = 1 << 2;
const ENCODING_SHIFT: u8 = 3;
const HAS_TERMS: u8 = 1 << 5;
const EXPIRES: u8 = 1 << 6;
const HAS_STATE: u8 = 1 << 7;

const WAITING: u8 = 0;
const DELAYED: u8 = 1;
const KEPT: u8 = 2;
const BURIED: u8 = 3;
const BURIED_FOR_A_WHILE: u8 = 4;

const JSON: u8 = 0;
const JSON_LINE: u8 = 1;
const PACKET: u8 = 2;
const MSGPACK: u8 = 3;

const FRESH: State<'static> = State { stage: Stage::Waiting, retries: 0, result: None };

fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn push_moment(out: &mut Vec<u8>, at: Mono, now: Now) {
    let ahead = u64::try_from(at.until(now.mono).as_nanos().div_ceil(1_000_000));
    let behind = u64::try_from(now.mono.until(at).as_millis()).unwrap_or(u64::MAX);
    let wall = now.wall.0.saturating_add(ahead.unwrap_or(u64::MAX)).saturating_sub(behind);
    push_number(out, wall);
}

fn encoding_code(encoding: Encoding) -> u8 {
    match encoding {
        Encoding::Json => JSON,
        Encoding::JsonLine => JSON_LINE,
        Encoding::Packet { .. } => PACKET,
        Encoding::MsgPack => MSGPACK,
    }
}

fn push_payload(out: &mut Vec<u8>, payload: Payload<'_>) {
    if let Encoding::Packet { key_len } = payload.encoding {
        push_number(out, u64::from(key_len));
    }
    push_text(out, payload.bytes);
}

fn push_terms(out: &mut Vec<u8>, terms: &Terms) {
    for length in [terms.lease_ms, terms.keep_ms, terms.bury_ms] {
        push_number(out, length);
    }
    match &terms.retry {
        None => out.push(0),
        Some(retry) => {
            out.push(1);
            push_number(out, u64::from(retry.limit));
            push_number(out, retry.first_ms);
            push_number(out, u64::from(retry.factor));
            push_number(out, retry.max_ms);
            out.push(retry.jitter_percent);
        }
    }
}

fn push_state(out: &mut Vec<u8>, state: &State<'_>, now: Now) {
    let (code, moment) = match state.stage {
        Stage::Waiting => (WAITING, None),
        Stage::Delayed(at) => (DELAYED, Some(at)),
        Stage::Kept(at) => (KEPT, Some(at)),
        Stage::Buried(None) => (BURIED, None),
        Stage::Buried(Some(at)) => (BURIED_FOR_A_WHILE, Some(at)),
    };
    out.push(code);
    if let Some(at) = moment {
        push_moment(out, at, now);
    }
    push_number(out, u64::from(state.retries));
    match state.result {
        None => out.push(0),
        Some(result) => {
            out.push(1 + encoding_code(result.encoding));
            push_payload(out, result);
        }
    }
}

/// Appends a record. O(bytes).
pub(super) fn write(record: &Record<'_>, now: Now, out: &mut Vec<u8>) {
    match record {
        Record::Job(job) => write_job(job, now, out),
        Record::State(id, state) => {
            out.push(STATE);
            push_number(out, id.0);
            push_state(out, state, now);
        }
        Record::Gone(id) => {
            out.push(GONE);
            push_number(out, id.0);
        }
    }
}

fn write_job(job: &Snapshot<'_>, now: Now, out: &mut Vec<u8>) {
    out.push(JOB);
    push_number(out, job.id.0);
    let mut flags = encoding_code(job.payload.encoding) << ENCODING_SHIFT;
    flags |= match job.urgency {
        Urgency::Number(_) => 0,
        Urgency::Beyond(_) => DIGITS,
        Urgency::Never => NEVER,
    };
    flags |= if job.turn == Turn::NewestFirst { NEWEST_FIRST } else { 0 };
    flags |= if job.terms.is_some() { HAS_TERMS } else { 0 };
    flags |= if job.expires.is_some() { EXPIRES } else { 0 };
    flags |= if job.state == FRESH { 0 } else { HAS_STATE };
    out.push(flags);
    push_text(out, job.queue);
    match job.urgency {
        Urgency::Number(number) => {
            push_number(out, (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
        }
        Urgency::Beyond(digits) => push_text(out, digits.as_bytes()),
        Urgency::Never => {}
    }
    push_payload(out, job.payload);
    if let Some(terms) = &job.terms {
        push_terms(out, terms);
    }
    if let Some(at) = job.expires {
        push_moment(out, at, now);
    }
    if job.state != FRESH {
        push_state(out, &job.state, now);
    }
}

/// What is wrong with bytes that are no record: where, counted from the record's begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRecord {
    pub(super) at: usize,
}

impl fmt::Display for NoRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of a record makes no sense", self.at)
    }
}

/// Takes numbers and texts from the front of a record.
struct Reader<'a> {
    rest: &'a [u8],
    whole: usize,
    now: Now,
}

type Read<T> = Result<T, NoRecord>;

impl<'a> Reader<'a> {
    fn wrong<T>(&self) -> Read<T> {
        Err(NoRecord { at: self.whole - self.rest.len() })
    }

    #[inline]
    fn byte(&mut self) -> Read<u8> {
        let Some((&first, rest)) = self.rest.split_first() else { return self.wrong() };
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    fn number(&mut self) -> Read<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return self.wrong();
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        self.wrong()
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Read<T> {
        let number = self.number()?;
        T::try_from(number).or_else(|_| self.wrong())
    }

    #[inline]
    fn text(&mut self) -> Read<&'a [u8]> {
        let length: usize = self.small()?;
        if length > self.rest.len() {
            return self.wrong();
        }
        let (text, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(text)
    }

    fn moment(&mut self) -> Read<Mono> {
        let ahead = self.number()?.saturating_sub(self.now.wall.0);
        Ok(self.now.mono.after(Duration::from_millis(ahead)))
    }

    #[inline]
    fn payload(&mut self, code: u8) -> Read<Payload<'a>> {
        let encoding = match code {
            JSON => Encoding::Json,
            JSON_LINE => Encoding::JsonLine,
            PACKET => Encoding::Packet { key_len: self.small()? },
            MSGPACK => Encoding::MsgPack,
            _ => return self.wrong(),
        };
        let bytes = self.text()?;
        if let Encoding::Packet { key_len } = encoding
            && usize::from(key_len) > bytes.len()
        {
            return self.wrong();
        }
        Ok(Payload { encoding, bytes })
    }

    fn terms(&mut self) -> Read<Terms> {
        let mut terms = Terms {
            lease_ms: self.number()?,
            keep_ms: self.number()?,
            bury_ms: self.number()?,
            ..Terms::default()
        };
        terms.retry = match self.byte()? {
            0 => None,
            1 => Some(Retry {
                limit: self.small()?,
                first_ms: self.number()?,
                factor: self.small()?,
                max_ms: self.number()?,
                jitter_percent: self.byte()?,
            }),
            _ => return self.wrong(),
        };
        Ok(terms)
    }

    fn state(&mut self) -> Read<State<'a>> {
        let stage = match self.byte()? {
            WAITING => Stage::Waiting,
            DELAYED => Stage::Delayed(self.moment()?),
            KEPT => Stage::Kept(self.moment()?),
            BURIED => Stage::Buried(None),
            BURIED_FOR_A_WHILE => Stage::Buried(Some(self.moment()?)),
            _ => return self.wrong(),
        };
        let retries = self.small()?;
        let result = match self.byte()? {
            0 => None,
            code => Some(self.payload(code - 1)?),
        };
        Ok(State { stage, retries, result })
    }

    fn urgency(&mut self, code: u8) -> Read<Urgency<'a>> {
        Ok(match code {
            0 => {
                let number = self.number()?;
                let number = (number >> 1).cast_signed() ^ -(number & 1).cast_signed();
                if number == i64::MIN || number == i64::MAX {
                    return self.wrong();
                }
                Urgency::Number(number)
            }
            DIGITS => match std::str::from_utf8(self.text()?) {
                Ok(digits) if is_beyond(digits) => Urgency::Beyond(digits),
                _ => return self.wrong(),
            },
            NEVER => Urgency::Never,
            _ => return self.wrong(),
        })
    }

    fn id(&mut self) -> Read<JobId> {
        match self.number()? {
            id @ 1..crate::base::limits::JOB_ID_END => Ok(JobId(id)),
            _ => self.wrong(),
        }
    }

    fn job(&mut self) -> Read<Snapshot<'a>> {
        let id = self.id()?;
        let flags = self.byte()?;
        let queue = self.text()?;
        let urgency = self.urgency(flags & 3)?;
        let payload = self.payload(flags >> ENCODING_SHIFT & 3)?;
        let turn = if flags & NEWEST_FIRST == 0 { Turn::OldestFirst } else { Turn::NewestFirst };
        let terms = if flags & HAS_TERMS == 0 { None } else { Some(self.terms()?) };
        let expires = if flags & EXPIRES == 0 { None } else { Some(self.moment()?) };
        let state = if flags & HAS_STATE == 0 { FRESH } else { self.state()? };
        Ok(Snapshot { id, queue, urgency, turn, payload, terms, expires, state })
    }
}

fn is_beyond(digits: &str) -> bool {
    digits.bytes().all(|digit| digit.is_ascii_digit())
        && !digits.starts_with('0')
        && matches!(Urgency::from_digits(digits), Urgency::Beyond(_))
}

/// Reads a record. O(bytes looked at): texts are borrowed.
///
/// # Errors
/// Where it stops to be one.
#[inline]
pub(super) fn read(bytes: &[u8], now: Now) -> Result<Record<'_>, NoRecord> {
    let mut reader = Reader { rest: bytes, whole: bytes.len(), now };
    let record = match reader.byte()? {
        JOB => Record::Job(reader.job()?),
        STATE => Record::State(reader.id()?, reader.state()?),
        GONE => Record::Gone(reader.id()?),
        _ => return Err(NoRecord { at: 0 }),
    };
    if reader.rest.is_empty() { Ok(record) } else { reader.wrong() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Rng;
    use crate::base::time::Wall;

    const NOW: Now = Now { mono: Mono(5_000_000_000), wall: Wall(1_700_000_000_000) };

    fn at(ms: u64) -> Mono {
        NOW.mono.after(Duration::from_millis(ms))
    }

    fn payload(encoding: Encoding, bytes: &[u8]) -> Payload<'_> {
        Payload { encoding, bytes }
    }

    fn some_records() -> Vec<Record<'static>> {
        let retry =
            Retry { limit: 10, first_ms: 1, factor: 2, max_ms: u64::MAX, jitter_percent: 10 };
        let terms = Terms { lease_ms: 30_000, retry: Some(retry), keep_ms: 7, ..Terms::default() };
        let plain = Snapshot {
            id: JobId(1),
            queue: b"q",
            urgency: Urgency::Number(0),
            turn: Turn::OldestFirst,
            payload: payload(Encoding::JsonLine, b"{}"),
            terms: None,
            expires: None,
            state: FRESH,
        };
        let packet = payload(Encoding::Packet { key_len: 2 }, b"key");
        let result = Some(payload(Encoding::Json, b"[1]"));
        let state = State { stage: Stage::Delayed(at(9)), retries: 3, result };
        let numbers = [-1, 1, i64::MAX - 1, i64::MIN + 1].map(Urgency::Number);
        let beyond = Urgency::Beyond("18446744073709551616");
        let mut records: Vec<Record<'_>> = numbers
            .into_iter()
            .chain([beyond, Urgency::Never])
            .map(|urgency| Record::Job(Snapshot { urgency, ..plain }))
            .collect();
        records.push(Record::Job(Snapshot { id: JobId((1 << 53) - 1), queue: b"", ..plain }));
        let turn = Turn::NewestFirst;
        records.push(Record::Job(Snapshot {
            turn,
            payload: packet,
            expires: Some(at(1)),
            ..plain
        }));
        records.push(Record::Job(Snapshot { terms: Some(terms), state, ..plain }));
        let map = payload(Encoding::MsgPack, b"\x80");
        let state = State { stage: Stage::Kept(at(3)), retries: 0, result: Some(map) };
        records.push(Record::Job(Snapshot { payload: map, terms: Some(terms), state, ..plain }));
        for stage in
            [Stage::Waiting, Stage::Kept(at(0)), Stage::Buried(None), Stage::Buried(Some(at(5)))]
        {
            let state = State { stage, retries: u32::MAX, result: Some(packet) };
            records.push(Record::State(JobId(7), state));
        }
        records.push(Record::Gone(JobId(300)));
        records
    }

    #[test]
    fn records_come_back_and_their_parts_are_no_records() {
        for record in some_records() {
            let mut bytes = Vec::new();
            write(&record, NOW, &mut bytes);
            assert_eq!(read(&bytes, NOW), Ok(record));
            for end in 0..bytes.len() {
                assert!(read(&bytes[..end], NOW).is_err(), "{record:?} cut to {end} bytes");
            }
            bytes.push(0);
            assert_eq!(read(&bytes, NOW), Err(NoRecord { at: bytes.len() - 1 }));
        }
    }

    #[test]
    fn moments_are_kept_on_the_wall_clock() {
        let record = Record::State(JobId(1), State { stage: Stage::Kept(at(500)), ..FRESH });
        let mut bytes = Vec::new();
        write(&record, NOW, &mut bytes);
        for (passed, left) in [(0, 500), (400, 100), (500, 0), (9_000, 0)] {
            let later = Now { mono: Mono(77), wall: Wall(NOW.wall.0 + passed) };
            let due = later.mono.after(Duration::from_millis(left));
            let expected = Record::State(JobId(1), State { stage: Stage::Kept(due), ..FRESH });
            assert_eq!(read(&bytes, later), Ok(expected));
        }
    }

    #[test]
    fn bytes_at_random_are_an_error_or_a_record_and_never_a_panic() {
        let (mut rng, mut read_well) = (Rng::new(8), 0);
        let records = some_records();
        for _ in 0..200_000 {
            let mut bytes = Vec::new();
            let number = usize::try_from(rng.below(records.len() as u64)).unwrap();
            write(&records[number], NOW, &mut bytes);
            for _ in 0..rng.below(4) {
                let place = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[place] = rng.next_u64().to_le_bytes()[0];
            }
            read_well += u32::from(read(&bytes, NOW).is_ok());
        }
        assert!(read_well > 50_000);
    }
}
