//! The judge's store: a list of jobs and a list of waiters, searched from end to end.
//!
//! It says what every request must be answered, as bytes, in its own words. Deliberately naive:
//! whoever reads it next to `protocols/job-centre.md` should find nothing to think about.

use jobcentre::model::id::ClientId;

/// A queue's name: how a client may write it, and how the server shows it.
pub(super) struct Name {
    pub(super) written: &'static [&'static str],
    shown: &'static str,
}

const fn name(written: &'static [&'static str], shown: &'static str) -> Name {
    Name { written, shown }
}

/// All queues of the simulated world. Elsewhere a queue is its number in this list.
pub(super) const QUEUES: [Name; 7] = [
    name(&[r#""a""#, r#""\u0061""#], r#""a""#),
    name(&[r#""b""#], r#""b""#),
    name(&[r#""""#], r#""""#),
    name(&[r#""\u0000""#], r#""\u0000""#),
    name(&[r#""\"\\\/\n""#, r#""\u0022\u005c\u002f\u000A""#], r#""\"\\/\n""#),
    name(&[r#""é😀""#, r#""\u00e9\ud83d\ude00""#], r#""é😀""#),
    name(&[r#""a ""#], r#""a ""#),
];

/// What a line asks for.
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
}

#[derive(Debug)]
pub(super) struct Job {
    pub(super) id: u64,
    queue: usize,
    pri: String,
    text: String,
    pub(super) holder: Option<ClientId>,
}

/// The naive store.
pub(super) struct Jobs {
    pub(super) all: Vec<Job>,
    pub(super) next_id: u64,
    /// In the order in which they began to wait.
    pub(super) waiters: Vec<(ClientId, Vec<usize>)>,
}

/// Replies, each with the client that it goes to.
pub(super) type Replies = Vec<(ClientId, Vec<u8>)>;

const OK: &str = "{\"status\":\"ok\"}\n";
const NO_JOB: &str = "{\"status\":\"no-job\"}\n";

fn refusal(id: u64, why: &str) -> Vec<u8> {
    format!("{{\"status\":\"error\",\"error\":\"field 'id': job {id} {why}\"}}\n").into_bytes()
}

impl Jobs {
    pub(super) fn new() -> Self {
        Self { all: Vec::new(), next_id: 1, waiters: Vec::new() }
    }

    /// Carries out a request. A `get` that waits is not answered.
    pub(super) fn execute(&mut self, client: ClientId, request: Request) -> Replies {
        let mut replies = Vec::new();
        match request {
            Request::Put { queue, pri, job } => {
                let id = self.next_id;
                self.next_id += 1;
                self.all.push(Job { id, queue, pri, text: job, holder: None });
                let reply = format!("{{\"status\":\"ok\",\"id\":{id}}}\n");
                replies.push((client, reply.into_bytes()));
                self.serve_waiter(id, &mut replies);
            }
            Request::Get { queues, wait } => match self.most_urgent(&queues) {
                Some(id) => replies.push((client, self.hand_out(id, client))),
                None if wait => self.waiters.push((client, queues)),
                None => replies.push((client, NO_JOB.into())),
            },
            Request::Delete(id) => {
                let found = self.all.iter().position(|job| Some(job.id) == id);
                found.map(|index| self.all.remove(index));
                replies.push((client, if found.is_some() { OK } else { NO_JOB }.into()));
            }
            Request::Abort(id) => match self.all.iter_mut().find(|job| Some(job.id) == id) {
                None => replies.push((client, NO_JOB.into())),
                Some(job) if job.holder == Some(client) => {
                    job.holder = None;
                    let id = job.id;
                    replies.push((client, OK.into()));
                    self.serve_waiter(id, &mut replies);
                }
                Some(Job { id, holder: Some(_), .. }) => {
                    let why = "is being worked on by another client";
                    replies.push((client, refusal(*id, why)));
                }

                Some(Job { id, .. }) => {
                    let why = "waits in its queue, nobody works on it";
                    replies.push((client, refusal(*id, why)));
                }
            },
            Request::Bad(reply) => replies.push((client, reply)),
        }
        replies
    }

    /// A client is gone: all its jobs go back, then the most urgent is looked at first.
    pub(super) fn forget(&mut self, client: ClientId) -> Replies {
        self.stop_waiting(client);
        let mut returned = Vec::new();
        for job in &mut self.all {
            if job.holder == Some(client) {
                job.holder = None;
                returned.push((std::cmp::Reverse((job.pri.len(), job.pri.clone())), job.id));
            }
        }
        returned.sort();
        let mut replies = Vec::new();
        for (_, id) in returned {
            self.serve_waiter(id, &mut replies);
        }
        replies
    }

    pub(super) fn stop_waiting(&mut self, client: ClientId) {
        self.waiters.retain(|(waiter, _)| *waiter != client);
    }

    /// The ready job of the highest priority, the oldest among equals. Digits without leading
    /// zeros: the longer number is the larger one.
    fn most_urgent(&self, queues: &[usize]) -> Option<u64> {
        let mut best: Option<&Job> = None;
        for job in self.all.iter().filter(|job| job.holder.is_none()) {
            let more = best.is_none_or(|best| {
                (job.pri.len(), &job.pri) > (best.pri.len(), &best.pri)
                    || (job.pri == best.pri && job.id < best.id)
            });
            if queues.contains(&job.queue) && more {
                best = Some(job);
            }
        }
        best.map(|job| job.id)
    }

    /// Gives a job that has just become ready to whoever has waited longest for its queue.
    fn serve_waiter(&mut self, id: u64, replies: &mut Replies) {
        let Some(job) = self.all.iter().find(|job| job.id == id) else { return };
        let queue = job.queue;
        if let Some(place) = self.waiters.iter().position(|(_, queues)| queues.contains(&queue)) {
            let (client, _) = self.waiters.remove(place);
            replies.push((client, self.hand_out(id, client)));
        }
    }

    fn hand_out(&mut self, id: u64, client: ClientId) -> Vec<u8> {
        let job = self.all.iter_mut().find(|job| job.id == id).unwrap();
        assert!(job.holder.replace(client).is_none(), "the judge gave a job away twice");
        let Job { pri, text, queue, .. } = job;
        let queue = QUEUES[*queue].shown;
        format!(
            "{{\"status\":\"ok\",\"id\":{id},\"job\":{text},\"pri\":{pri},\"queue\":{queue}}}\n"
        )
        .into_bytes()
    }
}
