//! What the sessions of the listener share: counters, and the names of tubes in the command that is
//! being submitted. A session that submits several commands in a row copies its names once.

use super::counters::Counters;
use crate::base::strings::{StringList, Strings};
use crate::model::job::JobOptions;
use std::sync::Arc;

/// What the sessions of the listener share.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) counters: Arc<Counters>,
    /// The name of the tube of the command that is being submitted.
    tube: Vec<u8>,
    /// The session whose used tube that is, by [`Session::names`](super::Session); 0: of none.
    tube_of: u64,
    /// The tubes that the session with this number watches.
    watched: StringList,
    watched_of: u64,
    /// The options of the put that is being submitted.
    options: JobOptions,
}

impl Scratch {
    /// Copies the name of a tube, for a command that outlives it.
    #[inline]
    pub(super) fn set_tube(&mut self, tube: &[u8]) -> &[u8] {
        self.tube.clear();
        self.tube.extend_from_slice(tube);
        self.tube_of = 0;
        &self.tube
    }

    /// Makes the tube that the session with these names uses the one of the command. Copied only if
    /// the last one was another's.
    #[inline]
    fn use_tube(&mut self, names: u64, tube: &[u8]) {
        if self.tube_of != names {
            self.set_tube(tube);
            self.tube_of = names;
        }
    }

    /// The tube that the session with these names uses, and options for a put
    /// into it. Only these two are ever other than the default.
    #[inline]
    pub(super) fn put(
        &mut self,
        (names, tube): (u64, &[u8]),
        (delay_ms, lease_ms): (u64, u64),
    ) -> (&[u8], &JobOptions) {
        self.use_tube(names, tube);
        (self.options.delay_ms, self.options.lease_ms) = (delay_ms, lease_ms);
        (&self.tube, &self.options)
    }

    /// The tubes that the session with these names watches. Copied only if the last ones were
    /// another's.
    #[inline]
    pub(super) fn watched(&mut self, names: u64, tubes: &StringList) -> Strings<'_> {
        if self.watched_of != names {
            self.watched.clear();
            for tube in tubes {
                self.watched.push(tube);
            }
            self.watched_of = names;
        }
        self.watched.from(0)
    }
}
