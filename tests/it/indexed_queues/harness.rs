//! An engine in memory, with short functions for its commands.

use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::indexed_queue::{IndexedCommand, IndexedPage, IndexedReply};
use jobcentre::model::job::{Encoding, JobOptions, Payload, Priority, TieBreak};
use jobcentre::model::owned::OwnedReply;
use jobcentre::model::query::Query;
use jobcentre::model::reply::Reply;
use jobcentre::model::row::Row;
use std::sync::Arc;

pub(super) const A: ClientId = ClientId { index: 0, generation: 1 };
pub(super) const B: ClientId = ClientId { index: 1, generation: 1 };
/// The client of commands on queues.
const WATCHER: ClientId = ClientId { index: 2, generation: 1 };

/// Milliseconds since 1970 when everything begins.
pub(super) const START: u64 = 1_700_000_000_000;

pub(super) struct Harness {
    pub(super) engine: Engine,
    pub(super) now: Now,
    serial: u32,
}

impl Harness {
    pub(super) fn new() -> Self {
        let now = Now { mono: Mono(7), wall: Wall(START) };
        Self { engine: Engine::in_memory(5), now, serial: 0 }
    }

    fn submit(&mut self, client: ClientId, command: &Command<'_>) -> Ticket {
        self.serial += 1;
        let ticket = Ticket { client, serial: self.serial };
        self.engine.submit(ticket, command, self.now);
        ticket
    }

    /// What comes of a command that is answered at once, told to `tell`.
    fn ask<T>(
        &mut self,
        client: ClientId,
        command: &Command<'_>,
        tell: impl FnOnce(&Reply<'_>) -> T,
    ) -> T {
        let ticket = self.submit(client, command);
        let (mut tell, mut told) = (Some(tell), None);
        while let Some(completion) = self.engine.poll_completion() {
            if completion.ticket == ticket {
                let tell = tell.take().expect("it is answered once");
                told = Some(tell(&completion.reply));
            }
        }
        // Everything is looked at: of many commands after some of them.
        if self.serial < 300 || self.serial.is_multiple_of(64) {
            self.engine.check_invariants();
        }
        told.expect("it is answered")
    }

    pub(super) fn watch<T>(
        &mut self,
        watch: IndexedCommand<'_>,
        tell: impl FnOnce(&Reply<'_>) -> T,
    ) -> T {
        self.ask(WATCHER, &Command::Indexed(watch), tell)
    }

    pub(super) fn owned(&mut self, watch: IndexedCommand<'_>) -> OwnedReply {
        self.watch(watch, |reply| match *reply {
            Reply::Indexed(reply) => reply.clone().into(),
            Reply::IndexedPage(page) => page.clone().into(),
            ref other => panic!("{other:?}"),
        })
    }

    /// The end of a command that takes one step.
    pub(super) fn indexed(&mut self, watch: IndexedCommand<'_>) -> IndexedReply {
        match self.owned(watch) {
            OwnedReply::Indexed(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.now.mono.0 += ms * 1_000_000;
        self.now.wall.0 += ms;
        self.engine.expire(self.now);
        while self.engine.poll_completion().is_some() {}
        self.engine.check_invariants();
    }

    /// The sizes of all queues, as many answers as that takes.
    pub(super) fn queues(&mut self) -> Vec<(String, u32)> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let next = self.watch(IndexedCommand::Queues { from }, |reply| {
                let Reply::IndexedPage(IndexedPage::Queues { queues, next }) = reply else {
                    panic!("{reply:?}")
                };
                for queue in queues {
                    let name = String::from_utf8(queue.name.to_vec()).unwrap();
                    all.push((name, queue.jobs));
                }
                *next
            });
            match next {
                None => return all,
                Some(next) => from = next,
            }
        }
    }

    pub(super) fn declare(&mut self, queue: &[u8]) -> IndexedReply {
        self.indexed(IndexedCommand::CreateQueue { queue: Some(queue) })
    }

    pub(super) fn declare_some(&mut self) -> Vec<u8> {
        match self.indexed(IndexedCommand::CreateQueue { queue: None }) {
            IndexedReply::Queue(name) => name.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn drop_queue(&mut self, queue: &[u8]) -> OwnedReply {
        self.owned(IndexedCommand::DropQueue { queue })
    }

    /// The rows of a queue, if there is one, asked for until all are there.
    pub(super) fn list(&mut self, queue: &[u8]) -> Option<Vec<Arc<Row>>> {
        loop {
            match self.owned(IndexedCommand::List { queue }) {
                OwnedReply::Indexed(IndexedReply::NoQueue) => return None,
                OwnedReply::IndexedPage(IndexedPage::NotYet) => {}
                OwnedReply::Indexed(IndexedReply::Rows(rows)) => {
                    return Some(rows.values().cloned().collect());
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) fn put(&mut self, queue: &[u8], bytes: &[u8]) -> JobId {
        self.put_job(queue, Payload { encoding: Encoding::Json, bytes }, Priority::Small(7), None)
    }

    pub(super) fn put_with(&mut self, queue: &[u8], bytes: &[u8], options: &JobOptions) -> JobId {
        let payload = Payload { encoding: Encoding::Json, bytes };
        self.put_job(queue, payload, Priority::Small(7), Some(options))
    }

    /// A packet that no take selects.
    pub(super) fn put_packet(&mut self, queue: &[u8], key: &[u8], content: &[u8]) -> JobId {
        let key_len = u16::try_from(key.len()).unwrap();
        let bytes = [key, content].concat();
        let payload = Payload { encoding: Encoding::Packet { key_len }, bytes: &bytes };
        self.put_job(queue, payload, Priority::Unselected, None)
    }

    fn put_job(
        &mut self,
        queue: &[u8],
        payload: Payload<'_>,
        priority: Priority<'_>,
        options: Option<&JobOptions>,
    ) -> JobId {
        let tie_break = TieBreak::Fifo;
        self.ask(A, &Command::Put { queue, priority, tie_break, payload, options }, |reply| {
            match reply {
                Reply::Put(id) => *id,
                other => panic!("{other:?}"),
            }
        })
    }

    pub(super) fn put_watched(&mut self, queue: &[u8], payload: &[u8], state: &[u8]) -> Arc<Row> {
        match self.indexed(IndexedCommand::Put { queue, payload, state }) {
            IndexedReply::Row(row) => row.clone(),
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn advance(
        &mut self,
        queue: &[u8],
        id: JobId,
        old: &[u8],
        new: &[u8],
    ) -> IndexedReply {
        self.indexed(IndexedCommand::CompareAndSetState { queue, id, old, new })
    }

    pub(super) fn note(&mut self, queue: &[u8], id: JobId, event: &[u8]) -> IndexedReply {
        self.indexed(IndexedCommand::AppendEvent { queue, id, event })
    }

    pub(super) fn delete(&mut self, queue: &[u8], id: JobId) -> IndexedReply {
        self.indexed(IndexedCommand::Delete { queue, id })
    }

    pub(super) fn poll(&mut self, queue: &[u8], query: &Arc<Query>, state: &[u8]) -> IndexedReply {
        self.indexed(IndexedCommand::Poll { queue, query, state })
    }

    pub(super) fn find(
        &mut self,
        queue: &[u8],
        query: &Arc<Query>,
        limit: Option<u64>,
    ) -> Vec<JobId> {
        match self.indexed(IndexedCommand::Find { queue, query, limit }) {
            IndexedReply::QueryRows(rows) => rows.iter().map(|row| row.id).collect(),
            other => panic!("{other:?}"),
        }
    }

    /// What has happened to a job, oldest first.
    pub(super) fn tags(&mut self, queue: &[u8], id: JobId) -> Vec<&'static str> {
        match self.indexed(IndexedCommand::Show { queue, id }) {
            IndexedReply::Row(row) => {
                row.events.oldest_first().iter().map(|it| it.kind.tag()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    fn take_from(&mut self, client: ClientId, queue: &[u8], wait: Wait) {
        let mut names = StringList::default();
        names.push(queue);
        let command = Command::Reserve { queues: names.from(0), wait };
        if wait == Wait::Forever {
            self.submit(client, &command);
            assert!(self.engine.poll_completion().is_none());
        } else {
            self.ask(client, &command, |reply| assert!(matches!(reply, Reply::Job(_))));
        }
    }

    pub(super) fn take(&mut self, client: ClientId, queue: &[u8]) {
        self.take_from(client, queue, Wait::No);
    }

    pub(super) fn wait(&mut self, client: ClientId, queue: &[u8]) {
        self.take_from(client, queue, Wait::Forever);
    }

    pub(super) fn pop(&mut self, queue: &[u8]) -> Vec<Vec<u8>> {
        let mut names = StringList::default();
        names.push(queue);
        let command = Command::Pop { queues: names.from(0), wait: Wait::No };
        self.ask(A, &command, |reply| match reply {
            Reply::Packets(packets) => packets.iter().map(|it| it.bytes.to_vec()).collect(),
            other => panic!("{other:?}"),
        })
    }

    pub(super) fn release(&mut self, client: ClientId, id: JobId) -> Reply<'static> {
        self.ask(client, &Command::Release { id, lease: None }, own)
    }

    pub(super) fn finish(&mut self, client: ClientId, id: JobId) -> Reply<'static> {
        let result = Payload { encoding: Encoding::Json, bytes: b"1" };
        self.ask(client, &Command::Finish { id, lease: None, result }, own)
    }

    pub(super) fn fail(&mut self, client: ClientId, id: JobId) -> Reply<'static> {
        let error = Payload { encoding: Encoding::Json, bytes: b"1" };
        self.ask(client, &Command::Fail { id, lease: None, retry: true, error }, own)
    }

    pub(super) fn bury(&mut self, client: ClientId, id: JobId) -> Reply<'static> {
        self.ask(client, &Command::Bury { id, lease: None }, own)
    }

    pub(super) fn kick(&mut self, id: JobId) -> Reply<'static> {
        self.ask(A, &Command::Kick { id }, own)
    }

    pub(super) fn kick_queue(&mut self, queue: &[u8]) {
        self.ask(A, &Command::KickQueue { queue, limit: 9 }, |reply| {
            assert_eq!(*reply, Reply::Kicked(1));
        });
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        self.engine.disconnect_client(client, self.now);
        while self.engine.poll_completion().is_some() {}
    }

    /// Jobs and declared queues.
    pub(super) fn counts(&self) -> (usize, usize) {
        let counts = self.engine.counts();
        (counts.jobs, counts.declared)
    }
}

/// A reply that borrows nothing of the engine.
///
/// # Panics
/// If it borrows.
fn own(reply: &Reply<'_>) -> Reply<'static> {
    match reply {
        Reply::Done => Reply::Done,
        Reply::NoJob => Reply::NoJob,
        &Reply::Rejected(refusal) => Reply::Rejected(refusal),
        other => panic!("{other:?}"),
    }
}
