//! The oracle's store: a list of jobs and a list of waiters, searched from end to end. It is naive
//! on purpose.

use super::types::{Body, DEFAULT, Page, Payload, QUEUES, Queue, Reply, Request, STATES, State};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jobcentre::base::time::{Mono, Now};
use jobcentre::model::id::ClientId;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) enum Content {
    Json(Payload),
    Packet { key: Vec<u8>, content: Vec<u8> },
}

/// What is kept of a job of a watched queue. Events are JSON texts.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub(super) state: State,
    events: Vec<String>,
    pub(super) modified: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    pub(super) queue: Queue,
    /// Of priority 0 there is none.
    priority: Option<i128>,
    pub(super) content: Content,
    pub(super) holder: Option<ClientId>,
    /// When it expires, unless it is reserved.
    ends: Option<Mono>,
    /// In Unix seconds.
    pub(super) created: u64,
    pub(super) record: Option<Record>,
}

impl Job {
    /// What leaves first among ready jobs is what is least by this.
    fn order(&self) -> (Reverse<i128>, bool, i128) {
        let (packet, age) = match self.content {
            Content::Json(_) => (false, i128::from(self.id)),
            Content::Packet { .. } => (true, -i128::from(self.id)),
        };
        (Reverse(self.priority.unwrap()), packet, age)
    }

    fn key(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Json(_) => None,
            Content::Packet { key, .. } => Some(key),
        }
    }

    fn payload(&self) -> String {
        match &self.content {
            Content::Json(payload) => payload.text.clone(),
            Content::Packet { key, content } => {
                let [key, content] = [key, content].map(|bytes| BASE64_STANDARD.encode(bytes));
                format!("{{\"key\":\"{key}\",\"payload\":\"{content}\"}}")
            }
        }
    }

    /// Whether nothing has happened to it since it was `before`.
    pub(super) fn is_unchanged_since(&self, before: &Self) -> bool {
        let events = |job: &Self| job.record.as_ref().unwrap().events.len();
        events(self) == events(before)
    }

    /// Everything about it, as JSON.
    pub(super) fn text(&self) -> String {
        let record = self.record.as_ref().unwrap();
        format!(
            "{{\"id\":{},\"payload\":{},\"events\":[{}],\"state\":{},\"modified\":{}}}",
            self.id,
            self.payload(),
            record.events.join(","),
            STATES[record.state].shown,
            record.modified
        )
    }
}

/// What is known of a watched queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    pub(super) declared: bool,
    /// When one of its jobs was changed last, in seconds.
    last: u64,
}

/// A client that waits for a job of some queues, each with its place in the line there.
#[derive(Debug)]
pub(super) struct Waiter {
    client: ClientId,
    places: Vec<(Queue, u64)>,
    pops: bool,
}

impl Waiter {
    fn place(&self, queue: Queue) -> Option<u64> {
        self.places.iter().find(|&&(other, _)| other == queue).map(|&(_, place)| place)
    }
}

/// The naive store.
#[derive(Debug, Default)]
pub(super) struct StoreModel {
    pub(super) jobs: Vec<Job>,
    pub(super) waiters: Vec<Waiter>,
    pub(super) watched: [Option<Watched>; QUEUES.len()],
    pub(super) now: Now,
    last_id: u64,
    last_place: u64,
    /// What was deleted: by HTTP, or by a line.
    gone: BTreeMap<u64, bool>,
    /// Replies to waiters.
    pub(super) served: Vec<(ClientId, Vec<u8>)>,
    /// What was worth counting since it was last asked for.
    pub(super) noted: Vec<&'static str>,
}

const OK: &str = "{\"status\":\"ok\"}\n";
const NO_JOB: &str = "{\"status\":\"no-job\"}\n";

fn line(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn refusal(id: u64, why: &str) -> Reply {
    line(&format!("{{\"status\":\"error\",\"error\":\"field 'id': job {id} {why}\"}}\n"))
}

/// The one of these jobs that leaves first.
fn first<'a>(jobs: impl Iterator<Item = &'a Job>) -> Option<&'a Job> {
    let ready = jobs.filter(|job| job.holder.is_none() && job.priority.is_some());
    ready.min_by_key(|job| job.order())
}

impl StoreModel {
    pub(super) fn note(&mut self, what: &'static str) {
        self.noted.push(what);
    }

    pub(super) fn find(&self, id: u64) -> Option<&Job> {
        self.jobs.iter().find(|job| job.id == id)
    }

    pub(super) fn job(&mut self, id: u64) -> &mut Job {
        self.jobs.iter_mut().find(|job| job.id == id).unwrap()
    }

    pub(super) fn next_id(&self) -> u64 {
        self.last_id + 1
    }

    pub(super) fn declared(&self) -> usize {
        self.watched.iter().flatten().filter(|watched| watched.declared).count()
    }

    /// Executes a request, and matches waiters.
    pub(super) fn execute(&mut self, client: ClientId, request: &Request) -> Reply {
        let reply = match request {
            Request::Put { queue, pri, payload } => {
                let priority = Some(pri.parse().unwrap());
                let id = self.add(*queue, priority, Content::Json(payload.clone()), None);
                line(&format!("{{\"status\":\"ok\",\"id\":{id}}}\n"))
            }
            Request::Push { queue, ttl_ms, priority, key, content } => {
                let priority = (*priority > 0).then_some(-i128::from(*priority));
                let life = Duration::from_millis(u64::from(*ttl_ms));
                let ends = (*ttl_ms > 0).then(|| self.now.mono.after(life));
                let content = Content::Packet { key: key.clone(), content: content.clone() };
                self.add(*queue, priority, content, ends);
                Reply::Nothing
            }
            Request::Get { queues, wait } => {
                let there = self.jobs.iter().filter(|job| queues.contains(&job.queue));
                match first(there).map(|job| job.id) {
                    Some(id) => Reply::Bytes(self.hand_out(id, client)),
                    None if *wait => {
                        self.wait(client, queues, false);
                        Reply::Later
                    }
                    None => line(NO_JOB),
                }
            }
            Request::Delete(id) => {
                let there = self.find(*id).is_some();
                if there {
                    self.remove(*id, false);
                } else {
                    self.miss(*id, false);
                }
                line(if there { OK } else { NO_JOB })
            }
            Request::Abort(id) => self.abort(client, *id),
            Request::Pop(queue) => Reply::Bytes(self.pop(*queue)),
            Request::Subscribe(_) | Request::Unsubscribe(_) | Request::Ready => {
                unreachable!("this is the session's affair")
            }
            Request::Bad(reply) => Reply::Bytes(reply.clone()),
            Request::Http(question, _) => self.answer(question),
        };
        self.serve();
        reply
    }

    fn add(
        &mut self,
        queue: Queue,
        priority: Option<i128>,
        content: Content,
        ends: Option<Mono>,
    ) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let watched = self.watched[queue].is_some();
        let created = if watched { self.second(queue) } else { self.now.wall.0 / 1_000 };
        let (holder, record) = (None, None);
        self.jobs.push(Job { id, queue, priority, content, holder, ends, created, record });
        if watched {
            self.record(id);
        }
        id
    }

    /// Puts a job with a state, and shows it.
    pub(super) fn post(&mut self, queue: Queue, payload: &Payload, state: State) -> Page {
        let id = self.add(queue, Some(0), Content::Json(payload.clone()), None);
        let job = self.job(id);
        job.record.as_mut().unwrap().state = state;
        Page::json(job.text())
    }

    fn abort(&mut self, client: ClientId, id: u64) -> Reply {
        let Some(job) = self.find(id) else {
            self.miss(id, false);
            return line(NO_JOB);
        };
        match job.holder {
            Some(holder) if holder == client => {
                self.let_go(id, "job_aborted");
                self.bury();
                line(OK)
            }
            Some(_) => refusal(id, "is being worked on by another client"),
            None => refusal(id, "is not reserved"),
        }
    }

    /// A client has disconnected: its jobs are released, then waiters are matched.
    pub(super) fn forget(&mut self, client: ClientId) {
        self.stop_waiting(client);
        let held = self.jobs.iter().filter(|job| job.holder == Some(client));
        for id in held.map(|job| job.id).collect::<Vec<_>>() {
            self.note("a job went back");
            self.let_go(id, "job_abandoned");
        }
        self.bury();
        self.serve();
    }

    pub(super) fn stop_waiting(&mut self, client: ClientId) {
        self.waiters.retain(|waiter| waiter.client != client);
    }

    fn wait(&mut self, client: ClientId, queues: &[Queue], pops: bool) {
        self.last_place += 1;
        let places = queues.iter().map(|&queue| (queue, self.last_place)).collect();
        self.waiters.push(Waiter { client, places, pops });
    }

    /// Whether a client waits, for a job or for packets.
    pub(super) fn waits(&self, client: ClientId) -> bool {
        self.waiters.iter().any(|waiter| waiter.client == client)
    }

    /// A client that waits for packets does so in one more queue, or in one less.
    pub(super) fn wait_also(&mut self, client: ClientId, queue: Queue) {
        self.last_place += 1;
        let place = (queue, self.last_place);
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.client == client).unwrap();
        waiter.places.push(place);
        self.serve();
    }

    pub(super) fn wait_not(&mut self, client: ClientId, queue: Queue) {
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.client == client).unwrap();
        waiter.places.retain(|&(other, _)| other != queue);
    }

    /// Gives a client packets of these queues, the most urgent ones, or lets it wait for them.
    pub(super) fn stand(&mut self, client: ClientId, queues: &[Queue]) -> Option<Vec<u8>> {
        let mut best: Option<&Job> = None;
        for &queue in queues {
            let job = first(self.jobs.iter().filter(|job| job.queue == queue));
            if job.is_some_and(|job| best.is_none_or(|best| job.priority > best.priority)) {
                best = job;
            }
        }
        if let Some(queue) = best.map(|job| job.queue) {
            return Some(self.pop(queue));
        }
        self.wait(client, queues, true);
        None
    }

    /// The waiters get what there is, the most urgent job first.
    fn serve(&mut self) {
        loop {
            let is_awaited =
                |job: &&Job| self.waiters.iter().any(|waiter| waiter.place(job.queue).is_some());
            let Some(job) = first(self.jobs.iter().filter(is_awaited)) else { return };
            let (id, queue) = (job.id, job.queue);
            let line = (0..self.waiters.len())
                .filter_map(|number| Some((self.waiters[number].place(queue)?, number)));
            let (_, number) = line.min().unwrap();
            let Waiter { client, pops, .. } = self.waiters.remove(number);
            let bytes = if pops { self.pop(queue) } else { self.hand_out(id, client) };
            self.served.push((client, bytes));
        }
    }

    fn hand_out(&mut self, id: u64, client: ClientId) -> Vec<u8> {
        let job = self.job(id);
        assert!(job.holder.replace(client).is_none(), "the oracle gave a job away twice");
        let (queue, pri) = (QUEUES[job.queue].shown, job.priority.unwrap());
        let text = job.payload().replace('\n', " ");
        self.happen(id, "job_taken", &format!("\"by\":{},", client.index));
        let text = format!("\"id\":{id},\"job\":{text},\"pri\":{pri},\"queue\":{queue}");
        format!("{{\"status\":\"ok\",{text}}}\n").into_bytes()
    }

    fn let_go(&mut self, id: u64, what: &'static str) {
        self.job(id).holder = None;
        self.happen(id, what, "");
    }

    /// Removes the first job of a queue, with all of its key group.
    fn pop(&mut self, queue: Queue) -> Vec<u8> {
        let Some(chosen) = first(self.jobs.iter().filter(|job| job.queue == queue)) else {
            return vec![0, 0];
        };
        let (id, key) = (chosen.id, chosen.key().map(<[u8]>::to_vec));
        let is_member = |job: &Job| {
            let alike = key.is_some() && job.key() == key.as_deref() && job.queue == queue;
            job.id == id || (alike && job.holder.is_none())
        };
        let mut group: Vec<Job> = self.jobs.extract_if(.., |job| is_member(job)).collect();
        self.end_watches();
        group.sort_by_key(|job| (job.id != id, Reverse(job.id)));
        self.note(if group.len() > 1 { "a key group was popped" } else { "a job was popped" });
        let short = |number: usize| u16::try_from(number).unwrap().to_be_bytes();
        let mut bytes = short(group.len()).to_vec();
        for job in group {
            let (key, content) = match job.content {
                Content::Json(payload) => (Vec::new(), payload.text.into_bytes()),
                Content::Packet { key, content } => (key, content),
            };
            bytes.extend(short(key.len()).into_iter().chain(short(content.len())));
            bytes.extend(key.into_iter().chain(content));
        }
        bytes
    }

    /// Removes what has lived long enough.
    pub(super) fn bury(&mut self) {
        let now = self.now.mono;
        let over = |job: &Job| job.holder.is_none() && job.ends.is_some_and(|at| at <= now);
        let before = self.jobs.len();
        self.jobs.retain(|job| !over(job));
        if self.jobs.len() < before {
            self.note("a packet expired");
            self.end_watches();
        }
    }

    pub(super) fn remove(&mut self, id: u64, by_http: bool) {
        self.jobs.retain(|job| job.id != id);
        self.gone.insert(id, by_http);
        self.end_watches();
    }

    /// A request for a job that does not exist.
    pub(super) fn miss(&mut self, id: u64, by_http: bool) {
        match self.gone.get(&id) {
            Some(true) if !by_http => self.note("a line misses what HTTP has deleted"),
            Some(false) if by_http => self.note("HTTP misses what a line has deleted"),
            _ => {}
        }
    }

    pub(super) fn exists(&self, queue: Queue) -> bool {
        let declared = self.watched[queue].as_ref().is_some_and(|watched| watched.declared);
        queue == DEFAULT || declared || self.jobs.iter().any(|job| job.queue == queue)
    }

    /// What no longer exists is not watched.
    pub(super) fn end_watches(&mut self) {
        for queue in 0..QUEUES.len() {
            if !self.exists(queue) {
                self.watched[queue] = None;
            }
        }
    }

    /// When something that happens now to a job of a watched queue counts as having happened.
    fn second(&mut self, queue: Queue) -> u64 {
        let watched = self.watched[queue].as_mut().unwrap();
        watched.last = watched.last.max(self.now.wall.0 / 1_000);
        watched.last
    }

    /// Makes the record of a job of a watched queue, unless it has one.
    pub(super) fn record(&mut self, id: u64) {
        let job = self.job(id);
        let (queue, modified) = (job.queue, job.created);
        if job.record.is_none() {
            let events = vec![event("job_created", "", modified)];
            job.record = Some(Record { state: 0, events, modified });
            let watched = self.watched[queue].as_mut().unwrap();
            watched.last = watched.last.max(modified);
        }
    }

    /// Something happens to a job; its log says so if it has one.
    pub(super) fn happen(&mut self, id: u64, what: &'static str, details: &str) {
        let job = self.job(id);
        let queue = job.queue;
        if job.record.is_some() {
            let at = self.second(queue);
            self.note(what);
            let record = self.job(id).record.as_mut().unwrap();
            record.events.push(event(what, details, at));
            record.modified = at;
        }
    }

    pub(super) fn advance(&mut self, id: u64, new: State) {
        let record = self.job(id).record.as_mut().unwrap();
        let old = std::mem::replace(&mut record.state, new);
        let (old, new) = (STATES[old].shown, STATES[new].shown);
        self.happen(id, "job_state_advanced", &format!("\"old\":{old},\"new\":{new},"));
    }

    pub(super) fn show(&self, id: u64) -> Page {
        Page::json(self.find(id).unwrap().text())
    }

    pub(super) fn declare(&mut self, queue: Queue) -> Page {
        if self.exists(queue) {
            return Page::error(409);
        }
        self.watched[queue] = Some(Watched { declared: true, last: 0 });
        self.note("a queue was declared");
        Page::new(201, Body::Json(format!("{{\"id\":{}}}", QUEUES[queue].shown)))
    }
}

fn event(what: &str, details: &str, at: u64) -> String {
    format!("[\"{what}\",{{{details}\"timestamp\":\"{at}\"}}]")
}
