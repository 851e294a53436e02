//! Random workers and senders in virtual time, with restarts, against a naive model: workers that
//! become silent, accept late, finish twice, report progress without having accepted, and claim
//! each other's jobs. `SIM_SEED=n` replays one run.

use super::model::Model;
use super::simulation::Simulation;
use crate::rng::TestRng;
use crate::seeds::{self, Plan, Seen};

/// Seeds that have failed once.
const FAILED_ONCE: [u64; 5] =
    [984_847_575_133, 499_073_215_832, 740_857_235_120, 193_601_984_349, 244_865_987_678];

const PLAN: Plan = Plan::new(40, &FAILED_ONCE);

const QUEUES: [&str; 2] = ["q", "p"];
const WORKERS: [&str; 6] = ["u", "v", "w", "x", "y", "z"];

/// What must have come about.
const EVENTS: [&str; 9] = [
    "an assignment",
    "a restart",
    "add_job: there is a job",
    "ms: removed",
    "job_accepted: job",
    "job_finished: there is no job",
    "worker_progress: job",
    "del_job: there is no job",
    "a lease was over",
];

struct Sim {
    rng: TestRng,
    simulation: Simulation,
    model: Model,
    seen: Seen,
    /// What each worker was assigned last, or said something about.
    last: Vec<(String, String)>,
}

impl Sim {
    fn message(&mut self) -> String {
        let rng = &mut self.rng;
        let (mut queue, mut worker) = (rng.word(&QUEUES), rng.word(&WORKERS));
        let mut job = format!("j{}", rng.below(14));
        let about = self.last.iter().rev().find(|(known, _)| known == worker);
        if let Some((_, known)) = about
            && rng.percent(80)
        {
            job.clone_from(known);
        }
        if let Some(home) = self.model.queue_of(&job)
            && rng.percent(90)
        {
            queue = QUEUES.into_iter().find(|name| *name == home).unwrap();
        }
        match rng.below(20) {
            0..5 => {
                let (job, pri) = (format!("j{}", rng.below(14)), rng.below(10));
                format!("add {queue} {job} {pri}")
            }
            5..9 => {
                // Most keep to one queue.
                if rng.percent(80) {
                    queue = QUEUES[usize::from(worker > "x")];
                }
                let ago = if rng.percent(25) { " 3001" } else { "" };
                format!("idle {queue} {worker}{ago}")
            }
            9..13 => format!("accept {queue} {worker} {job}"),
            13..15 => format!("progress {queue} {worker} {job} 0.{}", rng.between(1, 9)),
            15 => format!("busy {queue} {worker} {job}"),
            16..18 => {
                if rng.percent(20) {
                    worker = rng.word(&WORKERS);
                }
                format!("finish {queue} {worker} {job}")
            }
            18 => format!("del {queue} {job}"),
            _ => "tick".to_owned(),
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..70 => {
                let message = self.message();
                seeds::say(|| format!("{} > {message}", self.simulation.now.wall.0 % 1_000_000));
                self.simulation.say(&message);
                self.simulation.settle();
                self.model.receive(&message);
            }
            70..98 => {
                let most = [10, 3_000, 12_000][self.rng.below(3)];
                let ms = self.rng.between(1, most) as u64;
                seeds::say(|| format!("@ {ms}"));
                self.simulation.sleep(ms);
                self.model.pass(ms);
            }
            _ if self.simulation.is_durable() => {
                let ms = self.rng.below(12_000) as u64;
                seeds::say(|| format!("restart {ms}"));
                self.simulation.restart(ms);
                self.model.restart(ms);
                *self.seen.entry("a restart").or_default() += 1;
            }
            _ => {}
        }
        self.compare();
    }

    fn compare(&mut self) {
        let lines: Vec<String> = self.simulation.received.lines.drain(..).collect();
        let mut assigned: Vec<String> =
            lines.iter().map(|line| self.simulation.assignment(line)).collect();
        for assignment in &assigned {
            let (worker, job) = assignment.split_once(' ').unwrap();
            self.last.push((worker.to_owned(), job.to_owned()));
            *self.seen.entry("an assignment").or_default() += 1;
        }
        // Between queues there is no order.
        let mut expected = self.model.take_told();
        assigned.sort();
        expected.sort();
        assert_eq!(assigned, expected, "other assignments");
        let notices: Vec<String> =
            self.simulation.received.notices.drain(..).map(|(_, text)| text).collect();
        let expected = self.model.take_remarks();
        assert_eq!(notices.len(), expected.len(), "{notices:?} and not {expected:?}");
        for expected in expected {
            assert!(notices.iter().any(|text| text.contains(&expected)), "{expected}: {notices:?}");
        }
        for event in EVENTS {
            if notices.iter().any(|text| text.contains(event)) {
                *self.seen.entry(event).or_default() += 1;
            }
        }
        for queue in QUEUES {
            let mut page: serde_json::Value =
                serde_json::from_str(&self.simulation.get(&format!("/processor/{queue}"))).unwrap();
            // Workers are in no order.
            for part in ["workers_last_seen", "workers_idle", "workers_busy"] {
                let names = page[part].as_array_mut().unwrap();
                names.sort_by_key(|worker| match worker.get("uuid") {
                    Some(uuid) => uuid.to_string(),
                    None => worker.to_string(),
                });
            }
            assert_eq!(page, self.model.page(queue), "another page of {queue}");
        }
    }
}

fn run(seed: u64) -> Seen {
    let mut rng = TestRng::new(seed);
    let simulation = if rng.percent(40) { Simulation::durable() } else { Simulation::new() };
    let model = Model::new(simulation.now.wall.0);
    let mut sim = Sim { rng, simulation, model, seen: Seen::new(), last: Vec::new() };
    for _ in 0..sim.rng.between(10, 200) {
        sim.step();
    }
    if sim.model.leases_over > 0 {
        sim.seen.insert("a lease was over", sim.model.leases_over);
    }
    assert!(sim.simulation.end(), "the connection does not end");
    sim.seen
}

#[test]
fn processor_agrees_with_the_oracle() {
    PLAN.run(&EVENTS, 2, run);
}
