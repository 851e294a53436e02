//! Histories: the events of a job, as lists that snapshots share.
//!
//! Invariants: a list is never changed, and a longer one is made of it in O(1); dropping a long
//! list does not recurse.

use crate::model::id::ClientId;
use std::sync::Arc;

/// An event of a job in an indexed queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind and its data.
    pub kind: EventKind,
    /// Unix time in seconds.
    pub at: u64,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The job was put.
    Created,
    /// Its state has changed. Both are canonical JSON texts.
    Advanced {
        /// The state before.
        old: Arc<[u8]>,
        /// The state after.
        new: Arc<[u8]>,
    },
    /// A JSON text that a client appended.
    User(Box<[u8]>),
    /// The job was reserved.
    Reserved {
        /// The client, if known; it means nothing after a restart.
        by: Option<ClientId>,
    },
    /// It was released.
    Aborted,
    /// Its client or worker was lost, so that it went back.
    Abandoned,
    /// Its lease has ended.
    Expired,
    /// Its run has failed.
    Failed,
    /// It will be tried again.
    Retried,
    /// It was finished, and its result is retained.
    Finished,
    /// It was buried.
    Buried,
    /// It was kicked.
    Kicked,
    /// Its delay is over.
    Due,
    /// Payload, priority, delay, ttl, queue or number of attempts were changed.
    Changed,
}

/// The history of a job. Cloning is O(1).
#[derive(Clone, Debug, Default)]
pub struct EventLog {
    newest: Option<Arc<Entry>>,
}

#[derive(Debug)]
struct Entry {
    event: Event,
    /// Events up to this one.
    count: u32,
    /// Approximate memory of these, in bytes.
    bytes: usize,
    before: EventLog,
}

impl Event {
    fn bytes(&self) -> usize {
        let text = match &self.kind {
            EventKind::Advanced { old, new } => old.len() + new.len(),
            EventKind::User(text) => text.len(),
            _ => 0,
        };
        size_of::<Entry>() + text
    }
}

impl EventLog {
    /// Number of events. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.newest.as_ref().map_or(0, |entry| entry.count as usize)
    }

    /// Whether there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest.is_none()
    }

    /// Approximate memory, in bytes. O(1).
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.newest.as_ref().map_or(0, |entry| entry.bytes)
    }

    /// This history with one more event. O(1).
    #[must_use]
    pub fn with(&self, event: Event) -> Self {
        let count = u32::try_from(self.len() + 1).unwrap_or(u32::MAX);
        let bytes = self.bytes() + event.bytes();
        let entry = Entry { event, count, bytes, before: self.clone() };
        Self { newest: Some(Arc::new(entry)) }
    }

    /// The last event.
    #[must_use]
    pub fn newest(&self) -> Option<&Event> {
        self.newest.as_ref().map(|entry| &entry.event)
    }

    /// All events, newest first. O(1) each.
    pub fn newest_first(&self) -> impl Iterator<Item = &Event> {
        let entries =
            std::iter::successors(self.newest.as_deref(), |entry| entry.before.newest.as_deref());
        entries.map(|entry| &entry.event)
    }

    /// All events, oldest first. O(events), and as many pointers of memory.
    #[must_use]
    pub fn oldest_first(&self) -> Vec<&Event> {
        let mut events: Vec<_> = self.newest_first().collect();
        events.reverse();
        events
    }
}

/// Up to this many events are reversed on the stack.
const FEW: usize = 16;

/// Writes a history as JSON text: an array of `[tag, {..., "timestamp": Unix seconds as a
/// string}]`, oldest first (`docs/protocols/jobq.md`, "Events"). O(text).
pub fn write_events(log: &EventLog, out: &mut Vec<u8>) {
    out.push(b'[');
    let mut few = [None; FEW];
    if let Some(few) = few.get_mut(..log.len()) {
        for (place, event) in few.iter_mut().rev().zip(log.newest_first()) {
            *place = Some(event);
        }
        few.iter().flatten().for_each(|event| write_event(event, out));
    } else {
        log.oldest_first().into_iter().for_each(|event| write_event(event, out));
    }
    // The comma behind the last one.
    if !log.is_empty() {
        out.pop();
    }
    out.push(b']');
}

/// Writes an event and a comma.
fn write_event(event: &Event, out: &mut Vec<u8>) {
    out.extend_from_slice(event.kind.names().1.as_bytes());
    match &event.kind {
        EventKind::Advanced { old, new } => {
            out.extend_from_slice(old);
            out.extend_from_slice(b",\"new\":");
            out.extend_from_slice(new);
            out.extend_from_slice(b",\"timestamp\":\"");
        }
        EventKind::User(text) => {
            out.extend_from_slice(text);
            out.extend_from_slice(b",\"timestamp\":\"");
        }
        EventKind::Reserved { by: Some(client) } => {
            out.extend_from_slice(itoa::Buffer::new().format(client.index).as_bytes());
            out.extend_from_slice(b",\"timestamp\":\"");
        }
        _ => {}
    }
    out.extend_from_slice(itoa::Buffer::new().format(event.at).as_bytes());
    out.extend_from_slice(b"\"}],");
}

/// A tag, and the text of an event with it up to its first value.
macro_rules! names {
    ($tag:literal, $before:literal) => {
        ($tag, concat!("[\"", $tag, "\",{", $before))
    };
    ($tag:literal) => {
        names!($tag, "\"timestamp\":\"")
    };
}

impl EventKind {
    /// The event's name in JSON.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        self.names().0
    }

    /// The event's name in the native API.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Created => "put",
            Self::Advanced { .. } => "advanced",
            Self::User(_) => "user",
            Self::Reserved { .. } => "reserved",
            Self::Aborted => "released",
            Self::Abandoned => "abandoned",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Retried => "retried",
            Self::Finished => "completed",
            Self::Buried => "buried",
            Self::Kicked => "kicked",
            Self::Due => "due",
            Self::Changed => "changed",
        }
    }

    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::Created => names!("job_created"),
            Self::Advanced { .. } => names!("job_state_advanced", "\"old\":"),
            Self::User(_) => names!("user_event", "\"event\":"),
            Self::Reserved { by: Some(_) } => names!("job_taken", "\"by\":"),
            Self::Reserved { by: None } => names!("job_taken"),
            Self::Aborted => names!("job_aborted"),
            Self::Abandoned => names!("job_abandoned"),
            Self::Expired => names!("job_expired"),
            Self::Failed => names!("job_failed"),
            Self::Retried => names!("job_retried"),
            Self::Finished => names!("job_finished"),
            Self::Buried => names!("job_buried"),
            Self::Kicked => names!("job_kicked"),
            Self::Due => names!("job_due"),
            Self::Changed => names!("job_changed"),
        }
    }
}

impl PartialEq for EventLog {
    /// O(events) after the part that both share; most histories differ in the time of the last
    /// event.
    fn eq(&self, other: &Self) -> bool {
        let (mut one, mut two) = (&self.newest, &other.newest);
        let same = self.len() == other.len();
        while let (true, Some(a), Some(b)) = (same, one, two) {
            if Arc::ptr_eq(a, b) {
                return true;
            }
            if a.event.at != b.event.at || a.event.kind != b.event.kind {
                return false;
            }
            (one, two) = (&a.before.newest, &b.before.newest);
        }
        same
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
    fn a_log_is_written_as_json() {
        let by = Some(ClientId { index: 7, generation: 3 });
        let (old, new) = (Arc::from(*b"null"), Arc::from(*b"[\"A\"]"));
        let mut log = EventLog::default();
        let mut out = Vec::new();
        write_events(&log, &mut out);
        assert_eq!(out, b"[]");
        for (at, what) in [
            EventKind::Created,
            EventKind::Advanced { old, new },
            EventKind::User(Box::from(*b"{\"x\":1}")),
            EventKind::Reserved { by },
            EventKind::Reserved { by: None },
            EventKind::Due,
        ]
        .into_iter()
        .enumerate()
        {
            log = log.with(Event { kind: what, at: at as u64 });
        }
        out.clear();
        write_events(&log, &mut out);
        let expected = r#"[["job_created",{"timestamp":"0"}],
            ["job_state_advanced",{"old":null,"new":["A"],"timestamp":"1"}],
            ["user_event",{"event":{"x":1},"timestamp":"2"}],["job_taken",{"by":7,"timestamp":"3"}],
            ["job_taken",{"timestamp":"4"}],["job_due",{"timestamp":"5"}]]"#;
        let expected: String = expected.split_whitespace().collect();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn logs_are_equal_if_all_events_are() {
        let event = |what, at| Event { kind: what, at };
        let log = |at| EventLog::default().with(event(EventKind::Created, at));
        let (one, two) = (log(1), log(1));
        let due = event(EventKind::Due, 2);
        assert_eq!(one, two);
        assert_eq!(one.with(due.clone()), one.with(due.clone()));
        assert_eq!(one.with(due.clone()), two.with(due.clone()));
        assert_eq!(EventLog::default(), EventLog::default());
        for other in [
            EventLog::default(),
            one.clone(),
            one.with(due.clone()).with(due.clone()),
            log(2).with(due.clone()),
            one.with(event(EventKind::Due, 3)),
            one.with(event(EventKind::Kicked, 2)),
        ] {
            assert_ne!(one.with(due.clone()), other);
            assert_ne!(other, two.with(due.clone()));
        }
    }

    #[test]
    fn a_long_log_grows_shares_and_is_dropped_without_recursion() {
        let mut log = EventLog::default();
        for at in 0..1_000_000 {
            log = log.with(Event { kind: EventKind::Aborted, at });
        }
        let shorter = log.clone();
        log = log.with(Event { kind: EventKind::Created, at: 7 });
        assert_eq!((log.len(), shorter.len()), (1_000_001, 1_000_000));
        let events = log.oldest_first();
        assert_eq!((events[0].at, events[999_999].at, events[1_000_000].at), (0, 999_999, 7));
        drop(log);
        assert_eq!(shorter.newest(), Some(&Event { kind: EventKind::Aborted, at: 999_999 }));
        drop(shorter);
    }
}
