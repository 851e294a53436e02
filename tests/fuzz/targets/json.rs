//! The fast and the exact JSON parser agree on any bytes: what is an object, and what is in it. A
//! third parser says whether it is JSON at all.

#![no_main]

use jobcentre::wire::json::{Arrays, Fields, Parser, Value};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use std::cell::RefCell;

struct Wanted;

impl Fields<4> for Wanted {
    fn number(name: &[u8]) -> Option<usize> {
        [&b"job"[..], b"pri", b"queues", b"request"].iter().position(|wanted| *wanted == name)
    }
}

/// Everything that a document says, in a form that outlives it. An object says where it stands.
fn show(text: &[u8], values: [Value<'_>; 4], arrays: Arrays<'_>) -> Vec<String> {
    let show = |value: Value<'_>| match value {
        Value::Strings(at) => {
            format!("{:?}", arrays.strings(at).into_iter().collect::<Vec<_>>())
        }
        Value::Object(object) => {
            let start = object.as_ptr().addr() - text.as_ptr().addr();
            assert_eq!(&text[start..start + object.len()], object);
            format!("{start} {}", object.len())
        }
        other => format!("{other:?}"),
    };
    values.into_iter().map(show).collect()
}

thread_local! {
    /// Reused as in the server, so that what is left of one text could spoil the next.
    static PARSER: RefCell<Parser> = RefCell::default();
}

fuzz_target!(|text: &[u8]| {
    PARSER.with_borrow_mut(|parser| {
        let mut values = [Value::Absent; 4];
        let fast = parser.parse::<Wanted, 4>(text, &mut values);
        let fast = fast.map(|arrays| show(text, values, arrays));
        let mut values = [Value::Absent; 4];
        let exact = parser.parse_exactly::<Wanted, 4>(text, &mut values);
        let exact = exact.map(|arrays| show(text, values, arrays));
        assert_eq!(fast, exact);
        let whole: Result<&RawValue, _> = serde_json::from_slice(text);
        let object = whole.is_ok_and(|value| value.get().starts_with('{'));
        assert_eq!(fast.is_ok(), object);
    });
});
