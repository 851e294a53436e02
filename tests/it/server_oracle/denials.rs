//! Requests that a client may not make.

use super::access::{UNAUTHORIZED, error_line};
use super::beanstalkd::{self, Tubes};
use super::client::State;
use super::types::{HttpOptions, Page, Question, Queue, Reply, Request};
use super::users::Denied;
use super::{ServerModel, wire};
use jobcentre::access::Right;
use jobcentre::model::driver::Protocol;
use jobcentre::model::id::{ClientId, JobId};

/// What a request needs.
enum Need {
    User,
    On(Right, Vec<Queue>),
    OfJob(Right, JobId),
    Held(JobId),
    Observe,
}

/// What the requests of a client need; `None`: nothing is asked of the store.
fn need(request: &Request, tubes: &Tubes) -> Option<Need> {
    use beanstalkd::Request as Tube;
    use wire::Request as Wire;
    let on = |right, queue: Queue| Some(Need::On(right, vec![queue]));
    match request {
        Request::Wire(request) => match *request {
            Wire::Put { queue, .. } | Wire::Push { queue, .. } => on(Right::Put, queue),
            Wire::Get { ref queues, .. } => Some(Need::On(Right::Take, queues.clone())),
            Wire::Pop(queue) => on(Right::Take, queue),
            Wire::Delete(id) => Some(Need::Held(id)),
            Wire::Abort(id) => Some(Need::OfJob(Right::Take, id)),
            _ => None,
        },
        Request::Http(question, _) => match *question {
            Question::Queues => Some(Need::Observe),
            Question::Declare(queue) | Question::Post { queue, .. } => on(Right::Put, queue),
            Question::Drop(queue) | Question::Delete(queue, _) => on(Right::Manage, queue),
            Question::List(queue) | Question::Find { queue, .. } | Question::Show(queue, _) => {
                on(Right::Peek, queue)
            }
            Question::Poll { queue, .. }
            | Question::Advance { queue, .. }
            | Question::Note { queue, .. } => on(Right::Take, queue),
            Question::Wrong(..) => None,
        },
        Request::Beanstalkd(request) => match *request {
            Tube::Put { .. } => on(Right::Put, tubes.used),
            Tube::Reserve(_) => Some(Need::On(Right::Take, tubes.watched.clone())),
            Tube::ReserveJob(id)
            | Tube::Release { id, .. }
            | Tube::Bury { id, .. }
            | Tube::Touch(id) => Some(Need::OfJob(Right::Take, id)),
            Tube::Delete(id) => Some(Need::Held(id)),
            Tube::Peek(id) => Some(Need::OfJob(Right::Peek, id)),
            Tube::KickJob(id) => Some(Need::OfJob(Right::Manage, id)),
            Tube::PeekFirst(_) => on(Right::Peek, tubes.used),
            Tube::Kick(1..) => on(Right::Manage, tubes.used),
            Tube::PauseTube { tube, .. } => on(Right::Manage, tube),
            Tube::Use(_) | Tube::Watch(_) | Tube::Ignore(_) if tubes.asks(request) => {
                Some(Need::User)
            }
            _ => None,
        },
        Request::Auth(_) => None,
    }
}

impl ServerModel {
    /// Why a client may not do what has this need.
    fn denied(&mut self, id: ClientId, need: &Need) -> Option<Denied> {
        self.clients[&id].access.as_ref()?;
        self.refresh(id);
        let Some(user) = self.user(id) else { return Some(Denied::Unknown) };
        let name = user.name;
        let names = self.store.names();
        let of_job = |queue: Queue, right: Right| {
            (!user.may_on(right, names[queue])).then_some(Denied::OfJob(name, right))
        };
        let missing = |right, queue| Some(Denied::Missing(name, right, queue));
        match *need {
            Need::User => None,
            Need::Observe if user.may(Right::Observe) => None,
            Need::Observe => missing(Right::Observe, None),
            Need::On(right, ref queues) => {
                let queue = queues.iter().find(|&&queue| !user.may_on(right, names[queue]))?;
                missing(right, Some(*queue))
            }
            Need::OfJob(right, job) => match self.store.find(job.0) {
                Some(job) => of_job(job.queue, right),
                None if user.may(right) => None,
                None => missing(right, None),
            },
            Need::Held(job) => match self.store.find(job.0) {
                Some(job) if job.holder == Some(id) => of_job(job.queue, Right::Take),
                Some(job) => of_job(job.queue, Right::Manage),
                None if user.may(Right::Take) || user.may(Right::Manage) => None,
                None => missing(Right::Take, None),
            },
        }
    }

    /// Answers a request that its client may not make. Returns whether that is so.
    pub(super) fn denies(&mut self, id: ClientId, request: &Request) -> bool {
        let Some(need) = need(request, &self.clients[&id].tubes) else { return false };
        let Some(why) = self.denied(id, &need) else { return false };
        let sentence = why.sentence(self.store.names());
        let client = self.client(id);
        let (what, reply) = match (client.protocol, request) {
            (Protocol::JobCentre, _) => {
                ("users: a line is denied", Reply::Bytes(error_line(&sentence)))
            }
            (Protocol::Beanstalkd, _) => {
                if let Request::Beanstalkd(beanstalkd::Request::Ignore(tube)) = *request {
                    // It is watched as before, and the last one of them.
                    client.tubes.watched.retain(|&other| other != tube);
                    client.tubes.watched.push(tube);
                }
                ("users: a command is denied", Reply::Bytes(UNAUTHORIZED.to_vec()))
            }
            (Protocol::Pinpriq, Request::Wire(wire::Request::Pop(_))) => {
                let is_empty = matches!(why, Denied::Missing(..));
                let none = if is_empty { Reply::Bytes(vec![0, 0]) } else { Reply::Nothing };
                ("users: a pop is denied", none)
            }
            (Protocol::Http, Request::Http(_, manner)) => {
                let status = if let Denied::Unknown = why { 401 } else { 403 };
                client.state = State::Writing(Page::error(status), *manner, 1);
                self.go_on(id);
                return self.saw_denial("users: a request of HTTP is denied");
            }
            _ => ("users: a push is denied", Reply::Nothing),
        };
        client.expect(&reply, HttpOptions::default());
        self.saw_denial(what)
    }

    fn saw_denial(&mut self, what: &'static str) -> bool {
        self.see(what);
        true
    }

    /// Whether a subscriber may not wait in these queues, or no more; it is closed then.
    pub(super) fn denies_packets(&mut self, id: ClientId, queues: Option<&[Queue]>) -> bool {
        let need = queues.map_or(Need::User, |queues| Need::On(Right::Take, queues.to_vec()));
        if self.denied(id, &need).is_none() {
            return false;
        }
        self.client(id).end();
        self.access.closing.push(id);
        self.saw_denial("users: a subscriber is denied")
    }
}
