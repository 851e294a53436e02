//! Recently parsed lines. A line always means the same, so a line that is cached, as a whole or up
//! to its id, is compared and not parsed.
//!
//! Invariant: a cached line yields exactly the command that parsing it yields.

mod gets;
mod ids;
mod native_gets;

use crate::model::command::Command;
use crate::model::manage::ManageCommand;
use crate::protocol::operations::Args;
use gets::GetCache;
use ids::ByIdCache;
use native_gets::NativeGetCache;
use std::sync::Arc;

/// The cached lines of all Job Centre connections.
#[derive(Debug, Default)]
pub(in crate::protocol) struct RequestCache {
    gets: GetCache,
    ids: ByIdCache,
    native_gets: NativeGetCache,
}

/// The slot of a cached line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CachedRequest {
    Plain(CachedCommand),
    /// A get of the native API.
    NativeGet(usize),
}

/// The slot of a cached line that is a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CachedCommand {
    Get(usize),
    WithId(usize, u64),
}

/// The kind of request, judged by the two bytes at which most clients name it: `{"request":"get"`,
/// with or without a blank. Only a hint where to search.
#[inline]
fn prefix_key(line: &[u8]) -> [u8; 2] {
    match line.get(12..14) {
        Some(&[first, second]) => [first, second],
        _ => [0, 0],
    }
}

impl RequestCache {
    /// The slot of this line. O(line) if it may be cached, otherwise O(1).
    #[inline]
    pub(super) fn find(&self, line: &[u8]) -> Option<CachedRequest> {
        match prefix_key(line) {
            [b'g', _] | [_, b'g'] => match self.gets.find(line) {
                Some(slot) => Some(CachedRequest::Plain(CachedCommand::Get(slot))),
                None => self.native_gets.find(line).map(CachedRequest::NativeGet),
            },
            [b'd' | b'a' | b't', _] | [_, b'd' | b'a' | b't'] => {
                let (slot, id) = self.ids.find(line)?;
                Some(CachedRequest::Plain(CachedCommand::WithId(slot, id)))
            }
            _ => None,
        }
    }

    /// The command of a cached line.
    #[inline]
    pub(super) fn command(&self, known: CachedCommand) -> Command<'_> {
        match known {
            CachedCommand::Get(slot) => self.gets.get(slot),
            CachedCommand::WithId(slot, id) => self.ids.get(slot, id),
        }
    }

    /// The arguments of a cached get of the native API.
    pub(super) fn native_get(&self, slot: usize) -> Arc<Args> {
        self.native_gets.get(slot)
    }

    /// Caches a get of the native API. O(line).
    pub(super) fn insert_native_get(&mut self, line: &[u8], args: &Arc<Args>) {
        self.native_gets.insert(line, args);
    }

    /// Caches a line if it is of a kind that is repeated. O(line).
    pub(super) fn insert(&mut self, line: &[u8], command: &Command<'_>) {
        match (prefix_key(line), *command) {
            ([b'g', _] | [_, b'g'], Command::Reserve { queues, wait }) => {
                self.gets.insert(line, queues, wait);
            }
            (
                _,
                Command::Delete { id }
                | Command::Release { id, .. }
                | Command::Touch { id, .. }
                | Command::Manage(ManageCommand::Report { id, .. }),
            ) => self.ids.insert(line, id, command),
            _ => {}
        }
    }
}
