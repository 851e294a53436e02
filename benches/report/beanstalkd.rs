//! The listener for clients of beanstalkd, beside beanstalkd: the same requests by the same
//! generator.
//!
//! The scenario with many tubes has a client of its own, which puts a job into each of them before
//! the load begins. The load uses a tube of its own, so whatever it costs more is due to the others
//! being there.

use crate::chapters::Chapter;
use crate::client::Client;
use crate::durable::Syncing;
use crate::load::{drive, sample};
use crate::metric::{Metric, Sample, grouped};
use crate::scenarios::{Entry, Scenario, Sizes, Task, cycle, plain, short, words};
use crate::targets::Target::{self, Beanstalkd, Tubes};
use crate::targets::{Programs, Server};
use serde_json::json;

const PAYLOAD: usize = 100;

const TARGETS: [Target; 2] = [Tubes, Beanstalkd];

/// The label of an entry with other tubes beside that of the load.
pub(crate) fn among(target: Target, tubes: usize) -> String {
    format!("{}, {} other tubes", target.name(), grouped(&tubes.to_string()))
}

/// All of them.
pub(crate) fn all(sizes: &Sizes) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = [1, 16].map(|depth| cycles(depth, sizes)).into();
    scenarios.extend([many_tubes(sizes), durable(sizes), memory(sizes)]);
    scenarios
}

fn scenario(id: &str, title: String, task: impl Fn(Target) -> Task) -> Scenario {
    let entry =
        |target: Target| Entry { label: target.name().to_owned(), target, task: task(target) };
    plain(id.to_owned(), Chapter::Beanstalkd, title, TARGETS.map(entry).to_vec())
}

fn cycles(depth: usize, sizes: &Sizes) -> Scenario {
    let line = cycle(64, depth, PAYLOAD, sizes.seconds);
    scenario(
        &format!("beanstalkd-64-{depth}"),
        format!("put, reserve, delete: 64 connections, depth {depth}"),
        |_| Task::Load(words(&line)),
    )
}

fn many_tubes(sizes: &Sizes) -> Scenario {
    let line = cycle(64, 16, PAYLOAD, sizes.seconds);
    let entry = |target, tubes| Entry {
        label: among(target, tubes),
        target,
        task: Task::Tubes { tubes, load: words(&line) },
    };
    let entries = TARGETS.map(|target| [0, sizes.tubes].map(|tubes| entry(target, tubes)));
    plain(
        "beanstalkd-tubes".to_owned(),
        Chapter::Beanstalkd,
        "one tube for the load, 64 connections, depth 16; a job waits in each other tube"
            .to_owned(),
        entries.concat(),
    )
}

fn durable(sizes: &Sizes) -> Scenario {
    let line = cycle(64, 1, PAYLOAD, sizes.seconds);
    let title = "64 connections, depth 1, synced before every answer".to_owned();
    let load = |_| Task::Durable { sync: Syncing::Always, load: words(&line), beside_bare: false };
    let mut scenario = scenario("beanstalkd-durable", title, load);
    scenario.compared.push(Metric::Throughput);
    scenario
}

fn memory(sizes: &Sizes) -> Scenario {
    let title = format!("{} waiting jobs of {PAYLOAD} B", short(sizes.jobs));
    let jobs = |_| Task::Jobs { payload: PAYLOAD, count: sizes.jobs, drained_every_round: false };
    let mut scenario = scenario("beanstalkd-memory", title, jobs);
    scenario.columns = vec![Metric::JobBytes];
    scenario.compared = vec![Metric::JobBytes];
    scenario
}

/// Puts a job into each of so many tubes, and drives the server by another one.
pub(crate) fn beside_tubes(
    programs: &Programs,
    target: Target,
    tubes: usize,
    load: &[String],
) -> Result<Sample, String> {
    let server = programs.start(target)?;
    fill(&server, tubes)?;
    let mut sample = sample(drive(programs, &server, target, load)?);
    sample.raw["other_tubes"] = json!(tubes);
    Ok(sample)
}

/// Tubes that get a job with one write.
const TUBES_PER_WRITE: usize = 500;

fn fill(server: &Server, tubes: usize) -> Result<(), String> {
    let mut client = Client::connect(server.address)?;
    let numbers: Vec<usize> = (0..tubes).collect();
    for numbers in numbers.chunks(TUBES_PER_WRITE) {
        let put = |number: &usize| format!("use standing{number}\r\nput 0 0 60 1\r\nx\r\n");
        client.send(&numbers.iter().map(put).collect::<String>())?;
        for number in numbers {
            let (used, put) = (client.answer()?, client.answer()?);
            if used != format!("USING standing{number}\r\n") || !put.starts_with("INSERTED ") {
                return Err(format!("a put into a tube was answered by {used}{put}"));
            }
        }
    }
    Ok(())
}
