//! Any bytes as MessagePack, and any text translated to it and back: another reader agrees on what
//! is a whole value, all walks over one value agree with each other, and a translation is valid
//! JSON.

#![no_main]

use jobcentre::wire::json::{self, check};
use jobcentre::wire::msgpack::{DEPTH_MAX, Error, Raw, at, from_json, read_map, to_json, validate};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

/// The other reader, which takes the byte that begins no value for nil, and counts some levels
/// twice.
fn is_valid(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    rmpv::decode::read_value_with_max_depth(&mut rest, 4 * DEPTH_MAX).is_ok() && rest.is_empty()
}

fuzz_target!(|bytes: &[u8]| {
    let whole = validate(bytes);
    let deep = matches!(whole, Err(Error::TooDeep { .. }));
    if !deep && !bytes.contains(&0xc1) {
        assert_eq!(whole.is_ok(), is_valid(bytes));
    }
    let mut text = Vec::new();
    assert_eq!(to_json(bytes, &mut text), whole);
    assert!(text.len() <= 16 * bytes.len());
    let _ = at(bytes, &["a", "b"]);
    if whole.is_ok() {
        let read: &RawValue = serde_json::from_slice(&text).expect("JSON");
        assert_eq!(read.get().len(), text.len(), "nothing around it");
        let mut there = Vec::new();
        from_json(&text, &mut there).expect("JSON");
        let mut back = Vec::new();
        // An extension at the greatest depth is a map in JSON, and that is too deep.
        if to_json(&there, &mut back).is_ok() {
            assert_eq!(text, back);
        }
        let map = Raw::new(bytes).expect("it was whole").entries();
        let number = |name: &[u8]| [&b"a"[..], b"b"].iter().position(|wanted| *wanted == name);
        let mut values = [None; 2];
        let read = read_map(bytes, number, &mut values);
        let last = map.filter(|(key, _)| key.text() == Some("a")).last();
        assert_eq!(values[0], last.map(|(_, value)| value));
        if read.is_ok() {
            let found = at(bytes, &["a"]).map(|leaf| format!("{leaf:?}"));
            assert_eq!(found, values[0].map(|raw| format!("{:?}", raw.leaf())));
        }
    }
    let _ = json::at(bytes, &["a", "b"]);
    let mut packed = Vec::new();
    let expected: Result<&RawValue, _> = serde_json::from_slice(bytes);
    assert_eq!(from_json(bytes, &mut packed).is_ok(), expected.is_ok());
    assert_eq!(check(bytes).is_ok(), expected.is_ok());
    if expected.is_ok() {
        assert!(packed.len() <= 3 * bytes.len());
        if let Err(error) = validate(&packed) {
            assert!(error.to_string().starts_with("is nested too deep"), "{error}");
        } else {
            let leaf = |found: Option<_>| found.map(|leaf| format!("{leaf:?}"));
            let by_json = leaf(json::at(bytes, &["a", "b"]));
            let by_msgpack = leaf(at(&packed, &["a", "b"]));
            // Arrays and maps are shown as their own bytes.
            if !by_json.as_ref().is_some_and(|leaf| leaf.starts_with("Other")) {
                assert_eq!(by_json, by_msgpack);
            }
        }
    }
});
