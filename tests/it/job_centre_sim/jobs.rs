//! The oracle's store: a list of jobs and a list of waiters, searched from end to end. It is naive
//! on purpose, and says how every request must be answered, as bytes.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jobcentre::base::time::{Mono, Now};
use jobcentre::model::id::ClientId;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

/// A queue's name: how a client may write it in JSON, how the server shows it, and what it is.
pub(super) struct Name {
    pub(super) written: &'static [&'static str],
    shown: &'static str,
    pub(super) bytes: &'static str,
}

const fn name(written: &'static [&'static str], shown: &'static str, bytes: &'static str) -> Name {
    Name { written, shown, bytes }
}

/// All queues of the simulated simulation. Elsewhere a queue is its number in this list.
pub(super) const QUEUES: [Name; 7] = [
    name(&[r#""a""#, r#""\u0061""#], r#""a""#, "a"),
    name(&[r#""b""#], r#""b""#, "b"),
    name(&[r#""""#], r#""""#, ""),
    name(&[r#""\u0000""#], r#""\u0000""#, "\0"),
    name(&[r#""\"\\\/\n""#, r#""\u0022\u005c\u002f\u000A""#], r#""\"\\/\n""#, "\"\\/\n"),
    name(&[r#""é😀""#, r#""\u00e9\ud83d\ude00""#], r#""é😀""#, "é😀"),
    name(&[r#""a ""#], r#""a ""#, "a "),
];

/// What a packet can carry, and so what can be popped.
const WIDEST: usize = 65_535;

/// What a line or a run of bytes asks for.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Put {
        queue: usize,
        pri: String,
        job: String,
    },
    Get {
        queues: Vec<usize>,
        wait: bool,
    },
    /// `None` stands for an id that no server gives out.
    Delete(Option<u64>),
    Abort(Option<u64>),
    /// An ill-formed line, with the reply that it gets.
    Bad(Vec<u8>),

    Push {
        queue: usize,
        ttl_ms: u16,
        priority: u8,
        key: Vec<u8>,
        payload: Vec<u8>,
    },
    Pop(usize),
    Subscribe(usize),
    Unsubscribe(usize),
    Ready,
    /// A byte that begins no request, and whatever is behind it.
    Junk,
}

#[derive(Clone, Debug)]
enum Content {
    Json(String),
    Packet { key: Vec<u8>, payload: Vec<u8> },
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    queue: usize,
    /// Of priority 0 there is none.
    priority: Option<i128>,
    content: Content,
    pub(super) holder: Option<ClientId>,
    /// When it expires, unless it is reserved.
    ends: Option<Mono>,
}

impl Job {
    /// What leaves first among ready jobs is what is least by this: the most urgent, then jobs of
    /// lines, the oldest first, then packets, the newest first.
    fn order(&self) -> (Reverse<i128>, bool, i128) {
        let (packet, age) = match self.content {
            Content::Json(_) => (false, i128::from(self.id)),
            Content::Packet { .. } => (true, -i128::from(self.id)),
        };
        (Reverse(self.priority.unwrap()), packet, age)
    }

    fn is_too_large(&self) -> bool {
        matches!(&self.content, Content::Json(text) if text.len() > WIDEST)
    }

    fn key(&self) -> Option<&[u8]> {
        match &self.content {
            Content::Json(_) => None,
            Content::Packet { key, .. } => Some(key),
        }
    }
}

/// A client that waits for a job.
#[derive(Clone, Debug)]
pub(super) struct Waiter {
    pub(super) client: ClientId,
    pops: bool,
    /// Its queues, each with its place in the line there.
    places: Vec<(usize, u64)>,
}

/// The naive store.
pub(super) struct Jobs {
    pub(super) all: Vec<Job>,
    pub(super) next_id: u64,
    pub(super) waiters: Vec<Waiter>,
    places: u64,
    /// What was worth counting since it was last asked for.
    pub(super) noted: Vec<&'static str>,
}

/// What a client must be sent.
pub(super) struct Reply {
    pub(super) to: ClientId,
    pub(super) bytes: Vec<u8>,
    /// It has waited for this, and does so no more.
    pub(super) waited: bool,
}

pub(super) type Replies = Vec<Reply>;

const OK: &str = "{\"status\":\"ok\"}\n";
const NO_JOB: &str = "{\"status\":\"no-job\"}\n";
const NO_PACKETS: &[u8] = b"\0\0";

fn refusal(id: u64, why: &str) -> Vec<u8> {
    format!("{{\"status\":\"error\",\"error\":\"field 'id': job {id} {why}\"}}\n").into_bytes()
}

/// The one of these jobs that leaves first.
fn first<'a>(jobs: impl Iterator<Item = &'a Job>) -> Option<u64> {
    let ready = jobs.filter(|job| job.holder.is_none() && job.priority.is_some());
    ready.min_by_key(|job| job.order()).map(|job| job.id)
}

impl Jobs {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), next_id: 1, waiters: Vec::new(), places: 0, noted: Vec::new() }
    }

    /// Removes what has lived long enough.
    pub(super) fn bury(&mut self, now: Now) {
        let over = |job: &Job| job.holder.is_none() && job.ends.is_some_and(|at| at <= now.mono);
        let before = self.all.len();
        self.all.retain(|job| !over(job));
        if self.all.len() < before {
            self.noted.push("a packet expired");
        }
    }

    /// When the next one has lived long enough.
    pub(super) fn next_end(&self) -> Option<Mono> {
        self.all.iter().filter(|job| job.holder.is_none()).filter_map(|job| job.ends).min()
    }

    /// Carries out a request. One that waits is not answered.
    pub(super) fn execute(&mut self, client: ClientId, request: Request, now: Now) -> Replies {
        self.bury(now);
        let answer = |bytes: Vec<u8>| vec![Reply { to: client, bytes, waited: false }];
        match request {
            Request::Put { queue, pri, job } => {
                let priority = Some(pri.parse().unwrap());
                let id = self.add(queue, priority, Content::Json(job), None);
                let mut replies = answer(format!("{{\"status\":\"ok\",\"id\":{id}}}\n").into());
                self.serve(&mut replies);
                replies
            }
            Request::Push { queue, ttl_ms, priority, key, payload } => {
                let priority = (priority > 0).then_some(-i128::from(priority));
                let life = Duration::from_millis(u64::from(ttl_ms));
                let ends = (ttl_ms > 0).then(|| now.mono.after(life));
                self.add(queue, priority, Content::Packet { key, payload }, ends);
                let mut replies = Vec::new();
                self.serve(&mut replies);
                replies
            }
            Request::Get { queues, wait } => {
                let ready = self.all.iter().filter(|job| queues.contains(&job.queue));
                match first(ready) {
                    Some(id) => {
                        let mut replies = answer(self.hand_out(id, client));
                        self.serve(&mut replies);
                        replies
                    }
                    None if wait => {
                        self.wait(client, false, &queues);
                        Vec::new()
                    }
                    None => answer(NO_JOB.into()),
                }
            }
            Request::Pop(queue) => {
                let ready = self.all.iter().filter(|job| job.queue == queue);
                let Some(id) = first(ready) else { return answer(NO_PACKETS.into()) };
                if self.job(id).is_too_large() {
                    self.noted.push("a job was too large to be popped");
                    return answer(NO_PACKETS.into());
                }
                let mut replies = answer(self.pop_out(id));
                self.serve(&mut replies);
                replies
            }
            Request::Delete(id) => {
                let found = self.all.iter().position(|job| Some(job.id) == id);
                found.map(|index| self.all.remove(index));
                let mut replies = answer(if found.is_some() { OK } else { NO_JOB }.into());
                self.serve(&mut replies);
                replies
            }
            Request::Abort(id) => self.abort(client, id, now),
            Request::Bad(reply) => answer(reply),
            Request::Subscribe(_) | Request::Unsubscribe(_) | Request::Ready | Request::Junk => {
                panic!("this is the session's affair")
            }
        }
    }

    fn abort(&mut self, client: ClientId, id: Option<u64>, now: Now) -> Replies {
        let mut replies = Vec::new();
        let bytes = match self.all.iter_mut().find(|job| Some(job.id) == id) {
            None => NO_JOB.into(),
            Some(job) if job.holder == Some(client) => {
                job.holder = None;
                if job.key().is_some() {
                    self.noted.push("a packet came back");
                }
                OK.into()
            }
            Some(Job { id, holder: Some(_), .. }) => {
                refusal(*id, "is being worked on by another client")
            }
            Some(Job { id, .. }) => refusal(*id, "is not reserved"),
        };
        replies.push(Reply { to: client, bytes, waited: false });
        self.bury(now);
        self.serve(&mut replies);
        replies
    }

    /// Lets a client wait for the packets of its subscribed queues, in their order, or answers it.
    pub(super) fn stand(&mut self, client: ClientId, queues: &[usize], now: Now) -> Replies {
        self.bury(now);
        let mut best: Option<&Job> = None;
        for &queue in queues {
            let ready = self.all.iter().filter(|job| job.queue == queue);
            let Some(id) = first(ready) else { continue };
            let job = self.job(id);
            if !job.is_too_large() && best.is_none_or(|best| job.priority > best.priority) {
                best = Some(job);
            }
        }
        let Some(id) = best.map(|job| job.id) else {
            self.wait(client, true, queues);
            return Vec::new();
        };
        let bytes = self.pop_out(id);
        let mut replies = vec![Reply { to: client, bytes, waited: true }];
        self.serve(&mut replies);
        replies
    }

    /// A client that waits does so in one more queue.
    pub(super) fn join(&mut self, client: ClientId, queue: usize, now: Now) -> Replies {
        self.bury(now);
        self.places += 1;
        let place = (queue, self.places);
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.client == client).unwrap();
        waiter.places.push(place);
        let mut replies = Vec::new();
        self.serve(&mut replies);
        replies
    }

    /// A client that waits does so in one queue less.
    pub(super) fn leave(&mut self, client: ClientId, queue: usize) {
        let waiter = self.waiters.iter_mut().find(|waiter| waiter.client == client).unwrap();
        waiter.places.retain(|&(other, _)| other != queue);
    }

    /// A client is gone: all its jobs go back, then the most urgent is looked at first.
    pub(super) fn forget(&mut self, client: ClientId, now: Now) -> Replies {
        self.stop_waiting(client);
        for job in &mut self.all {
            if job.holder == Some(client) {
                job.holder = None;
                if job.key().is_some() {
                    self.noted.push("a packet came back");
                }
            }
        }
        self.bury(now);
        let mut replies = Vec::new();
        self.serve(&mut replies);
        replies
    }

    pub(super) fn waits(&self, client: ClientId) -> bool {
        self.waiters.iter().any(|waiter| waiter.client == client)
    }

    pub(super) fn stop_waiting(&mut self, client: ClientId) {
        self.waiters.retain(|waiter| waiter.client != client);
    }

    fn add(
        &mut self,
        queue: usize,
        priority: Option<i128>,
        content: Content,
        ends: Option<Mono>,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.all.push(Job { id, queue, priority, content, holder: None, ends });
        id
    }

    fn job(&self, id: u64) -> &Job {
        self.all.iter().find(|job| job.id == id).unwrap()
    }

    fn wait(&mut self, client: ClientId, pops: bool, queues: &[usize]) {
        let place = |(number, &queue): (u64, &usize)| (queue, self.places + number);
        let places = (1..).zip(queues).map(place).collect();
        self.places += queues.len() as u64;
        self.waiters.push(Waiter { client, pops, places });
    }

    /// Matches waiters and jobs: the most urgent job first that a waiter is eligible for, and of
    /// those that can have it the first in the line of its queue.
    fn serve(&mut self, replies: &mut Replies) {
        loop {
            let mut served: Option<(&Job, &Waiter)> = None;
            let awaited = self.waiters.iter().flat_map(|waiter| &waiter.places);
            let awaited: BTreeSet<usize> = awaited.map(|&(queue, _)| queue).collect();
            for queue in awaited {
                let ready = self.all.iter().filter(|job| job.queue == queue);
                let Some(id) = first(ready) else { continue };
                let job = self.job(id);
                let place = |waiter: &&Waiter| {
                    let mut places = waiter.places.iter();
                    places.find(|&&(other, _)| other == queue).map(|&(_, place)| place)
                };
                let can = |waiter: &&Waiter| !(waiter.pops && job.is_too_large());
                let waiters = self.waiters.iter().filter(can);
                let line = waiters.filter(|waiter| place(waiter).is_some());
                let Some(waiter) = line.min_by_key(place) else { continue };
                if served.is_none_or(|(best, _)| job.order() < best.order()) {
                    served = Some((job, waiter));
                }
            }
            let Some((job, waiter)) = served else { return };
            let (id, to, pops) = (job.id, waiter.client, waiter.pops);
            self.stop_waiting(to);
            let bytes = if pops { self.pop_out(id) } else { self.hand_out(id, to) };
            replies.push(Reply { to, bytes, waited: true });
        }
    }

    fn hand_out(&mut self, id: u64, client: ClientId) -> Vec<u8> {
        let job = self.all.iter_mut().find(|job| job.id == id).unwrap();
        assert!(job.holder.replace(client).is_none(), "the oracle gave a job away twice");
        let text = match &job.content {
            Content::Json(text) => text.clone(),
            Content::Packet { key, payload } => {
                let [key, payload] = [key, payload].map(|bytes| BASE64_STANDARD.encode(bytes));
                format!("{{\"key\":\"{key}\",\"payload\":\"{payload}\"}}")
            }
        };
        let (queue, pri) = (QUEUES[job.queue].shown, job.priority.unwrap());
        format!(
            "{{\"status\":\"ok\",\"id\":{id},\"job\":{text},\"pri\":{pri},\"queue\":{queue}}}\n"
        )
        .into_bytes()
    }

    /// Removes a job, with all of its key group.
    fn pop_out(&mut self, id: u64) -> Vec<u8> {
        let place = self.all.iter().position(|job| job.id == id).unwrap();
        let selected = self.all.remove(place);
        let key = selected.key();
        let member = |job: &mut Job| {
            let same = key.is_some() && job.key() == key && job.queue == selected.queue;
            same && job.holder.is_none()
        };
        let mut others: Vec<Job> = self.all.extract_if(.., member).collect();
        others.sort_by_key(|job| Reverse(job.id));
        self.noted.push(match (others.len(), key) {
            (0, None) => "a job was popped",
            (0, Some(_)) => "a packet was popped",
            _ => "a key group was popped",
        });
        let short = |number: usize| u16::try_from(number).unwrap().to_be_bytes();
        let mut bytes = short(1 + others.len()).to_vec();
        for job in std::iter::once(selected).chain(others) {
            let (key, payload) = match job.content {
                Content::Json(text) => (Vec::new(), text.into_bytes()),
                Content::Packet { key, payload } => (key, payload),
            };
            bytes.extend_from_slice(&short(key.len()));
            bytes.extend_from_slice(&short(payload.len()));
            bytes.extend_from_slice(&key);
            bytes.extend_from_slice(&payload);
        }
        bytes
    }
}
