//! What the requests of all protocols ask of the oracle, and what its answers are as replies.

use super::types::{Question, Reply, Request};
use super::{ServerModel, beanstalkd};
use crate::oracle::types::{Answer, Replies};
use crate::oracle::wire;
use jobcentre::model::driver::Protocol;
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::Encoding;
use jobcentre::model::reply::Rejection;

impl ServerModel {
    /// What a client says about packets that it wants; `None` if it says something else.
    pub(crate) fn wish(&mut self, id: ClientId, request: &wire::Request) -> Option<Replies> {
        let stands = self.store.waiting(id).is_some();
        let wishes = &mut self.client(id).wishes;
        match *request {
            wire::Request::Subscribe(queue) if !wishes.queues.contains(&queue) => {
                wishes.queues.push(queue);
                if stands {
                    if self.denies_packets(id, Some(&[queue])) {
                        return Some(Replies::new());
                    }
                    return Some(wire::subscribe(&mut self.store, id, queue));
                }
            }
            wire::Request::Unsubscribe(queue) if wishes.queues.contains(&queue) => {
                wishes.queues.retain(|&other| other != queue);
                if stands {
                    if self.denies_packets(id, None) {
                        return Some(Replies::new());
                    }
                    return Some(wire::unsubscribe(&mut self.store, id, queue));
                }
            }
            wire::Request::Subscribe(_) | wire::Request::Unsubscribe(_) => {}
            wire::Request::Ready => wishes.credits += 1,
            wire::Request::Junk => {
                self.client(id).end();
                self.see("a byte began no request");
            }
            _ => return None,
        }
        Some(Replies::new())
    }

    /// A line or packets: what the client is answered, and what others are.
    pub(crate) fn submit(&mut self, id: ClientId, request: &wire::Request) -> (Reply, Replies) {
        if let wire::Request::Bad(reply) = request {
            return (Reply::Bytes(reply.clone()), Replies::new());
        }
        let mut said = request.perform(&mut self.store, id);
        if said.first().is_none_or(|(ticket, _)| *ticket != Ticket { client: id, serial: 0 }) {
            return (Reply::Later, said);
        }
        let (_, answer) = said.remove(0);
        self.note_body(id, &answer);
        if let wire::Request::Abort(_) = request {
            self.see(match answer {
                Answer::Done => "abort: ok",
                Answer::Refused(Rejection::ReservedByAnother(_)) => "abort: of another",
                Answer::Refused(_) => "abort: not held",
                _ => "abort: no job",
            });
        }
        match (request, &answer) {
            (&wire::Request::Delete(deleted), Answer::Done) => {
                self.gone.insert(deleted, false);
            }
            (wire::Request::Delete(missed) | wire::Request::Abort(missed), Answer::NoJob)
                if self.gone.get(missed) == Some(&true) =>
            {
                self.see("a line misses what HTTP has deleted");
            }
            _ => {}
        }
        (self.bytes(id, &answer).map_or(Reply::Nothing, Reply::Bytes), said)
    }

    pub(crate) fn bytes(&self, id: ClientId, answer: &Answer) -> Option<Vec<u8>> {
        match self.clients[&id].protocol {
            Protocol::Pinpriq => wire::packets(answer),
            Protocol::Beanstalkd => Some(beanstalkd::reserved(answer)),
            _ => Some(wire::line(answer, &self.shown_names)),
        }
    }

    /// Remembers which jobs HTTP has deleted, and sees what a line has deleted before.
    pub(crate) fn note_deleted(&mut self, question: &Question, before: &[JobId], reply: &Reply) {
        if let Question::Delete(..) | Question::Drop(_) = question {
            let gone = before.iter().filter(|id| self.store.find(id.0).is_none());
            self.gone.extend(gone.map(|&id| (id, true)));
        }
        if let Question::Show(_, id)
        | Question::Delete(_, id)
        | Question::Advance { id, .. }
        | Question::Note { id, .. } = *question
            && matches!(reply, Reply::Page(page) if page.status == 404)
            && self.gone.get(&JobId(id)) == Some(&false)
        {
            self.see("HTTP misses what a line has deleted");
        }
    }

    /// Sees whether a client of another protocol gets a body of beanstalkd's.
    fn note_body(&mut self, id: ClientId, answer: &Answer) {
        let is_body = matches!(answer, Answer::Job(view) if view.load.encoding == Encoding::Bytes);
        if is_body && self.clients[&id].protocol != Protocol::Beanstalkd {
            self.see("other protocols: a body of beanstalkd");
        }
    }

    pub(crate) fn note(&mut self, id: ClientId, request: &Request, reply: &Reply, said: &Replies) {
        match self.clients[&id].protocol {
            Protocol::JobCentre => self.see("a line was served"),
            Protocol::Pinpriq => {
                let popped = matches!(request, Request::Wire(wire::Request::Pop(_)));
                self.see(if popped { "an answer to a pop" } else { "packets were served" });
            }
            Protocol::Http => self.see("an HTTP request was served"),
            Protocol::Beanstalkd => self.see("a command of beanstalkd was served"),
            Protocol::Processor => unreachable!("that protocol is not simulated"),
        }
        let posts = matches!(request, Request::Http(..)) && request.is_put();
        if posts && let Some((other, _)) = said.first() {
            let packets = self.clients[&other.client].protocol == Protocol::Pinpriq;
            let who =
                if packets { "HTTP served packets" } else { "HTTP served a line that waited" };
            self.see(who);
        }
        if let Reply::Page(page) = reply {
            self.see(match page.status {
                200..300 => "HTTP: done",
                404 => "HTTP: not found",
                409 => "HTTP: conflict",
                _ => "HTTP: refused",
            });
        }
    }
}
