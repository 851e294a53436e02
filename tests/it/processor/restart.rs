//! What survives a restart.

use super::simulation::Simulation;

#[test]
fn jobs_and_reservations_survive_a_restart() {
    let mut simulation = Simulation::durable();
    simulation.play(
        "> add q a
         > add q b
         > add q c 9
         > idle q v
         < v a
         > idle q w
         < w b
         > accept q v a
         > progress q v a 0.75
         @ 1000",
    );
    simulation.restart(2_000);
    // What was not accepted is in front again, and no worker is known.
    simulation.play(
        "> list progress q
         = [{\"uuid\":\"a\",\"progress\":0.75}]
         > list dispatched q
         = []
         > list worker q
         = []
         > list job q
         = [{\"queue_name\":\"q\",\"uuid\":\"b\"},{\"queue_name\":\"q\",\"uuid\":\"c\",\
         \"priority\":9}]
         > add q a
         ! add_job: there is a job 'a' already
         > idle q w
         < w b
         > progress q v a 1
         > finish q v a
         < v c
         > add q a",
    );
    simulation.restart(0);
    simulation
        .play("> list progress q\n= []\n> idle q x\n< x b\n> idle q y\n< y a\n> idle q z\n< z c");
}

#[test]
fn lease_keeps_running_while_no_server_runs() {
    let mut simulation = Simulation::durable();
    simulation.play("> add q a\n> idle q v\n< v a\n> accept q v a\n> idle q w\n@ 1000");
    simulation.restart(7_000);
    simulation.play("> idle q x\n@ 999\n@ 1\n< x a\n> accept q x a");
    simulation.restart(20_000);
    simulation.play("> idle q y\n< y a");
}

#[test]
fn assignment_is_sent_once_durable_and_before_the_end() {
    let mut simulation = Simulation::durable();
    let idle = "{\"topic\":\"default/job_queue/worker_idle\",\"service_uuid\":\"w\",\
        \"payload\":{\"queue_name\":\"q\"}}";
    let add = "{\"topic\":\"default/job_queue/add_job\",\
        \"payload\":{\"queue_name\":\"q\",\"uuid\":\"a\"}}";
    simulation.send(format!("{idle}\n{add}").as_bytes());
    assert!(simulation.received.lines.is_empty(), "the disk has not done its work");
    assert!(simulation.end(), "the connection ends");
    assert_eq!(simulation.received.lines.len(), 1, "what was assigned is done");
    simulation.restart(0);
    simulation.play("> idle q v\n< v a");
}

#[test]
fn end_of_input_keeps_reservations() {
    let mut simulation = Simulation::durable();
    simulation.play("> add q a\n> add q b\n> idle q v\n< v a\n> accept q v a\n> idle q w\n< w b");
    assert!(simulation.end());
    // The server goes on for others: leases end, and then it is anybody's.
    simulation.play(
        "J> {\"request\":\"get\",\"queues\":[\"q\"]}
         J< {\"status\":\"no-job\"}",
    );
    simulation.restart(100);
    simulation.play("> list progress q\n= [{\"uuid\":\"a\",\"progress\":0}]\n> idle q w\n< w b");
    assert!(simulation.end());
    simulation.sleep(9_000);
    simulation.play(
        "J> {\"request\":\"get\",\"queues\":[\"q\"]}
         J< {\"status\":\"ok\",\"id\":2,\"job\":{\"queue_name\":\"q\",\"uuid\":\"a\"},\
         \"pri\":-5,\"queue\":\"q\"}",
    );
}

#[test]
fn freed_uuid_stays_free_after_a_restart() {
    let mut simulation = Simulation::durable();
    simulation
        .play("> add q a\n> del q a\n> add p a\n> add q b\n> idle q w\n< w b\n> finish q w b");
    simulation.restart(0);
    simulation.play("> add q a\n! there is a job 'a' already\n> add q b\n> idle p w\n< w a");
}

/// A worker that listens elsewhere may know of its job before the disk has done its work; so does
/// every client whose messages are played from a file.
#[test]
fn acceptance_before_the_assignment_is_durable_keeps_the_reservation() {
    let mut simulation = Simulation::durable();
    let say = |topic: &str, payload: &str| {
        format!(
            "{{\"topic\":\"default/job_queue/{topic}\",\"service_uuid\":\"w\",\
             \"payload\":{{\"queue_name\":\"q\"{payload}}}}}\n"
        )
    };
    let a = ",\"uuid\":\"a\"";
    let lines = [say("add_job", a), say("worker_idle", ""), say("job_accepted", a)];
    simulation.send(lines.concat().as_bytes());
    assert!(simulation.received.lines.is_empty(), "the disk has not done its work");
    simulation.settle();
    simulation.play("> list progress q\n= [{\"uuid\":\"a\",\"progress\":0}]");
    simulation.restart(100);
    simulation.play("> list progress q\n= [{\"uuid\":\"a\",\"progress\":0}]\n> list job q\n= []");
}
