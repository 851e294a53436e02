//! Pages of lists while the queues change between all of them: what stays as it is is shown exactly
//! once, and the counters of a queue are those of its jobs.

use crate::rng::TestRng;
use crate::seeds::Plan;
use jobcentre::base::strings::StringList;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::action::JobChange;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, JobId, Ticket};
use jobcentre::model::job::{Encoding, JobOptions, OwnedPriority};
use jobcentre::model::manage::{
    JobCursor, JobState, LeaseTerms, ManageCommand, ManageReply, NewJob, ReserveTerms, RunReport,
};
use jobcentre::model::query::Query;
use jobcentre::model::reply::Reply;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PLAN: Plan = Plan::new(40, &[]);

/// A list, as a whole.
#[derive(Clone, Copy, Debug)]
enum List {
    Jobs(Option<JobState>),
    Search,
    Export(Option<JobState>),
}

struct Paging {
    engine: Engine,
    rng: TestRng,
    serial: u32,
    /// The state of each job in the queue.
    jobs: BTreeMap<u64, JobState>,
    /// The jobs that are as they were when the list began.
    stayed: BTreeSet<u64>,
}

const NOW: Now = Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) };

impl Paging {
    fn new(seed: u64) -> Self {
        let (engine, rng) = (Engine::in_memory(seed), TestRng::new(seed));
        Self { engine, rng, serial: 0, jobs: BTreeMap::new(), stayed: BTreeSet::new() }
    }

    fn submit(&mut self, command: &Command<'_>) {
        self.serial += 1;
        let client = ClientId { index: 0, generation: 1 };
        self.engine.submit(Ticket { client, serial: self.serial }, command, NOW);
    }

    fn manage(&mut self, command: &ManageCommand<'_>) -> ManageReply {
        self.submit(&Command::Manage(*command));
        let completion = self.engine.poll_completion().expect("it is answered at once");
        match completion.reply {
            Reply::Manage(reply) => reply.clone(),
            Reply::Done => ManageReply::Done,
            other => panic!("{other:?}"),
        }
    }

    fn put(&mut self) {
        let rng = &mut self.rng;
        let options = JobOptions {
            delay_ms: if rng.percent(40) { 1_000 * rng.between(1, 5) as u64 } else { 0 },
            result_retention_ms: 1_000_000,
            ..JobOptions::default()
        };
        let job = NewJob {
            priority: OwnedPriority::Number(*rng.pick(&[0, 1, 2, 3])),
            encoding: Encoding::Json,
            payload: b"1"[..].into(),
            options,
            key: None,
            dependencies: None,
        };
        let ManageReply::Job(job) = self.manage(&ManageCommand::Put { queue: b"q", job: &job })
        else {
            panic!("it is put")
        };
        self.jobs.insert(job.id.0, job.state);
    }

    /// Reserves a job, and perhaps finishes it.
    fn reserve(&mut self) {
        let mut names = StringList::default();
        names.push(b"q");
        let lease = Some(LeaseTerms { ttr_ms: None, worker: "".into() });
        let terms = &ReserveTerms { limit: 1, wait: Wait::No, lease };
        let reserve = ManageCommand::ReserveMore { first: None, queues: names.from(0), terms };
        self.submit(&Command::Manage(reserve));
        let completion = self.engine.poll_completion().expect("it is answered at once");
        let (id, token) = match completion.reply {
            Reply::Manage(ManageReply::Jobs(jobs)) => {
                (jobs[0].id, jobs[0].lease.as_ref().and_then(|lease| lease.token))
            }
            Reply::NoJob => return,
            other => panic!("{other:?}"),
        };
        drop(completion);
        self.stayed.remove(&id.0);
        self.jobs.insert(id.0, JobState::Reserved);
        if self.rng.percent(70) {
            let report = &RunReport::Complete { result: None };
            let reply = self.manage(&ManageCommand::Report { id, token, report });
            assert_eq!(reply, ManageReply::Done);
            self.jobs.insert(id.0, JobState::Completed);
        }
    }

    /// Something that changes the queue.
    fn change(&mut self) {
        let ids: Vec<u64> = self.jobs.keys().copied().collect();
        let id = JobId(*self.rng.pick(&ids));
        let change = JobChange {
            priority: self.rng.percent(50).then_some(OwnedPriority::Number(2)),
            delay_ms: self.rng.percent(50).then(|| *self.rng.pick(&[0, 2_000])),
            queue: self.rng.percent(20).then(|| b"other"[..].into()),
            ..JobChange::default()
        };
        let command = match self.rng.below(8) {
            0..2 => return self.put(),
            2 => return self.reserve(),
            3 => ManageCommand::Remove { id },
            4 => ManageCommand::Bury { id },
            5 => ManageCommand::Kick { id },
            _ => ManageCommand::Change { id, change: &change },
        };
        match self.manage(&command) {
            ManageReply::Job(job) => {
                let moved = *job.queue != b"q"[..];
                if moved {
                    self.jobs.remove(&id.0)
                } else {
                    self.jobs.insert(id.0, job.state)
                };
            }
            ManageReply::Done => drop(self.jobs.remove(&id.0)),
            ManageReply::WrongState(_) => {}
            other => panic!("{other:?}"),
        }
        self.stayed.remove(&id.0);
    }

    /// The counters are those of the jobs.
    fn check_counters(&mut self) {
        self.engine.check_invariants();
        let ManageReply::Queue(queue) = self.manage(&ManageCommand::Queue { queue: b"q" }) else {
            panic!("it is known")
        };
        let mut counts = [0; JobState::ALL.len()];
        for state in self.jobs.values() {
            counts[*state as usize] += 1;
        }
        assert_eq!(queue.counts, counts);
        let there = self.engine.snapshots().filter(|job| job.queue == b"q").count();
        assert_eq!(counts.iter().sum::<u64>(), there as u64);
    }

    /// The ids of a page, and what begins the next one.
    fn page(
        &mut self,
        list: List,
        from: &JobCursor,
        limit: usize,
    ) -> (Vec<u64>, Option<JobCursor>) {
        let behind = match from {
            JobCursor::ById(id, _) => JobId(*id),
            _ => JobId(0),
        };
        let query = &Arc::new(Query::default());
        let queue = b"q";
        let reply = self.manage(&match list {
            List::Jobs(state) => ManageCommand::Jobs { queue, state, from, limit },
            List::Search => ManageCommand::Search { queue, query, behind, limit },
            List::Export(state) => {
                let from = JobId(behind.0.max(1));
                ManageCommand::Export { queue: Some(queue), state, from }
            }
        });
        match reply {
            ManageReply::JobPage(page) => {
                assert!(page.jobs.len() <= limit, "a page is too long");
                (page.jobs.iter().map(|job| job.id.0).collect(), page.next)
            }
            ManageReply::Exported(page) => {
                let ids = page.jobs.iter().map(|job| job.id.0).collect();
                (ids, page.next.map(|id| JobCursor::ById(id.0, None)))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Reads a list to its end, and compares it with what stayed. Returns the number of pages.
    fn read(&mut self, list: List) -> usize {
        let wanted = match list {
            List::Jobs(state) | List::Export(state) => state,
            List::Search => None,
        };
        let is_wanted = |state: JobState| wanted.is_none_or(|wanted| wanted == state);
        let there = self.jobs.iter().filter(|(_, state)| is_wanted(**state));
        self.stayed = there.map(|(&id, _)| id).collect();
        let (mut shown, mut from) = (BTreeMap::<u64, u32>::new(), JobCursor::Start);
        for pages in 1..5_000 {
            let limit = self.rng.between(1, 9);
            let (ids, next) = self.page(list, &from, limit);
            for id in ids {
                *shown.entry(id).or_default() += 1;
            }
            let Some(next) = next else {
                for id in &self.stayed {
                    assert_eq!(shown.get(id), Some(&1), "job {id} in {list:?}");
                }
                return pages;
            };
            from = next;
            for _ in 0..self.rng.between(1, 3) {
                self.change();
                self.check_counters();
            }
        }
        panic!("{list:?} has no end");
    }
}

fn run(seed: u64) -> usize {
    let mut paging = Paging::new(seed);
    if paging.rng.percent(50) {
        paging.manage(&ManageCommand::SetIndex { queue: b"q", on: true });
    }
    for _ in 0..150 {
        paging.put();
    }
    for _ in 0..100 {
        paging.change();
    }
    let state = Some(*paging.rng.pick(&JobState::ALL));
    let queue = paging.manage(&ManageCommand::Queue { queue: b"q" });
    let indexed = matches!(queue, ManageReply::Queue(queue) if queue.indexed);
    let list = match paging.rng.below(6) {
        0 | 1 => List::Jobs(state),
        2 => List::Jobs(None),
        3 => List::Export(state),
        4 if indexed => List::Search,
        _ => List::Jobs(Some(JobState::Ready)),
    };
    paging.read(list)
}

#[test]
fn lists_show_what_stays_exactly_once_while_the_queue_changes_at_every_page() {
    let Some(pages) = PLAN.play(run) else { return };
    assert!(pages.iter().sum::<usize>() > 300, "too few pages to prove anything: {pages:?}");
}

/// Queues come and go between all pages.
#[test]
fn list_of_queues_shows_those_that_stay_exactly_once() {
    let mut paging = Paging::new(7);
    let name = |number: usize| format!("{:03}", number * 37 % 211);
    let put = |paging: &mut Paging, number| {
        let job = NewJob {
            priority: OwnedPriority::Number(0),
            encoding: Encoding::Json,
            payload: b"1"[..].into(),
            options: JobOptions::default(),
            key: None,
            dependencies: None,
        };
        let queue = name(number);
        let put = ManageCommand::Put { queue: queue.as_bytes(), job: &job };
        assert!(matches!(paging.manage(&put), ManageReply::Job(_)));
    };
    (0..100).for_each(|number| put(&mut paging, number));
    let mut stayed: BTreeSet<String> = (0..100).map(name).collect();
    let (mut shown, mut behind) = (BTreeMap::<String, u32>::new(), None::<Box<[u8]>>);
    for number in 100.. {
        let limit = paging.rng.between(1, 4);
        let page = ManageCommand::Queues { behind: behind.as_deref(), glob: None, limit };
        let ManageReply::Queues(page) = paging.manage(&page) else { panic!("queues") };
        for queue in &page.queues {
            *shown.entry(String::from_utf8(queue.name.to_vec()).unwrap()).or_default() += 1;
            assert_eq!(queue.counts.iter().sum::<u64>(), 1);
        }
        let Some(next) = page.next else { break };
        behind = Some(next);
        put(&mut paging, number);
        let names: Vec<&String> = stayed.iter().collect();
        let gone = (*paging.rng.pick(&names)).clone();
        let delete = ManageCommand::DropQueue { queue: gone.as_bytes(), force: true };
        assert!(matches!(paging.manage(&delete), ManageReply::Action(_)));
        stayed.remove(&gone);
    }
    for name in &stayed {
        assert_eq!(shown.get(name), Some(&1), "queue {name}");
    }
    assert!(stayed.len() > 20 && stayed.len() < 95, "{}", stayed.len());
}
