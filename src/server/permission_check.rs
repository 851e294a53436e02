//! Who the clients are, and the one place where it is checked what they may do: between a session
//! and the engine. Without users none of it exists: a connection has no [`Access`], and its
//! requests pay one comparison.
//!
//! Invariants:
//! - with users, each connection of a client has an [`Access`], and no command of it is executed
//!   that its user may not submit, as of the last change of the users;
//! - an answer about a job of others shows what is in it to those only that may peek at its queue;
//! - a wait of a client whose user has lost a permission meanwhile ends with an error, a bounded
//!   number of passes after the change;
//! - an answer to a wrong token is delayed, never the loop.

use super::auth_failures::AuthFailures;
use super::peers::Peers;
use crate::access::{
    BrowserSessions, Denial, Digest, Need, Right, User, UserId, Users, needs, needs_for_contents,
};
use crate::base::time::{Mono, Now, Wall};
use crate::engine::CommandExecutor;
use crate::model::command::Command;
use crate::model::driver::Protocol;
use crate::model::id::{ClientId, Ticket};
use crate::model::indexed_queue::IndexedCommand;
use crate::model::manage::ManageReply;
use crate::model::peer::Peer;
use crate::model::reply::Reply;
use crate::model::stats::AccessStats;
use std::collections::VecDeque;
use std::time::Duration;

/// The longest queue name that is kept for the next check.
const CACHED_NAME_MAX: usize = 256;

/// Who a client is.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub(super) user: Option<UserId>,
    /// The token by which it was entered.
    pub(super) token: Option<Digest>,
    /// The session of a browser by which it was entered.
    pub(super) browser: Option<Digest>,
    /// Of the users that it was looked up in; 0: it never was.
    pub(super) generation: u64,
    /// Its user has lost a permission, and a wait of it may have begun before that.
    pub(super) is_narrowed: bool,
    /// The queues into which it may put and from which it may take, as of the last checks.
    puts_into: Option<Vec<u8>>,
    takes_from: Option<Vec<u8>>,
    /// The commands in progress whose answers show jobs without their contents, by their serials.
    hidden: Vec<u32>,
    pub(super) failures: u32,
    /// When a wrong token is answered.
    pub(super) answer_at: Option<Mono>,
}

impl Access {
    /// Whether it was entered as this user by this token.
    pub(super) fn is(&self, user: UserId, token: &Digest) -> bool {
        self.user == Some(user) && self.token.is_some_and(|known| known.is(token))
    }

    /// The reply to the command with this serial as the client may see it, if that is another one.
    /// O(commands in progress that are answered so).
    pub(super) fn hide(&mut self, serial: u32, reply: &Reply<'_>) -> Option<ManageReply> {
        let place = self.hidden.iter().position(|&hidden| hidden == serial)?;
        self.hidden.swap_remove(place);
        match reply {
            Reply::Manage(ManageReply::Job(job)) => {
                Some(ManageReply::Job(Box::new(job.without_contents())))
            }
            Reply::Manage(ManageReply::Duplicate(job)) => {
                Some(ManageReply::Duplicate(Box::new(job.without_contents())))
            }
            _ => None,
        }
    }

    pub(super) fn become_user(&mut self, user: Option<UserId>, token: Option<Digest>) {
        (self.user, self.token) = (user, token);
        (self.puts_into, self.takes_from) = (None, None);
    }
}

/// What the server knows of users.
#[derive(Debug, Default)]
pub(super) struct AccessControl {
    pub(super) users: Option<Users>,
    /// Browsers that have signed in.
    pub(super) browsers: BrowserSessions,
    /// Those before the last change, until all connections were looked at.
    pub(super) former: Option<Users>,
    /// Rises with each change.
    pub(super) generation: u64,
    /// The users of listeners.
    listeners: Vec<Option<Box<str>>>,
    pub(super) failures: AuthFailures,
    /// Clients that have to authenticate, and until when. Some may have done so or be gone.
    pub(super) unauthenticated: VecDeque<(Mono, ClientId)>,
    /// Clients whose wrong tokens are answered later.
    pub(super) delayed: VecDeque<(Mono, ClientId)>,
    /// The place of the next connection to look at after a change.
    pub(super) next_place: Option<u32>,
    pub(super) next_expiry: Option<Wall>,
    pub(super) denied: u64,
    /// Why nothing is carried out now, if that is so.
    unavailable: Option<Box<str>>,
    /// Whether commands are checked: there are users, or nothing is carried out.
    is_checking: bool,
}

/// A check of one need.
struct Check<'a, E> {
    engine: &'a E,
    client: ClientId,
    user: &'a User,
    access: &'a mut Access,
}

impl<E: CommandExecutor> Check<'_, E> {
    fn missing(&self, right: Right, queue: Option<&[u8]>) -> Denial {
        let user = self.user.name().into();
        Denial::Missing { user, right, queue: queue.map(Into::into) }
    }

    /// O(permissions), or O(name) if the last check was about the same queue.
    #[inline]
    fn on(&mut self, right: Right, queue: &[u8]) -> Result<(), Denial> {
        let known = match right {
            Right::Put => &mut self.access.puts_into,
            Right::Take => &mut self.access.takes_from,
            _ if self.user.may_on(right, queue) => return Ok(()),
            _ => return Err(self.missing(right, Some(queue))),
        };
        if known.as_deref() == Some(queue) {
            return Ok(());
        }
        if !self.user.may_on(right, queue) {
            return Err(self.missing(right, Some(queue)));
        }
        if queue.len() <= CACHED_NAME_MAX {
            let known = known.get_or_insert_default();
            known.clear();
            known.extend_from_slice(queue);
        }
        Ok(())
    }

    /// The same. The name of the queue is not told: the client need not know it.
    fn on_queue_of_job(&mut self, right: Right, queue: &[u8]) -> Result<(), Denial> {
        self.on(right, queue).map_err(|_| Denial::OfJob { user: self.user.name().into(), right })
    }

    fn has(&self, is_so: bool, right: Right) -> Result<(), Denial> {
        if is_so { Ok(()) } else { Err(self.missing(right, None)) }
    }

    fn all(&mut self, need: Need<'_>) -> Result<(), Denial> {
        match need {
            Need::User => Ok(()),
            Need::On(right, queue) => self.on(right, queue),
            Need::OnEach(right, queues) => {
                queues.into_iter().try_for_each(|queue| self.on(right, queue))
            }
            Need::OfJob(right, id) => match self.engine.job_queue(id, self.client) {
                Some((queue, _)) => self.on_queue_of_job(right, queue),
                None => self.has(self.user.may(right), right),
            },
            Need::Held(id) => match self.engine.job_queue(id, self.client) {
                Some((queue, true)) => self.on_queue_of_job(Right::Take, queue),
                Some((queue, false)) => self.on_queue_of_job(Right::Manage, queue),
                None => {
                    let may = self.user.may(Right::Take) || self.user.may(Right::Manage);
                    self.has(may, Right::Take)
                }
            },
            Need::HeldOr(right, id) => match self.engine.job_queue(id, self.client) {
                Some((_, true)) | None => Ok(()),
                Some((queue, false)) => self.on_queue_of_job(right, queue),
            },
            Need::JobMoves(id, to) => {
                self.all(Need::OfJob(Right::Manage, id))?;
                self.on(Right::Put, to)
            }
            Need::Moves(from, to) => {
                self.on(Right::Manage, from)?;
                self.on(Right::Put, to)
            }
            Need::PutEach(jobs) => jobs.iter().try_for_each(|job| self.on(Right::Put, &job.queue)),
            Need::Everywhere(right) => self.has(self.user.may_everywhere(right), right),
            Need::Global(right) => self.has(self.user.may(right), right),
            Need::Metrics => self.has(self.user.may(Right::Observe), Right::Observe),
        }
    }
}

impl AccessControl {
    pub(super) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    pub(super) fn set_users(&mut self, users: Users) {
        self.former = self.users.replace(users);
        self.is_checking = true;
    }

    /// Nothing is carried out from now on, for this reason, or all is again.
    pub(super) fn set_unavailable(&mut self, why: Option<Box<str>>) {
        self.is_checking = self.has_users() || why.is_some();
        self.unavailable = why;
    }

    pub(super) fn is_unavailable(&self) -> bool {
        self.unavailable.is_some()
    }

    pub(super) fn set_listeners(&mut self, users: Vec<Option<Box<str>>>) {
        self.listeners = users;
    }

    /// The user that a client is by itself.
    pub(super) fn by_peer(
        &self,
        peer: Option<&Peer>,
        protocol: Protocol,
        now: Now,
    ) -> Option<UserId> {
        let (users, peer) = (self.users.as_ref()?, peer?);
        let listener = self.listeners.get(peer.listener as usize).and_then(Option::as_deref);
        users.by_peer(peer, listener, protocol, now.wall)
    }

    /// The name of a client's user; `None` also until it is looked up after a change of the users.
    /// O(1).
    pub(super) fn name_of(&self, access: &Access, protocol: Protocol, now: Now) -> Option<&str> {
        let users = self.users.as_ref().filter(|_| access.generation == self.generation)?;
        Some(users.get(access.user?, protocol, now.wall)?.name())
    }

    /// Looks a client up anew if the users have changed since the last time. O(1).
    pub(super) fn refresh(
        &self,
        access: &mut Access,
        peer: Option<&Peer>,
        protocol: Protocol,
        now: Now,
    ) {
        if access.generation == self.generation {
            return;
        }
        let Some(users) = &self.users else { return };
        let former = match (&self.former, access.user) {
            (Some(former), Some(user)) if access.generation + 1 == self.generation => {
                former.get(user, protocol, Wall(0))
            }
            _ => None,
        };
        let user = match &access.token {
            Some(token) => users.by_token(token, protocol, now.wall),
            None => self.by_peer(peer, protocol, now),
        };
        let later = user.and_then(|user| users.get(user, protocol, now.wall));
        let is_same = match (former, later) {
            (Some(former), Some(later)) => {
                former.name() == later.name() && !former.is_wider_than(later)
            }
            _ => false,
        };
        access.is_narrowed |= !is_same;
        access.generation = self.generation;
        access.become_user(user, access.token);
    }

    /// Whether commands are checked at all. O(1), and in front of [`Self::denies`].
    #[inline(always)]
    pub(super) fn is_checking(&self) -> bool {
        self.is_checking
    }

    /// Why the client may not submit a command, if that is so.
    #[cold]
    pub(super) fn denies<E: CommandExecutor>(
        &self,
        (access, ticket, protocol): (&mut Option<Box<Access>>, Ticket, Protocol),
        command: &Command<'_>,
        (engine, peers): (&E, &Peers),
        now: Now,
    ) -> Option<Box<Denial>> {
        if let Some(access) = access {
            let check = |access: &mut Access, need| {
                self.check((access, ticket.client, protocol), need, engine, peers, now)
            };
            if let Err(denial) = check(access, needs(command)) {
                return Some(Box::new(denial));
            }
            if needs_for_contents(command).is_some_and(|need| check(access, need).is_err()) {
                access.hidden.push(ticket.serial);
            }
        }
        // These show the present state of the server, and so do not need the engine.
        let is_shown =
            matches!(command, Command::Peek { .. } | Command::Indexed(IndexedCommand::Stats(_)));
        let why = self.unavailable.as_ref().filter(|_| !is_shown)?;
        Some(Box::new(Denial::Unavailable(why.clone())))
    }

    /// Whether the client may do what has this need.
    pub(super) fn check<E: CommandExecutor>(
        &self,
        (access, client, protocol): (&mut Access, ClientId, Protocol),
        need: Need<'_>,
        engine: &E,
        peers: &Peers,
        now: Now,
    ) -> Result<(), Denial> {
        let peer = peers.peer(client);
        if matches!(need, Need::Metrics) && peer.is_some_and(|peer| peer.is_local) {
            return Ok(());
        }
        self.refresh(access, peer, protocol, now);
        let users = self.users.as_ref();
        let user = users.zip(access.user).and_then(|(users, id)| users.get(id, protocol, now.wall));
        let Some(user) = user else { return Err(Denial::Unauthenticated) };
        Check { engine, client, user, access }.all(need)
    }

    pub(super) fn stats(&self) -> AccessStats {
        AccessStats {
            users: self.users.as_ref().map(|users| users.len() as u64),
            failures: self.failures.total(),
            denied: self.denied,
        }
    }

    /// When something of this is due.
    pub(super) fn next(&self, now: Now) -> Option<Mono> {
        if self.next_place.is_some() {
            return Some(now.mono);
        }
        let expiry = self
            .next_expiry
            .map(|at| now.mono.after(Duration::from_millis(at.0.saturating_sub(now.wall.0))));
        let front = |queue: &VecDeque<(Mono, ClientId)>| queue.front().map(|entry| entry.0);
        let browser = self.browsers.next_end();
        let queues = [front(&self.unauthenticated), front(&self.delayed), expiry, browser];
        queues.into_iter().flatten().min()
    }
}
