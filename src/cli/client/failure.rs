//! Why a verb fails: a sentence for the reader, and the exit status for scripts.

use std::process::ExitCode;

/// The exit statuses of the client verbs (`docs/command-line.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The server refused, or something failed on the way.
    Failed = 1,
    /// The arguments make no sense together.
    Usage = 2,
    /// Some of it was done.
    Partly = 3,
    /// There is no such job or queue, or no job came in time.
    Nothing = 4,
    /// There is no connection.
    Unreachable = 5,
    /// The user of the token may not do this.
    Denied = 6,
    /// A signal has ended it early.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A failed verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) exit: Exit,
    /// For stderr; empty: everything was said.
    pub(super) sentence: String,
}

/// What a verb returns.
pub(super) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(super) fn new(exit: Exit, sentence: impl Into<String>) -> Self {
        Self { exit, sentence: sentence.into() }
    }

    pub(super) fn failed(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Failed, sentence)
    }

    pub(super) fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Usage, sentence)
    }

    pub(super) fn nothing(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Nothing, sentence)
    }

    pub(super) fn unreachable(sentence: impl Into<String>) -> Self {
        Self::new(Exit::Unreachable, sentence)
    }

    /// The sentence with which the server refuses a request.
    pub(super) fn refused(sentence: String) -> Self {
        let exit = if is_denial(&sentence) { Exit::Denied } else { Exit::Failed };
        if exit == Exit::Denied && sentence.starts_with(UNAUTHENTICATED) {
            let advice = "give the token of a user: --token-file FILE, or JOBCENTRE_TOKEN";
            return Self::new(exit, format!("{sentence} ({advice})"));
        }
        Self::new(exit, sentence)
    }
}

/// How the sentence for a client begins that has not said which user it is.
const UNAUTHENTICATED: &str = "authenticate first";

/// Whether a sentence of the server says that a right or a token is missing. A line has no other
/// sign of it.
fn is_denial(sentence: &str) -> bool {
    sentence.starts_with(UNAUTHENTICATED)
        || sentence.contains("lacks the right '")
        || sentence.contains("no user of this server has")
        || sentence.starts_with("the rights of this user have changed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Denial, Right};

    #[test]
    fn denials_are_known_by_their_sentences() {
        let (user, right) = ("web".into(), Right::Put);
        let queue = Some(b"q"[..].into());
        for denial in [
            Denial::Unauthenticated,
            Denial::Changed,
            Denial::OfJob { user: "web".into(), right: Right::Manage },
            Denial::Missing { user, right, queue },
        ] {
            let failure = Failure::refused(denial.to_string());
            assert_eq!(failure.exit, Exit::Denied, "{denial}");
        }
        let other = Failure::refused("the server is being drained".to_owned());
        assert_eq!(other.exit, Exit::Failed);
    }
}
