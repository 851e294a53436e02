//! Constraints (`PUT /constraint/{name}`), in MessagePack and in JSON.

use super::fields::{Field, FieldError, FieldKind, Map, integer, push_seconds, seconds};
use crate::model::worker::{Condition, Constraint, Rate};
pub use crate::protocol::matcher::{CONDITIONS_MAX, KEYS_MAX, OPERATORS, VALUES_MAX};
use crate::protocol::matcher::{MatcherError, push_matcher, push_path, read_path};
use crate::wire::msgpack::{Raw, from_json, push_integer, push_map, push_text};
use std::borrow::Cow;

const FROM_NONE: FieldKind = FieldKind::Integer { min: 0, max: u32::MAX as i64, strict: true };
const FROM_ONE: FieldKind = FieldKind::Integer { min: 1, max: u32::MAX as i64, strict: true };

/// The fields of a constraint.
pub static CONSTRAINT: [Field; 4] = [
    Field::must("matcher", FieldKind::Matcher, "Which jobs it is about: all conditions hold."),
    Field::may("max_running", FROM_NONE, "How many of them run at a time."),
    Field::may("rate", FieldKind::Map(&RATE), "How many of them are started in a time."),
    Field::may("per", FieldKind::Path, "Both count for each value at this path of its own."),
];

/// The fields of a rate.
pub static RATE: [Field; 3] = [
    Field::must("count", FROM_ONE, "The number of jobs that may start..."),
    Field::must("period", FieldKind::Seconds, "... in this number of seconds."),
    Field::may("burst", FROM_ONE, "How many may start at once after a rest; absent: count."),
];

/// Reads a constraint in JSON. O(bytes).
///
/// # Errors
/// What is wrong with it.
pub fn read_constraint_json(name: &str, text: &[u8]) -> Result<Constraint, FieldError> {
    let mut bytes = Vec::new();
    from_json(text, &mut bytes).map_err(FieldError::Json)?;
    read_constraint(name, &bytes)
}

/// Reads a constraint in MessagePack. O(bytes).
///
/// # Errors
/// What is wrong with it.
pub fn read_constraint(name: &str, bytes: &[u8]) -> Result<Constraint, FieldError> {
    let map = Map::read(bytes, &CONSTRAINT)?.known_only()?;
    let Some(conditions) = map.get("matcher") else {
        return Err(map.missing("matcher"));
    };
    let rate = map.get("rate").map(read_rate).transpose()?;
    let max_running = map.may("max_running", integer)?;
    let per = map.may("per", |value, _| read_path(value))?;
    if rate.is_none() && max_running.is_none() {
        return Err(not("max_running", "is missing, and so is 'rate': one of them must be there"));
    }
    Ok(Constraint { name: name.into(), matcher: read_matcher(conditions)?, max_running, rate, per })
}

fn not(field: impl Into<Cow<'static, str>>, what: impl Into<Cow<'static, str>>) -> FieldError {
    FieldError::Not { field: field.into(), what: what.into() }
}

fn read_rate(value: Raw<'_>) -> Result<Rate, FieldError> {
    let map = Map::read_within(value, &RATE, "rate")?.known_only()?;
    let count = map.must("count", integer)?;
    let period_ms = map.must("period", seconds)?;
    Ok(Rate { count, period_ms, burst: map.may("burst", integer)?.unwrap_or(count) })
}

fn read_matcher(value: Raw<'_>) -> Result<Vec<Condition>, FieldError> {
    crate::protocol::matcher::read_matcher(value).map_err(|error| match error {
        MatcherError::NoArray => {
            FieldError::Wrong { field: "matcher".into(), wanted: FieldKind::Matcher }
        }
        MatcherError::TooMany => {
            not("matcher", format!("has more than {CONDITIONS_MAX} conditions"))
        }
        MatcherError::Condition(number, what) => not(format!("matcher[{number}]"), what),
    })
}

/// Writes a constraint. O(bytes).
pub fn write_constraint(constraint: &Constraint, out: &mut Vec<u8>) {
    let Constraint { name: _, matcher, max_running, rate, per } = constraint;
    let there = [max_running.is_some(), rate.is_some(), per.is_some()];
    push_map(out, 1 + there.map(u32::from).iter().sum::<u32>());
    push_text(out, "matcher");
    push_matcher(out, matcher);
    if let Some(max_running) = *max_running {
        push_text(out, "max_running");
        push_integer(out, max_running);
    }
    if let Some(rate) = rate {
        push_text(out, "rate");
        push_map(out, 3);
        push_text(out, "count");
        push_integer(out, rate.count);
        push_text(out, "period");
        push_seconds(out, rate.period_ms);
        push_text(out, "burst");
        push_integer(out, rate.burst);
    }
    if let Some(per) = per {
        push_text(out, "per");
        push_path(out, per);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::worker::{Compare, Path, Scalar};
    use crate::protocol::http::lightjq::messages::tests::{packed, shown};

    fn constraint(json: &str) -> Result<Constraint, String> {
        let by_json = read_constraint_json("c", json.as_bytes()).map_err(|error| error.to_string());
        let by_msgpack = read_constraint("c", &packed(json)).map_err(|error| error.to_string());
        assert_eq!(by_json, by_msgpack);
        by_json
    }

    #[test]
    fn constraint_is_parsed() {
        let found = constraint(
            r#"{"matcher":[["name","=","mail-*"],["argument.user.id","in",[1,"1",null,1.5,true]],
                ["argument",">=",-7]],"max_running":0,"per":"argument.host",
                "rate":{"count":3,"period":0.5,"burst":10}}"#,
        );
        let text = |text: &str| Scalar::Text(text.into());
        let argument = |keys: &[&str]| Path::Argument(keys.iter().map(|&key| key.into()).collect());
        let condition = |path, op, values| Condition { path, op, values };
        let all = vec![
            condition(Path::Name, Compare::Equal, vec![text("mail-*")]),
            condition(argument(&["user", "id"]), Compare::In, {
                let float = Scalar::Float(1.5_f64.to_bits());
                vec![Scalar::Integer(1), text("1"), Scalar::Nil, float, Scalar::Bool(true)]
            }),
            condition(argument(&[]), Compare::GreaterOrEqual, vec![Scalar::Integer(-7)]),
        ];
        let expected = Constraint {
            name: "c".into(),
            matcher: all,
            max_running: Some(0),
            rate: Some(Rate { count: 3, period_ms: 500, burst: 10 }),
            per: Some(argument(&["host"])),
        };
        assert_eq!(found, Ok(expected.clone()));
        let mut out = Vec::new();
        write_constraint(&expected, &mut out);
        assert_eq!(read_constraint("c", &out), Ok(expected));
        let plain = r#"{"matcher":[],"rate":{"count":3,"period":60}}"#;
        let found = constraint(plain).unwrap();
        assert_eq!(found.rate, Some(Rate { count: 3, period_ms: 60_000, burst: 3 }));
        assert_eq!((found.max_running, found.per), (None, None));
        for (op, compare) in OPERATORS.into_iter().filter(|(op, _)| *op != "in") {
            let json = format!(r#"{{"matcher":[["argument.a","{op}",1]],"max_running":1}}"#);
            let found = constraint(&json).unwrap();
            assert_eq!(found.matcher[0].op, compare);
            out.clear();
            write_constraint(&found, &mut out);
            assert_eq!(shown(&out), json);
        }
    }

    #[test]
    fn constraint_error_names_the_field() {
        let with = |condition: &str| {
            let json = format!(r#"{{"matcher":[["name","=","a"],{condition}],"max_running":1}}"#);
            let problem = constraint(&json).unwrap_err();
            problem.strip_prefix("field 'matcher[1]' ").unwrap_or(&problem).to_owned()
        };
        for condition in ["1", "[]", r#"["name","="]"#, r#"["name","=","a","b"]"#] {
            assert_eq!(with(condition), "must be [path, operator, value]");
        }
        for path in ["\"id\"", "\"argument.\"", "\"argument.a..b\"", "\"argumentx\"", "7"] {
            let problem = with(&format!(r#"[{path},"=",1]"#));
            assert!(problem.starts_with("must begin with 'name' or a path such as"), "{problem}");
        }
        let deep = format!("\"argument{}\"", ".a".repeat(KEYS_MAX + 1));
        assert!(with(&format!("[{deep},\"=\",1]")).contains("at most 32 keys"));
        let problem = with(r#"["argument.a","==",1]"#);
        assert_eq!(problem, "must have an operator: one of = != < <= > >= in");
        for values in ["1", "[]", &format!("[{}1]", "1,".repeat(VALUES_MAX))] {
            let problem = with(&format!(r#"["argument.a","in",{values}]"#));
            assert_eq!(problem, "must end with an array of 1 to 1024 values");
        }
        for value in ["[1]", "{}"] {
            let problem = with(&format!(r#"["argument.a","=",{value}]"#));
            assert_eq!(problem, "must compare with nil, a boolean, a number or a string");
        }
        assert_eq!(with(r#"["name","in",["a",1]]"#), "must compare a name with a string");
        let many =
            format!(r#"["name","=","a"]{}"#, r#",["name","=","a"]"#.repeat(CONDITIONS_MAX - 1));
        assert_eq!(with(&many), "field 'matcher' has more than 32 conditions");
        for (json, problem) in [
            (r#"{"max_running":1}"#, {
                "field 'matcher' is missing: it must be an array of conditions, [path, operator, \
                 value] each"
            }),
            (r#"{"matcher":{},"max_running":1}"#, {
                "field 'matcher' must be an array of conditions, [path, operator, value] each"
            }),
            (r#"{"matcher":[]}"#, {
                "field 'max_running' is missing, and so is 'rate': one of them must be there"
            }),
            (r#"{"matcher":[],"max_runing":1}"#, {
                "field 'max_runing' is unknown here: \
                 did you mean 'max_running'? Known are matcher, max_running, rate, per"
            }),
            (r#"{"matcher":[],"max_running":-1}"#, {
                "field 'max_running' must be an integer from 0 to 4294967295"
            }),
            (r#"{"matcher":[],"max_running":1,"per":"user"}"#, {
                "field 'per' must be 'name' or a path such as 'argument.user.id'"
            }),
            (r#"{"matcher":[],"rate":5}"#, "field 'rate' must be a map"),
            (r#"{"matcher":[],"rate":{"period":1}}"#, {
                "field 'rate.count' is missing: it must be an integer from 1 to 4294967295"
            }),
            (r#"{"matcher":[],"rate":{"count":1,"period":0}}"#, {
                "field 'rate.period' must be a number of seconds greater than 0"
            }),
            (r#"{"matcher":[],"rate":{"count":1,"period":1,"brst":1}}"#, {
                "field 'rate.brst' is unknown here: \
                 did you mean 'burst'? Known are count, period, burst"
            }),
            ("[1]", "the body is an array, not a MessagePack map"),
        ] {
            assert_eq!(constraint(json), Err(problem.to_owned()));
        }
        let problem = read_constraint_json("c", b"{\"matcher\":}").unwrap_err().to_string();
        assert_eq!(problem, "the body is not JSON: expected value at byte 12");
    }
}
