//! Matchers of constraints in MessagePack: what LightJQ and the native API have in common.

use crate::model::worker::{Compare, Condition, Path, Scalar};
use crate::wire::Leaf;
use crate::wire::msgpack::{
    Raw, Token, push_array, push_bool, push_float, push_integer, push_nil, push_text,
};
use std::borrow::Cow;

/// The most conditions of a matcher: each put evaluates all of them.
pub const CONDITIONS_MAX: usize = 32;

/// The most keys of a path.
pub const KEYS_MAX: usize = 32;

/// The most values after `in`.
pub const VALUES_MAX: usize = 1_024;

/// The operators as they are written.
pub const OPERATORS: [(&str, Compare); 7] = [
    ("=", Compare::Equal),
    ("!=", Compare::NotEqual),
    ("<", Compare::Less),
    ("<=", Compare::LessOrEqual),
    (">", Compare::Greater),
    (">=", Compare::GreaterOrEqual),
    ("in", Compare::In),
];

/// What a path has to be.
pub(in crate::protocol) const A_PATH: &str = "'name' or a path such as 'argument.user.id'";

/// Why a value is no matcher.
#[derive(Debug)]
pub(in crate::protocol) enum MatcherError {
    NoArray,
    /// More than [`CONDITIONS_MAX`].
    TooMany,
    /// What is wrong with the condition of this number, behind its name.
    Condition(usize, Cow<'static, str>),
}

/// Reads a path.
pub(in crate::protocol) fn read_path(value: Raw<'_>) -> Option<Path> {
    match value.text()? {
        "name" => Some(Path::Name),
        "argument" => Some(Path::Argument(Vec::new())),
        text => {
            let keys: Vec<&str> =
                text.strip_prefix("argument.")?.split('.').take(KEYS_MAX + 1).collect();
            let fine = keys.len() <= KEYS_MAX && keys.iter().all(|key| !key.is_empty());
            fine.then(|| Path::Argument(keys.into_iter().map(Into::into).collect()))
        }
    }
}

/// Reads a matcher. O(bytes).
pub(in crate::protocol) fn read_matcher(value: Raw<'_>) -> Result<Vec<Condition>, MatcherError> {
    if !matches!(value.token(), Token::Array(_)) {
        return Err(MatcherError::NoArray);
    }
    let mut conditions = Vec::new();
    for (number, condition) in value.elements().enumerate() {
        if number == CONDITIONS_MAX {
            return Err(MatcherError::TooMany);
        }
        let condition = read_condition(condition);
        conditions.push(condition.map_err(|what| MatcherError::Condition(number, what))?);
    }
    Ok(conditions)
}

fn read_condition(value: Raw<'_>) -> Result<Condition, Cow<'static, str>> {
    let mut parts = value.elements();
    let (Some(path), Some(op), Some(operand), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err("must be [path, operator, value]".into());
    };
    let path = read_path(path)
        .ok_or_else(|| format!("must begin with {A_PATH} of at most {KEYS_MAX} keys"))?;
    let op = OPERATORS.into_iter().find(|(text, _)| op.text() == Some(text));
    let Some((_, op)) = op else {
        let known: Vec<&str> = OPERATORS.into_iter().map(|(text, _)| text).collect();
        return Err(format!("must have an operator: one of {}", known.join(" ")).into());
    };
    let values: Option<Vec<Scalar>> = match (op, operand.token()) {
        (Compare::In, Token::Array(count)) if (1..=VALUES_MAX).contains(&(count as usize)) => {
            operand.elements().map(read_scalar).collect()
        }
        (Compare::In, _) => {
            return Err(format!("must end with an array of 1 to {VALUES_MAX} values").into());
        }
        _ => read_scalar(operand).map(|scalar| vec![scalar]),
    };
    let Some(values) = values else {
        return Err("must compare with nil, a boolean, a number or a string".into());
    };
    if path == Path::Name && !values.iter().all(|value| matches!(value, Scalar::Text(_))) {
        return Err("must compare a name with a string".into());
    }
    Ok(Condition { path, op, values })
}

fn read_scalar(value: Raw<'_>) -> Option<Scalar> {
    match value.leaf() {
        Leaf::Nil => Some(Scalar::Nil),
        Leaf::Bool(value) => Some(Scalar::Bool(value)),
        Leaf::Integer(number) => Some(Scalar::Integer(number)),
        Leaf::Float(number) if !number.is_nan() => Some(Scalar::Float(number.to_bits())),
        Leaf::Text(text) => Some(Scalar::Text(text.into())),
        Leaf::Float(_) | Leaf::Other(_) => None,
    }
}

/// Writes a matcher. O(bytes).
pub(in crate::protocol) fn push_matcher(out: &mut Vec<u8>, matcher: &[Condition]) {
    push_array(out, narrow(matcher.len()));
    for Condition { path, op, values } in matcher {
        push_array(out, 3);
        push_path(out, path);
        let text = OPERATORS.into_iter().find(|(_, known)| known == op).map(|(text, _)| text);
        push_text(out, text.expect("every operator has its text"));
        if *op == Compare::In {
            push_array(out, narrow(values.len()));
        }
        for value in values {
            push_scalar(out, value);
        }
    }
}

fn narrow(count: usize) -> u32 {
    u32::try_from(count).expect("a constraint has no more parts than it may")
}

/// Writes a path.
pub(in crate::protocol) fn push_path(out: &mut Vec<u8>, path: &Path) {
    match path {
        Path::Name => push_text(out, "name"),
        Path::Argument(keys) => {
            let keys: String = keys.iter().flat_map(|key| [".", key]).collect();
            push_text(out, &format!("argument{keys}"));
        }
    }
}

fn push_scalar(out: &mut Vec<u8>, scalar: &Scalar) {
    match scalar {
        Scalar::Nil => push_nil(out),
        Scalar::Bool(value) => push_bool(out, *value),
        Scalar::Integer(number) => push_integer(out, *number),
        Scalar::Float(bits) => push_float(out, f64::from_bits(*bits)),
        Scalar::Text(text) => push_text(out, text),
    }
}
