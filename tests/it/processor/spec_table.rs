//! Each row of `docs/protocols/processor.md`, "Topics that are received", and each of its rules.

use super::simulation::Simulation;
use jobcentre::model::driver::{Core, Severity};
use jobcentre::protocol::processor::Settings;
use std::time::Duration;

/// Whole, and byte by byte.
fn play(script: &str) {
    for piece in [usize::MAX, 1] {
        let mut simulation = Simulation::new();
        simulation.piece = piece;
        simulation.play(script);
    }
}

#[test]
fn job_is_added_assigned_and_finished() {
    play(
        "> add q j
         > idle q w
         < w j
         > accept q w j
         > progress q w j 0.5
         > finish q w j
         > finish q w j
         ! job_finished: there is no job 'j' in this queue
         > add q j
         < w j",
    );
}

#[test]
fn assignment_has_the_job_and_its_time() {
    let mut simulation = Simulation::new();
    let payload =
        "{\"queue_name\":\"q\", \"uuid\":\"\\u00e4\\\"\",\"n\":1.50,\"dispatched_at\":1 }";
    simulation.play("> idle q w/\u{e9}");
    simulation.say(&format!("{{\"topic\":\"default/job_queue/add_job\",\"payload\":{payload}}}"));
    simulation.settle();
    let at = "2023-11-14T22:13:20.000Z";
    let expected = format!(
        "{{\"topic\":\"default/job_queue/workers/w/\u{e9}/job_assignment\",\
         \"service_name\":\"job_queue\",\"service_uuid\":\"su\",\"service_host\":\"\",\
         \"created_at\":\"{at}\",\"payload\":{{\"queue_name\":\"q\", \"uuid\":\"\\u00e4\\\"\",\
         \"n\":1.50,\"dispatched_at\":1,\"dispatched_at\":\"{at}\"}}}}"
    );
    assert_eq!(simulation.received.lines.pop_front(), Some(expected));
    simulation.play("> accept q w/\u{e9} \u{e4}\\\"");
}

#[test]
fn assignment_follows_priority_then_fifo() {
    play(
        "> add q e 9
         > add q c
         > add q a 0
         > add q d 5
         > add q b 4
         > idle q v
         < v a
         > idle q w
         < w b
         > idle q x
         < x c
         > idle q y
         < y d
         > idle q z
         < z e",
    );
}

#[test]
fn idle_workers_get_one_job_each_in_turn() {
    play(
        "> idle q v
         > idle q w
         > idle p x
         > idle q v
         > add q a
         < v a
         > add q b
         < w b
         > add q c
         > add p d
         < x d
         > finish q w b
         < w c",
    );
}

#[test]
fn worker_belongs_to_the_queue_it_named_last() {
    play(
        "> idle q w
         > idle p w
         > add q a
         > add p b
         < w b
         > idle q w
         < w a
         > idle p w
         > busy q w a
         > add p c
         > idle p w
         < w c",
    );
}

#[test]
fn busy_worker_gets_no_assignment() {
    play(
        "> idle q w
         > busy q w x
         ! worker_busy: there is no job 'x' in this queue
         > add q a
         > idle q w
         < w a
         > idle q w
         > add q b
         < w b",
    );
}

#[test]
fn old_messages_are_handled_before_later_dispatches() {
    play(
        "> add q a
         > idle q v 3001
         > idle p w 3001
         > idle q x 3000
         < v a
         > add q b
         < x b
         > add p c
         < w c",
    );
    // With the next tick, with one that is told, and with what another worker has finished.
    play(
        "> add q a
         > idle q w 9000
         @ 2990
         @ 10
         < w a",
    );
    play(
        "> add q a
         > add p b
         > idle q v 9000
         > idle p w 9000
         > tick
         < v a
         < w b",
    );
    play(
        "> add q a
         > add q b
         > idle q v
         < v a
         > idle q w 9000
         > finish q v a
         < w b",
    );
}

#[test]
fn unaccepted_job_is_requeued_first_after_three_ticks() {
    play(
        "> add q a
         > add q b
         > idle q v
         < v a
         @ 8000
         > idle q w
         < w b
         @ 999
         > add q c
         > add q d 0
         @ 1
         ! worker 'v' of queue 'q' sent nothing for 9000 ms
         > idle q x
         < x d
         > idle q y
         < y a
         > idle q z
         < z c",
    );
}

#[test]
fn progress_reports_renew_the_lease() {
    play(
        "> add q a
         > idle q v
         < v a
         @ 8000
         > accept q v a
         @ 8999
         > progress q v a 0.1
         @ 8999
         > busy q v a
         @ 8000
         > idle q w
         @ 999
         @ 1
         ! worker 'v' of queue 'q' sent nothing for 9000 ms
         < w a",
    );
}

#[test]
fn timed_out_worker_gets_no_assignment() {
    play(
        "> idle q v
         @ 1
         > idle q w
         @ 8999
         ! worker 'v' of queue 'q' sent nothing for 9000 ms: removed
         > add q a
         < w a
         > idle q v
         > add q b
         < v b",
    );
}

#[test]
fn late_acceptance_is_rejected() {
    play(
        "> add q a
         > idle q v
         < v a
         @ 8900
         > idle q w
         @ 100
         ! worker 'v' of queue 'q' sent nothing for 9000 ms
         < w a
         > accept q w a
         > accept q v a
         > finish q v a
         > progress q w a 0.5
         ! worker_progress: there is no job 'a' in this queue",
    );
    play(
        "> add q a
         > idle q v
         < v a
         @ 9000
         ! worker 'v' of queue 'q' sent nothing for 9000 ms
         > accept q v a
         ! job_accepted: job 'a' is not dispatched: it waits in its queue
         > finish q v a
         ! job_finished: job 'a' is not dispatched: it waits in its queue
         < v a",
    );
}

#[test]
fn progress_report_implies_acceptance() {
    play(
        "> add q a
         > idle q w
         < w a
         > progress q w a 0.25
         > list progress q
         = [{\"uuid\":\"a\",\"progress\":0.25}]
         > accept q w a
         > list progress q
         = [{\"uuid\":\"a\",\"progress\":0.25}]
         > finish q w a
         > list progress q
         = []",
    );
}

#[test]
fn job_can_be_removed_in_every_status() {
    play(
        "> add q a
         > del q a
         > del q a
         ! del_job: there is no job 'a' in this queue
         > idle q w
         > add q a
         < w a
         > del p a
         ! del_job: there is no job 'a' in this queue
         > del q a
         > accept q w a
         ! job_accepted: there is no job 'a' in this queue
         > add q a
         > idle q w
         < w a
         > accept q w a
         > del q a
         > finish q w a
         ! job_finished: there is no job 'a' in this queue",
    );
}

#[test]
fn uuid_is_unique_over_all_queues() {
    play(
        "> add q a
         > add q a
         ! add_job: there is a job 'a' already, number 2
         > add p a 1
         ! add_job: there is a job 'a' already, number 2
         > idle q w
         < w a
         > add q a
         ! add_job: there is a job 'a' already, number 2
         > finish q w a
         > add p a",
    );
    let mut simulation = Simulation::new();
    simulation.say("add q a");
    simulation.say("add q a");
    simulation.settle();
    assert_eq!(simulation.received.notices[0].0, Severity::Error);
}

#[test]
fn invalid_line_is_reported_and_the_next_one_handled() {
    let mut simulation = Simulation::new();
    for piece in [usize::MAX, 1] {
        simulation.piece = piece;
        simulation.send(
            b"\n\r\nx\n[]\n{\"topic\":\"other\"}\n{\"topic\":\"default/job_queue/add_job\"}\r\n",
        );
        simulation.settle();
        let notices: Vec<_> = simulation.received.notices.drain(..).collect();
        assert!(notices.iter().all(|(severity, _)| *severity == Severity::Error));
        let starts = [
            "no message: the line is empty",
            "no message: the line is empty",
            "no message: the line is not JSON",
            "no message: the line is an array",
            "add_job: field 'payload' is missing",
        ];
        assert_eq!(notices.len(), starts.len(), "{notices:?}");
        for ((_, text), start) in notices.iter().zip(starts) {
            assert!(text.starts_with(start), "{text}");
        }
        simulation.send("x".repeat(5_000).as_bytes());
        simulation.send(b"\n");
        simulation.settle();
        let (_, text) = simulation.received.notices.pop_front().unwrap();
        assert_eq!(text, "no message: the line is longer than 1000 bytes (--max-request)");
        simulation.play("> tick");
    }
    simulation.play(
        "> add q a 10
         ! add_job: field 'priority' must be an integer from 0, the most urgent, to 9
         > add q a -1
         ! add_job: field 'priority' must be
         > idle q w
         > add q a 0
         < w a",
    );
}

#[test]
fn many_invalid_lines_are_each_reported() {
    let mut simulation = Simulation::new();
    simulation.send(&b"\n".repeat(10_000));
    simulation.settle();
    assert_eq!(simulation.received.notices.len(), 10_000);
}

#[test]
fn end_of_input_closes_after_all_messages_are_sent() {
    for (last, assigned) in [("\n", true), ("\r\n", true), ("", true), ("\r", true), ("x", false)] {
        let mut simulation = Simulation::new();
        simulation.play("> idle q v\n> idle q w");
        let line = "{\"topic\":\"default/job_queue/add_job\",\
            \"payload\":{\"queue_name\":\"q\",\"uuid\":\"a\"}}";
        simulation.send(format!("{line}{last}").as_bytes());
        assert!(simulation.end(), "the connection ends");
        let lines = std::mem::take(&mut simulation.received.lines);
        assert_eq!(lines.len(), usize::from(assigned), "{last:?}");
        assert_eq!(simulation.received.notices.len(), usize::from(!assigned), "{last:?}");
    }
    let mut simulation = Simulation::new();
    assert!(simulation.end(), "and at once");
    simulation.play("");
}

#[test]
fn slow_reader_gets_every_message() {
    let mut simulation = Simulation::new();
    let payload = "x".repeat(900);
    simulation.room = 0;
    let (client, now) = (simulation.client, simulation.now);
    let mut sent = 0;
    // Until no more input is wanted, and still each worker gets at most one job.
    while simulation.server().wants_input(client) {
        let job = format!("\"queue_name\":\"q\",\"uuid\":\"{sent}\",\"x\":\"{payload}\"");
        let topic = "\"topic\":\"default/job_queue/";
        let add = format!("{{{topic}add_job\",\"payload\":{{{}}}}}\n", &job[..500]);
        let add = add.replace("xxx}}", "xxx\"}}");
        let payload = "\"payload\":{\"queue_name\":\"q\"}";
        let idle = format!("{{{topic}worker_idle\",\"service_uuid\":\"w{sent}\",{payload}}}\n");
        simulation.server().handle_input(client, add.as_bytes(), now);
        simulation.server().handle_input(client, idle.as_bytes(), now);
        simulation.pass();
        sent += 1;
    }
    assert!(sent > 100, "only {sent}");
    simulation.sleep(100_000);
    assert!(simulation.server().output(client).len() < 1_000_000);
    simulation.room = 10_000;
    simulation.settle();
    for _ in 0..1_000 {
        simulation.pass();
    }
    let mut workers = std::collections::BTreeSet::new();
    while let Some(line) = simulation.received.lines.pop_front() {
        assert!(workers.insert(simulation.assignment(&line)), "{line}");
    }
    assert!(workers.len() > 100);
}

#[test]
fn namespace_and_name_follow_the_settings() {
    let mut simulation = Simulation::with(Settings {
        listener: "in/1".into(),
        publisher: "out".into(),
        name: "n\"".into(),
        uuid: "u".into(),
        host: "h".into(),
        tick: Duration::from_millis(10),
        seed: 1,
    });
    simulation.play(
        "> add q j
         > {\"topic\":\"default/job_queue/add_job\",\"payload\":{}}
         > idle q w
         < w j
         @ 29
         > idle q v
         @ 1
         ! worker 'w' of queue 'q' sent nothing for 30 ms
         < v j",
    );
}

#[test]
fn jobs_of_other_protocols_are_assigned_under_their_job_ids() {
    play(
        "J> {\"request\":\"put\",\"queue\":\"q\",\"job\":{ },\"pri\":0}
         J< {\"status\":\"ok\",\"id\":2}
         > add q j 0
         > idle q w
         < w 2
         > accept q w 2
         > list progress q
         = [{\"uuid\":\"2\",\"progress\":0}]
         J> {\"request\":\"get\",\"queues\":[\"q\"]}
         J< {\"status\":\"ok\",\"id\":3,\"job\":{\"queue_name\":\"q\",\"uuid\":\"j\",\
         \"priority\":0},\"pri\":0,\"queue\":\"q\"}
         > accept q w j
         ! job_accepted: job 'j' is being worked on by another protocol's client
         > finish q w 3
         ! job_finished: there is no job '3' in this queue
         > finish q w 2
         J> {\"request\":\"delete\",\"id\":2}
         J< {\"status\":\"no-job\"}
         J> {\"request\":\"abort\",\"id\":3}
         J< {\"status\":\"ok\"}
         < w j",
    );
    // And lose their holder as those of the processor do.
    play(
        "J> {\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":0}
         J< {\"status\":\"ok\",\"id\":2}
         > idle q w
         < w 2
         @ 9000
         ! worker 'w' of queue 'q' sent nothing for 9000 ms
         J> {\"request\":\"get\",\"queues\":[\"q\"]}
         J< {\"status\":\"ok\",\"id\":2,\"job\":{},\"pri\":0,\"queue\":\"q\"}",
    );
}
