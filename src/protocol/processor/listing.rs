//! Replies to `list_*`: one message each, written a part at a time.

use super::message::List;
use super::pending_requests::RequestKind;
use super::{EXPIRED_PER_STEP, Session, single};
use crate::base::buf::OutBuf;
use crate::model::command::Command;
use crate::model::reply::Reply;
use crate::model::worker::WorkerCommand;
use crate::protocol::queue_listing::{ListKind, ListingNeed, QueueListing};
use crate::protocol::{SessionAction, SessionContext};

/// Work of one scan step, in reserves.
const SCAN_WORK: usize = 64;

/// A list that is being written; no line is read meanwhile.
#[derive(Debug)]
pub(super) struct Listing {
    list: List,
    inventory: QueueListing,
    /// A scan or peek is submitted.
    pub(super) waiting: bool,
    /// A part of its line is in the output.
    pub(super) begun: bool,
}

impl Listing {
    pub(super) fn new(list: List, queue: &[u8]) -> Self {
        let inventory = QueueListing::new(queue, Some(part(list)));
        Self { list, inventory, waiting: false, begun: false }
    }
}

fn part(list: List) -> ListKind {
    match list {
        List::Jobs => ListKind::Queued,
        List::Workers => ListKind::Workers,
        List::Dispatched => ListKind::Dispatched,
        List::Progress => ListKind::Progress,
    }
}

impl Session {
    /// Writes more of the list, or requests what is missing.
    #[cold]
    pub(super) fn list<'s>(
        &mut self,
        shared: &'s mut SessionContext,
        out: &mut OutBuf,
    ) -> SessionAction<'s> {
        let Some(listing) = &mut self.listing else { return SessionAction::Continue };
        if listing.waiting {
            return SessionAction::Stalled;
        }
        shared.turn.work += 1;
        let need = listing.inventory.write(&mut self.text);
        if let ListingNeed::JobsPage(from) = need {
            shared.turn.work += SCAN_WORK;
            listing.waiting = true;
            let queues = single(listing.inventory.queue(), shared);
            let queue = queues.into_iter().next().unwrap_or_default();
            return SessionAction::Submit(
                self.pending.add(RequestKind::List, b""),
                Command::Work(WorkerCommand::ScanQueue { queue, from }),
            );
        }
        if let ListingNeed::WorkersPage(from) = need {
            let members =
                self.workers.worker_rows(listing.inventory.queue(), from, 16 * EXPIRED_PER_STEP);
            listing.inventory.add_workers(members);
            return SessionAction::Continue;
        }
        if !std::mem::replace(&mut listing.begun, true) {
            self.writer.start([listing.list.name(), "/result", ""], shared.turn.now, out.tail());
        }
        out.tail().append(&mut self.text);
        match need {
            ListingNeed::Peek(id) => {
                listing.waiting = true;
                SessionAction::Submit(
                    self.pending.add(RequestKind::List, b""),
                    Command::Peek { id },
                )
            }
            ListingNeed::Nothing => {
                self.listing = None;
                out.tail().extend_from_slice(b"}\n");
                out.tail().append(&mut self.held_back);
                SessionAction::Continue
            }
            _ => SessionAction::Continue,
        }
    }

    #[cold]
    pub(super) fn handle_list_reply(&mut self, reply: &Reply<'_>) {
        let Some(listing) = &mut self.listing else { return };
        listing.waiting = false;
        match reply {
            Reply::QueueScan(survey) => listing.inventory.add_scan_page(survey),
            look => listing.inventory.add_peeked(look, &mut self.text),
        }
    }
}
