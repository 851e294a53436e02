//! Why a request leads nowhere.

/// Why a request has no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RouteError {
    /// The path cannot be decoded: a sentence.
    Bad(&'static str),
    NotFound,
    /// There is a route without the slash at the end.
    Slash,
    /// The path has other methods: the value of `Allow`.
    Method(String),
    /// A request for the methods of the path: the value of `Allow`.
    Options(String),
}
