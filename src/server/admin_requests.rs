//! What administrators ask of the server: drain mode, and reloads. The driver reads the files at
//! the end of the pass; one reload serves all who have asked in it.

use super::Server;
use crate::access::{Need, Right};
use crate::base::time::Now;
use crate::engine::CommandExecutor;
use crate::model::driver::Action;
use crate::model::id::ClientId;
use crate::model::reload::ReloadReport;
use crate::protocol::{AdminRequest, Reloading};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The reloads that clients have asked for.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    /// Clients that have asked and whose reload is not done.
    waiting: BTreeSet<ClientId>,
    /// Clients whose reload is done, and whose sessions may not have fetched the outcome yet.
    done: BTreeSet<ClientId>,
    /// The outcome of the last one.
    latest: Option<Arc<ReloadReport>>,
}

impl<E: CommandExecutor> Server<E> {
    /// Does what a session asks for, if its client may.
    #[cold]
    pub(super) fn administer(&mut self, request: AdminRequest, client: ClientId, now: Now) {
        // The outcome is for the client that was permitted to ask, also if it may no more.
        let is_permitted = request == AdminRequest::ReloadOutcome
            || self.permits(client, Need::Global(Right::Admin), now);
        if !is_permitted {
            return;
        }
        match request {
            AdminRequest::Drain(on) => self.engine.set_draining(on),
            AdminRequest::Reload => {
                if self.reloads.waiting.is_empty() {
                    self.run_queues.actions.push_back(Action::Reload);
                }
                self.reloads.waiting.insert(client);
                self.context.turn.reload = Some(Reloading::UnderWay);
            }
            AdminRequest::ReloadOutcome => {
                let latest = self.reloads.latest.as_ref();
                let is_done = !self.reloads.waiting.contains(&client);
                let report = latest.filter(|_| is_done).map(Arc::clone);
                self.reloads.done.remove(&client);
                self.context.turn.reload =
                    Some(report.map_or(Reloading::UnderWay, Reloading::Done));
            }
        }
    }

    /// A reload is done: those who have asked are answered in the next pass. O(clients that ask).
    pub(super) fn end_reload(&mut self, report: ReloadReport) {
        self.reloads.latest = Some(Arc::new(report));
        self.reloads.done.retain(|&client| self.connections.get(client).is_some());
        for client in std::mem::take(&mut self.reloads.waiting) {
            if let Some(connection) = self.connections.get_mut(client) {
                self.run_queues.schedule(client, connection);
                self.reloads.done.insert(client);
            }
        }
    }

    /// Answers a client whose reload is done, before its connection may be closed for what the
    /// reload has changed.
    #[cold]
    pub(super) fn answer_reload(&mut self, client: ClientId, now: Now) {
        if self.reloads.done.remove(&client) {
            self.run_buffered(client, b"", now);
        }
    }
}
