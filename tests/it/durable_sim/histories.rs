//! What clients were told about rows of jobs and about declared queues.
//!
//! A row that was shown to a client survives: after a restart it is that row, or one with more
//! events.

use super::coverage::Seen;
use jobcentre::model::event::EventKind;
use jobcentre::model::id::JobId;
use jobcentre::model::indexed_queue::{IndexedPage, IndexedReply, QueueSize};
use jobcentre::model::manage::{ManageReply, Missing};
use jobcentre::model::reply::{Rejection, Reply};
use jobcentre::model::row::Row;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names that are declared and dropped; no job is ever put there.
pub(super) const DECLARED: [&[u8]; 3] = [b"d", b"\xff", b"a declared queue with a longer name"];

#[derive(Clone, Copy, Debug, Default)]
struct Declared {
    /// Whether it is there, if that is certain.
    there: Option<bool>,
    /// Requests about it that are under way.
    asked: u32,
}

#[derive(Debug, Default)]
pub(super) struct Records {
    /// Of each job the newest row that a client got.
    rows: BTreeMap<u64, Arc<Row>>,
    declared: BTreeMap<&'static [u8], Declared>,
    /// Queues whose rows may end: how often their indexes are being switched on or off.
    switched: BTreeMap<&'static [u8], u32>,
}

impl Records {
    /// The jobs of which a client got a row.
    pub(super) fn ids(&self) -> Vec<JobId> {
        self.rows.keys().map(|&id| JobId(id)).collect()
    }

    /// The queue that a job was in.
    pub(super) fn queue_of(&self, id: JobId) -> &[u8] {
        &self.rows[&id.0].queue
    }

    /// A client gets a row.
    pub(super) fn on_reply(&mut self, row: &Arc<Row>) {
        check(row);
        if self.switched.get(&*row.queue).is_some_and(|&count| count > 0) {
            // It may be gone already, though what it says was true.
            return;
        }
        if let Some(known) = self.rows.get(&row.id.0) {
            extends(known, row);
        }
        self.rows.insert(row.id.0, row.clone());
    }

    /// A row came back after a restart.
    pub(super) fn came_back(&mut self, row: &Arc<Row>, seen: &mut Seen) {
        let known = &self.rows[&row.id.0];
        seen.rows += 1;
        seen.rows_with_more += u64::from(row.version > known.version);
        self.on_reply(row);
    }

    pub(super) fn ask(&mut self, queue: &'static [u8]) {
        let known = self.declared.entry(queue).or_default();
        (known.there, known.asked) = (None, known.asked + 1);
    }

    /// The reply to the creation or the drop of a queue.
    pub(super) fn on_reply_queue(&mut self, queue: &'static [u8], reply: &Reply<'_>) {
        let there = match reply {
            Reply::Indexed(IndexedReply::Queue(_) | IndexedReply::QueueExists) => Some(true),
            Reply::IndexedPage(IndexedPage::QueueDropped { jobs: 0, more: false })
            | Reply::Indexed(IndexedReply::NoQueue) => Some(false),
            Reply::Indexed(IndexedReply::DiskFull) => None,
            other => panic!("a queue was answered {other:?}"),
        };
        let known = self.declared.get_mut(queue).unwrap();
        known.asked -= 1;
        known.there = there.filter(|_| known.asked == 0);
    }

    /// The index of a queue is switched on or off, and with it the rows of its jobs may end.
    pub(super) fn ask_index(&mut self, queue: &'static [u8]) {
        self.rows.retain(|_, row| *row.queue != *queue);
        *self.switched.entry(queue).or_default() += 1;
        if DECLARED.contains(&queue) {
            self.ask(queue);
        }
    }

    /// The reply to that.
    pub(super) fn on_reply_index(&mut self, queue: &'static [u8], reply: &ManageReply) {
        let there = match reply {
            ManageReply::Index { on, .. } => Some(*on),
            ManageReply::Missing(Missing::Queue) => Some(false),
            ManageReply::Rejected(Rejection::DiskFull) => None,
            other => panic!("an index was answered {other:?}"),
        };
        *self.switched.get_mut(queue).unwrap() -= 1;
        if let Some(known) = self.declared.get_mut(queue) {
            known.asked -= 1;
            known.there = there.filter(|_| known.asked == 0);
        }
    }

    pub(super) fn end_of_life(&mut self) {
        self.declared.values_mut().for_each(|known| known.asked = 0);
        self.switched.clear();
    }

    /// Looks at the queues that came back.
    pub(super) fn examine(&mut self, queues: &[QueueSize], seen: &mut Seen) {
        for (&name, known) in &mut self.declared {
            let there = queues.iter().any(|queue| *queue.name == *name);
            if let Some(expected) = known.there {
                assert_eq!(there, expected, "queue {}", name.escape_ascii());
                seen.declared += u64::from(there);
                seen.undeclared += u64::from(!there);
            }
            known.there = Some(there);
        }
    }
}

/// A row says the same about its state twice.
fn check(row: &Row) {
    let events = row.events.oldest_first();
    assert_eq!(events[0].kind, EventKind::Created);
    assert_eq!(row.version, events.len() as u64, "an event is missing");
    assert_eq!(row.modified, events.last().unwrap().at);
    let state = events.iter().rev().find_map(|event| match &event.kind {
        EventKind::Advanced { new, .. } => Some(new.clone()),
        _ => None,
    });
    assert!(state.is_none_or(|state| state == row.state), "the state is not the last one");
}

/// More, or nothing, has happened to the job.
fn extends(old: &Row, new: &Row) {
    assert!(new.version >= old.version, "job {} has lost events", old.id.0);
    let (before, now) = (old.events.oldest_first(), new.events.oldest_first());
    assert_eq!(before, now[..before.len()], "the past of job {} has changed", old.id.0);
    // A client that releases or buries a job may give it another priority.
    let reprices = |kind: &EventKind| {
        matches!(kind, EventKind::Changed | EventKind::Aborted | EventKind::Buried)
    };
    let changed = now[before.len()..].iter().any(|event| reprices(&event.kind));
    let priority = |row: &Row| row.priority.clone().filter(|_| !changed);
    let constant = |row: &Row| (row.id, row.encoding, priority(row));
    assert_eq!(constant(old), constant(new), "job {} is another one", old.id.0);
    assert!(old.payload == new.payload && old.queue == new.queue, "job {}", old.id.0);
    assert!(new.version > old.version || new == old, "job {} has changed silently", old.id.0);
}
