//! Workers that are on the list before the server starts: enlisted in its data directory.

use crate::support::{TempDir, until};
use jobcentre::base::limits::JOURNAL_SEGMENT;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now};
use jobcentre::engine::Engine;
use jobcentre::journal::{Options, SyncMode};
use jobcentre::model::command::Command;
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::model::reply::Reply;
use jobcentre::model::work::{Work, Worker, WorkerId};
use jobcentre::reactor::Clock;
use jobcentre::reactor::disk::{Access, Directory, RealDisk};
use std::sync::Arc;

/// Puts a worker on the list of the data in `dir`, while no server uses it.
pub(super) fn enlist(dir: &TempDir, url: &str, max_jobs: u32, queues: &[&str]) -> WorkerId {
    let mut names = StringList::default();
    queues.iter().for_each(|name| names.push(name.as_bytes()));
    let queues = (!queues.is_empty()).then(|| names.from(0));
    let worker = Worker { name: "test", url, max_jobs, queues };
    let mut files = Directory::open(dir.path(), Access::Run).unwrap();
    let options = Options { segment_bytes: JOURNAL_SEGMENT, sync: SyncMode::Always, salt: 1 };
    let mut clock = Clock::start();
    let (restored, _) =
        Engine::restore(&mut files, &options, 1, clock.sample(), &mut |_| {}).unwrap();
    let disk = RealDisk::start(files, Arc::new(|| {})).unwrap();
    let mut engine = Engine::durable(restored, Box::new(disk), clock.sample());
    let ticket = Ticket { client: ClientId { index: 0, generation: 1 }, serial: 0 };
    let now = Now { mono: Mono(clock.sample().mono.0), ..clock.sample() };
    engine.submit(ticket, &Command::Work(&Work::Enlist(worker)), now);
    let mut id = None;
    until("the worker to be on the list", || {
        engine.commit(clock.sample());
        while let Some(completion) = engine.poll_completion() {
            if let Reply::Worker(worker) = completion.reply {
                id = Some(worker);
            }
        }
        id.is_some()
    });
    engine.close(clock.sample());
    until("the end of the journal", || {
        engine.commit(clock.sample());
        engine.is_closed()
    });
    id.unwrap()
}
