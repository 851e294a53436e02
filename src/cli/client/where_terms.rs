//! The value of `--where`: a query of the API as JSON, or one comparison of a part of the payload,
//! `payload.to=ann`.

use super::record::quoted;
use crate::wire::json::{elements, value};

const HELP: &str = "give a query as JSON, [[\"=\",\"payload ->> '$.to'\",\"ann\"]], or compare a \
                    member, payload.to=ann, with =, !=, <, <=, >, >= or ~ (LIKE)";

/// The query as JSON.
///
/// # Errors
/// What to give.
pub(super) fn parse_where(text: &str) -> Result<String, String> {
    if text.trim_start().starts_with('[') {
        let json = value(text.as_bytes()).map_err(|error| format!("the query {error}: {HELP}"))?;
        elements(json).ok_or(HELP)?;
        return Ok(super::payload::in_line(json));
    }
    let operators = ["!=", "<=", ">=", "=", "<", ">", "~"];
    let places = operators.iter().filter_map(|it| text.find(it).map(|at| (at, *it)));
    // Of two at the same place the longer one.
    let (at, operator) = places
        .min_by_key(|(at, it)| (*at, usize::MAX - it.len()))
        .ok_or_else(|| HELP.to_owned())?;
    let (path, rest) = (text[..at].trim(), text[at + operator.len()..].trim());
    let operator = if operator == "~" { "LIKE" } else { operator };
    let expression = match path.strip_prefix("payload.") {
        Some(member) => format!("payload ->> '{}'", json_path(member)?),
        None if ["id", "pri", "payload", "state"].contains(&path) => path.to_owned(),
        None => return Err(format!("'{path}' is no member of the payload: {HELP}")),
    };
    let is_number = rest.parse::<f64>().is_ok_and(f64::is_finite) && value(rest.as_bytes()).is_ok();
    let operand = if is_number { rest.to_owned() } else { quoted(rest) };
    let operand = if is_number { operand } else { format!("{{\"value\":{operand}}}") };
    Ok(format!("[[{},{},{operand}]]", quoted(operator), quoted(&expression)))
}

/// The path of SQLite to a member of a member.
fn json_path(names: &str) -> Result<String, String> {
    let mut path = "$".to_owned();
    for name in names.split('.') {
        if name.is_empty() || name.contains(['"', '\'', '\\']) {
            return Err(format!("'{names}' is no path of members: {HELP}"));
        }
        path = format!("{path}.\"{name}\"");
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_becomes_a_query() {
        for (text, query) in [
            ("payload.to=ann", r#"[["=","payload ->> '$.\"to\"'",{"value":"ann"}]]"#),
            ("payload.a.b >= 1.5", r#"[[">=","payload ->> '$.\"a\".\"b\"'",1.5]]"#),
            ("pri!=7", r#"[["!=","pri",7]]"#),
            ("payload.to~a%", r#"[["LIKE","payload ->> '$.\"to\"'",{"value":"a%"}]]"#),
            (" [[\"=\",\"id\",1]] ", r#"[["=","id",1]]"#),
        ] {
            assert_eq!(parse_where(text).as_deref(), Ok(query), "{text}");
        }
        for wrong in ["", "payload", "to=1", "payload.a'b=1", "payload.=1", "[[", "{}=1"] {
            assert!(parse_where(wrong).unwrap_err().contains("payload.to=ann"), "{wrong}");
        }
    }
}
