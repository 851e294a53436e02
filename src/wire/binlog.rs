//! The binlog of beanstalkd, version 7, as a machine with 64-bit little-endian words writes it: the
//! head of a file and of each record.
//!
//! ```text
//! file   = version u32, records; zeros up to the size that was reserved for it
//! record = length of the tube's name u32, name, fields, body and CRLF
//!          with length 0 neither name nor body: a change of a job that was written before
//! fields = id u64, pri u32, 4 unused, delay i64 ns, ttr i64 ns, length of body and CRLF i32,
//!          4 unused, created i64 ns since 1970, deadline i64 ns since 1970, reserves u32,
//!          timeouts u32, releases u32, buries u32, kicks u32, state u8, 3 unused: 80 bytes
//! state  = 0 deleted, 1 ready, 2 reserved, 3 buried, 4 delayed
//! ```
//!
//! There are no checksums. What can be checked is whether the fields have values that the program
//! gives them: the length and letters of a name, whole seconds, a state, a body that ends with
//! CRLF.

/// The version that is read.
pub const VERSION: u32 = 7;
/// Bytes of the head of a file.
pub const FILE_HEAD_BYTES: usize = 4;
/// The longest head of a record: all but the body.
pub const RECORD_HEAD_MAX_BYTES: usize = 4 + NAME_MAX_BYTES + FIELDS_BYTES;
/// What stands behind a body.
pub const BODY_END: &[u8] = b"\r\n";

const NAME_MAX_BYTES: usize = 200;
const FIELDS_BYTES: usize = 80;
/// An empty body, with CRLF.
const BODY_MIN_BYTES: u32 = 2;
/// The largest value of the program's own limit on bodies, with CRLF.
const BODY_MAX_BYTES: u32 = (1 << 30) + 2;
const SECOND_NS: u64 = 1_000_000_000;
/// Delays and times to run are given as 32-bit seconds.
const SECONDS_MAX: u64 = u32::MAX as u64;

/// What a record says that its job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinlogState {
    /// It was deleted.
    Deleted,
    /// It can be reserved.
    Ready,
    /// It was reserved when its record was copied into a newer file.
    Reserved,
    /// It was put away.
    Buried,
    /// It waits for its deadline.
    Delayed,
}

/// The fields of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinlogFields {
    /// The job's id, from 1.
    pub id: u64,
    /// A smaller one is more urgent.
    pub pri: u32,
    /// Time to run, in milliseconds.
    pub ttr_ms: u64,
    /// Length of body and CRLF: at least 2.
    pub body_bytes: u32,
    /// When it was put, in nanoseconds since 1970.
    pub created_ns: u64,
    /// When the delay ends, or when the time to run of its last reservation was over, in
    /// nanoseconds since 1970.
    pub deadline_ns: u64,
    /// How often its time to run was over.
    pub timeouts: u32,
    /// How often it was buried.
    pub buries: u32,
    /// What it is.
    pub state: BinlogState,
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BinlogHead<'a> {
    /// The tube, if this is a whole record: one with a body.
    pub tube: Option<&'a [u8]>,
    /// The fields.
    pub fields: BinlogFields,
    /// The length of the head in bytes.
    pub length: usize,
}

impl BinlogHead<'_> {
    /// Bytes that follow the head: body and CRLF.
    #[must_use]
    pub fn body_bytes(&self) -> u32 {
        if self.tube.is_some() { self.fields.body_bytes } else { 0 }
    }
}

/// What stands at a place where a record may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinlogPart<'a> {
    /// A record.
    Record(BinlogHead<'a>),
    /// Zeros, as behind the last record.
    Zeros,
    /// The bytes end within the head.
    Cut,
    /// No record that the program writes: why not.
    Malformed(&'static str),
}

/// The version of a file, from its first bytes; `None`: there are fewer than four.
#[must_use]
pub fn file_version(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.first_chunk()?))
}

/// Whether these are the letters of a tube's name.
fn is_name(name: &[u8]) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(byte);
    name.first().is_some_and(|&first| first != b'-') && name.iter().all(is_letter)
}

/// Reads the head of a record at the begin of `bytes`, of which
/// [`RECORD_HEAD_MAX_BYTES`] are enough. O(1).
#[must_use]
pub fn read_head(bytes: &[u8]) -> BinlogPart<'_> {
    let Some(name_length) = file_version(bytes) else { return BinlogPart::Cut };
    let name_length = name_length as usize;
    if name_length > NAME_MAX_BYTES {
        return BinlogPart::Malformed("the length of a tube's name is more than 200");
    }
    let rest = &bytes[4..];
    let Some((name, rest)) = rest.split_at_checked(name_length) else { return BinlogPart::Cut };
    if name_length > 0 && !is_name(name) {
        return BinlogPart::Malformed("a tube has a name that beanstalkd does not accept");
    }
    if name_length == 0 && rest.iter().take(8).all(|&byte| byte == 0) {
        return BinlogPart::Zeros;
    }
    let Some(fields) = rest.first_chunk::<FIELDS_BYTES>() else { return BinlogPart::Cut };
    match read_fields(fields) {
        Ok(fields) => {
            let tube = (name_length > 0).then_some(name);
            BinlogPart::Record(BinlogHead { tube, fields, length: 4 + name_length + FIELDS_BYTES })
        }
        Err(what) => BinlogPart::Malformed(what),
    }
}

fn read_fields(bytes: &[u8; FIELDS_BYTES]) -> Result<BinlogFields, &'static str> {
    let u32_at = |at: usize| {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        u32::from_le_bytes(bytes)
    };
    let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
    let is_time = |ns: u64| ns.is_multiple_of(SECOND_NS) && ns / SECOND_NS <= SECONDS_MAX;
    let (id, delay, ttr, body_bytes) = (u64_at(0), u64_at(16), u64_at(24), u32_at(32));
    let (created_ns, deadline) = (u64_at(40), u64_at(48));
    if id == 0 {
        return Err("a job has the id 0");
    }
    if !is_time(delay) {
        return Err("a delay is no number of seconds");
    }
    if ttr == 0 || !is_time(ttr) {
        return Err("a time to run is no number of seconds");
    }
    if !(BODY_MIN_BYTES..=BODY_MAX_BYTES).contains(&body_bytes) {
        return Err("the length of a body is impossible");
    }
    if created_ns.cast_signed() < 0 || deadline.cast_signed() < 0 {
        return Err("a moment is before 1970");
    }
    if [12, 36, 76].iter().any(|&at| u32_at(at) & if at == 76 { !0xff } else { !0 } != 0) {
        return Err("bytes that are not used are not zero");
    }
    let state = match bytes[76] {
        0 => BinlogState::Deleted,
        1 => BinlogState::Ready,
        2 => BinlogState::Reserved,
        3 => BinlogState::Buried,
        4 => BinlogState::Delayed,
        _ => return Err("a job has a state that does not exist"),
    };
    Ok(BinlogFields {
        id,
        pri: u32_at(8),
        ttr_ms: ttr / 1_000_000,
        body_bytes,
        created_ns,
        deadline_ns: deadline,
        timeouts: u32_at(60),
        buries: u32_at(68),
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a put into the tube `ab`: priority 5, delay 7 s, ttr 60 s, a body of 3 bytes.
    fn sample() -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, b'a', b'b'];
        let mut fields = [0; FIELDS_BYTES];
        fields[0] = 9;
        fields[8] = 5;
        fields[16..24].copy_from_slice(&(7 * SECOND_NS).to_le_bytes());
        fields[24..32].copy_from_slice(&(60 * SECOND_NS).to_le_bytes());
        fields[32] = 5;
        fields[40..48].copy_from_slice(&1_234_567_890_u64.to_le_bytes());
        fields[48..56].copy_from_slice(&8_234_567_890_u64.to_le_bytes());
        (fields[60], fields[68], fields[76]) = (3, 2, 4);
        bytes.extend_from_slice(&fields);
        bytes
    }

    #[test]
    fn whole_record_and_change_are_read() {
        let bytes = sample();
        let fields = BinlogFields {
            id: 9,
            pri: 5,
            ttr_ms: 60_000,
            body_bytes: 5,
            created_ns: 1_234_567_890,
            deadline_ns: 8_234_567_890,
            timeouts: 3,
            buries: 2,
            state: BinlogState::Delayed,
        };
        let head = BinlogHead { tube: Some(b"ab"), fields, length: 86 };
        assert_eq!(read_head(&bytes), BinlogPart::Record(head));
        assert_eq!(head.body_bytes(), 5);
        let change = [&[0; 4], &bytes[6..]].concat();
        let head = BinlogHead { tube: None, fields, length: 84 };
        assert_eq!(read_head(&change), BinlogPart::Record(head));
        assert_eq!(head.body_bytes(), 0);
        for length in 0..bytes.len() {
            assert_eq!(read_head(&bytes[..length]), BinlogPart::Cut, "{length}");
        }
        assert_eq!(read_head(&[0; RECORD_HEAD_MAX_BYTES]), BinlogPart::Zeros);
    }

    #[test]
    fn impossible_values_are_no_record() {
        // Place and byte, and a word of the reason.
        let wrong = [
            (0, 201, "length of a tube"),
            (3, 1, "length of a tube"),
            (4, b'-', "name"),
            (5, b' ', "name"),
            (6, 0, "id 0"),
            (6 + 12, 1, "not used"),
            (6 + 16, 1, "delay"),
            (6 + 23, 0x80, "delay"),
            (6 + 24, 1, "time to run"),
            (6 + 32, 1, "body"),
            (6 + 35, 0x80, "body"),
            (6 + 39, 1, "not used"),
            (6 + 47, 0x80, "1970"),
            (6 + 76, 5, "state"),
            (6 + 79, 1, "not used"),
        ];
        for (at, byte, word) in wrong {
            let mut bytes = sample();
            bytes[at] = byte;
            let BinlogPart::Malformed(what) = read_head(&bytes) else { panic!("{at}") };
            assert!(what.contains(word), "{at}: {what}");
        }
    }

    #[test]
    fn random_bytes_are_read_without_a_panic() {
        let mut rng = crate::base::rng::Rng::new(7);
        for _ in 0..20_000 {
            let mut bytes = sample();
            for _ in 0..=rng.below(3) {
                let at = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
                bytes[at] = u8::try_from(rng.below(256)).unwrap();
            }
            bytes.truncate(usize::try_from(rng.below(100)).unwrap());
            let _ = read_head(&bytes);
        }
    }
}
