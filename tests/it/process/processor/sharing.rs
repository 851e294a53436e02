//! Modes of a pipe or socket that other processes share with the processor are never changed.

use super::driver::{Processor, add, assigned, command, idle, lines};
use crate::support::TIMEOUT;
use rustix::fs::{OFlags, fcntl_getfl};
use serde_json::Value;
use std::io::{PipeReader, PipeWriter, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

fn flags(of: impl AsFd) -> OFlags {
    fcntl_getfl(of).unwrap()
}

/// The ends of two pipes that the processor gets, and those that it is spoken to by.
fn pipes() -> ((PipeReader, PipeWriter), (PipeWriter, PipeReader)) {
    let ((stdin, to), (from, stdout)) = (pipe().unwrap(), pipe().unwrap());
    ((stdin, stdout), (to, from))
}

#[test]
fn the_modes_of_shared_pipes_are_never_changed() {
    for ending in ["the end of input", "TERM", "KILL"] {
        let ((stdin, stdout), (mut to, from)) = pipes();
        let before = (flags(&stdin), flags(&stdout));
        assert!(!before.0.contains(OFlags::NONBLOCK) && !before.1.contains(OFlags::NONBLOCK));
        let mut command = command(&[]);
        // The same open file descriptions, as in a shell's pipeline.
        command.stdin(stdin.try_clone().unwrap()).stdout(stdout.try_clone().unwrap());
        let mut processor = Processor::spawn(command);
        let messages = lines(from);
        for number in 0..3 {
            let (job, worker) = (format!("j{number}"), format!("w{number}"));
            to.write_all(format!("{}\n{}\n", add("q", &job), idle("q", &worker)).as_bytes())
                .unwrap();
            let line: Value =
                serde_json::from_str(&messages.recv_timeout(TIMEOUT).unwrap()).unwrap();
            assert_eq!(assigned(&line), (worker, job));
            assert_eq!((flags(&stdin), flags(&stdout)), before, "while it runs");
        }
        match ending {
            "TERM" | "KILL" => processor.signal(ending),
            _ => drop(to),
        }
        let (status, _) = processor.wait();
        assert_eq!(status.code(), if ending == "KILL" { None } else { Some(0) });
        assert_eq!((flags(&stdin), flags(&stdout)), before, "after {ending}");
    }
}

#[test]
fn the_modes_of_shared_sockets_are_never_changed() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let before = flags(&theirs);
    let mut command = command(&[]);
    command.stdin(OwnedFd::from(theirs.try_clone().unwrap()));
    command.stdout(OwnedFd::from(theirs.try_clone().unwrap()));
    let mut processor = Processor::spawn(command);
    let messages = lines(ours.try_clone().unwrap());
    (&ours).write_all(format!("{}\n{}\n", add("q", "j"), idle("q", "w")).as_bytes()).unwrap();
    assert!(messages.recv_timeout(TIMEOUT).unwrap().contains("job_assignment"));
    assert_eq!(flags(&theirs), before, "while it runs");
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(processor.wait().0.code(), Some(0));
    assert_eq!(flags(&theirs), before, "after its end");
}

#[test]
fn nonblocking_mode_set_by_others_is_kept() {
    let ((stdin, stdout), (mut to, from)) = pipes();
    for end in [stdin.as_fd(), stdout.as_fd()] {
        rustix::fs::fcntl_setfl(end, flags(end) | OFlags::NONBLOCK).unwrap();
    }
    let before = (flags(&stdin), flags(&stdout));
    let mut command = command(&[]);
    command.stdin(stdin.try_clone().unwrap()).stdout(stdout.try_clone().unwrap());
    let mut processor = Processor::spawn(command);
    let messages = lines(from);
    to.write_all(format!("{}\n{}\n", add("q", "j"), idle("q", "w")).as_bytes()).unwrap();
    assert!(messages.recv_timeout(TIMEOUT).unwrap().contains("job_assignment"));
    drop(to);
    assert_eq!(processor.wait().0.code(), Some(0));
    assert_eq!((flags(&stdin), flags(&stdout)), before);
}
