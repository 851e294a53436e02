//! The end of a worker that takes several passes, and a crash in each of them.

use super::{Simulation, recover};
use crate::journal::disk::End;
use jobcentre::base::strings::StringList;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::journal::SyncMode;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::model::reply::Reply;
use jobcentre::model::worker::{Worker, WorkerCommand, WorkerId, WorkerReply};

const JOBS: u32 = 5_000;

/// Executes a command and goes on until it is done, also over passes; says whether `meant` was an
/// answer.
fn ask(
    simulation: &Simulation,
    engine: &mut Engine,
    (ticket, command): (Ticket, &Command<'_>),
    mut meant: impl FnMut(&Reply<'_>) -> bool,
) -> bool {
    let mut found = false;
    engine.submit(ticket, command, simulation.now);
    for pass in 0..10 {
        if pass > 0 {
            engine.expire(simulation.now);
        }
        while let Some(completion) = engine.poll_completion() {
            found |= meant(&completion.reply);
        }
        engine.commit(simulation.now);
        simulation.disk.work(10);
        while let Some(completion) = engine.poll_completion() {
            found |= meant(&completion.reply);
        }
    }
    found
}

/// The requests of the one client.
struct Requests(u32);

impl Requests {
    fn ticket(&mut self) -> Ticket {
        self.0 += 1;
        Ticket { client: ClientId { index: 1, generation: 1 }, serial: self.0 }
    }
}

/// An engine with one worker, which has reserved all jobs, durably.
fn engine_with_worker(
    simulation: &Simulation,
    requests: &mut Requests,
    reserve: &Command<'_>,
) -> (Engine, WorkerId) {
    let mut engine = recover(simulation);
    let worker = Worker { name: "w", url: "http://w", max_jobs: JOBS, queues: None };
    let register = Command::Work(WorkerCommand::Register(worker));
    let mut worker = WorkerId(0);
    ask(simulation, &mut engine, (requests.ticket(), &register), |reply| {
        if let Reply::Registered(id) = reply {
            worker = *id;
        }
        true
    });
    let attach = Command::Work(WorkerCommand::Attach { worker });
    assert!(ask(simulation, &mut engine, (requests.ticket(), &attach), |reply| {
        matches!(reply, Reply::Attached(_))
    }));
    for _ in 0..JOBS {
        let payload = Payload { encoding: Encoding::Json, bytes: b"{}" };
        let (priority, tie_break) = (Priority::Small(1), TieBreak::Fifo);
        let put = Command::Put { queue: b"q", priority, tie_break, payload, options: None };
        for command in [&put, reserve] {
            engine.submit(requests.ticket(), command, simulation.now);
            while engine.poll_completion().is_some() {}
        }
    }
    while engine.awaits_disk() {
        engine.commit(simulation.now);
        simulation.disk.work(10);
        while engine.poll_completion().is_some() {}
    }
    (engine, worker)
}

#[test]
fn crash_while_a_worker_is_ended_loses_no_job_of_it() {
    let mut requests = Requests(0);
    let mut names = StringList::default();
    names.push(b"q");
    let reserve = Command::Reserve { queues: names.from(0), wait: Wait::No };
    let (mut still_registered, mut gone) = (0, 0);
    for passes in 0..7 {
        let mut simulation = Simulation::new(1);
        simulation.spread_steps = None;
        simulation.options.sync = SyncMode::Always;
        simulation.options.segment_bytes = 65_536;
        simulation.disk.platter.lock().unwrap().inline = false;
        let (mut engine, worker) = engine_with_worker(&simulation, &mut requests, &reserve);
        let deregister = Command::Work(WorkerCommand::Deregister { worker });
        engine.submit(requests.ticket(), &deregister, simulation.now);
        while engine.poll_completion().is_some() {}
        for _ in 0..passes {
            engine.expire(simulation.now);
            engine.commit(simulation.now);
            simulation.disk.work(10);
            while engine.poll_completion().is_some() {}
            engine.check_invariants();
        }
        drop(engine);
        simulation.disk.end(if passes % 2 == 0 { End::PowerCut } else { End::Kill });
        let mut engine = recover(&simulation);
        engine.check_invariants();
        assert_eq!(engine.counts().jobs, JOBS as usize);
        let again = (requests.ticket(), &deregister);
        if ask(&simulation, &mut engine, again, |reply| {
            *reply == Reply::Worker(WorkerReply::NoWorker)
        }) {
            gone += 1;
        } else {
            still_registered += 1;
        }
        let mut reserved = 0;
        for _ in 0..=JOBS {
            engine.submit(requests.ticket(), &reserve, simulation.now);
            while let Some(completion) = engine.poll_completion() {
                reserved += u32::from(matches!(completion.reply, Reply::Job(_)));
            }
        }
        assert_eq!(reserved, JOBS, "after {passes} passes");
    }
    assert!(still_registered >= 1 && gone >= 4, "{still_registered}, {gone}");
}
