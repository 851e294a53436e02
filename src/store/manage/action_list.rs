//! Actions as they are shown, listed, awaited and cancelled; and what is left to do when a queue is
//! deleted.

use super::actions::{Action, Actions, Cursor};
use crate::base::api_limits::ACTIONS_MAX;
use crate::base::time::Now;
use crate::model::action::ActionState;
use crate::model::id::{ClientId, Ticket};
use crate::model::manage::{ManageReply, Missing};
use crate::store::{DirtyRecord, Effects, RecordKey, Store};

impl Actions {
    /// How many run.
    pub(in crate::store) fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether this ticket is answered when an action has ended. O(running actions).
    pub(in crate::store) fn is_awaited(&self, ticket: Ticket) -> bool {
        let mut awaited = self.running.iter().chain(&self.awaited_searches);
        awaited.any(|id| self.by_id[id].ticket == Some(ticket))
    }

    /// The action goes on, and its ticket is not answered by it. Returns whether there was one.
    /// O(running actions).
    pub(in crate::store) fn stop_waiting(&mut self, ticket: Ticket) -> bool {
        self.remove_tickets(|other| other == ticket)
    }

    /// Actions whose client has ended go on. O(running actions).
    pub(in crate::store) fn remove_client(&mut self, client: ClientId) {
        self.remove_tickets(|ticket| ticket.client == client);
    }

    fn remove_tickets(&mut self, which: impl Fn(Ticket) -> bool) -> bool {
        let mut any = false;
        for id in self.running.iter().chain(&self.awaited_searches) {
            let action = self.by_id.get_mut(id).expect("a running action is known");
            any |= action.ticket.take_if(|ticket| which(*ticket)).is_some();
        }
        any
    }

    /// Whether as many run as can. O(1).
    pub(super) fn is_full(&self) -> bool {
        self.running.len() + self.searching >= ACTIONS_MAX
    }

    /// Drops those that ended first while there are too many. O(running actions) for each.
    pub(super) fn trim(&mut self) {
        while self.by_id.len() > ACTIONS_MAX {
            let ended = |action: &&Action| action.details.state != ActionState::Running;
            let Some(action) = self.by_id.values().find(ended) else { return };
            let id = action.details.id;
            self.by_id.remove(&id);
        }
        debug_assert!(
            self.running.len() + self.searching <= self.by_id.len(),
            "an action that goes on is kept"
        );
    }

    /// For checks.
    pub(super) fn check_invariants(&self) {
        assert!(self.by_id.len() <= ACTIONS_MAX, "too many actions are kept");
        let running = |action: &&Action| action.details.state == ActionState::Running;
        let searching = |action: &&Action| matches!(action.cursor, Cursor::Searching);
        assert_eq!(
            self.by_id.values().filter(running).filter(searching).count(),
            self.searching,
            "the actions that wait for queries are counted wrongly"
        );
        assert_eq!(
            self.by_id.values().filter(running).count(),
            self.running.len() + self.searching,
            "an action runs and is not listed, or the reverse"
        );
        let awaited = |action: &&Action| action.ticket.is_some();
        let mut ended = self.by_id.values().filter(|action| !running(action));
        assert!(!ended.any(|action| awaited(&action)), "an action has ended and is awaited");
    }
}

impl Store {
    /// Ends the pause of a queue, and makes it unknown if no job was put there meanwhile.
    pub(super) fn remove_queue(&mut self, name: &[u8], fx: &mut Effects) {
        let Some(queue) = self.queues.find(name) else { return };
        self.end_pause(queue, fx);
        if self.queues[queue].jobs > 0 {
            return;
        }
        if let Some((record, id)) = self.queues.end_declaration(queue) {
            fx.mark_dirty(DirtyRecord::Gone(RecordKey::Queue(record), id));
        }
        self.queues.unlist(queue);
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
            debug_assert_eq!(action.details.state, ActionState::Running, "it runs while listed");
            self.actions.running.remove(place);
            self.spread.end_task();
            self.end_action(&mut action, ActionState::Cancelled, now, fx);
            self.actions.by_id.insert(id, action);
        }
        self.show_action(ticket, id, fx);
    }
}
