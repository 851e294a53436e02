//! Who the clients are: how they say so, what they may ask for, and what a change of the users
//! means for those that are connected.

use super::beanstalkd;
use super::client::{Client, State, Taken};
use super::types::{HttpOptions, Page, Question, Reply, Request};
use super::users::{Denied, Table, Token, User};
use super::{Oracle, ServerModel};
use jobcentre::base::limits::{
    AUTHENTICATION_LINE_MAX_BYTES, AUTHENTICATION_TIMEOUT, AUTHENTICATION_TRIES,
};
use jobcentre::base::time::{Mono, Wall};
use jobcentre::model::driver::Protocol;
use jobcentre::model::id::ClientId;
use std::collections::VecDeque;

/// Who a client is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// As of the last time it was looked up.
    user: Option<&'static str>,
    /// By which it was entered.
    token: Option<Token>,
    /// Of the users in which it was looked up.
    generation: u64,
    /// Its user has lost something, and a wait of it may have begun before.
    is_narrowed: bool,
    failures: u32,
}

/// What is known of users.
#[derive(Default)]
pub(super) struct AccessModel {
    users: Option<Table>,
    /// Those before, until the clients were looked at.
    former: Option<Table>,
    generation: u64,
    is_check_due: bool,
    next_expiry: Option<Wall>,
    /// Clients that have to say who they are, and until when.
    unknown: VecDeque<(Mono, ClientId)>,
    /// Clients that are closed at the end of the pass.
    pub(super) closing: Vec<ClientId>,
}

/// What came of a token.
enum Known {
    /// There are no users as far as this client is concerned.
    NoUsers,
    User(&'static str),
    NoUser,
    Wrong {
        is_last: bool,
    },
}

/// An error line. What is about users and their rights has a kind.
pub(super) fn error_line(why: &str) -> Vec<u8> {
    let kinds = [
        ("authenticate first", "unauthorized"),
        ("no user of this server", "unauthorized"),
        ("this server has no users", "wrong-state"),
        ("the rights of this user", "forbidden"),
        ("the user '", "forbidden"),
    ];
    let kind = kinds.iter().find(|(begin, _)| why.starts_with(begin));
    let kind = kind.map(|(_, kind)| format!(",\"kind\":\"{kind}\"")).unwrap_or_default();
    let why = serde_json::Value::from(why);
    format!("{{\"status\":\"error\",\"error\":{why}{kind}}}\n").into_bytes()
}

pub(super) const UNAUTHORIZED: &[u8] = b"UNAUTHORIZED\r\n";

/// What a line is answered whose client has not said who it is.
const HOW: &str = "authenticate first: send {\"request\":\"auth\",\"token\":\"...\"} with a token \
                   of a user of this server; nothing was carried out";

impl Client {
    /// Whether it has to say who it is before anything else.
    fn is_locked(&self) -> bool {
        self.locked && self.state == State::Open
    }
}

/// What is expected of clients and users.
impl ServerModel {
    pub(crate) fn has_users(&self) -> bool {
        self.access.users.is_some()
    }

    /// Whether a client has to say who it is before anything else.
    pub(crate) fn is_locked(&self, id: ClientId) -> bool {
        self.clients.get(&id).is_some_and(Client::is_locked)
    }

    /// The users are these from now on.
    pub(crate) fn set_users(&mut self, users: Table) {
        let wall = self.now.wall;
        let access = &mut self.access;
        access.next_expiry = users.next_expiry(wall);
        access.former = access.users.replace(users);
        access.generation += 1;
        access.is_check_due = true;
    }

    /// A client has come. `listener`: the user of those who come there.
    pub(crate) fn identify(&mut self, id: ClientId, listener: Option<&'static str>) {
        let client = self.clients.get_mut(&id).unwrap();
        client.listener = listener;
        if self.access.users.is_none() {
            return;
        }
        client.access = Some(Access::default());
        client.locked = matches!(client.protocol, Protocol::JobCentre | Protocol::Beanstalkd);
        let protocol = client.protocol;
        self.refresh(id);
        let deadline = self.now.mono.after(AUTHENTICATION_TIMEOUT);
        let client = self.client(id);
        let access = client.access.as_mut().unwrap();
        access.is_narrowed = false;
        match protocol {
            _ if access.user.is_some() => client.locked = false,
            Protocol::Pinpriq => {
                self.see("users: a client of packets is no user");
                self.dismiss(id);
            }
            Protocol::JobCentre | Protocol::Beanstalkd => {
                self.access.unknown.push_back((deadline, id));
            }
            Protocol::Http | Protocol::Processor => {}
        }
    }

    pub(super) fn user(&self, id: ClientId) -> Option<&User> {
        let client = &self.clients[&id];
        let name = client.access.as_ref()?.user?;
        self.access.users.as_ref()?.valid(name, client.protocol, self.now.wall)
    }

    fn by_token(&self, token: Token, protocol: Protocol) -> Option<&'static str> {
        self.access.users.as_ref()?.with_token(token, protocol, self.now.wall)
    }

    fn by_listener(&self, id: ClientId) -> Option<&'static str> {
        let client = &self.clients[&id];
        let users = self.access.users.as_ref()?;
        Some(users.valid(client.listener?, client.protocol, self.now.wall)?.name)
    }

    /// Looks up once more who a client is, if the users have changed.
    pub(super) fn refresh(&mut self, id: ClientId) {
        let (generation, protocol) = (self.access.generation, self.clients[&id].protocol);
        let Some(access) = self.clients[&id].access.clone() else { return };
        if access.generation == generation {
            return;
        }
        let user = match access.token {
            Some(token) => self.by_token(token, protocol),
            None => self.by_listener(id),
        };
        let former = self.access.former.as_ref();
        let former = former.filter(|_| access.generation + 1 == generation);
        let former = former.zip(access.user);
        let former = former.and_then(|(table, name)| table.valid(name, protocol, Wall(0)));
        let later = self.access.users.as_ref().zip(user).and_then(|(table, it)| table.named(it));
        let keeps_all = match (former, later) {
            (Some(former), Some(later)) => {
                let stays = former.allow.iter().all(|it| later.allow.contains(it));
                former.name == later.name && stays
            }
            _ => false,
        };
        let access = self.client(id).access.as_mut().unwrap();
        access.is_narrowed |= !keeps_all;
        (access.generation, access.user) = (generation, user);
    }

    /// Finds out who a client is by what it says.
    fn authenticate(&mut self, id: ClientId, token: Option<Token>) -> Known {
        if !self.has_users() || self.clients[&id].access.is_none() {
            return Known::NoUsers;
        }
        self.refresh(id);
        let protocol = self.clients[&id].protocol;
        let Some(token) = token else {
            let user = self.by_listener(id);
            let access = self.client(id).access.as_mut().unwrap();
            (access.user, access.token) = (user, None);
            return user.map_or(Known::NoUser, Known::User);
        };
        let user = self.by_token(token, protocol);
        let access = self.client(id).access.as_mut().unwrap();
        if let Some(user) = user {
            (access.user, access.token) = (Some(user), Some(token));
            return Known::User(user);
        }
        access.failures += 1;
        if access.token.take().is_some() {
            access.user = None;
        }
        let is_last = access.failures >= AUTHENTICATION_TRIES;
        self.see(if is_last { "users: the last wrong token" } else { "users: a wrong token" });
        Known::Wrong { is_last }
    }

    /// A line or a command that says who its client is.
    pub(super) fn say_who(&mut self, id: ClientId, token: Token) -> Reply {
        let known = self.authenticate(id, Some(token));
        let client = self.client(id);
        let is_line = client.protocol == Protocol::JobCentre;
        match known {
            Known::User(name) => {
                client.locked = false;
                self.see("users: a client said who it is");
                let line = format!("{{\"status\":\"ok\",\"user\":\"{name}\"}}\n");
                Reply::Bytes(if is_line { line.into_bytes() } else { b"OK\r\n".to_vec() })
            }
            Known::NoUsers => {
                let line = error_line("this server has no users: requests need no authentication");
                Reply::Bytes(if is_line { line } else { b"UNKNOWN_COMMAND\r\n".to_vec() })
            }
            Known::NoUser => unreachable!("it has said a token"),
            Known::Wrong { is_last } => {
                let line = error_line("no user of this server has this token");
                let bytes = if is_line { line } else { UNAUTHORIZED.to_vec() };
                client.expect(&Reply::Bytes(bytes), HttpOptions::default());
                if is_last {
                    client.end();
                }
                Reply::Nothing
            }
        }
    }

    /// Serves a request of a client that is no user. Returns whether there was one; `None`: it is a
    /// user, or there are none.
    pub(super) fn serve_unknown(&mut self, id: ClientId) -> Option<bool> {
        if self.is_locked(id) || self.clients[&id].refuses_put {
            return Some(self.serve_locked(id));
        }
        self.turns_away(id).then_some(true)
    }

    /// Serves one request of a client that has to say who it is. Returns whether there was one.
    fn serve_locked(&mut self, id: ClientId) -> bool {
        let client = self.client(id);
        if client.protocol == Protocol::JobCentre {
            return match client.take(AUTHENTICATION_LINE_MAX_BYTES) {
                Taken::Nothing => false,
                Taken::TooLong => {
                    let max = AUTHENTICATION_LINE_MAX_BYTES;
                    let why = format!(
                        "the line is longer than the {max} bytes that are read of a client that \
                         has not authenticated, and was skipped"
                    );
                    self.refuse_locked(id, error_line(&why));
                    true
                }
                Taken::Request(Request::Auth(token)) => self.take_token(id, token),
                Taken::Request(_) => {
                    self.refuse_locked(id, error_line(HOW));
                    true
                }
            };
        }
        let Some((bytes, request)) = client.script.front() else { return false };
        let is_put = bytes.starts_with(b"put ");
        let line = bytes.windows(2).position(|two| two == b"\r\n").unwrap() + 2;
        let is_quit = matches!(request, Request::Beanstalkd(beanstalkd::Request::Quit));
        if is_put && client.handed >= line {
            client.refuses_put = true;
        }
        match client.take(usize::MAX) {
            Taken::Request(Request::Auth(token)) => self.take_token(id, token),
            Taken::Request(request) if is_quit => {
                self.carry_out(id, &request);
                true
            }
            Taken::Request(_) => {
                self.client(id).refuses_put = false;
                self.refuse_locked(id, UNAUTHORIZED.to_vec());
                true
            }
            _ => false,
        }
    }

    fn take_token(&mut self, id: ClientId, token: Token) -> bool {
        let reply = self.say_who(id, token);
        self.client(id).expect(&reply, HttpOptions::default());
        true
    }

    fn refuse_locked(&mut self, id: ClientId, bytes: Vec<u8>) {
        self.see("users: a request before authentication");
        self.client(id).expect(&Reply::Bytes(bytes), HttpOptions::default());
    }

    /// An HTTP request whose head is there, of a client that is no user, is refused without its
    /// body. Returns whether one was.
    fn turns_away(&mut self, id: ClientId) -> bool {
        let client = &self.clients[&id];
        let Some((bytes, Request::Http(question, manner))) = client.script.front() else {
            return false;
        };
        let (manner, has_body) = (*manner, bytes.len() > manner.head);
        let is_faulty = manner.fatal && matches!(question, Question::Wrong(400, _));
        if client.admitted || client.handed < manner.head || is_faulty {
            return false;
        }
        if !self.has_users() {
            // What it says is not looked at later, when its body is there and users are.
            self.client(id).admitted = true;
            return false;
        }
        let is_last = match self.authenticate(id, manner.token) {
            Known::NoUsers | Known::User(_) => {
                self.client(id).admitted = true;
                return false;
            }
            Known::NoUser => false,
            Known::Wrong { is_last } => is_last,
        };
        let close = manner.close || has_body || is_last;
        let manner = HttpOptions { close, expects: false, ..manner };
        let client = self.client(id);
        client.handed -= manner.head;
        client.script.pop_front();
        client.state = State::Writing(Page::error(401), manner, 1);
        self.see("users: a request of HTTP from no user");
        true
    }

    /// What is due of users at the end of a pass.
    pub(super) fn run_access(&mut self) {
        if !self.has_users() {
            return;
        }
        let now = self.now;
        while let Some(&(at, id)) = self.access.unknown.front()
            && at <= now.mono
        {
            self.access.unknown.pop_front();
            let access = self.clients.get(&id).and_then(|client| client.access.as_ref());
            if access.is_some_and(|access| access.user.is_none()) {
                self.see("users: a client did not say who it is");
                self.dismiss(id);
            }
        }
        let access = &mut self.access;
        if access.next_expiry.is_some_and(|at| at <= now.wall) {
            access.next_expiry = access.users.as_ref().unwrap().next_expiry(now.wall);
            access.is_check_due = true;
        }
        if std::mem::take(&mut access.is_check_due) {
            for id in self.clients.keys().copied().collect::<Vec<_>>() {
                self.look_at(id);
            }
            self.access.former = None;
        }
    }

    /// Looks at a client after the users have changed, or one has expired.
    fn look_at(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id).filter(|client| !client.refused) else {
            return;
        };
        client.access.get_or_insert_default();
        self.refresh(id);
        let is_valid = self.user(id).is_some();
        let client = self.client(id);
        let access = client.access.as_mut().unwrap();
        if access.user.is_some() && !is_valid {
            (access.user, access.is_narrowed) = (None, true);
        }
        if std::mem::take(&mut access.is_narrowed) {
            self.end_wait_of(id, Denied::Changed);
        }
        let client = self.client(id);
        if is_valid {
            client.locked = false;
        } else if client.protocol != Protocol::Http && !client.is_locked() {
            self.see("users: the user of a client is gone");
            self.dismiss(id);
        }
    }

    /// Ends the wait of a client, which is told why.
    fn end_wait_of(&mut self, id: ClientId, why: Denied) {
        let Some(ticket) = self.store.waiting(id) else { return };
        let mut said = self.store.run(|oracle: &mut Oracle| oracle.cancel(ticket));
        said.retain(|(other, _)| *other != ticket);
        assert!(said.is_empty(), "no other is told of it");
        let sentence = why.sentence(self.store.names());
        let client = self.client(id);
        match client.protocol {
            Protocol::Pinpriq => {
                client.end();
                self.access.closing.push(id);
                self.see("users: a subscription is ended");
            }
            protocol => {
                let is_line = protocol == Protocol::JobCentre;
                let bytes = if is_line { error_line(&sentence) } else { UNAUTHORIZED.to_vec() };
                client.state = State::Open;
                client.expect(&Reply::Bytes(bytes), HttpOptions::default());
                self.see("users: a wait is ended");
                self.resume(id);
            }
        }
    }

    /// Closes a client that is no user, and tells it so if it has no request under way.
    fn dismiss(&mut self, id: ClientId) {
        let (was_over, was_leaving) = (self.client(id).over, self.client(id).is_leaving());
        self.end_wait_of(id, Denied::Unknown);
        if was_over {
            return;
        }
        let sentence = Denied::Unknown.sentence(self.store.names());
        let client = self.client(id);
        let is_settled = !client.has_pending_reply() && client.unwritten.is_empty();
        if !is_settled || was_leaving {
            return self.end(id, true);
        }
        let bytes = match client.protocol {
            Protocol::JobCentre => error_line(&sentence),
            Protocol::Beanstalkd => UNAUTHORIZED.to_vec(),
            _ => Vec::new(),
        };
        client.expect(&Reply::Bytes(bytes), HttpOptions::default());
        client.end();
        (client.refused, client.handed, client.stalled) = (true, 0, false);
        let tubes = std::mem::take(&mut client.tubes);
        if client.protocol == Protocol::Beanstalkd {
            let said = self.lose_tubes(&tubes);
            self.deliver(said, None);
            self.serve_due(None);
        }
        self.settle(id);
    }

    /// What follows for clients that were closed in this pass.
    pub(super) fn close_denied(&mut self) {
        while let Some(id) = self.access.closing.pop() {
            if self.clients.contains_key(&id) {
                self.settle(id);
            }
        }
    }
}
