//! Following a leader that offers its lead: requests and answers.

use super::start::{number, parts};
use super::{Calls, Requests, StartError};
use crate::engine::shared::change::Change;

/// How far a server that follows has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum FollowStage {
    /// It begins.
    Begin,
    /// It reads records, or changes of them.
    GoOn,
    /// It has nothing more to do but to lead.
    Ready,
}

/// What a server that follows is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct FollowAnswer {
    /// The last write.
    pub(in crate::engine) newest: u64,
    /// For how many milliseconds the leader leads still.
    pub(in crate::engine) led_ms: u64,
    /// The last write of which this is told.
    pub(in crate::engine) seq: u64,
    bytes: Vec<u8>,
}

/// Takes a change.
type TakeChange<'a> = &'a mut dyn FnMut(Change<'_>) -> Result<(), StartError>;

impl FollowAnswer {
    /// Asks, and reads the answer. `None`: this server has to begin anew, or another one follows.
    ///
    /// # Errors
    /// See [`StartError`].
    pub(in crate::engine) fn ask(
        calls: &mut dyn Calls,
        request: &[u8],
    ) -> Result<Option<Self>, StartError> {
        let bytes = calls.call(request)?;
        let parts = parts(&bytes)?;
        match parts.first().and_then(|word| word.data()) {
            Some(b"OK") => {
                let (newest, led_ms, seq) =
                    (number(&parts, 1), number(&parts, 2), number(&parts, 3));
                Ok(Some(Self { newest, led_ms, seq, bytes }))
            }
            Some(b"LOST") => Ok(None),
            // Taking the lead says what is wrong.
            _ => Err(StartError::Passing("its jobs have changed while they were read".into())),
        }
    }

    /// Hands the changes over, in their order.
    ///
    /// # Errors
    /// They are damaged; or what `take` returns.
    pub(in crate::engine) fn changes(&self, take: TakeChange<'_>) -> Result<(), StartError> {
        let parts = parts(&self.bytes)?;
        for part in parts.get(4).into_iter().flat_map(|log| log.elements()) {
            let mut rest = part.data().unwrap_or_default();
            while !rest.is_empty() {
                let damaged = || StartError::Fatal("what it has of changes is damaged".to_owned());
                take(Change::take(&mut rest).ok_or_else(damaged)?)?;
            }
        }
        Ok(())
    }
}

impl Requests {
    /// This server follows, and knows all up to write `seq`.
    pub(in crate::engine) fn follow(&self, birth: &[u8], stage: FollowStage, seq: u64) -> Vec<u8> {
        let (lease, seq) = (self.lease_ms.to_string(), seq.to_string());
        let word: &[u8] = match stage {
            FollowStage::Begin => b"begin",
            FollowStage::GoOn => b"go-on",
            FollowStage::Ready => b"ready",
        };
        let args = [birth, &self.server, lease.as_bytes(), word, seq.as_bytes()];
        self.call_with(b"jl_follow", &args)
    }
}
