//! A query over the jobs of a queue (`protocols/jobq.md`, "Queries"), before SQLite has seen it.

/// The columns that a job has in a query.
pub const COLUMNS: [&str; 7] = ["id", "payload", "state", "events", "modified", "queue", "pri"];

/// Terms that all must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// In the order of the request.
    pub terms: Vec<Term>,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// How the sides are compared.
    pub op: Op,
    /// The left side.
    pub left: Expr,
    /// The right side.
    pub right: Expr,
}

/// How two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `IS`
    Is,
    /// `IS NOT`
    IsNot,
    /// `LIKE`
    Like,
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
    /// A JSON truth value.
    Bool(bool),
    /// `null`
    Null,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Is,
        Self::IsNot,
        Self::Like,
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
            "=" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }

    /// Its name, which is SQLite's as well.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Is => "IS",
            Self::IsNot => "IS NOT",
            Self::Like => "LIKE",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }
}

/// What SQLite takes for space between words.
pub(crate) const SPACE: [char; 5] = [' ', '\t', '\n', '\x0c', '\r'];

impl Expr {
    /// The word that stands alone in a string and names no column: a string in its own right.
    /// O(text).
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

    /// Whether it is the column of the state.
    fn is_state(&self) -> bool {
        let Self::Text(text) = self else { return false };
        column(text).is_some_and(|column| COLUMNS[column] == "state")
    }

    /// The canonical text of the state that `IS` this, if that is plain to see.
    fn as_state(&self) -> Option<Box<[u8]>> {
        let text = match self {
            Self::Null => return Some(Box::from(*b"null")),
            // Against a column of texts SQLite compares numbers as texts; an integer's is sure.
            Self::Number(number) => number.parse::<i64>().ok()?.to_string(),
            Self::Bool(bool) => i32::from(*bool).to_string(),
            Self::Text(text) => match self.bare_word() {
                Some(word) => word.to_owned(),
                None => quoted(text.trim_matches(SPACE))?,
            },
        };
        // The state `null` is no text in its column, so no text is equal to it.
        (text != "null").then(|| text.into_bytes().into())
    }
}

/// The place among [`COLUMNS`] of the one that `text` names, with or without its table.
pub(crate) fn column(text: &str) -> Option<usize> {
    let text = text.trim_matches(SPACE);
    let name = match text.split_at_checked(2) {
        Some((table, name)) if table.eq_ignore_ascii_case("j.") => name,
        _ => text,
    };
    COLUMNS.iter().position(|known| known.eq_ignore_ascii_case(name))
}

/// What stands in an SQL string, if `text` is one and nothing else.
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
    /// The state that all jobs that match must have, if a term of the form `state IS literal` says
    /// so: as canonical JSON text, and whether there are other terms that must hold as well.
    /// O(text).
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
    fn other_terms_are_seen() {
        let term = |op, right| Term { op, left: text("state"), right };
        let query = Query { terms: vec![term(Op::Equal, Expr::Null), term(Op::Is, text("A"))] };
        assert_eq!(query.state_literal(), Some((Box::from(*b"A"), true)));
        assert_eq!(Query { terms: vec![term(Op::IsNot, Expr::Null)] }.state_literal(), None);
        assert_eq!(Query::default().state_literal(), None);
    }
}
