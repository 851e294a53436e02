//! Lists, the page of a queue, and metrics.

use super::simulation::Simulation;
use jobcentre::model::command::Command;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::worker::{Constraint, WorkerCommand};

#[test]
fn lists_show_jobs_as_they_were_added_and_workers() {
    let mut simulation = Simulation::new();
    simulation.play(
        "> add q c 9
         > add q a
         > add q b
         > add p x
         > list job q
         = [{\"queue_name\":\"q\",\"uuid\":\"a\"},{\"queue_name\":\"q\",\"uuid\":\"b\"},\
         {\"queue_name\":\"q\",\"uuid\":\"c\",\"priority\":9}]
         > list job none
         = []
         > list worker q
         = []
         > idle q v
         < v a
         > idle q w
         < w b
         @ 1
         > accept q v a
         > idle q x 9000
         > list job q
         = [{\"queue_name\":\"q\",\"uuid\":\"c\",\"priority\":9}]
         > list dispatched q
         = [{\"queue_name\":\"q\",\"uuid\":\"b\"}]
         > list progress q
         = [{\"uuid\":\"a\",\"progress\":0}]
         > list worker q
         = [{\"uuid\":\"v\",\"status\":\"busy\",\"last_seen\":\"2023-11-14T22:13:20.001Z\"},\
         {\"uuid\":\"w\",\"status\":\"busy\",\"last_seen\":\"2023-11-14T22:13:20.000Z\"},\
         {\"uuid\":\"x\",\"status\":\"idle\",\"last_seen\":\"2023-11-14T22:13:20.001Z\"}]",
    );
}

#[test]
fn list_has_the_topic_of_its_request() {
    let mut simulation = Simulation::new();
    simulation.say("list progress q");
    simulation.settle();
    let line = simulation.received.lines.pop_front().unwrap();
    let start = "{\"topic\":\"default/job_queue/list_progress_queue/result\",\"service_name\":";
    assert!(line.starts_with(start) && line.ends_with(",\"payload\":[]}"), "{line}");
}

#[test]
fn the_page_of_a_queue_shows_the_seven_structures() {
    let mut simulation = Simulation::new();
    let empty = "{\"jobs_queued\":[],\"jobs_dispatched\":[],\"jobs_processing\":[],\
        \"jobs_progress\":[],\"workers_last_seen\":[],\"workers_idle\":[],\"workers_busy\":[]}";
    assert_eq!(simulation.get("/processor/q"), format!("{empty}\n"));
    simulation.play(
        "> add q a
         > add q b
         > add q c
         > idle q v
         < v a
         > idle q w
         < w b
         > accept q v a
         @ 5
         > progress q v a 0.5
         > idle q x 4000
         > idle p y",
    );
    let at = |ms: u64| format!("\"2023-11-14T22:13:20.{ms:03}Z\"");
    let expected = format!(
        "{{\"jobs_queued\":[{{\"queue_name\":\"q\",\"uuid\":\"c\"}}],\
         \"jobs_dispatched\":[{{\"uuid\":\"b\",\"dispatched_at\":{}}}],\
         \"jobs_processing\":[{{\"uuid\":\"a\",\"last_seen\":{}}}],\
         \"jobs_progress\":[{{\"uuid\":\"a\",\"progress\":0.5}}],\
         \"workers_last_seen\":[{{\"uuid\":\"v\",\"last_seen\":{}}},\
         {{\"uuid\":\"w\",\"last_seen\":{}}},{{\"uuid\":\"x\",\"last_seen\":{}}}],\
         \"workers_idle\":[\"x\"],\"workers_busy\":[\"v\",\"w\"]}}",
        at(0),
        at(5),
        at(5),
        at(0),
        at(5)
    );
    assert_eq!(simulation.get("/processor/q"), expected + "\n");
    let metrics = simulation.get("/metrics");
    for line in [
        "processor_workers{queue=\"q\",status=\"idle\"} 1",
        "processor_workers{queue=\"q\",status=\"busy\"} 2",
        "processor_workers{queue=\"p\",status=\"idle\"} 1",
        "processor_jobs{queue=\"q\",status=\"dispatched\"} 1",
        "processor_jobs{queue=\"q\",status=\"processing\"} 1",
        "connections{protocol=\"processor\"} 1",
    ] {
        assert!(metrics.contains(&format!("\njobcentre_{line}\n")), "{line}: {metrics}");
    }
}

/// Assignments while a long list is being written come behind it.
#[test]
fn long_list_is_one_uninterrupted_line() {
    let mut simulation = Simulation::new();
    let name = |number: usize| format!("{}-{number:04}", "x".repeat(300));
    for number in 0..3_000 {
        simulation.say(&format!("add q {}", name(number)));
    }
    simulation.play("> idle p w");
    simulation.room = 5_000;
    simulation.say("list job q");
    simulation.say("add p behind");
    let now = simulation.now;
    let other = simulation.server().handle_open(Protocol::JobCentre, now).unwrap();
    for _ in 0..20 {
        simulation.pass();
    }
    assert!(simulation.received.lines.is_empty(), "the list is under way");
    let put = b"{\"request\":\"put\",\"queue\":\"p\",\"job\":{},\"pri\":0}\n";
    simulation.server().handle_input(other, put, now);
    for _ in 0..1_000 {
        simulation.pass();
    }
    simulation.settle();
    let list: serde_json::Value = serde_json::from_str(&simulation.received.lines[0]).unwrap();
    let jobs = list["payload"].as_array().unwrap();
    assert_eq!(jobs.len(), 3_000);
    for (number, job) in jobs.iter().enumerate() {
        assert_eq!(job["uuid"], name(number));
    }
    let line = simulation.received.lines[1].clone();
    // The message behind the list waited for it; the other client did not.
    assert_eq!(simulation.assignment(&line), "w 3002");
    assert_eq!(simulation.received.lines.len(), 2);
}

#[test]
fn blocked_jobs_are_listed_as_queued() {
    let mut simulation = Simulation::new();
    let constraint = Constraint {
        name: "one".into(),
        matcher: Vec::new(),
        max_running: Some(1),
        rate: None,
        per: None,
    };
    let (command, now) = (WorkerCommand::SetConstraint(&constraint), simulation.now);
    simulation.server().submit_for_test(&Command::Work(command), now, |_| {});
    simulation.play(
        "> add q a
         > add q b
         > idle q v
         < v a
         > idle q w
         > list job q
         = [{\"queue_name\":\"q\",\"uuid\":\"b\"}]
         > accept q v a
         > finish q v a
         < w b",
    );
}
