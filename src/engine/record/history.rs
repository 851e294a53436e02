//! The encoding of histories, which jobs of indexed queues have.

use super::read::{Read, RecordReader};
use super::{push_byte_string, push_number};
use crate::model::event::{Event, EventKind, EventLog};
use crate::model::id::ClientId;
use crate::model::snapshot::History;
use std::sync::Arc;

const CREATED: u8 = 0;
const ADVANCED: u8 = 1;
const USER: u8 = 2;
const RESERVED: u8 = 3;
const ABORTED: u8 = 4;
const ABANDONED: u8 = 5;
const EXPIRED: u8 = 6;
const FAILED: u8 = 7;
const RETRIED: u8 = 8;
const FINISHED: u8 = 9;
const BURIED: u8 = 10;
const KICKED: u8 = 11;
const DUE: u8 = 12;
const CHANGED: u8 = 13;

/// O(events).
pub(super) fn push(out: &mut Vec<u8>, history: &History<'_>) {
    push_byte_string(out, history.state);
    push_number(out, history.modified);
    push_number(out, history.version);
    push_number(out, history.events.len() as u64);
    for event in history.events.oldest_first() {
        push_event(out, event);
    }
}

pub(super) fn push_event(out: &mut Vec<u8>, event: &Event) {
    out.push(match event.kind {
        EventKind::Created => CREATED,
        EventKind::Advanced { .. } => ADVANCED,
        EventKind::User(_) => USER,
        EventKind::Reserved { .. } => RESERVED,
        EventKind::Aborted => ABORTED,
        EventKind::Abandoned => ABANDONED,
        EventKind::Expired => EXPIRED,
        EventKind::Failed => FAILED,
        EventKind::Retried => RETRIED,
        EventKind::Finished => FINISHED,
        EventKind::Buried => BURIED,
        EventKind::Kicked => KICKED,
        EventKind::Due => DUE,
        EventKind::Changed => CHANGED,
    });
    push_number(out, event.at);
    match &event.kind {
        EventKind::Advanced { old, new } => {
            push_byte_string(out, old);
            push_byte_string(out, new);
        }
        EventKind::User(text) => push_byte_string(out, text),
        EventKind::Reserved { by: None } => out.push(0),
        EventKind::Reserved { by: Some(client) } => {
            out.push(1);
            push_number(out, u64::from(client.index));
            push_number(out, u64::from(client.generation));
        }
        _ => {}
    }
}

impl<'a> RecordReader<'a> {
    pub(super) fn history(&mut self) -> Read<History<'a>> {
        let state = self.byte_string()?;
        let (modified, version) = (self.number()?, self.number()?);
        let mut events = EventLog::default();
        for _ in 0..self.number()? {
            // Each state is twice in the bytes, and shared in memory.
            let last = match events.newest() {
                Some(Event { kind: EventKind::Advanced { new, .. }, .. }) => new.clone(),
                _ => Arc::default(),
            };
            let event = self.event(&last)?;
            events = events.with(event);
        }
        Ok(History { state, modified, version, events })
    }

    /// `last`: the likely old state, which is shared instead of copied if it is equal.
    pub(super) fn event(&mut self, last: &Arc<[u8]>) -> Read<Event> {
        let tag = self.byte()?;
        let at = self.number()?;
        let what = match tag {
            CREATED => EventKind::Created,
            ADVANCED => {
                let old = self.byte_string()?;
                let old = if *old == **last { last.clone() } else { old.into() };
                EventKind::Advanced { old, new: self.byte_string()?.into() }
            }
            USER => EventKind::User(self.byte_string()?.into()),
            RESERVED => EventKind::Reserved {
                by: match self.byte()? {
                    0 => None,
                    1 => Some(ClientId {
                        index: self.narrow_number()?,
                        generation: self.narrow_number()?,
                    }),
                    _ => return self.malformed(),
                },
            },
            ABORTED => EventKind::Aborted,
            ABANDONED => EventKind::Abandoned,
            EXPIRED => EventKind::Expired,
            FAILED => EventKind::Failed,
            RETRIED => EventKind::Retried,
            FINISHED => EventKind::Finished,
            BURIED => EventKind::Buried,
            KICKED => EventKind::Kicked,
            DUE => EventKind::Due,
            CHANGED => EventKind::Changed,
            _ => return self.malformed(),
        };
        Ok(Event { kind: what, at })
    }
}
