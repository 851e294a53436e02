//! Deadlines of connections: how long a client may take.

use super::ServerModel;
use super::client::{Client, State};
use super::types::{HttpOptions, Page, Reply};
use jobcentre::base::limits::{FLUSH_TIMEOUT, HTTP_IDLE_TIMEOUT};
use jobcentre::base::time::Mono;
use jobcentre::model::id::ClientId;

impl ServerModel {
    /// When the server wishes to be called, if no client comes by HTTP.
    pub(crate) fn poll_timeout(&self) -> Option<Mono> {
        let lives = |id: &ClientId| self.clients.contains_key(id);
        if self.resumed.iter().any(lives) || self.unsettled > 0 {
            return Some(self.now.mono);
        }
        let deadline = self.clients.values().filter_map(|client| Some(client.deadline?.0)).min();
        let report = self.rejections.next_report();
        [deadline, self.store.timeout().0, report].into_iter().flatten().min()
    }

    /// Ends the clients that were too slow, in the order of their timers: that of an HTTP client
    /// may be before the end of its deadline, which often moves later.
    pub(super) fn expire(&mut self) {
        loop {
            let now = self.now.mono;
            let due = |(&id, client): (&ClientId, &Client)| {
                let check = client.check.filter(|_| !client.is_leaving());
                client.deadline.or(check).filter(|&(at, _)| at <= now).map(|at| (at, id))
            };
            let Some((_, id)) = self.clients.iter().filter_map(due).min() else { return };
            if self.client(id).deadline.is_some() {
                self.see("a deadline passed");
                self.end(id, true);
                continue;
            }
            let client = self.client(id);
            client.check = None;
            if client.reply_deadline.is_some_and(|at| at <= now) {
                self.time_out(id);
            }
            self.arm_check(id);
        }
    }

    /// Sees to it that the server looks at an HTTP client when it will have been too slow, or
    /// before.
    pub(super) fn arm_check(&mut self, id: ClientId) {
        let armed = self.armed;
        let Some(client) = self.clients.get_mut(&id) else { return };
        let Some(at) = client.reply_deadline.filter(|_| !client.is_leaving()) else { return };
        if client.check.is_none_or(|(before, _)| before > at) {
            client.check = Some((at, armed));
            self.armed += 1;
        }
    }

    /// An HTTP client was too slow.
    fn time_out(&mut self, id: ClientId) {
        let now = self.now.mono;
        let client = self.client(id);
        let idle = client.state == State::Open && !client.has_begun();
        if client.state == State::Open && client.has_begun() {
            let manner = HttpOptions { close: true, expects: true, ..HttpOptions::default() };
            client.expect(&Reply::Page(Page::error(408)), manner);
            client.end();
            self.see("a request took too long");
            self.go_on(id);
        } else if idle && client.unsent == 0 {
            client.end();
            self.see("a connection was not used for long");
            self.go_on(id);
        } else if idle && client.unsent != client.spared {
            client.spared = client.unsent;
            client.reply_deadline = Some(now.after(HTTP_IDLE_TIMEOUT));
            self.see("a reader was spared");
        } else {
            self.see("a reader was cut off");
            self.end(id, true);
        }
    }

    /// Bounds the time that a client which is leaving has to take its output. Called again after
    /// each call of the server: the script says nothing of interim responses.
    pub(crate) fn arm_flush_timeout(&mut self, id: ClientId) {
        let (at, armed) = (self.now.mono.after(FLUSH_TIMEOUT), self.armed);
        let client = self.client(id);
        if client.unsent > 0 && client.is_leaving() && client.deadline.is_none() {
            client.deadline = Some((at, armed));
            self.armed += 1;
        }
    }
}
