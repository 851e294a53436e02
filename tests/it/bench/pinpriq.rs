//! The generator's pinpriq protocol, against a small server of the test with right or wrong
//! replies.

use super::{failure, measure, number};
use crate::support::Server;
use jobcentre::base::buf::{InBuf, progress};
use jobcentre::wire::packets::{Framed, Request, next, push_count, push_packet};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Priority, length of the key, and the packet.
type Packet = (u8, u16, Vec<u8>);

/// A server of packets whose keys all differ.
struct Fake {
    queues: BTreeMap<Vec<u8>, Vec<Packet>>,
    /// Each worker that waits: its connection, queue and credits.
    workers: Vec<(TcpStream, Vec<u8>, u32)>,
    /// Pops of queues that nothing was ever pushed to.
    receipts: u64,
    /// Makes another answer of one that carries a packet.
    spoil: Box<dyn FnMut(Vec<u8>) -> Vec<u8> + Send>,
}

impl Fake {
    /// The answer to a pop.
    fn pop(&mut self, queue: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        let Some(packets) = self.queues.get_mut(queue) else {
            self.receipts += 1;
            push_count(&mut answer, 0);
            return answer;
        };
        // Among equals the newest.
        let places = (0..packets.len()).rev();
        let Some(best) = places.min_by_key(|&place| packets[place].0) else {
            push_count(&mut answer, 0);
            return answer;
        };
        let (_, key_len, packet) = packets.remove(best);
        push_count(&mut answer, 1);
        push_packet(&mut answer, key_len, &packet);
        (self.spoil)(answer)
    }

    /// Gives workers what there is for them.
    fn deliver(&mut self) {
        let is_filled = |queues: &BTreeMap<Vec<u8>, Vec<Packet>>, queue: &Vec<u8>| {
            queues.get(queue).is_some_and(|packets| !packets.is_empty())
        };
        while let Some(place) = self
            .workers
            .iter()
            .position(|(_, queue, credits)| *credits > 0 && is_filled(&self.queues, queue))
        {
            let mut worker = self.workers.remove(place);
            let answer = self.pop(&worker.1);
            // The generator may have gone.
            let _ = worker.0.write_all(&answer);
            worker.2 -= 1;
            self.workers.push(worker);
        }
    }

    fn serve(&mut self, request: Request<'_>, stream: &mut TcpStream) {
        let peer = stream.peer_addr().ok();
        let mut own = self.workers.iter_mut().filter(|worker| worker.0.peer_addr().ok() == peer);
        match request {
            Request::Push { queue, ttl_ms, priority, key_len, packet } => {
                assert!(ttl_ms == 0 && priority > 0, "a packet that may never come back");
                let packet = (priority, key_len, packet.to_vec());
                self.queues.entry(queue.to_vec()).or_default().push(packet);
            }
            Request::Pop { queue } => {
                let answer = self.pop(queue);
                let _ = stream.write_all(&answer);
            }
            Request::Subscribe { queue } => {
                assert!(own.next().is_none(), "a worker subscribes once");
                self.workers.push((stream.try_clone().unwrap(), queue.to_vec(), 0));
            }
            Request::Ready => own.next().expect("a worker subscribes first").2 += 1,
            Request::Unsubscribe { .. } => panic!("the generator never unsubscribes"),
        }
        self.deliver();
    }
}

/// Starts a server that answers as `spoil` says.
fn faulty_server(
    spoil: impl FnMut(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> (Arc<Mutex<Fake>>, SocketAddr) {
    let (queues, workers, spoil) = (BTreeMap::new(), Vec::new(), Box::new(spoil));
    let fake = Arc::new(Mutex::new(Fake { queues, workers, receipts: 0, spoil }));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let shared = Arc::clone(&fake);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, fake) = (stream.unwrap(), Arc::clone(&shared));
            stream.set_nodelay(true).unwrap();
            std::thread::spawn(move || {
                let (mut buffer, mut bytes) = (InBuf::default(), vec![0; 16 * 1024]);
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    buffer.append(&bytes[..count]);
                    let mut input = buffer.peek();
                    while let Framed::Request(request) = next(&mut input) {
                        fake.lock().unwrap().serve(request, &mut stream);
                    }
                    let (used, scanned) = progress(&input);
                    buffer.commit(used, scanned);
                }
            });
        }
    });
    (fake, address)
}

fn correct_server() -> (Arc<Mutex<Fake>>, SocketAddr) {
    faulty_server(|answer| answer)
}

fn load(address: SocketAddr, arguments: &str) -> Value {
    let report = measure(address, &format!("{arguments} --protocol pinpriq"));
    let (jobs, latency) = (&report["jobs"], &report["latency_us"]);
    assert_eq!(jobs["put"], jobs["delivered"], "{arguments}");
    assert_eq!(jobs["put"], jobs["deleted"], "{arguments}");
    assert_eq!(report["requests"], latency["all"]["count"], "{arguments}");
    assert_eq!(latency["delete"], Value::Null, "{arguments}: a pop is final");
    report
}

fn error(address: SocketAddr, arguments: &str) -> String {
    failure(address, &format!("{arguments} --protocol pinpriq"))
}

#[test]
fn every_workload_counts_its_requests() {
    let (_fake, address) = correct_server();
    drive_all(address);
}

#[test]
fn the_real_server_passes_every_check_of_every_workload() {
    let server = Server::start(&["--pinpriq", "127.0.0.1:0"]);
    let address = server.address_of("pinpriq");
    drive_all(address);
    load(address, "wait --waiters 6 --queues 2 -n 300 -c 2 -d 2");
    load(address, "wait --waiters 1 -n 300");
}

fn drive_all(address: SocketAddr) {
    let counts = |report: &Value| {
        let count = |kind: &str| report["latency_us"][kind]["count"].as_u64().unwrap_or(0);
        (number(&report["requests"]), count("put"), count("get"))
    };
    let report = load(address, "put -n 500 -c 2 -d 4 --queues 3");
    assert_eq!(counts(&report), (500, 500, 0));
    assert!(report["notes"].to_string().contains("a push has no answer"), "{report}");
    let report = load(address, "drain -n 600 -c 2 -d 4 --queues 3");
    assert_eq!(counts(&report), (600, 0, 600));
    let report = load(address, "cycle -n 600 -c 4 -d 8 --queues 3 --payload 65535");
    assert_eq!(counts(&report), (600, 300, 300));
    let report = load(address, "mixed --backlog 500 -n 600 -c 4");
    assert_eq!(counts(&report), (600, 300, 300));
    let report = load(address, "idle --idle 20 -n 100");
    assert_eq!(counts(&report), (100, 50, 50));
    load(address, "cycle --rate 1000 --duration 100ms -c 2");
}

#[test]
fn workers_that_subscribe_get_every_job() {
    let (_fake, address) = correct_server();
    let report = load(address, "wait --waiters 6 --queues 2 -n 300 -c 2 -d 2");
    assert_eq!(report["requests"], 300);
    assert_eq!(report["latency_us"]["delivery"]["count"], 300);
    assert_eq!(report["latency_us"]["get"], Value::Null, "how long a worker waits is not measured");
}

#[test]
fn one_receipt_confirms_all_pushes_of_a_write() {
    for (depth, receipts) in [(1, 64), (16, 4)] {
        let (fake, address) = correct_server();
        load(address, &format!("put -n 64 -c 1 -d {depth}"));
        assert_eq!(fake.lock().unwrap().receipts, receipts, "{depth} in flight");
    }
}

#[test]
fn wrong_packet_of_a_server_fails_the_run() {
    // An answer is a count, two lengths, a key of eight bytes, and the job.
    let (_fake, address) = faulty_server(|mut answer| {
        answer[40] ^= 1;
        answer
    });
    let text = error(address, "cycle -n 90 -c 1");
    assert!(text.contains("never put"), "{text}");

    let mut first = None;
    let (_fake, address) = faulty_server(move |answer| first.get_or_insert(answer).clone());
    let text = error(address, "cycle -n 90 -c 1");
    assert!(text.contains("delivered twice"), "{text}");

    let (_fake, address) = faulty_server(|mut answer| {
        answer[13] = 77;
        answer
    });
    let text = error(address, "cycle -n 90 -c 1");
    assert!(text.contains("delivered as id 77"), "{text}");

    let (_fake, address) = faulty_server(|answer| answer[..2].iter().map(|_| 0).collect());
    let text = error(address, "cycle -n 90 -c 1");
    assert!(text.contains("found no job"), "{text}");
    let text = error(address, "wait -n 90 --waiters 2");
    assert!(text.contains("answered a get"), "{text}");

    let (_fake, address) = faulty_server(|mut answer| {
        answer[1] = 2;
        answer
    });
    let text = error(address, "cycle -n 90 -c 1");
    assert!(text.contains("answered a get"), "{text}");
}

#[test]
fn unconfirmed_push_is_not_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        while let Ok(1..) = stream.read(&mut [0; 4096]) {}
    });
    let text = error(address, "put -n 1 -c 1 --keep --patience 100ms");
    assert!(text.contains("silent"), "{text}");
}
