//! Two streams that take little, end, or are reset.

use super::*;
use std::collections::VecDeque;

/// A stream that gives and takes what a test permits.
#[derive(Debug, Default)]
struct Script {
    /// What the peer has sent.
    input: VecDeque<u8>,
    /// The peer has ended its sending side.
    is_ended: bool,
    /// The peer has reset the connection, which is found behind its input.
    is_reset: bool,
    /// What the peer has got.
    output: Vec<u8>,
    /// How much is taken until it blocks.
    room: usize,
    ends: usize,
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.input.len().min(into.len());
        if count == 0 && self.is_reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if count == 0 && !self.is_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.input.drain(..count).zip(into).for_each(|(byte, place)| *place = byte);
        Ok(count)
    }
}

impl Write for Script {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_reset {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let count = bytes.len().min(self.room);
        if count == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        self.room -= count;
        self.output.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Script {
    fn end_output(&mut self) -> io::Result<()> {
        self.ends += 1;
        Ok(())
    }
}

const READ_BYTES: usize = 16;

struct Both {
    client: End<Script>,
    leader: End<Script>,
    flows: Flows,
}

impl Both {
    fn new() -> Self {
        let end = || End::new(Script { room: usize::MAX, ..Script::default() }, true);
        Self { client: end(), leader: end(), flows: Flows::default() }
    }

    fn advance(&mut self) -> Next {
        self.flows.advance(&mut self.client, &mut self.leader, &mut [0; READ_BYTES])
    }

    /// Until there is nothing to do.
    fn settle(&mut self) -> Next {
        for _ in 0..10_000 {
            match self.advance() {
                Next::IsDue => {}
                next => return next,
            }
        }
        panic!("it is never done");
    }

    fn send_from_client(&mut self, bytes: &[u8]) {
        self.client.stream.input.extend(bytes);
        self.client.readable = true;
    }

    fn make_room_at_leader(&mut self, bytes: usize) {
        self.leader.stream.room = bytes;
        self.leader.writable = true;
    }
}

fn numbers(count: usize) -> Vec<u8> {
    (0..=250_u8).cycle().take(count).collect()
}

#[test]
fn bytes_go_both_ways_in_their_order_however_little_is_taken() {
    let mut both = Both::new();
    let (request, answer) = (numbers(1000), numbers(777));
    both.send_from_client(&request);
    both.leader.stream.input.extend(&answer);
    both.make_room_at_leader(0);
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!(both.client.stream.output, answer, "one direction does not wait for the other");
    let mut size = 0;
    while both.leader.stream.output.len() < request.len() {
        size = size % 23 + 1;
        both.make_room_at_leader(size);
        both.settle();
    }
    assert_eq!(both.leader.stream.output, request);
    assert_eq!(both.flows.bytes(), (1000, 777));
}

#[test]
fn sink_that_takes_nothing_costs_one_read() {
    let mut both = Both::new();
    both.make_room_at_leader(5);
    both.send_from_client(&numbers(1000));
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!(both.client.stream.input.len(), 1000 - READ_BYTES);
    assert_eq!(both.flows.to_leader.pending.len() - both.flows.to_leader.sent, READ_BYTES - 5);
    both.make_room_at_leader(usize::MAX);
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!(both.leader.stream.output, numbers(1000));
    assert_eq!(both.flows.to_leader.pending.capacity(), 0, "an idle direction takes no memory");
}

#[test]
fn half_close_is_passed_on_once_behind_the_last_byte() {
    let mut both = Both::new();
    both.make_room_at_leader(3);
    both.send_from_client(b"last words");
    both.client.stream.is_ended = true;
    both.client.hung_up = true;
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!(both.leader.stream.ends, 0, "something is pending");
    both.make_room_at_leader(usize::MAX);
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!((&both.leader.stream.output[..], both.leader.stream.ends), (&b"last words"[..], 1));
    // The answer comes behind it.
    both.leader.stream.input.extend(b"answer");
    both.leader.readable = true;
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!((&both.client.stream.output[..], both.client.stream.ends), (&b"answer"[..], 0));
    both.leader.stream.is_ended = true;
    both.leader.readable = true;
    assert_eq!(both.settle(), Next::Ended);
    assert_eq!((both.client.stream.ends, both.leader.stream.ends), (1, 1));
}

#[test]
fn leader_that_ends_first_leaves_the_client_its_time() {
    let mut both = Both::new();
    both.leader.stream.is_ended = true;
    assert_eq!(both.settle(), Next::Waits);
    assert!(both.flows.is_answered() && both.client.stream.ends == 1);
    both.send_from_client(b"more");
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!(both.leader.stream.output, b"more");
    both.client.stream.is_ended = true;
    both.client.readable = true;
    assert_eq!(both.settle(), Next::Ended);
}

#[test]
fn reset_of_either_side_is_found_behind_what_it_has_sent() {
    let mut both = Both::new();
    both.leader.stream.input.extend(b"last answer");
    both.leader.stream.is_reset = true;
    both.leader.hung_up = true;
    assert_eq!(both.settle(), Next::ResetClient);
    assert_eq!(both.client.stream.output, b"last answer");
    let mut both = Both::new();
    both.send_from_client(b"put");
    both.client.stream.is_reset = true;
    both.client.hung_up = true;
    assert_eq!(both.settle(), Next::ResetLeader);
    assert_eq!(both.leader.stream.output, b"put");
}

#[test]
fn client_that_takes_no_answers_is_read_to_its_end() {
    let mut both = Both::new();
    both.send_from_client(&numbers(100));
    both.client.stream.is_ended = true;
    both.client.hung_up = true;
    both.flows.to_client.is_broken = true;
    both.leader.stream.input.extend(numbers(100));
    assert_eq!(both.settle(), Next::Ended);
    assert_eq!(both.leader.stream.output, numbers(100));
    assert_eq!(both.client.stream.output, b"");
}

#[test]
fn stop_reads_the_client_once_more_and_waits_for_the_answers() {
    let mut both = Both::new();
    both.settle();
    both.client.stream.input.extend(numbers(100));
    both.flows.stop(&mut both.client);
    assert_eq!(both.settle(), Next::Waits);
    assert_eq!(both.leader.stream.output, numbers(READ_BYTES));
    assert_eq!(both.leader.stream.ends, 1);
    assert!(both.client.stream.input.is_empty(), "the rest is discarded");
    both.leader.stream.input.extend(b"answer");
    both.leader.stream.is_ended = true;
    both.leader.hung_up = true;
    both.leader.readable = true;
    assert_eq!(both.settle(), Next::Waits, "the client may still send");
    assert_eq!((&both.client.stream.output[..], both.client.stream.ends), (&b"answer"[..], 1));
    both.client.stream.is_ended = true;
    both.client.readable = true;
    assert_eq!(both.settle(), Next::Ended);
}
