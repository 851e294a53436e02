//! Commands on indexed queues among those of the other protocols.

use super::Simulation;
use super::histories::DECLARED;
use super::oracle::{Asked, Oracle};
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::indexed_queue::{IndexedCommand, IndexedPage, IndexedReply, QueueSize};
use jobcentre::model::query::Query;
use jobcentre::model::reply::Reply;
use jobcentre::model::row::Row;
use std::sync::Arc;

const STATES: [&[u8]; 3] = [b"null", b"\"A\"", b"[1]"];

impl Simulation {
    pub(super) fn watch(
        &mut self,
        engine: &mut Engine,
        ticket: Ticket,
        queue: &'static [u8],
        id: JobId,
    ) {
        let rng = &mut self.rng;
        let all = Arc::new(Query::default());
        let [old, new] = [*rng.pick(&STATES), *rng.pick(&STATES)];
        let declared = *rng.pick(&DECLARED);
        // The queue of an unknown job is unknown.
        let known = self.oracle.queue_of(id).map(|of| (of, id));
        let (of, id) = known.unwrap_or((queue, JobId::NEVER));
        let (watch, asked) = match rng.below(20) {
            0 => (IndexedCommand::CreateQueue { queue: Some(declared) }, Asked::Queue(declared)),
            1 => (IndexedCommand::DropQueue { queue: declared }, Asked::Queue(declared)),
            2..6 => return self.put_row(engine, ticket, queue),
            6..8 => (IndexedCommand::List { queue }, Asked::Rows),
            8..11 => (IndexedCommand::Poll { queue, query: &all, state: new }, Asked::Rows),
            11..13 => (IndexedCommand::Show { queue: of, id }, Asked::Row(id)),
            13..16 => {
                (IndexedCommand::CompareAndSetState { queue: of, id, old, new }, Asked::Row(id))
            }
            16..19 => (
                IndexedCommand::AppendEvent { queue: of, id, event: b"{\"noted\":[1]}" },
                Asked::Row(id),
            ),
            _ => (IndexedCommand::Delete { queue: of, id }, Asked::End(id)),
        };
        self.oracle.ask(ticket, asked);
        engine.submit(ticket, &Command::Indexed(watch), self.now);
        self.take_completions(engine);
    }

    fn put_row(&mut self, engine: &mut Engine, ticket: Ticket, queue: &'static [u8]) {
        self.jobs_put += 1;
        let payload = format!("[{},\"row\"]", self.jobs_put).into_bytes();
        self.oracle.ask_put_row(ticket, queue, &payload);
        let state = *self.rng.pick(&STATES);
        let watch = IndexedCommand::Put { queue, payload: &payload, state };
        engine.submit(ticket, &Command::Indexed(watch), self.now);
        self.take_completions(engine);
    }
}

/// An answer about records.
enum Found {
    Row(Arc<Row>),
    Queues(Vec<QueueSize>),
    Nothing,
}

impl Oracle {
    /// Looks at the records and the queues that came back.
    pub(super) fn examine_records(&mut self, engine: &mut Engine, client: ClientId, now: Now) {
        let mut serial = u32::MAX / 2;
        let mut ask = |watch: &IndexedCommand<'_>| {
            serial += 1;
            engine.submit(Ticket { client, serial }, &Command::Indexed(*watch), now);
            let completion = engine.poll_completion().expect("what is durable is shown at once");
            match completion.reply {
                Reply::Indexed(IndexedReply::Row(row)) => Found::Row(row.clone()),
                Reply::IndexedPage(IndexedPage::Queues { queues, next: None }) => {
                    Found::Queues(queues.clone())
                }
                Reply::Indexed(IndexedReply::NoJob | IndexedReply::NoQueue) => Found::Nothing,
                other => panic!("{other:?}"),
            }
        };
        for id in self.records.ids() {
            let queue = self.records.queue_of(id).to_vec();
            // Whether it may be missing the jobs have said.
            if let Found::Row(row) = ask(&IndexedCommand::Show { queue: &queue, id }) {
                self.records.came_back(&row, &mut self.seen);
            }
        }
        let Found::Queues(queues) = ask(&IndexedCommand::Queues { from: 0 }) else { panic!() };
        self.records.examine(&queues, &mut self.seen);
    }
}
