//! The life of jobs, restarts included, and the names of the processor.

use super::driver::{Processor, add, assigned, command, idle, lines, list, message, rest, says};
use crate::support::{TIMEOUT, TempDir};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

#[test]
fn job_is_added_assigned_and_finished() {
    let mut processor = Processor::start(&[]);
    let job = json!({"uuid": "j1", "queue_name": "q", "priority": 3, "file": "a b.mp4"});
    processor.send(&message("job_queue/add_job", "creator", &job));
    assert_eq!(processor.list("list_job_queue", "q"), json!([job]));
    processor.send(&idle("q", "w1"));
    let assignment = processor.receive();
    assert_eq!(assigned(&assignment), ("w1".to_owned(), "j1".to_owned()));
    let mut payload = assignment["payload"].clone();
    let dispatched_at = payload.as_object_mut().unwrap().remove("dispatched_at").unwrap();
    assert!(dispatched_at.as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert_eq!(payload, job);
    assert_eq!(processor.list("list_dispatched_queue", "q").as_array().unwrap().len(), 1);
    let about = |more: Value| {
        let mut about = json!({"uuid": "j1"});
        about.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        about
    };
    let started = about(json!({"started_at": "2026-01-01T00:00:00Z"}));
    processor.send(&says("w1", "job_accepted", "q", &started));
    let progress = json!([{"uuid": "j1", "progress": 0}]);
    let shown = processor.list("list_progress_queue", "q");
    assert_eq!((&shown[0]["uuid"], shown[0]["progress"].as_f64()), (&json!("j1"), Some(0.0)));
    assert_eq!(shown.as_array().unwrap().len(), progress.as_array().unwrap().len());
    processor.send(&says("w1", "worker_progress", "q", &about(json!({"progress": 0.25}))));
    assert_eq!(processor.list("list_progress_queue", "q")[0]["progress"], 0.25);
    let workers = processor.list("list_worker_queue", "q");
    assert_eq!((&workers[0]["uuid"], &workers[0]["status"]), (&json!("w1"), &json!("busy")));
    let finished = about(json!({"finished_at": "2026-01-01T00:01:00Z"}));
    processor.send(&says("w1", "job_finished", "q", &finished));
    for list in ["list_job_queue", "list_dispatched_queue", "list_progress_queue"] {
        assert_eq!(processor.list(list, "q"), json!([]), "{list}");
    }
    assert_eq!(processor.list("list_worker_queue", "q")[0]["status"], "idle");
    let (status, rest, log) = processor.finish();
    assert_eq!((status.code(), rest), (Some(0), Vec::new()));
    assert!(log.iter().all(|line| line["log_level"] == "INFO"), "{log:?}");
}

#[test]
fn end_of_input_completes_pending_work() {
    // The last line has no end.
    let mut processor = Processor::start(&[]);
    let all = [add("q", "a"), idle("q", "w"), list("list_job_queue", "q")].join("\n");
    processor.stdin.write_all(all.as_bytes()).unwrap();
    let (status, rest, _) = processor.finish();
    assert_eq!(status.code(), Some(0));
    let messages: Vec<Value> =
        rest.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert_eq!(assigned(&messages[0]), ("w".to_owned(), "a".to_owned()));
    assert_eq!(messages[1]["payload"], json!([]));
}

#[test]
fn names_are_read_from_the_environment() {
    let mut command = command(&[]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.envs([
        ("NAMESPACE_LISTENER", "in"),
        ("NAMESPACE_PUBLISHER", "out"),
        ("SERVICE_NAME", "centre"),
        ("SERVICE_UUID", "me"),
        ("SERVICE_HOST", "there"),
    ]);
    let mut processor = Processor::spawn(command);
    let stdout = lines(processor.child.stdout.take().unwrap());
    let heard = add("q", "heard").replace("default/", "in/");
    let passed_over = add("q", "passed over");
    let idle = idle("q", "w").replace("default/", "in/");
    let all = [passed_over, heard, idle].join("\n");
    processor.child.stdin.take().unwrap().write_all(all.as_bytes()).unwrap();
    let rest = rest(&stdout);
    assert_eq!(rest.len(), 1, "{rest:?}");
    let message: Value = serde_json::from_str(&rest[0]).unwrap();
    assert_eq!(message["topic"], "out/job_queue/workers/w/job_assignment");
    assert_eq!(message["payload"]["uuid"], "heard");
    let sender = [&message["service_name"], &message["service_uuid"], &message["service_host"]];
    assert_eq!(sender, ["centre", "me", "there"]);
    assert_eq!(processor.wait().0.code(), Some(0));
}

#[test]
fn unset_names_have_defaults_and_a_random_uuid() {
    let uuid = || {
        let mut processor = Processor::start(&[]);
        processor.send(&list("list_job_queue", "q"));
        let message = processor.receive();
        assert_eq!(message["service_name"], "job_queue");
        assert!(!message["service_host"].as_str().unwrap().is_empty());
        message["service_uuid"].as_str().unwrap().to_owned()
    };
    let (first, second) = (uuid(), uuid());
    assert_ne!(first, second);
    assert_eq!((first.len(), &first[14..15]), (36, "4"));
}

#[test]
fn invalid_line_is_logged_and_the_next_one_handled() {
    let mut processor = Processor::start(&[]);
    for bad in ["nonsense", "", "[]", r#"{"topic":7}"#] {
        processor.send(bad);
    }
    assert_eq!(processor.list("list_job_queue", "q"), json!([]));
    let (status, rest, log) = processor.finish();
    assert_eq!((status.code(), rest), (Some(0), Vec::new()));
    assert_eq!(log.iter().filter(|line| line["log_level"] == "ERROR").count(), 4, "{log:?}");
}

/// Three jobs, of which `a` is in progress and `b` was assigned; then `end`.
fn a_life_before(dir: &TempDir, end: impl FnOnce(&super::driver::Piped)) {
    let mut processor = Processor::start(&["--data", dir.text()]);
    for uuid in ["a", "b", "c"] {
        processor.send(&add("q", uuid));
    }
    for (worker, job) in [("w1", "a"), ("w2", "b")] {
        processor.send(&idle("q", worker));
        assert_eq!(assigned(&processor.receive()), (worker.to_owned(), job.to_owned()));
    }
    processor.send(&says("w1", "job_accepted", "q", &json!({"uuid": "a"})));
    processor.send(&says("w1", "worker_progress", "q", &json!({"uuid": "a", "progress": 0.5})));
    assert_eq!(processor.list("list_progress_queue", "q")[0]["progress"], 0.5);
    // A list shows what is so now. An assignment is written down first, behind all of that.
    processor.send(&add("elsewhere", "z"));
    processor.send(&idle("elsewhere", "w9"));
    assert_eq!(assigned(&processor.receive()), ("w9".to_owned(), "z".to_owned()));
    end(&processor);
    let (_, rest, _) = processor.finish();
    assert_eq!(rest, Vec::<String>::new());
}

fn a_restart_after(end: impl FnOnce(&super::driver::Piped)) {
    let dir = TempDir::new();
    a_life_before(&dir, end);
    let mut processor = Processor::start(&["--data", dir.text()]);
    let shown = processor.list("list_progress_queue", "q");
    assert_eq!((&shown[0]["uuid"], &shown[0]["progress"]), (&json!("a"), &json!(0.5)));
    assert_eq!(shown.as_array().unwrap().len(), 1);
    let queued = processor.list("list_job_queue", "q");
    let uuids: Vec<&Value> = queued.as_array().unwrap().iter().map(|job| &job["uuid"]).collect();
    assert_eq!(uuids, ["b", "c"]);
    processor.send(&idle("q", "w3"));
    assert_eq!(assigned(&processor.receive()), ("w3".to_owned(), "b".to_owned()));
    processor.send(&says("w1", "job_finished", "q", &json!({"uuid": "a"})));
    assert_eq!(assigned(&processor.receive()), ("w1".to_owned(), "c".to_owned()));
    assert_eq!(processor.finish().0.code(), Some(0));
}

#[test]
fn jobs_and_progress_survive_the_end_of_input() {
    a_restart_after(|_| {});
}

#[test]
fn jobs_and_progress_survive_sigterm() {
    a_restart_after(|piped| piped.processor.signal("TERM"));
}

#[test]
fn jobs_and_progress_survive_sigkill() {
    a_restart_after(|piped| piped.processor.signal("KILL"));
}

#[test]
fn signal_ends_the_run_after_the_received_messages() {
    // Less than a pipe takes.
    const PAIRS: usize = 80;
    for signal in ["TERM", "INT"] {
        let mut piped = Processor::start(&[]);
        piped.list("list_job_queue", "q");
        // It finds the messages and the signal at the same time.
        piped.processor.signal("STOP");
        for number in 0..PAIRS {
            piped.send(&add("q", &format!("j{number}")));
            piped.send(&idle("q", &format!("w{number}")));
        }
        piped.processor.signal(signal);
        piped.processor.signal("CONT");
        let got: Vec<String> = (0..PAIRS).map(|_| assigned(&piped.receive()).1).collect();
        assert!(got.iter().enumerate().all(|(number, job)| *job == format!("j{number}")));
        assert!(piped.stdout.recv_timeout(TIMEOUT).is_err(), "nothing follows");
        let (status, log) = piped.processor.wait();
        assert_eq!(status.code(), Some(0), "{log:?}");
    }
}
