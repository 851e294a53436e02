//! Lists as answers to `list_*`: one message each, written piece by piece.

use super::asked::Kind;
use super::message::List;
use super::{AT_ONCE, Session, alone};
use crate::base::buf::OutBuf;
use crate::model::command::Command;
use crate::model::reply::Reply;
use crate::model::work::Work;
use crate::protocol::inventory::{Inventory, Need, Part};
use crate::protocol::{Shared, Step};

/// What a look at a part of the store costs, in takes.
const SURVEY_WORK: usize = 64;

/// A list that is being made; no line is taken meanwhile.
#[derive(Debug)]
pub(super) struct Listing {
    list: List,
    inventory: Inventory,
    /// The engine has been asked for more.
    pub(super) waiting: bool,
    /// Its line is being written.
    pub(super) begun: bool,
}

impl Listing {
    pub(super) fn new(list: List, queue: &[u8]) -> Self {
        let inventory = Inventory::new(queue, Some(part(list)));
        Self { list, inventory, waiting: false, begun: false }
    }
}

fn part(list: List) -> Part {
    match list {
        List::Jobs => Part::Queued,
        List::Workers => Part::Workers,
        List::Dispatched => Part::Dispatched,
        List::Progress => Part::Progress,
    }
}

impl Session {
    /// Goes on with the list.
    #[cold]
    pub(super) fn list<'s>(&mut self, shared: &'s mut Shared, out: &mut OutBuf) -> Step<'s> {
        let Some(listing) = &mut self.listing else { return Step::Answered };
        if listing.waiting {
            return Step::Blocked;
        }
        shared.work += 1;
        let need = listing.inventory.write(&mut self.text);
        if let Need::Survey(from) = need {
            shared.work += SURVEY_WORK;
            listing.waiting = true;
            let queues = alone(listing.inventory.queue(), shared);
            let queue = queues.into_iter().next().unwrap_or_default();
            return Step::Work(self.asked.open(Kind::List, b""), Work::Survey { queue, from });
        }
        if let Need::Members(from) = need {
            let members = self.crew.members(listing.inventory.queue(), from, 16 * AT_ONCE);
            listing.inventory.take_members(members);
            return Step::Answered;
        }
        if !std::mem::replace(&mut listing.begun, true) {
            self.voice.begin([listing.list.name(), "/result", ""], shared.now, out.tail());
        }
        out.tail().append(&mut self.text);
        match need {
            Need::Look(id) => {
                listing.waiting = true;
                Step::Submit(self.asked.open(Kind::List, b""), Command::Look { id })
            }
            Need::Nothing => {
                self.listing = None;
                out.tail().extend_from_slice(b"}\n");
                out.tail().append(&mut self.kept_back);
                Step::Answered
            }
            _ => Step::Answered,
        }
    }

    #[cold]
    pub(super) fn handle_part(&mut self, reply: &Reply<'_>) {
        let Some(listing) = &mut self.listing else { return };
        listing.waiting = false;
        match reply {
            Reply::Survey(survey) => listing.inventory.take_survey(survey),
            look => listing.inventory.take_look(look, &mut self.text),
        }
    }
}
