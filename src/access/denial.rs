//! Why a request is not executed: sentences for its author.

use super::need::Right;
use std::fmt;

/// Why a request is not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Its client has not said who it is.
    Unauthenticated,
    /// The rights of its client have changed before it was answered.
    Changed,
    /// Its user lacks a right on the queue of a job that is named by its id.
    OfJob {
        /// The name of the user.
        user: Box<str>,
        /// Which right.
        right: Right,
    },
    /// Its user lacks a right.
    Missing {
        /// The name of the user.
        user: Box<str>,
        /// Which right.
        right: Right,
        /// On this queue, of any bytes; `None`: on all queues, or on the server.
        queue: Option<Box<[u8]>>,
    },
    /// The server can carry out nothing now: a sentence.
    Unavailable(Box<str>),
}

/// A permission as it is written in the settings, that would have been enough.
struct Wanted<'a>(Right, Option<&'a [u8]>);

impl fmt::Display for Wanted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(right, queue) = *self;
        f.write_str(right.name())?;
        match queue {
            _ if !right.is_on_queues() => Ok(()),
            None => f.write_str(":*"),
            Some(queue) => {
                let shown: String = String::from_utf8_lossy(queue).chars().take(80).collect();
                write!(f, ":{shown}")
            }
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unauthenticated => f.write_str(
                "authenticate first: this server has users, and nothing was carried out",
            ),
            Self::Changed => f.write_str(
                "the rights of this user have changed before the request was answered: a wait has \
                 ended, and a purge, move or other action on many jobs goes on",
            ),
            Self::Unavailable(why) => f.write_str(why),
            Self::OfJob { user, right } => {
                let right = right.name();
                write!(
                    f,
                    "the user '{user}' lacks the right '{right}' on the queue of this job, and \
                     nothing was carried out: it would stand under 'allow' of that user in the \
                     settings"
                )
            }
            Self::Missing { user, right, queue } => {
                let wanted = Wanted(*right, queue.as_deref());
                write!(
                    f,
                    "the user '{user}' lacks the right '{wanted}', and nothing was carried out: \
                     it would stand under 'allow' of that user in the settings"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denial_names_the_permission_that_is_missing() {
        let missing = |right, queue: Option<&str>| Denial::Missing {
            user: "web".into(),
            right,
            queue: queue.map(|queue| queue.as_bytes().into()),
        };
        let of_job = Denial::OfJob { user: "web".into(), right: Right::Take }.to_string();
        assert!(of_job.contains("'web' lacks the right 'take' on the queue of this job"));
        let text = |right, queue| missing(right, queue).to_string();
        assert!(text(Right::Put, Some("mail")).contains("'web' lacks the right 'put:mail'"));
        assert!(text(Right::Manage, None).contains("'manage:*'"));
        assert!(text(Right::Observe, None).contains("'observe'"));
        assert!(Denial::Unauthenticated.to_string().starts_with("authenticate first"));
    }
}
