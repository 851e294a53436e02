//! A query over the jobs of a queue (`docs/protocols/jobq.md`, "Queries"), as parsed from the
//! request and not yet validated by SQLite.

/// The columns that a job has in a query.
pub const COLUMNS: [&str; 7] = ["id", "payload", "state", "events", "modified", "queue", "pri"];

/// A conjunction of comparisons.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// In the order of the request.
    pub terms: Vec<Term>,
}

/// One comparison of two SQLite expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// SQLite operator.
    pub op: Op,
    /// As the request gives it.
    pub left: Expr,
    /// As the request gives it.
    pub right: Expr,
}

/// The operators of comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `IS`
    Is,
    /// `IS NOT`
    IsNot,
    /// `LIKE`
    Like,
    /// `GLOB`
    Glob,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// One side of a comparison, as the request gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A string: an SQLite expression, or one bare word.
    Text(Box<str>),
    /// A JSON number, as it was written.
    Number(Box<str>),
    /// JSON `true` or `false`.
    Bool(bool),
    /// `null`
    Null,
    /// A text literal, not an expression.
    Literal(Box<str>),
}

/// One side of a comparison as a request writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// A string or another scalar.
    Expr(Expr),
    /// `{"value": ANY}`.
    Value(Value),
}

/// A JSON value, not an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its equivalent as an expression.
    pub expr: Expr,
    /// Its canonical text.
    pub json: Box<str>,
}

impl Op {
    /// In the order of the variants.
    pub const ALL: [Self; 10] = [
        Self::Is,
        Self::IsNot,
        Self::Like,
        Self::Glob,
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
    ];

    /// The operator with this name, as requests write it.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "IS" => Self::Is,
            "IS NOT" => Self::IsNot,
            "LIKE" => Self::Like,
            "GLOB" => Self::Glob,
            "=" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// As requests and SQLite write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Is => "IS",
            Self::IsNot => "IS NOT",
            Self::Like => "LIKE",
            Self::Glob => "GLOB",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

impl Term {
    /// Builds a comparison from a request. `state` or `payload`, a column of JSON text, that is
    /// compared for equality with a value or a bare word is compared as JSON: `RUNNING` equals the
    /// state `"RUNNING"`. SQLite's own answer does not change, because no JSON text is such a word;
    /// `true` and `false` are JSON and stay expressions. O(texts).
    #[must_use]
    pub fn of_request(op: Op, left: Side, right: Side) -> Self {
        let (left, right) = if matches!(op, Op::Is | Op::IsNot | Op::Equal | Op::NotEqual) {
            match (as_json(&left, &right), as_json(&right, &left)) {
                (Some((left, right)), _) | (None, Some((right, left))) => (left, right),
                (None, None) => (left.plain(), right.plain()),
            }
        } else {
            (left.plain(), right.plain())
        };
        Self { op, left, right }
    }
}

impl Side {
    fn plain(self) -> Expr {
        match self {
            Self::Expr(expr) => expr,
            Self::Value(value) => value.expr,
        }
    }
}

/// The two sides if one is a JSON column and the other a value or a bare word.
fn as_json(one: &Side, other: &Side) -> Option<(Expr, Expr)> {
    let Side::Expr(Expr::Text(text)) = one else { return None };
    let name = COLUMNS[column(text)?];
    // A state is kept as canonical text, a payload as it was sent.
    let column = match name {
        "state" => Expr::Text(text.clone()),
        "payload" => Expr::Text("json_canonical(payload)".into()),
        _ => return None,
    };
    let literal = match other {
        Side::Value(value) if value.expr == Expr::Null => return None,
        Side::Value(value) => value.json.clone(),
        Side::Expr(expr) => match expr.bare_word()? {
            "true" | "false" => return None,
            word => format!("\"{word}\"").into(),
        },
    };
    Some((column, Expr::Literal(literal)))
}

/// What SQLite accepts as space between words.
pub(crate) const SPACE: [char; 5] = [' ', '\t', '\n', '\x0c', '\r'];

impl Expr {
    /// The single word of a string, if it names no column: then it is a text literal. O(text).
    #[must_use]
    pub fn bare_word(&self) -> Option<&str> {
        let Self::Text(text) = self else { return None };
        let word = text.trim_matches(SPACE);
        let begins = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
        let goes_on = |byte: u8| begins(byte) || byte.is_ascii_digit() || byte == b'$';
        let is_word = word.bytes().next().is_some_and(begins) && word.bytes().all(goes_on);
        let is_column = COLUMNS.iter().any(|column| word.eq_ignore_ascii_case(column));
        (is_word && !is_column).then_some(word)
    }

    /// Whether it names the column `state`.
    fn is_state(&self) -> bool {
        let Self::Text(text) = self else { return false };
        column(text).is_some_and(|column| COLUMNS[column] == "state")
    }

    /// The canonical text of the state for which `state IS self` holds, if it is a literal.
    fn as_state(&self) -> Option<Box<[u8]>> {
        let text = match self {
            Self::Null => return Some(Box::from(*b"null")),
            // Against a column of texts SQLite compares numbers as texts; an integer's is sure.
            Self::Number(number) => number.parse::<i64>().ok()?.to_string(),
            Self::Bool(bool) => i32::from(*bool).to_string(),
            Self::Literal(text) => text.to_string(),
            Self::Text(text) => match self.bare_word() {
                Some(word) => word.to_owned(),
                None => quoted(text.trim_matches(SPACE))?,
            },
        };
        // The state `null` is no text in its column, so no text is equal to it.
        (text != "null").then(|| text.into_bytes().into())
    }
}

/// Index in [`COLUMNS`] of the column that `text` names, with or without its table.
pub(crate) fn column(text: &str) -> Option<usize> {
    let text = text.trim_matches(SPACE);
    let name = match text.split_at_checked(2) {
        Some((table, name)) if table.eq_ignore_ascii_case("j.") => name,
        _ => text,
    };
    COLUMNS.iter().position(|known| known.eq_ignore_ascii_case(name))
}

/// The content of an SQL string literal, if `text` is exactly one.
pub(crate) fn quoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut whole = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\'') {
        let behind = rest[at + 1..].strip_prefix('\'')?;
        whole.push_str(&rest[..=at]);
        rest = behind;
    }
    whole.push_str(rest);
    (!whole.contains('\0')).then_some(whole)
}

impl Query {
    /// For a term of the form `state IS literal`: the state that all matching jobs have, as
    /// canonical JSON text, and whether there are further terms. O(text).
    #[must_use]
    pub fn state_literal(&self) -> Option<(Box<[u8]>, bool)> {
        let mut states = self.terms.iter().filter(|term| term.op == Op::Is).filter_map(|term| {
            if term.left.is_state() {
                term.right.as_state()
            } else if term.right.is_state() {
                term.left.as_state()
            } else {
                None
            }
        });
        let state = states.next()?;
        Some((state, self.terms.len() > 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Expr {
        Expr::Text(text.into())
    }

    fn literal(left: Expr, right: Expr) -> Option<String> {
        let query = Query { terms: vec![Term { op: Op::Is, left, right }] };
        let (state, others) = query.state_literal()?;
        assert!(!others);
        Some(String::from_utf8(state.into_vec()).unwrap())
    }

    #[test]
    fn a_literal_state_is_seen() {
        for (expr, expected) in [
            (Expr::Null, Some("null")),
            (Expr::Bool(true), Some("1")),
            (Expr::Literal("\"it's\"".into()), Some("\"it's\"")),
            (Expr::Literal("null".into()), None),
            (Expr::Number("-0".into()), Some("0")),
            (Expr::Number("-9223372036854775808".into()), Some("-9223372036854775808")),
            (Expr::Number("9223372036854775808".into()), None),
            (Expr::Number("1.0".into()), None),
            (text(" NEW\n"), Some("NEW")),
            (text("select"), Some("select")),
            (text("d\u{e9}j\u{e0}"), Some("d\u{e9}j\u{e0}")),
            (text("null"), None),
            (text("'null'"), None),
            (text(" '[\"CREATED\"]' "), Some("[\"CREATED\"]")),
            (text("'\"it''s\"'"), Some("\"it's\"")),
            (text("''''"), Some("'")),
            (text("''"), Some("")),
            (text("'"), None),
            (text("'''"), None),
            (text("'a' || 'b'"), None),
            (text("'a\0b'"), None),
            (text("payload"), None),
            (text("STATE"), None),
            (text("5"), None),
            (text(""), None),
        ] {
            assert_eq!(literal(text("state"), expr.clone()).as_deref(), expected, "{expr:?}");
            assert_eq!(literal(expr.clone(), text(" J.State ")).as_deref(), expected, "{expr:?}");
            assert_eq!(literal(text("payload"), expr), None);
        }
    }

    #[test]
    fn a_column_of_json_is_compared_as_json_with_values_and_bare_words() {
        let value = |json: &str, expr| Side::Value(Value { expr, json: json.into() });
        let literal = |text: &str| Expr::Literal(text.into());
        let word = |word: &str| Side::Expr(text(word));
        let payload = || text("json_canonical(payload)");
        for (column, op, other, left, right) in [
            ("state", Op::Is, word("RUNNING"), text("state"), literal("\"RUNNING\"")),
            ("J.State", Op::NotEqual, word("\u{e9}"), text("J.State"), literal("\"\u{e9}\"")),
            ("payload", Op::Equal, word("a"), payload(), literal("\"a\"")),
            ("state", Op::Is, word("true"), text("state"), text("true")),
            ("state", Op::Is, word("'a'"), text("state"), text("'a'")),
            ("state", Op::Like, word("a"), text("state"), text("a")),
            ("state", Op::Less, value("\"a\"", literal("a")), text("state"), literal("a")),
            ("state", Op::Is, value("\"a\"", literal("a")), text("state"), literal("\"a\"")),
            ("payload", Op::Is, value("true", Expr::Bool(true)), payload(), literal("true")),
            ("payload", Op::Is, value("null", Expr::Null), text("payload"), Expr::Null),
            ("queue", Op::Is, value("\"a\"", literal("a")), text("queue"), literal("a")),
            ("queue", Op::Is, word("a"), text("queue"), text("a")),
        ] {
            let term = Term::of_request(op, word(column), other.clone());
            let expected = Term { op, left: left.clone(), right: right.clone() };
            assert_eq!(term, expected, "{column} {op:?} {other:?}");
            let turned = Term::of_request(op, other, word(column));
            assert_eq!((turned.left, turned.right), (right, left));
        }
    }

    #[test]
    fn other_terms_are_seen() {
        let term = |op, right| Term { op, left: text("state"), right };
        let query = Query { terms: vec![term(Op::Equal, Expr::Null), term(Op::Is, text("A"))] };
        assert_eq!(query.state_literal(), Some((Box::from(*b"A"), true)));
        assert_eq!(Query { terms: vec![term(Op::IsNot, Expr::Null)] }.state_literal(), None);
        assert_eq!(Query::default().state_literal(), None);
    }
}
