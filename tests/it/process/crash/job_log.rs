//! The record of all jobs: what clients have requested, and the replies.

use super::content::{Content, Protocol};
use crate::rng::TestRng;
use std::collections::{HashMap, HashSet};

/// Something that a client knows. Each is good in any order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A put was sent.
    Put(Protocol, u64),
    /// This job is there, with this id: its put was answered, or it was handed out.
    There(u64, u64),
    /// A delete was sent.
    EndAsked(u64),
    /// A delete was answered, or a pop has brought the job.
    EndTold(u64),
    /// A pop from this queue was sent and not answered.
    PopOpen(&'static str),
}

/// A job whose put was requested.
#[derive(Debug)]
struct Entry {
    protocol: Protocol,
    id: Option<u64>,
    /// Its put was acknowledged.
    acknowledged: bool,
    end_asked: bool,
    end_acknowledged: bool,
}

/// What has happened, for the reader.
#[derive(Debug, Default)]
struct Totals {
    rounds: usize,
    there: usize,
    ended: usize,
    /// Jobs whose put was not answered: those that were there, and those that were not.
    open_done: usize,
    open_not_done: usize,
    /// The same of deletions.
    end_done: usize,
    end_not_done: usize,
}

/// What leaves together: queue, and key or what stands for the job.
type Group = (&'static str, Vec<u8>);

fn group(protocol: Protocol, token: u64) -> Group {
    let content = Content::new(protocol, token);
    let alone = content.key.is_empty();
    (content.queue, if alone { token.to_be_bytes().into() } else { content.key })
}

/// The book.
#[derive(Default)]
pub(super) struct JobLog {
    entries: HashMap<u64, Entry>,
    /// The job of each id that was answered.
    ids: HashMap<u64, u64>,
    /// Pops of this round that were not answered.
    pops: HashMap<&'static str, usize>,
    totals: Totals,
}

impl JobLog {
    /// Takes in what one client knows after a round.
    pub(super) fn record(&mut self, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Put(protocol, token) => self.entry(token, protocol).protocol = protocol,
                Event::There(token, id) => self.bind(token, id),
                Event::EndAsked(token) => self.entry(token, Protocol::Lines).end_asked = true,
                Event::EndTold(token) => {
                    self.totals.ended += 1;
                    self.entry(token, Protocol::Lines).end_acknowledged = true;
                }
                Event::PopOpen(queue) => *self.pops.entry(queue).or_default() += 1,
            }
        }
    }

    /// Another client may have heard of a job before the one that put it is asked.
    fn entry(&mut self, token: u64, protocol: Protocol) -> &mut Entry {
        let new = Entry {
            protocol,
            id: None,
            acknowledged: false,
            end_asked: false,
            end_acknowledged: false,
        };
        self.entries.entry(token).or_insert(new)
    }

    /// An id and a job belong together, once and for all.
    fn bind(&mut self, token: u64, id: u64) {
        let first = *self.ids.entry(id).or_insert(token);
        assert_eq!(first, token, "id {id} was used twice");
        let entry = self.entry(token, Protocol::Lines);
        assert!(entry.id.is_none_or(|known| known == id), "job {token} has another id: {id}");
        entry.id = Some(id);
        entry.acknowledged = true;
    }

    /// Compares the book with what is really there.
    pub(super) fn oracle(&mut self, seen: &[(Protocol, u64, u64)], why: &str) {
        let (mut found, mut old) = (HashSet::new(), HashSet::new());
        for &(protocol, token, id) in seen {
            assert!(found.insert(token), "job {token} is there twice: {why}");
            let entry = self.entries.get(&token);
            let entry = entry.unwrap_or_else(|| panic!("no put of job {token}: {why}"));
            assert_eq!(entry.protocol, protocol, "{why}");
            assert!(!entry.end_acknowledged, "job {token} ({entry:?}) was deleted: {why}");
            if entry.acknowledged && protocol == Protocol::Packets {
                old.insert(group(protocol, token));
            }
            self.totals.open_done += usize::from(!entry.acknowledged);
            self.totals.end_not_done += usize::from(entry.end_asked);
            self.bind(token, id);
        }
        self.check_missing(&found, &old, why);
        self.close(&found);
    }

    /// Missing jobs must have been deleted, or popped by requests without a reply. `old` are the
    /// groups of packets that were there before, and still are.
    fn check_missing(&mut self, found: &HashSet<u64>, old: &HashSet<Group>, why: &str) {
        let mut popped: HashMap<&str, HashSet<Group>> = HashMap::new();
        for (&token, entry) in &self.entries {
            if found.contains(&token) || entry.end_acknowledged {
                continue;
            }
            self.totals.end_done += usize::from(entry.acknowledged);
            self.totals.open_not_done += usize::from(!entry.acknowledged);
            if entry.acknowledged && !entry.end_asked {
                let group = group(entry.protocol, token);
                let lost = !self.pops.contains_key(group.0);
                assert!(!lost, "job {token} ({entry:?}) is lost: {why}");
                assert!(!old.contains(&group), "a group was torn: {group:?}, {why}");
                popped.entry(group.0).or_default().insert(group);
            }
        }
        for (queue, groups) in popped {
            let pops = self.pops[queue];
            assert!(groups.len() <= pops, "{} left {queue}, {pops} pops: {why}", groups.len());
        }
    }

    /// From now on everything is known.
    fn close(&mut self, found: &HashSet<u64>) {
        for (token, entry) in &mut self.entries {
            entry.end_acknowledged |= !found.contains(token);
            entry.end_asked = false;
        }
        self.pops.clear();
        self.totals.rounds += 1;
        self.totals.there = found.len();
    }

    /// Jobs that were there at the last look.
    pub(super) fn there(&self) -> usize {
        self.totals.there
    }

    /// Some of the jobs that are there, with their ids: most of them if there are many.
    pub(super) fn some_known(&self, rng: &mut TestRng) -> Vec<(u64, u64)> {
        let mut known: Vec<_> = self
            .entries
            .iter()
            .filter(|(_, entry)| !entry.end_acknowledged && entry.protocol == Protocol::Lines)
            .filter_map(|(&token, entry)| Some((token, entry.id?)))
            .collect();
        known.sort_unstable();
        rng.shuffle(&mut known);
        known
    }

    pub(super) fn summary(&self) -> String {
        format!("{:?}", self.totals)
    }
}
