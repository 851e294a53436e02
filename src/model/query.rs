//! A query over the jobs of a queue (`protocols/jobq.md`, "Queries"), before SQLite has seen it.

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
