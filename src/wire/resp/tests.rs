//! Tests of the codec: each form, each error, bounds, and any split of a stream.

use super::*;
use crate::base::buf::{InBuf, Input, progress};
use proptest::prelude::*;

/// What came out of a stream: the values, the error that ended it, and what is left.
#[derive(Debug, Default, PartialEq)]
struct Found {
    values: Vec<Vec<u8>>,
    error: Option<Error>,
    left: Vec<u8>,
}

fn whole(bytes: &[u8], max: usize) -> Found {
    let mut found = Found::default();
    let (mut framer, mut input) = (Framer::new(max), Input::new(bytes));
    loop {
        match framer.next(&mut input) {
            Ok(Some(raw)) => found.values.push(raw.bytes().to_vec()),
            Ok(None) => break,
            Err(error) => {
                found.error = Some(error);
                break;
            }
        }
    }
    found.left = input.unread().to_vec();
    found
}

/// The same, in pieces; behind an error nothing more is offered.
fn pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>, max: usize) -> Found {
    let mut found = Found::default();
    let (mut framer, mut buffer) = (Framer::new(max), InBuf::default());
    for piece in pieces {
        buffer.append(piece);
        if found.error.is_some() {
            continue;
        }
        let mut input = buffer.peek();
        loop {
            match framer.next(&mut input) {
                Ok(Some(raw)) => found.values.push(raw.bytes().to_vec()),
                Ok(None) => {
                    assert!(framer.wanted() > input.unread().len());
                    break;
                }
                Err(error) => {
                    found.error = Some(error);
                    break;
                }
            }
        }
        let (used, _) = progress(&input);
        buffer.commit(used, 0);
    }
    found.left = buffer.peek().unread().to_vec();
    found
}

fn one(bytes: &[u8]) -> Raw<'_> {
    let raw = Framer::new(1 << 20).next(&mut Input::new(bytes)).unwrap().expect("it is whole");
    assert_eq!(raw.bytes(), bytes);
    raw
}

fn error(bytes: &[u8]) -> Error {
    Framer::new(1000).next(&mut Input::new(bytes)).unwrap_err()
}

#[test]
fn every_scalar_is_read() {
    for (bytes, token) in [
        (&b"+OK\r\n"[..], Token::Simple(b"OK")),
        (b"+\r\n", Token::Simple(b"")),
        (b"-ERR no\r\n", Token::Error(b"ERR no")),
        (b"!5\r\nA\r\nBC\r\n", Token::Error(b"A\r\nBC")),
        (b":0\r\n", Token::Integer(0)),
        (b":+7\r\n", Token::Integer(7)),
        (b":-9223372036854775808\r\n", Token::Integer(i64::MIN)),
        (b"$0\r\n\r\n", Token::Bulk(b"")),
        (b"$4\r\n\r\n\r\n\r\n", Token::Bulk(b"\r\n\r\n")),
        (b"=8\r\ntxt:a\r\nb\r\n", Token::Verbatim(*b"txt", b"a\r\nb")),
        (b"$-1\r\n", Token::Null),
        (b"*-1\r\n", Token::Null),
        (b"_\r\n", Token::Null),
        (b"#t\r\n", Token::Bool(true)),
        (b"#f\r\n", Token::Bool(false)),
        (b",1.5\r\n", Token::Double(1.5)),
        (b",-inf\r\n", Token::Double(f64::NEG_INFINITY)),
        (b",1e3\r\n", Token::Double(1000.0)),
        (b"(-349\r\n", Token::BigNumber(b"-349")),
        (b"*0\r\n", Token::Array(0)),
        (b"~0\r\n", Token::Set(0)),
        (b"%0\r\n", Token::Map(0)),
        (b">0\r\n", Token::Push(0)),
    ] {
        assert_eq!(one(bytes).token(), token, "{}", bytes.escape_ascii());
    }
    assert!(matches!(one(b",nan\r\n").token(), Token::Double(number) if number.is_nan()));
}

#[test]
fn aggregates_are_read_by_their_parts() {
    let raw = one(b">3\r\n+smessage\r\n$2\r\nab\r\n*2\r\n:1\r\n*1\r\n:2\r\n");
    assert!(raw.is_push());
    let parts: Vec<_> = raw.elements().collect();
    assert_eq!(parts.len(), 3);
    assert_eq!((parts[0].data(), parts[1].data()), (Some(&b"smessage"[..]), Some(&b"ab"[..])));
    let inner: Vec<_> = parts[2].elements().map(Raw::integer).collect();
    assert_eq!(inner, [Some(1), None]);
    let pairs = |bytes| one(bytes).entries().map(|(k, v)| (k.data(), v.integer())).collect();
    let expected: Vec<_> = vec![(Some(&b"a"[..]), Some(1)), (Some(b"b"), Some(-2))];
    let read: Vec<_> = pairs(b"%2\r\n$1\r\na\r\n:1\r\n+b\r\n$2\r\n-2\r\n");
    assert_eq!(read, expected);
    let read: Vec<_> = pairs(b"*4\r\n$1\r\na\r\n:1\r\n+b\r\n$2\r\n-2\r\n");
    assert_eq!(read, expected);
    let moved = one(b"-MOVED 3999 127.0.0.1:6381\r\n").error();
    assert_eq!(moved, Some((&b"MOVED"[..], &b"MOVED 3999 127.0.0.1:6381"[..])));
    assert_eq!(one(b"+x\r\n").elements().count(), 0);
}

#[test]
fn attributes_are_passed_over_wherever_they_stand() {
    let raw = one(b"|1\r\n+ttl\r\n*1\r\n:3\r\n*2\r\n|1\r\n+a\r\n:9\r\n:1\r\n|0\r\n:2\r\n");
    assert_eq!(raw.token(), Token::Array(2));
    assert_eq!(raw.elements().map(Raw::integer).collect::<Vec<_>>(), [Some(1), Some(2)]);
    // An attribute alone is no value yet.
    let mut input = Input::new(b"|1\r\n+a\r\n:9\r\n");
    assert_eq!(Framer::new(100).next(&mut input), Ok(None));
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    assert_eq!(error(b"*1\r\n?"), Error::Unknown { byte: b'?', at: 5 });
    assert_eq!(error(b"+a\nb"), Error::LineEnd { at: 1 });
    assert_eq!(error(b"+a\rb\r\n"), Error::LineEnd { at: 1 });
    assert_eq!(error(b"$1\r\nabc"), Error::DataEnd { at: 1 });
    for wrong in [
        &b":\r\n"[..],
        b":1.5\r\n",
        b":9223372036854775808\r\n",
        b"$?\r\n",
        b"$-2\r\n",
        b"%-1\r\n",
        b"#x\r\n",
        b"_x\r\n",
        b"(\r\n",
        b",infinity\r\n",
        b",\r\n",
        b"*1000000000\r\n",
        b"=3\r\nabc\r\n",
        b":+-1\r\n",
    ] {
        assert!(matches!(error(wrong), Error::Malformed { at: 1, .. }), "{}", wrong.escape_ascii());
    }
    assert_eq!(error(b"$x\r\n").to_string(), "is not RESP: the line at byte 1 is no length");
    let mut long = b"+".to_vec();
    long.resize(LINE_MAX + 1, b'x');
    let mut framer = Framer::new(usize::MAX);
    assert_eq!(framer.next(&mut Input::new(&long)), Ok(None));
    long.push(b'x');
    assert_eq!(framer.next(&mut Input::new(&long)), Err(Error::LineTooLong { at: 1 }));
}

#[test]
fn promises_and_depth_are_bounded() {
    let too_long = Err(Error::TooLong { at: 1, max: 100 });
    let next = |bytes: &[u8]| Framer::new(100).next(&mut Input::new(bytes)).map(|it| it.is_some());
    assert_eq!(next(b"$93\r\n"), Ok(false));
    assert_eq!(next(b"$94\r\n"), too_long, "the line end behind it counts");
    assert_eq!(next(b"*31\r\n"), Ok(false));
    assert_eq!(next(b"*32\r\n"), too_long, "three bytes are the least for a value");
    assert_eq!(next(b"%16\r\n"), too_long);
    assert_eq!(next(b"|15\r\n"), Ok(false));
    assert_eq!(next(b"|16\r\n"), too_long);
    assert_eq!(next(b"$999999999\r\n"), too_long);
    let nested = |levels| [b"*1\r\n".repeat(levels), b"_\r\n".to_vec()].concat();
    assert_eq!(one(&nested(DEPTH_MAX)).token(), Token::Array(1));
    let wrong = Error::TooDeep { at: DEPTH_MAX * 4 + 1 };
    assert_eq!(error(&nested(DEPTH_MAX + 1)), wrong);
    assert_eq!(error(&b"*1\r\n".repeat(200)), wrong);
}

#[test]
fn commands_are_arrays_of_bulk_strings() {
    let mut out = b"x".to_vec();
    push_array(&mut out, 5);
    push_bulk(&mut out, b"FCALL");
    push_bulk_unsigned(&mut out, u64::MAX);
    push_bulk_signed(&mut out, -3);
    push_bulk(&mut out, b"");
    push_bulk_of(&mut out, |out| out.extend_from_slice(b"a\r\nb"));
    let expected: &[u8] =
        b"x*5\r\n$5\r\nFCALL\r\n$20\r\n18446744073709551615\r\n$2\r\n-3\r\n$0\r\n\r\n\
                            $4\r\na\r\nb\r\n";
    assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string());
    for length in [0, 9, 10, 99_999, 1_000_000] {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        push_bulk(&mut one, &vec![7; length]);
        push_bulk_of(&mut other, |out| out.resize(out.len() + length, 7));
        assert!(one == other, "{length}");
    }
}

/// Bytes that are often RESP.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let item = prop_oneof![
        8 => "[+-][a-z ]{0,9}\r\n".prop_map(String::into_bytes),
        6 => (0..4_usize, "[:,(]").prop_map(|(n, kind)| format!("{kind}{n}\r\n").into_bytes()),
        6 => (prop::collection::vec(any::<u8>(), 0..20), "[$!]").prop_map(|(data, kind)| {
            [format!("{kind}{}\r\n", data.len()).as_bytes(), &data, b"\r\n"].concat()
        }),
        8 => (0..4_usize, "[*~>%|]").prop_map(|(n, kind)| format!("{kind}{n}\r\n").into_bytes()),
        2 => Just(b"_\r\n".to_vec()),
        2 => Just(b"$-1\r\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..3),
    ];
    prop::collection::vec(item, 0..30).prop_map(|items| items.concat())
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        bytes in stream(), sizes in prop::collection::vec(1..9_usize, 1..5), max in 3..400_usize
    ) {
        let mut at = 0;
        let mut sizes = sizes.iter().cycle();
        let parts = std::iter::from_fn(|| {
            let end = bytes.len().min(at + sizes.next()?);
            let part = &bytes[at..end];
            at = end;
            (!part.is_empty()).then_some(part)
        });
        let expected = whole(&bytes, max);
        prop_assert_eq!(pieces(parts, max), expected);
    }

    #[test]
    fn readers_come_to_the_end_of_what_was_found(bytes in stream()) {
        for value in whole(&bytes, 10_000).values {
            prop_assert!(value.len() <= 10_000);
            let raw = one(&value);
            let mut reader = raw.reader();
            let head = reader.token();
            prop_assert!(head.is_some());
            reader.skip_rest(head.unwrap_or(Token::Null));
            prop_assert!(reader.token().is_none());
            let parts: Vec<_> = raw.elements().collect();
            prop_assert_eq!(parts.len() as u64, raw.token().values());
            for part in parts {
                prop_assert_eq!(one(part.bytes()), part);
            }
        }
    }

    #[test]
    fn any_bytes_do_no_harm(bytes: Vec<u8>) {
        whole(&bytes, 1000);
    }
}
