//! A pop of a group that takes several passes, and a crash in each of them.

use super::{Simulation, recover};
use crate::journal::disk::End;
use jobcentre::base::strings::StringList;
use jobcentre::engine::CommandExecutor;
use jobcentre::journal::SyncMode;
use jobcentre::model::command::{Command, Wait};
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};

const PACKETS: u32 = 5_000;

#[test]
fn crash_leaves_all_packets_of_a_popped_group_or_none() {
    let (mut kept, mut gone, mut answered) = (0, 0, 0);
    for passes in 0..14 {
        let mut simulation = Simulation::new(1);
        simulation.spread_steps = None;
        simulation.options.sync = SyncMode::Always;
        simulation.options.segment_bytes = 65_536;
        simulation.disk.platter.lock().unwrap().inline = false;
        let mut engine = recover(&simulation);
        let client = ClientId { index: 1, generation: 1 };
        for serial in 0..PACKETS {
            let payload = Payload { encoding: Encoding::Packet { key_len: 1 }, bytes: b"k" };
            let (priority, tie_break) = (Priority::Small(1), TieBreak::Lifo);
            let put = Command::Put { queue: b"q", priority, tie_break, payload, options: None };
            engine.submit(Ticket { client, serial }, &put, simulation.now);
        }
        while engine.awaits_disk() {
            engine.commit(simulation.now);
            simulation.disk.work(10);
            while engine.poll_completion().is_some() {}
        }
        let mut names = StringList::default();
        names.push(b"q");
        let pop = Command::Pop { queues: names.from(0), wait: Wait::No };
        engine.submit(Ticket { client, serial: PACKETS }, &pop, simulation.now);
        let mut told = None;
        for _ in 0..passes {
            engine.expire(simulation.now);
            engine.commit(simulation.now);
            simulation.disk.work(10);
            if let Some(completion) = engine.poll_completion() {
                told = completion.reply.packets().map(<[_]>::len);
            }
            engine.check_invariants();
        }
        drop(engine);
        simulation.disk.end(if passes % 2 == 0 { End::PowerCut } else { End::Kill });
        let engine = recover(&simulation);
        engine.check_invariants();
        match engine.counts().jobs {
            0 => gone += 1,
            jobs => {
                assert_eq!((jobs, told), (PACKETS as usize, None), "after {passes} passes");
                kept += 1;
            }
        }
        if let Some(told) = told {
            assert_eq!(told, PACKETS as usize);
            answered += 1;
        }
    }
    assert!(kept >= 3 && answered >= 3 && gone > answered, "{kept}, {gone}, {answered}");
}
