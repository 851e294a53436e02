//! Clients say who they are, or have to, or are another user after the users have changed.

use super::auth_failures::Verdict;
use super::connection::{Connection, Direction};
use super::{Server, deliver_to};
use crate::access::{Denial, Need, Right, User, Users};
use crate::base::limits::{
    AUTHENTICATION_TIMEOUT, AUTHENTICATION_TRIES, CONNECTIONS_CHECKED_PER_PASS,
    UNAUTHENTICATED_MAX, UNAUTHENTICATED_PER_ADDRESS_MAX,
};
use crate::base::time::{Mono, Now};
use crate::engine::CommandExecutor;
use crate::model::driver::{Incident, Protocol};
use crate::model::id::{ClientId, Ticket};
use crate::model::peer::PeerAddress;
use crate::protocol::{
    Authentication, BrowserRequest, Caller, Closing, Credential, Session, StatsKind,
};
use std::collections::VecDeque;

/// The first entry, if it is due.
fn pop_due(queue: &mut VecDeque<(Mono, ClientId)>, now: Now) -> Option<ClientId> {
    queue.pop_front_if(|entry| entry.0 <= now.mono).map(|entry| entry.1)
}

/// Whether users apply to a connection.
fn applies(connection: &Connection) -> bool {
    let is_exempt = matches!(connection.session, Session::Rejected | Session::Processor(_));
    connection.direction == Direction::Inbound && !is_exempt
}

impl<E: CommandExecutor> Server<E> {
    /// The same server, with the users that clients of listeners are by themselves, in the order in
    /// which the driver announces the listeners.
    #[must_use]
    pub fn with_listener_users(mut self, users: Vec<Option<Box<str>>>) -> Self {
        self.access.set_listeners(users);
        self
    }

    /// Sets the users, in place of former ones. Connections are looked at over the next passes.
    /// O(users).
    pub fn set_users(&mut self, users: Users, now: Now) {
        self.access.next_expiry = users.next_expiry(now.wall);
        self.access.set_users(users);
        self.access.generation += 1;
        self.access.next_place = Some(0);
        self.context.has_users = true;
    }

    /// A connection was accepted. O(1).
    pub(super) fn begin_access(&mut self, client: ClientId) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        if self.access.has_users() && applies(connection) {
            connection.access = Some(Box::default());
            connection.session.lock();
        }
    }

    /// The other end of a connection is known. O(1).
    pub(super) fn identify(&mut self, client: ClientId, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let Some(access) = &mut connection.access else { return };
        self.access.refresh(access, self.peers.peer(client), connection.protocol, now);
        // Nothing of it waits yet.
        access.is_narrowed = false;
        if access.user.is_some() {
            return connection.session.unlock();
        }
        match connection.protocol {
            // Each of its requests says who it is.
            Protocol::Http | Protocol::Processor => {}
            // It has no way to say who it is.
            Protocol::Pinpriq => self.dismiss_unknown(client, now),
            Protocol::JobCentre | Protocol::Beanstalkd => self.await_authentication(client, now),
        }
    }

    /// O(`UNAUTHENTICATED_MAX`).
    fn await_authentication(&mut self, client: ClientId, now: Now) {
        self.make_place_for(client, now);
        let waiting = &mut self.access.unauthenticated;
        waiting.push_back((now.mono.after(AUTHENTICATION_TIMEOUT), client));
        if waiting.len() > UNAUTHENTICATED_MAX
            && let Some((_, oldest)) = waiting.pop_front()
            && self.is_unknown(oldest)
        {
            self.dismiss_unknown(oldest, now);
        }
    }

    /// If too many clients of its address have to authenticate, the oldest of them goes.
    fn make_place_for(&mut self, client: ClientId, now: Now) {
        let Some(network) = self.network_of(client) else { return };
        let is_near = |other: ClientId| self.network_of(other) == Some(network);
        let waiting = self.access.unauthenticated.iter().map(|entry| entry.1).enumerate();
        let mut near = waiting.filter(|&(_, other)| is_near(other) && self.is_unknown(other));
        let (oldest, further) = (near.next(), near.count());
        if let Some((place, oldest)) = oldest
            && further + 1 >= UNAUTHENTICATED_PER_ADDRESS_MAX
        {
            self.access.unauthenticated.remove(place);
            self.dismiss_unknown(oldest, now);
        }
    }

    fn network_of(&self, client: ClientId) -> Option<PeerAddress> {
        Some(self.peers.peer(client)?.address?.network())
    }

    fn is_unknown(&self, client: ClientId) -> bool {
        let access = self.connections.get(client).and_then(|it| it.access.as_ref());
        access.is_some_and(|access| access.user.is_none())
    }

    fn dismiss_unknown(&mut self, client: ClientId, now: Now) {
        self.notices.note(client, Incident::NotAuthenticated, now);
        self.dismiss(client, &Denial::Unauthenticated, now);
    }

    /// Finds out who a client is, and tells its session.
    #[cold]
    pub(super) fn authenticate(&mut self, client: ClientId, credential: &Credential, now: Now) {
        let Some(connection) = self.connections.get_mut(client) else { return };
        let protocol = connection.protocol;
        let (Some(access), Some(users)) = (&mut connection.access, &self.access.users) else {
            self.context.turn.authentication = Some(Authentication::NoUsers);
            return;
        };
        // What it was in former users says nothing about these.
        self.access.refresh(access, self.peers.peer(client), protocol, now);
        let mut browser = None;
        let user = match credential {
            Credential::Token(token) => {
                let user = users.by_token(token, protocol, now.wall);
                if let Some(user) = user
                    && !access.is(user, token)
                {
                    access.become_user(Some(user), Some(*token));
                }
                user
            }
            Credential::Browser(id)
                if let Some(token) = self.access.browsers.token(id, now.mono) =>
            {
                let user = users.by_token(&token, protocol, now.wall);
                if access.user != user || access.browser.is_none() {
                    access.become_user(user, user.map(|_| token));
                }
                browser = user.map(|_| *id);
                user
            }
            // It has ended, or it is of a former run.
            Credential::Peer | Credential::Browser(_) => {
                let user = self.access.by_peer(self.peers.peer(client), protocol, now);
                if access.user != user || access.token.is_some() {
                    access.become_user(user, None);
                }
                user
            }
            Credential::Again => None,
        };
        access.browser = browser;
        let name = user.and_then(|user| users.get(user, protocol, now.wall)).map(User::name);
        let outcome = match (name, credential) {
            (Some(name), Credential::Token(_)) if protocol == Protocol::JobCentre => {
                Authentication::User(name.into())
            }
            (Some(_), _) => Authentication::User(Box::default()),
            (None, Credential::Peer | Credential::Browser(_)) => Authentication::Unknown,
            (None, _) => self.refuse_token(client, credential, now),
        };
        self.context.turn.authentication = Some(outcome);
    }

    /// What a wrong token is answered with.
    fn refuse_token(
        &mut self,
        client: ClientId,
        credential: &Credential,
        now: Now,
    ) -> Authentication {
        let address = self.peers.peer(client).and_then(|peer| peer.address);
        let connection = self.connections.get_mut(client);
        let Some(access) = connection.and_then(|connection| connection.access.as_mut()) else {
            return Authentication::NoUsers;
        };
        if let Credential::Again = credential {
            if access.answer_at.is_some_and(|at| at > now.mono) {
                return Authentication::Later;
            }
        } else {
            access.failures += 1;
            if access.token.is_some() {
                // Over HTTP each request says who it is.
                access.become_user(None, None);
            }
            self.notices.note(client, Incident::NotAuthenticated, now);
            if let Verdict::After(at) = self.access.failures.note(address, now.mono) {
                access.answer_at = Some(at);
                self.access.delayed.push_back((at, client));
                return Authentication::Later;
            }
        }
        access.answer_at = None;
        Authentication::WrongToken { is_last: access.failures >= AUTHENTICATION_TRIES }
    }

    /// Whether a client may have what its session asks of the server; if not, the session is told.
    pub(super) fn permits(&mut self, client: ClientId, need: Need<'_>, now: Now) -> bool {
        let Some(connection) = self.connections.get_mut(client) else { return false };
        let Some(access) = &mut connection.access else { return true };
        let who = (&mut **access, client, connection.protocol);
        match self.access.check(who, need, &self.engine, &self.peers, now) {
            Ok(()) => true,
            Err(denial) => {
                self.deny(client, None, &denial, now);
                false
            }
        }
    }

    /// Denies a session that wants to observe, if its client may not.
    #[cold]
    pub(super) fn observe(&mut self, client: ClientId, now: Now) {
        self.permits(client, Need::Global(Right::Observe), now);
    }

    /// Fetches the workers of the processor for a session.
    #[cold]
    pub(super) fn workers(&mut self, client: ClientId, queue: Box<[u8]>, from: u32, now: Now) {
        let queue = queue.into_vec();
        if self.permits(client, Need::On(Right::Peek, &queue), now) {
            let processor = self.processor.and_then(|client| self.connections.get(client));
            let page = processor.map(|other| other.session.worker_page(&queue, from));
            self.context.turn.workers = Some(page.unwrap_or_default());
        }
    }

    /// Fetches the rights of its client for a session.
    #[cold]
    pub(super) fn fetch_caller(&mut self, client: ClientId, now: Now) {
        if !self.permits(client, Need::User, now) {
            return;
        }
        let Some(connection) = self.connections.get(client) else { return };
        let user = connection.access.as_ref().and_then(|access| access.user);
        let users = self.access.users.as_ref();
        let user = users
            .zip(user)
            .and_then(|(users, user)| users.get(user, connection.protocol, now.wall));
        self.context.turn.caller = Some(user.map(|user| Caller {
            user: user.name().into(),
            permissions: user.permissions().iter().map(ToString::to_string).collect(),
        }));
    }

    /// Begins or ends the session of a browser.
    #[cold]
    pub(super) fn browser_session(&mut self, client: ClientId, request: BrowserRequest, now: Now) {
        if !self.permits(client, Need::User, now) {
            return;
        }
        let connection = self.connections.get_mut(client);
        let access = connection.and_then(|connection| connection.access.as_mut());
        self.context.turn.browser = Some(match (access, request) {
            (Some(access), BrowserRequest::Open) if access.browser.is_none() => {
                access.token.map(|token| self.access.browsers.open(token, now.mono))
            }
            (Some(access), BrowserRequest::Close) => {
                if let Some(id) = access.browser.take() {
                    self.access.browsers.close(&id);
                }
                // Streams that it has begun end.
                self.access.next_place = Some(0);
                None
            }
            _ => None,
        });
    }

    /// Fetches statistics for a session.
    #[cold]
    pub(super) fn fetch_stats(&mut self, client: ClientId, kind: StatsKind, now: Now) {
        let need = match kind {
            StatsKind::Metrics => Need::Metrics,
            StatsKind::Server => Need::Global(Right::Observe),
        };
        if self.permits(client, need, now) {
            self.context.turn.stats = Some(self.stats());
        }
    }

    /// Tells a session that a request is not executed: the command with this serial, or what it has
    /// asked of the server.
    #[cold]
    pub(super) fn deny(
        &mut self,
        client: ClientId,
        serial: Option<u32>,
        denial: &Denial,
        now: Now,
    ) {
        self.access.denied += u64::from(!matches!(denial, Denial::Unavailable(_)));
        let Some(connection) = self.connections.get_mut(client) else { return };
        connection.output.prepare(&mut self.run_queues.pool);
        let (incident, closes) =
            connection.session.handle_denial(serial, denial, &mut connection.output);
        if closes && !connection.closing {
            connection.closing = true;
            self.run_queues.closing.push(client);
        }
        if connection.session.wants_poll() {
            self.run_queues.schedule(client, connection);
        }
        // What was sent behind a wait that ends so.
        self.run_queues.resume_stalled(client, connection);
        self.run_queues.mark_dirty(client, connection);
        if let Some(incident) = incident {
            self.notices.note(client, incident, now);
        }
    }

    /// Ends the wait of a client that may not wait any more. O(its wait).
    fn end_wait(&mut self, client: ClientId, denial: &Denial, now: Now) {
        let waits = self.connections.get(client).and_then(|it| it.session.pending_serial());
        let Some(serial) = waits else { return };
        let ticket = Ticket { client, serial };
        if !self.engine.is_waiting(ticket) {
            return;
        }
        self.engine.cancel(ticket, now);
        let mut is_cancelled = false;
        while let Some(mut completion) = self.engine.poll_completion() {
            if completion.ticket == ticket {
                is_cancelled = true;
                continue;
            }
            let (dispatchers, queues) = (&mut self.dispatchers, &mut self.run_queues);
            let other = completion.ticket.client;
            let completion = &mut completion;
            let incident = deliver_to(&mut self.connections, dispatchers, queues, completion, now);
            if let Some(incident) = incident {
                self.notices.note(other, incident, now);
            }
        }
        if is_cancelled {
            self.deny(client, Some(serial), denial, now);
        }
        self.deliver(None, now);
    }

    /// Closes a client, which is told why if it has no request under way.
    pub(super) fn dismiss(&mut self, client: ClientId, denial: &Denial, now: Now) {
        let Some(connection) = self.connections.get(client) else { return };
        let (was_closing, was_ending) = (connection.closing, connection.is_ending());
        self.end_wait(client, denial, now);
        if was_closing {
            // It has been told why, and what was delivered to it before is still sent.
            return;
        }
        let is_settled = |connection: &Connection| connection.session.is_settled();
        if !was_ending && self.connections.get(client).is_some_and(is_settled) {
            self.close_with(client, Closing::Denied(denial), now);
        } else {
            self.end(client, now, true);
        }
    }

    /// What is due of users: clients that have not authenticated, delayed answers, connections
    /// after a change. Bounded by [`CONNECTIONS_CHECKED_PER_PASS`].
    pub(super) fn run_access(&mut self, now: Now) {
        if !self.access.has_users() {
            return;
        }
        for _ in 0..CONNECTIONS_CHECKED_PER_PASS {
            let Some(client) = pop_due(&mut self.access.unauthenticated, now) else { break };
            if self.is_unknown(client) {
                self.dismiss_unknown(client, now);
            }
        }
        for _ in 0..CONNECTIONS_CHECKED_PER_PASS {
            let Some(client) = pop_due(&mut self.access.delayed, now) else { break };
            if let Some(connection) = self.connections.get_mut(client) {
                self.run_queues.schedule(client, connection);
            }
        }
        if self.access.next_expiry.is_some_and(|at| at <= now.wall) {
            let users = self.access.users.as_ref();
            self.access.next_expiry = users.and_then(|users| users.next_expiry(now.wall));
            self.access.next_place = Some(0);
        }
        if self.access.browsers.end_expired(now.mono) {
            self.access.next_place = Some(0);
        }
        if let Some(from) = self.access.next_place {
            self.check_connections(from, now);
        }
    }

    /// Looks at some connections after the users have changed, or one has expired.
    #[cold]
    fn check_connections(&mut self, from: u32, now: Now) {
        let end = from.saturating_add(CONNECTIONS_CHECKED_PER_PASS);
        let some = self.connections.range(from, CONNECTIONS_CHECKED_PER_PASS);
        let clients: Vec<ClientId> =
            some.filter(|(_, connection)| applies(connection)).map(|(client, _)| client).collect();
        for client in clients {
            self.check_connection(client, now);
        }
        let is_last = end >= self.connections.end();
        self.access.next_place = (!is_last).then_some(end);
        if is_last {
            self.access.former = None;
        }
    }

    fn check_connection(&mut self, client: ClientId, now: Now) {
        self.answer_reload(client, now);
        let Some(connection) = self.connections.get_mut(client) else { return };
        let protocol = connection.protocol;
        let access = connection.access.get_or_insert_default();
        self.access.refresh(access, self.peers.peer(client), protocol, now);
        let users = self.access.users.as_ref();
        let valid = users
            .zip(access.user)
            .and_then(|(users, id)| users.get(id, protocol, now.wall).map(|_| id));
        let browsers = &self.access.browsers;
        let has_ended = |id| browsers.token(&id, now.mono).is_none();
        let valid = valid.filter(|_| !access.browser.is_some_and(has_ended));
        if access.user != valid {
            // Its token stays: it is not one without.
            access.become_user(None, access.token);
            access.is_narrowed = true;
        }
        let has_user = access.user.is_some();
        if std::mem::take(&mut access.is_narrowed) {
            // Frames of a stream come from others that observe the same, too.
            if connection.session.end_stream() {
                self.run_queues.schedule(client, connection);
            }
            self.end_wait(client, &Denial::Changed, now);
        }
        let Some(connection) = self.connections.get_mut(client) else { return };
        if has_user {
            connection.session.unlock();
        } else if protocol != Protocol::Http && !connection.session.is_locked() {
            self.dismiss_unknown(client, now);
        }
    }
}
