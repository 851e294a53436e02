//! Why a start goes no further.

use std::fmt;

/// The connection was lost, or could not be made: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallError(pub String);

/// Why a start goes no further. Displays as a sentence without its full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The connection is lost, or the node does not serve now: to be tried again.
    Passing(String),
    /// Another server leads by now.
    Fenced(String),
    /// It has to be mended.
    Fatal(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passing(why) | Self::Fatal(why) => f.write_str(why),
            Self::Fenced(name) => write!(f, "another server leads by now: {name}"),
        }
    }
}

impl StartError {
    /// The same of this node.
    #[must_use]
    pub fn at(self, node: &str) -> Self {
        match self {
            Self::Passing(why) => Self::Passing(format!("{node}: {why}")),
            Self::Fatal(why) => Self::Fatal(format!("{node}: {why}")),
            Self::Fenced(name) => Self::Fenced(name),
        }
    }
}

impl From<CallError> for StartError {
    fn from(error: CallError) -> Self {
        Self::Passing(error.0)
    }
}
