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
use std::sync::Arc;

/// The reloads that clients have asked for.
#[derive(Debug, Default)]
pub(super) struct Reloads {
    /// Clients that have asked and whose reload is not done.
    waiting: Vec<ClientId>,
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
                self.reloads.waiting.push(client);
                self.context.turn.reload = Some(Reloading::UnderWay);
            }
            AdminRequest::ReloadOutcome => {
                let latest = self.reloads.latest.as_ref();
                let is_done = !self.reloads.waiting.contains(&client);
                let report = latest.filter(|_| is_done).map(Arc::clone);
                self.context.turn.reload =
                    Some(report.map_or(Reloading::UnderWay, Reloading::Done));
            }
        }
    }

    /// A reload is done: those who have asked are answered in the next pass.
    pub(super) fn end_reload(&mut self, report: ReloadReport) {
        self.reloads.latest = Some(Arc::new(report));
        for client in std::mem::take(&mut self.reloads.waiting) {
            if let Some(connection) = self.connections.get_mut(client) {
                self.run_queues.schedule(client, connection);
            }
        }
    }
}
