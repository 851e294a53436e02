//! What has happened to a job, as a list that snapshots share.
//!
//! Invariants: a list is never changed, a longer one is made of it in O(1); dropping a long list
//! does not recurse.

use crate::model::id::ClientId;
use std::sync::Arc;

/// Something that has happened to a job of a watched queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub what: Happening,
    /// When, in Unix seconds.
    pub at: u64,
}

/// What can happen to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// It was put.
    Created,
    /// Its user state has changed. Both are canonical JSON texts.
    Advanced {
        /// From this.
        old: Arc<[u8]>,
        /// To that.
        new: Arc<[u8]>,
    },
    /// Somebody wrote this JSON text into its log.
    User(Box<[u8]>),
    /// It was handed out.
    Taken {
        /// The client that holds it, as far as that says anything: connections have no names.
        by: Option<ClientId>,
    },
    /// Its holder has put it back.
    Aborted,
    /// Its holder is gone, so it went back.
    Abandoned,
    /// Its lease was over.
    Expired,
    /// Its holder has failed at it.
    Failed,
    /// It will be tried again.
    Retried,
    /// Its holder was done with it, and its result is kept.
    Finished,
    /// It was put away.
    Buried,
    /// It was made ready again.
    Kicked,
    /// It has become ready after its delay.
    Due,
}

/// A log of events. Cloning is O(1).
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    newest: Option<Arc<Entry>>,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    /// How many there are up to here.
    count: u32,
    /// About how many bytes of memory they take.
    bytes: usize,
    before: EventLog,
}

impl Event {
    fn bytes(&self) -> usize {
        let text = match &self.what {
            Happening::Advanced { old, new } => old.len() + new.len(),
            Happening::User(text) => text.len(),
            _ => 0,
        };
        size_of::<Entry>() + text
    }
}

impl EventLog {
    /// How many events there are. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.newest.as_ref().map_or(0, |entry| entry.count as usize)
    }

    /// Whether nothing has happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// About how many bytes of memory the log takes. O(1).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.newest.as_ref().map_or(0, |entry| entry.bytes)
    }

    /// The log with one more event. O(1).
    #[must_use]
    pub fn with(&self, event: Event) -> Self {
        let count = u32::try_from(self.len() + 1).unwrap_or(u32::MAX);
        let bytes = self.bytes() + event.bytes();
        let entry = Entry { event, count, bytes, before: self.clone() };
        Self { newest: Some(Arc::new(entry)) }
    }

    /// The newest event.
    #[must_use]
    pub fn newest(&self) -> Option<&Event> {
        self.newest.as_ref().map(|entry| &entry.event)
    }

    /// All events, oldest first. O(events), and as many pointers of memory.
    #[must_use]
    pub fn oldest_first(&self) -> Vec<&Event> {
        let mut events = Vec::with_capacity(self.len());
        let mut log = self;
        while let Some(entry) = &log.newest {
            events.push(&entry.event);
            log = &entry.before;
        }
        events.reverse();
        events
    }
}

impl PartialEq for EventLog {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.oldest_first() == other.oldest_first()
    }
}

impl Eq for EventLog {}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut next = self.before.newest.take();
        while let Some(entry) = next {
            match Arc::try_unwrap(entry) {
                Ok(mut entry) => next = entry.before.newest.take(),
                Err(_shared) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_grows_shares_and_is_dropped_without_recursion() {
        let mut log = EventLog::default();
        for at in 0..1_000_000 {
            log = log.with(Event { what: Happening::Aborted, at });
        }
        let shorter = log.clone();
        log = log.with(Event { what: Happening::Created, at: 7 });
        assert_eq!((log.len(), shorter.len()), (1_000_001, 1_000_000));
        let events = log.oldest_first();
        assert_eq!((events[0].at, events[999_999].at, events[1_000_000].at), (0, 999_999, 7));
        drop(log);
        assert_eq!(shorter.newest(), Some(&Event { what: Happening::Aborted, at: 999_999 }));
        drop(shorter);
    }
}
