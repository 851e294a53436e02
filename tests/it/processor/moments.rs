//! Events at the same moment: lease ends, and workers that time out.

use super::simulation::Simulation;

/// Workers a and b hold j1, which is urgent, and j2, which is not; c stands in line and is
/// forgotten when both leases end; x is there later.
#[test]
fn worker_timed_out_with_a_lease_end_is_not_assigned_the_urgent_job() {
    for new in [Simulation::new, Simulation::durable] {
        let mut simulation = new();
        simulation.play(
            "> add q j1 0
             > add q j2 9
             > idle q a
             < a j1
             > idle q b
             < b j2
             > idle q c
             @ 1000
             > idle q x
             @ 7999
             @ 1
             ! worker 'a' of queue 'q' sent nothing for 9000 ms
             ! worker 'b' of queue 'q' sent nothing for 9000 ms
             ! worker 'c' of queue 'q' sent nothing for 9000 ms
             < x j1
             > list job q
             = [{\"queue_name\":\"q\",\"uuid\":\"j2\",\"priority\":9}]",
        );
    }
}

/// More workers than are forgotten in one pass, and the first in line for a job is the last that is
/// forgotten.
#[test]
fn workers_timed_out_with_a_lease_end_get_no_assignment() {
    const WORKERS: usize = 3_000;
    let mut simulation = Simulation::new();
    simulation.play("> idle q a\n> add q j\n< a j");
    for number in 0..WORKERS {
        simulation.say(&format!("idle q w{number}"));
    }
    simulation.say("idle q w0");
    simulation.sleep(9_000);
    assert_eq!(simulation.received.lines, [""; 0]);
    assert_eq!(simulation.received.notices.len(), 1 + WORKERS);
    simulation.received.notices.clear();
    simulation.play("> idle q x\n< x j");
}
