//! Actions as they are shown, listed and cancelled; and what is left to do when a queue is deleted.

use crate::base::time::Now;
use crate::model::action::ActionState;
use crate::model::id::Ticket;
use crate::model::manage::{ManageReply, Missing};
use crate::store::{DirtyRecord, Effects, RecordKey, Store};

impl Store {
    /// Ends the pause of a queue, and makes it unknown if no job was put there meanwhile.
    pub(super) fn forget_queue(&mut self, name: &[u8], fx: &mut Effects) {
        let Some(queue) = self.queues.find(name) else { return };
        self.end_pause(queue, fx);
        if self.queues[queue].jobs > 0 {
            return;
        }
        if let Some((record, id)) = self.queues.end_declaration(queue) {
            fx.mark_dirty(DirtyRecord::Gone(RecordKey::Queue(record), id));
        }
        self.queues.forget(queue);
    }

    /// Answers with an action. O(log a).
    pub(super) fn show_action(&self, ticket: Ticket, id: u64, fx: &mut Effects) {
        let reply = match self.actions.by_id.get(&id) {
            Some(action) => ManageReply::Action(Box::new(action.details.clone())),
            None if (1..=self.actions.last_id).contains(&id) => ManageReply::Missing(Missing::Gone),
            None => ManageReply::Missing(Missing::NeverGivenOut),
        };
        fx.reply(ticket, reply);
    }

    /// Answers with actions, the last one first. O(limit).
    pub(super) fn list_actions(
        &self,
        ticket: Ticket,
        below: Option<u64>,
        limit: usize,
        fx: &mut Effects,
    ) {
        let actions = self.actions.by_id.range(..below.unwrap_or(u64::MAX)).rev();
        let details = actions.take(limit).map(|(_, action)| action.details.clone());
        fx.reply(ticket, ManageReply::Actions(details.collect()));
    }

    /// Ends an action early, if it runs, and answers with it. O(running actions).
    pub(super) fn cancel_action(&mut self, ticket: Ticket, id: u64, now: Now, fx: &mut Effects) {
        self.cancel_search(id, now, fx);
        let running = self.actions.running.iter().position(|&running| running == id);
        if let Some(place) = running
            && let Some(mut action) = self.actions.by_id.remove(&id)
        {
            self.actions.running.remove(place);
            self.spread.end_task();
            self.end_action(&mut action, ActionState::Cancelled, now, fx);
            self.actions.by_id.insert(id, action);
        }
        self.show_action(ticket, id, fx);
    }
}
