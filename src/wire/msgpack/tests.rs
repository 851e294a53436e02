//! `rmpv` and `serde_json` are the references for what is read and written here.

use super::*;
use crate::wire::Leaf;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use proptest::collection::vec;
use proptest::prelude::*;
use rmpv::Value;
use serde_json::Value as Json;

fn encoded(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, value).unwrap();
    bytes
}

fn json(bytes: &[u8]) -> Result<String, Error> {
    let mut out = b"before ".to_vec();
    let done = to_json(bytes, &mut out);
    let text = String::from_utf8(out).unwrap();
    let text = text.strip_prefix("before ").unwrap().to_owned();
    assert!(done.is_ok() || text.is_empty(), "what is no value leaves nothing");
    assert!(text.len() <= 16 * bytes.len(), "{} from {bytes:?}", text.len());
    done.map(|()| text)
}

fn packed(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    from_json(text.as_bytes(), &mut out).unwrap();
    assert!(out.len() <= 3 * text.len());
    validate(&out).unwrap();
    out
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-200_i64..300).prop_map(Value::from),
        any::<f32>().prop_map(Value::F32),
        any::<f64>().prop_map(Value::F64),
        any::<String>().prop_map(Value::from),
        "[a-c\"\\\\\u{1}]{0,3}".prop_map(Value::from),
        vec(any::<u8>(), 0..40).prop_map(Value::Binary),
        (any::<i8>(), vec(any::<u8>(), 0..20)).prop_map(|(kind, data)| Value::Ext(kind, data)),
        // The only way to a string that is not UTF-8.
        vec(any::<u8>(), 0..5).prop_map(|mut bytes| {
            bytes.insert(0, 0xa0 | u8::try_from(bytes.len()).unwrap());
            rmpv::decode::read_value(&mut &bytes[..]).unwrap()
        }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(6, 60, 20, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..20).prop_map(Value::Array),
            vec((inner.clone(), inner.clone()), 0..4).prop_map(Value::Map),
            vec((any::<String>().prop_map(Value::from), inner), 0..20).prop_map(Value::Map),
        ]
    })
}

/// The translation once more, by recursion; the text, because keys may be there twice.
fn translated(value: &Value, in_key: bool) -> String {
    let base64 = |bytes: &[u8]| format!("\"{}\"", BASE64_STANDARD.encode(bytes));
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::F32(number) if number.is_finite() => format!("{:?}", f64::from(*number)),
        Value::F64(number) if number.is_finite() => format!("{number:?}"),
        Value::Nil | Value::F32(_) | Value::F64(_) => "null".to_owned(),
        Value::String(text) => match text.as_str() {
            Some(text) => {
                let mut out = Vec::new();
                crate::wire::json::push_string(&mut out, text.as_bytes());
                String::from_utf8(out).unwrap()
            }
            None => base64(text.as_bytes()),
        },
        Value::Binary(bytes) => base64(bytes),
        Value::Ext(kind, data) => format!("{{\"ext\":{kind},\"data\":{}}}", base64(data)),
        Value::Array(values) => {
            let values: Vec<String> =
                values.iter().map(|value| translated(value, in_key)).collect();
            format!("[{}]", values.join(","))
        }
        Value::Map(pairs) => {
            let key = |key: &Value| {
                if in_key && matches!(key, Value::Array(_) | Value::Map(_)) {
                    return base64(&encoded(key));
                }
                let text = translated(key, true);
                if text.starts_with('"') { text } else { serde_json::to_string(&text).unwrap() }
            };
            let pairs: Vec<String> = pairs
                .iter()
                .map(|(name, value)| format!("{}:{}", key(name), translated(value, in_key)))
                .collect();
            format!("{{{}}}", pairs.join(","))
        }
    }
}

/// Whether what the other reader found is what the JSON says. Its own parser is not exact enough to
/// compare by.
fn says_the_same(found: &Value, said: &Json) -> bool {
    match (found, said) {
        (Value::Nil, Json::Null) => true,
        (Value::Boolean(found), Json::Bool(said)) => found == said,
        (Value::Integer(found), Json::Number(said)) => found.to_string() == said.to_string(),
        (Value::F64(found), Json::Number(said)) => said.as_f64() == Some(*found),
        (Value::String(found), Json::String(said)) => found.as_str() == Some(said),
        (Value::Array(found), Json::Array(said)) => {
            found.len() == said.len()
                && found.iter().zip(said).all(|(found, said)| says_the_same(found, said))
        }
        (Value::Map(found), Json::Object(said)) => {
            found.len() == said.len()
                && found.iter().zip(said).all(|((key, found), (name, said))| {
                    key.as_str() == Some(name) && says_the_same(found, said)
                })
        }
        _ => false,
    }
}

fn json_value() -> impl Strategy<Value = Json> {
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
    ];
    scalar.prop_recursive(6, 100, 20, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..40).prop_map(Json::from),
            vec((any::<String>(), inner), 0..40)
                .prop_map(|pairs| Json::Object(pairs.into_iter().collect())),
        ]
    })
}

/// The other reader's verdict: whether the bytes are one value and nothing else.
fn judged(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    rmpv::decode::read_value_with_max_depth(&mut rest, 4 * DEPTH_MAX).is_ok() && rest.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_value_is_whole_and_translated(value in value()) {
        let bytes = encoded(&value);
        prop_assert_eq!(validate(&bytes), Ok(()));
        let text = json(&bytes).unwrap();
        prop_assert_eq!(&text, &translated(&value, false));
        prop_assert!(serde_json::from_str::<Json>(&text).is_ok());
        prop_assert!(!text.contains('\n'));
        for cut in (0..bytes.len()).rev().take(60) {
            prop_assert!(validate(&bytes[..cut]).is_err());
            prop_assert!(json(&bytes[..cut]).is_err());
        }
        let more = [&bytes[..], &[0xc0]].concat();
        prop_assert_eq!(validate(&more), Err(Error::Trailing { at: bytes.len() + 1 }));
    }

    #[test]
    fn json_goes_there_and_back(value in json_value()) {
        let text = value.to_string();
        let bytes = packed(&text);
        let decoded = rmpv::decode::read_value(&mut &bytes[..]).unwrap();
        prop_assert_eq!(encoded(&decoded), bytes.clone(), "the shortest form");
        prop_assert!(says_the_same(&decoded, &value), "{}", decoded);
        prop_assert_eq!(packed(&json(&bytes).unwrap()), bytes);
    }

    #[test]
    fn two_readers_agree_about_any_bytes(bytes in vec(any::<u8>(), 0..40)) {
        // A byte that begins no value is nil for the other reader.
        prop_assume!(!bytes.contains(&0xc1));
        prop_assert_eq!(validate(&bytes).is_ok(), judged(&bytes), "{:?}", bytes);
        prop_assert_eq!(json(&bytes).err(), validate(&bytes).err());
    }

    #[test]
    fn two_readers_agree_about_bytes_that_are_nearly_right(
        value in value(),
        changes in vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encoded(&value);
        for (place, byte) in changes {
            let at = place.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assume!(!bytes.contains(&0xc1));
        prop_assert_eq!(validate(&bytes).is_ok(), judged(&bytes));
        let translated = json(&bytes);
        prop_assert_eq!(translated.as_ref().err().copied(), validate(&bytes).err());
        if let Ok(text) = translated {
            prop_assert!(serde_json::from_str::<Json>(&text).is_ok());
        }
        let _ = at(&bytes, &["a", "b"]);
    }

    #[test]
    fn wanted_keys_are_the_last_of_their_name(
        pairs in vec((prop_oneof!["[ab]", "[c-e]"].prop_map(Value::from), value()), 0..12),
    ) {
        let bytes = encoded(&Value::Map(pairs.clone()));
        let number = |name: &[u8]| [b"a", b"b"].iter().position(|wanted| *wanted == name);
        let mut values = [None; 2];
        read_map(&bytes, number, &mut values).unwrap();
        for (found, name) in values.into_iter().zip(["a", "b"]) {
            let last = pairs.iter().rfind(|(key, _)| key.as_str() == Some(name));
            let last = last.map(|(_, value)| encoded(value));
            prop_assert_eq!(found.map(|raw| raw.bytes().to_vec()), last.clone());
            prop_assert_eq!(at(&bytes, &[name]), last.as_deref().map(|last| {
                Raw::new(last).unwrap().leaf()
            }));
        }
        let listed: Vec<_> = Raw::new(&bytes).unwrap().entries()
            .map(|(key, value)| (key.bytes().to_vec(), value.bytes().to_vec())).collect();
        let expected: Vec<_> =
            pairs.iter().map(|(key, value)| (encoded(key), encoded(value))).collect();
        prop_assert_eq!(listed, expected);
    }

    #[test]
    fn places_are_found_in_both_encodings(
        value in json_value(),
        path in vec(prop_oneof![Just("a".to_owned()), Just("b\"".to_owned())], 1..4),
    ) {
        // The path leads to the value, past others.
        let mut whole = value;
        for name in path.iter().rev() {
            whole = serde_json::json!({ "before": [whole.clone()], name: whole, "z": {name: 1} });
        }
        let text = whole.to_string();
        let bytes = packed(&text);
        let (by_json, by_msgpack) =
            (crate::wire::json::at(text.as_bytes(), &path), at(&bytes, &path));
        match (by_json.unwrap(), by_msgpack.unwrap()) {
            (Leaf::Other(left), Leaf::Other(right)) => {
                prop_assert_eq!(packed(std::str::from_utf8(left).unwrap()), right);
            }
            (left, right) => prop_assert_eq!(left, right),
        }
    }
}

#[test]
fn every_form_is_told_by_its_first_byte() {
    for first in 0..=u8::MAX {
        for fill in [0, 1, 0xff] {
            for length in 0..18 {
                let mut bytes = vec![fill; length];
                bytes.insert(0, first);
                if first == 0xc1 {
                    assert_eq!(validate(&bytes), Err(Error::Reserved { at: 1 }));
                } else {
                    assert_eq!(validate(&bytes).is_ok(), judged(&bytes), "{bytes:x?}");
                }
            }
        }
    }
}

fn sentence(bytes: &[u8]) -> String {
    let error = validate(bytes).unwrap_err();
    assert_eq!(json(bytes), Err(error));
    error.to_string()
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    assert_eq!(sentence(b""), "is empty");
    assert_eq!(sentence(b"\x91\xc1"), "is not MessagePack: byte 2 is 0xc1, which begins no value");
    assert_eq!(
        sentence(b"\x92\xa3ab"),
        "is not MessagePack: the string at byte 2 promises 3 bytes, but only 2 bytes follow"
    );
    assert_eq!(
        sentence(b"\x91\xcd\x01"),
        "is not MessagePack: it ends after 3 bytes, within the number that begins at byte 2"
    );
    assert_eq!(
        sentence(b"\x92\xa1a"),
        "is not MessagePack: it ends after 3 bytes, where another value of an array or a map \
         should begin"
    );
    assert_eq!(
        sentence(b"\xc0\xc0"),
        "is not one MessagePack value: a second one begins at byte 2"
    );
    let mut values = [None; 1];
    let error = read_map(b"\xa1a", |_| None, &mut values).unwrap_err();
    assert_eq!(error.to_string(), "is a string, not a MessagePack map");
    let error = read_map(b"\x91", |_| None, &mut values).unwrap_err();
    assert_eq!(error, Error::Promise { what: "array", at: 1, promised: 1, left: 0 });
    let error = read_map(b"\x80\x80", |_| None, &mut values).unwrap_err();
    assert_eq!(error, Error::Trailing { at: 2 });
}

#[test]
fn promised_gigabytes_are_no_bytes() {
    for (first, what) in
        [(0xc6, "binary"), (0xc9, "extension"), (0xdb, "string"), (0xdd, "array"), (0xdf, "map")]
    {
        let mut bytes = vec![first, 0xff, 0xff, 0xff, 0xff];
        bytes.extend([0; 100]);
        let left = if what == "extension" { 99 } else { 100 };
        let wrong = Error::Promise { what, at: 1, promised: u32::MAX, left };
        assert_eq!(validate(&bytes), Err(wrong));
        assert_eq!(json(&bytes), Err(wrong));
    }
    // Arrays in arrays, each of which promises all that is left.
    let mut bytes = Vec::new();
    for left in (0..500_u32).rev() {
        bytes.push(0xdd);
        bytes.extend((left * 5).to_be_bytes());
    }
    assert_eq!(validate(&bytes), Err(Error::Missing { length: 2_500 }));
    assert_eq!(json(&bytes), Err(Error::Missing { length: 2_500 }));
}

#[test]
fn depth_has_an_end_and_takes_no_stack() {
    let nested = |levels: usize, open: &[u8]| {
        let mut bytes = open.repeat(levels);
        bytes.push(0xc0);
        bytes
    };
    for open in [&b"\x91"[..], b"\x81\xc0", b"\x81\xa1a"] {
        let bytes = nested(DEPTH_MAX, open);
        assert_eq!(validate(&bytes), Ok(()));
        json(&bytes).unwrap();
        for levels in [DEPTH_MAX + 1, 1_000_000] {
            let bytes = nested(levels, open);
            let wrong = Error::TooDeep { at: DEPTH_MAX * open.len() + 1 };
            assert_eq!(validate(&bytes), Err(wrong));
            assert_eq!(json(&bytes), Err(wrong));
            assert_eq!(read_map(&bytes, |_| None, &mut [None; 1]), Err(wrong));
            assert_eq!(at(&bytes, &["a", "a"]), None);
        }
    }
    // Keys that are maps with keys that are maps: at every level, once.
    let mut bytes = b"\x81".repeat(DEPTH_MAX);
    bytes.extend([0xa1, b'"']);
    bytes.extend([0xc0].repeat(DEPTH_MAX));
    let text = json(&bytes).unwrap();
    serde_json::from_str::<Json>(&text).unwrap();
    // JSON may be deeper, and is translated all the same.
    let text = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let mut out = Vec::new();
    from_json(text.as_bytes(), &mut out).unwrap();
    assert_eq!(out.len(), 1_000_000);
    assert_eq!(validate(&out), Err(Error::TooDeep { at: DEPTH_MAX + 1 }));
}

#[test]
fn the_table_of_the_translation_holds() {
    let to = |bytes: &[u8]| json(bytes).unwrap();
    assert_eq!(to(b"\xc4\x02\xff\xfe"), "\"//4=\"");
    assert_eq!(to(b"\xa2\xff\xfe"), "\"//4=\"");
    assert_eq!(to(b"\xd4\x05\x00"), "{\"ext\":5,\"data\":\"AA==\"}");
    assert_eq!(to(b"\xcb\x7f\xf0\0\0\0\0\0\0"), "null");
    assert_eq!(to(b"\xca\x7f\xc0\0\0"), "null");
    assert_eq!(to(b"\xca\x3d\xcc\xcc\xcd"), "0.10000000149011612");
    assert_eq!(to(b"\x85\x01\x01\xc0\xc0\xc3\xc2\xcb\x3f\xf8\0\0\0\0\0\0\0\xa1a\x90"), {
        r#"{"1":1,"null":null,"true":false,"1.5":0,"a":[]}"#
    });
    assert_eq!(to(b"\x82\xc4\x01\0\x01\xd4\x01\0\x02"), {
        r#"{"AA==":1,"{\"ext\":1,\"data\":\"AA==\"}":2}"#
    });
    assert_eq!(to(b"\x81\x92\x01\xa1\"\x02"), r#"{"[1,\"\\\"\"]":2}"#);
    assert_eq!(to(b"\x81\x81\x81\x01\x02\x03\x04"), r#"{"{\"gQEC\":3}":4}"#);
    assert_eq!(packed("[18446744073709551615,18446744073709551616,-129,1e400,-0]"), {
        let ints = *b"\x95\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xcb\x43\xf0\0\0\0\0\0\0";
        [&ints[..], b"\xd1\xff\x7f\xcb\x7f\xf0\0\0\0\0\0\0\0"].concat()
    });
    assert_eq!(packed("\"\\ud800\""), b"\xa3\xef\xbf\xbd");
    assert!(from_json(b"[1,]", &mut Vec::new()).is_err());
    assert!(from_json(b"1 2", &mut Vec::new()).is_err());
}

#[test]
fn a_path_leads_to_the_last_one_of_each_key() {
    let bytes = packed(r#"{"x":{"b":9},"a":{"b":1},"c":0}"#);
    assert_eq!(at(&bytes, &["a", "b"]), Some(Leaf::Integer(1)));
    assert_eq!(at(&bytes, &["a"]), Some(Leaf::Other(b"\x81\xa1b\x01")));
    assert_eq!(at(&bytes, &["b"]), None);
    assert_eq!(at(&bytes, &["c", "b"]), None);
    let none: [&str; 0] = [];
    assert_eq!(at(b"\xc3", &none), Some(Leaf::Bool(true)));
    assert_eq!(at(b"\xc3", &["a"]), None);
    // The last one counts, even if it leads nowhere; keys that are no strings are passed over.
    assert_eq!(at(b"\x82\xa1a\x81\xa1b\x01\xa1a\xc0", &["a", "b"]), None);
    assert_eq!(at(b"\x82\xa1a\x81\xa1b\x01\xa1a\xc0", &["a"]), Some(Leaf::Nil));
    assert_eq!(at(b"\x83\x91\xa1a\x01\xc4\x01a\x02\xa1a\xa1\xff", &["a"]), {
        Some(Leaf::Other(b"\xa1\xff"))
    });
}

#[test]
fn what_is_written_is_read_by_others() {
    let mut out = Vec::new();
    push_map(&mut out, 3);
    push_text(&mut out, "n");
    push_array(&mut out, 6);
    for number in [0, -1, -33, i128::from(u64::MAX), i128::from(i64::MIN), 1 << 70] {
        push_integer(&mut out, number);
    }
    push_text(&mut out, "b");
    push_binary(&mut out, &[7; 300]);
    push_nil(&mut out);
    push_bool(&mut out, true);
    let decoded = rmpv::decode::read_value(&mut &out[..]).unwrap();
    assert_eq!(encoded(&decoded), out);
    assert_eq!(decoded["n"][3].as_u64(), Some(u64::MAX));
    assert_eq!(decoded["n"][4].as_i64(), Some(i64::MIN));
    assert_eq!(decoded["n"][5].as_f64(), Some(2_f64.powi(70)));
    assert_eq!(decoded["b"].as_slice(), Some(&[7; 300][..]));
}
