//! `jobcentre bench`: the real generator against the real server, other servers, and servers with
//! wrong replies.

mod http;
mod pinpriq;
mod screen;

use crate::process::engine::redis_program;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_jobcentre");

/// A process that ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server on a port of its own.
fn server() -> (Process, SocketAddr) {
    serve("--listen 127.0.0.1:0 --http off")
}

/// A server with one protocol.
fn serve(arguments: &str) -> (Process, SocketAddr) {
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--log-format", "json"])
        .args(arguments.split_whitespace())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let process = Process(child);
    let address = lines
        .find_map(|line| {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            line["address"].as_str().map(|address| address.parse().unwrap())
        })
        .expect("the server says where it listens");
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (process, address)
}

/// A server with the protocols for lines and for HTTP.
fn serve_both() -> (Process, SocketAddr, SocketAddr) {
    let mut child = Command::new(PROGRAM)
        .args(["serve", "--log-format", "json", "--listen", "127.0.0.1:0"])
        .args(["--http", "127.0.0.1:0"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let process = Process(child);
    let mut next = || {
        lines.find_map(|line| {
            let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
            line["address"].as_str().map(|address| address.parse().unwrap())
        })
    };
    let (first, second) = (next().unwrap(), next().unwrap());
    std::thread::spawn(move || lines.for_each(drop));
    (process, first, second)
}

fn bench(address: SocketAddr, arguments: &str) -> Output {
    Command::new(PROGRAM)
        .args(["bench", "--address", &address.to_string()])
        .args(arguments.split_whitespace())
        .output()
        .unwrap()
}

/// Runs a bench that succeeds, and gives its JSON.
fn measure(address: SocketAddr, arguments: &str) -> Value {
    let output = bench(address, &format!("{arguments} --json -"));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Runs a bench that fails, and gives what it says.
fn failure(address: SocketAddr, arguments: &str) -> String {
    let output = bench(address, arguments);
    assert!(!output.status.success(), "{arguments}: {output:?}");
    assert_eq!(output.stdout, b"", "a failed run has no result");
    String::from_utf8(output.stderr).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

/// Every job went all its way, and every request of each kind was counted.
fn check_cycles(report: &Value) {
    let jobs = &report["jobs"];
    assert_eq!(jobs["put"], jobs["delivered"]);
    assert_eq!(jobs["put"], jobs["deleted"]);
    let latency = &report["latency_us"];
    let count = |kind: &str| number(&latency[kind]["count"]);
    assert_eq!(number(&report["requests"]), count("all"));
    assert_eq!(count("all"), count("put") + count("get") + count("delete"));
    let all = &latency["all"];
    let order = ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"];
    let times: Vec<f64> = order.iter().map(|name| all[*name].as_f64().unwrap()).collect();
    assert!(times[0] > 0.0 && times.is_sorted(), "{all}");
}

#[test]
fn put_workload_deletes_its_jobs_afterwards() {
    let (process, address) = server();
    let arguments = format!("put -n 2000 -c 4 -d 8 --queues 3 --server-pid {}", process.0.id());
    let report = measure(address, &arguments);
    assert_eq!(report["requests"], 2000);
    assert_eq!(report["latency_us"]["put"]["count"], 2000);
    assert_eq!(report["jobs"]["deleted"], 2000);
    if cfg!(target_os = "linux") {
        let server = &report["server"];
        assert!(number(&server["memory_after_bytes"]) > 0, "{server}");
        assert!(server["cpu"]["seconds"].as_f64().unwrap() > 0.0, "{server}");
        assert!(server["bytes_per_job"].is_number(), "{server}");
    }
}

#[test]
fn kept_jobs_remain_and_a_second_run_does_not_see_them() {
    let (_process, address) = server();
    for _ in 0..2 {
        let report = measure(address, "put -n 500 -c 2 --keep");
        assert_eq!(report["jobs"]["put"], 500);
        assert_eq!(report["jobs"]["delivered"], 0);
    }
    measure(address, "put -n 5 -c 1 --keep --queue-prefix shared --seed 1");
    let error = failure(address, "cycle -n 30 -c 1 --queue-prefix shared --seed 2");
    assert!(error.contains("never put"), "{error}");
}

#[test]
fn drain_empties_its_backlog() {
    let (_process, address) = server();
    let report = measure(address, "drain --backlog 1000 -c 4 -d 4 --queues 2");
    assert_eq!(report["requests"], 2000);
    assert_eq!(report["latency_us"]["get"]["count"], 1000);
    assert_eq!(report["jobs"]["deleted"], 1000);
    let report = measure(address, "drain -n 200 --backlog 1000 -c 4");
    assert_eq!(report["requests"], 200);
    assert_eq!(report["jobs"]["deleted"], 1000, "the rest was taken away afterwards");
}

#[test]
fn cycle_sends_exactly_the_given_number_of_requests() {
    let (_process, address) = server();
    let report = measure(address, "cycle -n 3000 -c 8 -d 4 --payload 1KiB");
    assert_eq!(report["requests"], 3000);
    check_cycles(&report);
}

#[test]
fn cycle_measures_the_given_time_after_the_warm_up() {
    let (_process, address) = server();
    let report = measure(address, "cycle --duration 200ms --warmup 100ms -c 8 -d 2 --queues 5");
    assert!(report["seconds"].as_f64().unwrap() >= 0.2, "{report}");
    check_cycles(&report);
    let counted = number(&report["latency_us"]["put"]["count"]);
    assert!(number(&report["jobs"]["put"]) > counted, "what was put to warm up does not count");
}

#[test]
fn mixed_load_keeps_its_backlog() {
    let (_process, address) = server();
    let report = measure(address, "mixed --backlog 2000 -n 3000 -c 8");
    check_cycles(&report);
    assert_eq!(report["jobs"]["put"], 3000);
    assert_eq!(report["requests"], 3000);
}

#[test]
fn latency_at_a_fixed_rate_counts_from_the_intended_time() {
    let (_process, address) = server();
    let report = measure(address, "cycle --rate 2000 --duration 300ms -c 4 -d 4");
    check_cycles(&report);
    let (sent, missed) = (number(&report["requests"]), number(&report["missed"]));
    assert!((590..=610).contains(&(sent + missed)), "{sent} sent and {missed} missed");
    assert_eq!(report["latency_us"]["lateness"]["count"], sent);
    // Far beyond what one connection can carry: the wait for the connection counts, and what was
    // not even sent is told.
    let report = measure(address, "cycle --rate 1e8 --duration 100ms -c 1");
    assert!(number(&report["missed"]) > 0);
    let late = report["latency_us"]["lateness"]["max"].as_f64().unwrap();
    let longest = report["latency_us"]["all"]["max"].as_f64().unwrap();
    assert!(longest > 50_000.0 && late > 50_000.0, "{report}");
}

#[test]
fn waiting_workers_reserve_every_job() {
    let (_process, address) = server();
    let report = measure(address, "wait --waiters 6 --queues 2 -n 600 -c 2 -d 2");
    let jobs = number(&report["jobs"]["put"]);
    assert_eq!((jobs, &report["requests"]), (300, &Value::from(600)));
    assert_eq!(number(&report["jobs"]["deleted"]), jobs);
    assert_eq!(number(&report["latency_us"]["delivery"]["count"]), jobs);
    let report = measure(address, "wait --waiters 3 --rate 500 --duration 200ms -c 2");
    assert_eq!(report["jobs"]["put"], report["jobs"]["deleted"]);
}

#[test]
fn idle_connections_stay_open_during_a_run() {
    let (process, address) = server();
    let arguments = format!("idle --idle 50 -n 300 --server-pid {}", process.0.id());
    let report = measure(address, &arguments);
    assert_eq!(report["idle"], 50);
    check_cycles(&report);
    if cfg!(target_os = "linux") {
        assert!(report["server"]["bytes_per_connection"].is_number(), "{report}");
    }
}

#[test]
fn table_json_and_plot_show_the_same_figures() {
    let (_process, address) = server();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (json, plot) = (folder.join("bench.json"), folder.join("bench.svg"));
    let arguments = format!("-n 300 -c 2 --json {} --plot {}", json.display(), plot.display());
    let output = bench(address, &arguments);
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    for word in ["300 requests in", "p99.99", "put ", "get ", "delete ", "each once and unchanged"]
    {
        assert!(table.contains(word), "{word}: {table}");
    }
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["requests"], 300);
    assert_eq!(report["workload"], "cycle");
    let picture = std::fs::read_to_string(plot).unwrap();
    assert!(picture.starts_with("<svg ") && picture.contains("delete"));
}

/// A server that answers every line as `answer` says, one connection after another.
fn scripted_server(mut answer: impl FnMut(&str) -> String + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(line)) = lines.next() {
            if stream.write_all(answer(&line).as_bytes()).is_err() {
                return;
            }
        }
    });
    address
}

/// A server with jobs, of which `spoil` makes another answer to every get.
fn faulty_server(mut spoil: impl FnMut(u64, &str) -> String + Send + 'static) -> SocketAddr {
    let mut jobs: Vec<(u64, String)> = Vec::new();
    let mut next = 0;
    scripted_server(move |line| {
        let request: Value = serde_json::from_str(line).unwrap();
        match request["request"].as_str().unwrap() {
            "put" => {
                next += 1;
                jobs.push((next, line.to_owned()));
                format!("{{\"status\":\"ok\",\"id\":{next}}}\n")
            }
            "get" => match jobs.pop() {
                None => "{\"status\":\"no-job\"}\n".to_owned(),
                Some((id, put)) => {
                    let rest = put.split_once("\"job\":").unwrap().1;
                    let job = rest.rsplit_once(",\"pri\":").unwrap().0;
                    let put: Value = serde_json::from_str(&put).unwrap();
                    let (pri, queue) = (&put["pri"], &put["queue"]);
                    let reply = format!(
                        "{{\"status\":\"ok\",\"id\":{id},\"job\":{job},\"pri\":{pri},\
                         \"queue\":{queue}}}\n"
                    );
                    spoil(id, &reply)
                }
            },
            _ => "{\"status\":\"ok\"}\n".to_owned(),
        }
    })
}

#[test]
fn wrong_reply_of_a_server_fails_the_run() {
    let honest = faulty_server(|_, reply| reply.to_owned());
    check_cycles(&measure(honest, "cycle -n 90 -c 1"));

    let changed = faulty_server(|_, reply| reply.replacen("\"data\":\"", "\"data\":\"x", 1));
    let error = failure(changed, "cycle -n 90 -c 1");
    assert!(error.contains("never put"), "{error}");

    let mut first = None;
    let twice =
        faulty_server(move |_, reply| first.get_or_insert_with(|| reply.to_owned()).clone());
    let error = failure(twice, "cycle -n 90 -c 1");
    assert!(error.contains("delivered twice"), "{error}");

    let renumbered = faulty_server(|id, reply| reply.replacen(&id.to_string(), "77", 1));
    let error = failure(renumbered, "cycle -n 90 -c 1");
    assert!(error.contains("delivered as id 77"), "{error}");

    let empty = faulty_server(|_, _| "{\"status\":\"no-job\"}\n".to_owned());
    let error = failure(empty, "cycle -n 90 -c 1");
    assert!(error.contains("found no job"), "{error}");

    // Last in, first out is no order by priority.
    let unordered = faulty_server(|_, reply| reply.to_owned());
    let error = failure(unordered, "drain -n 90 -c 1");
    assert!(error.contains("though it was in the queue before"), "{error}");

    let refusing = scripted_server(|_| "{\"status\":\"error\",\"error\":\"no room\"}\n".to_owned());
    let error = failure(refusing, "cycle -n 90 -c 1");
    assert!(error.contains("answered a put") && error.contains("no room"), "{error}");

    let silent = scripted_server(|_| String::new());
    let error = failure(silent, "cycle -n 90 -c 1 --patience 100ms");
    assert!(error.contains("silent"), "{error}");

    let unsolicited = scripted_server(|_| "{\"status\":\"ok\",\"id\":1}\n".repeat(2));
    let error = failure(unsolicited, "put -n 1 -c 1 --keep");
    assert!(error.contains("without being asked"), "{error}");
}

#[test]
fn absent_or_vanished_server_is_named_in_the_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let goes = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let error = failure(address, "cycle -n 3 -c 1");
    assert!(error.contains("closed a connection") || error.contains("broke"), "{error}");
    goes.join().unwrap();
    let error = failure(address, "cycle -n 3 -c 1");
    assert!(error.contains("there is no listener"), "{error}");
}

#[test]
fn generator_drives_an_echo_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..count]).unwrap();
                }
            });
        }
    });
    check_cycles(&measure(address, "cycle --protocol echo -n 3000 -c 4 -d 8 --queues 2"));
    check_cycles(&measure(address, "mixed --protocol echo --backlog 50 -n 300 -c 4"));
    measure(address, "drain --protocol echo -n 300 -c 4");
}

/// Starts another server on a free port; None if this machine does not have it.
fn other(program: &str, arguments: impl Fn(u16) -> Vec<String>) -> Option<(Process, SocketAddr)> {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let child = Command::new(program)
        .args(arguments(address.port()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = child else {
        eprintln!("{program} is not installed: not tried");
        return None;
    };
    let process = Process(child);
    for _ in 0..500 {
        if TcpStream::connect(address).is_ok() {
            return Some((process, address));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{program} does not listen");
}

fn check_other(address: SocketAddr, protocol: &str) {
    for load in [
        "put -n 500 -c 2 -d 4 --queues 3",
        "drain -n 600 -c 1 --queues 3",
        "cycle -n 3000 -c 4 -d 8 --queues 3",
        "mixed --backlog 500 -n 600 -c 4",
    ] {
        let report = measure(address, &format!("{load} --protocol {protocol}"));
        assert_eq!(report["protocol"], protocol);
        assert_eq!(report["jobs"]["put"], report["jobs"]["deleted"], "{load}");
    }
}

#[test]
fn generator_drives_the_listener_for_clients_of_beanstalkd() {
    let (process, address) = serve("--listen off --http off --beanstalkd 127.0.0.1:0");
    check_other(address, "beanstalkd");
    let arguments = "wait --waiters 4 -n 200 -c 2 --protocol beanstalkd --server-pid";
    let report = measure(address, &format!("{arguments} {}", process.0.id()));
    assert_eq!(report["jobs"]["deleted"], 100);
    if cfg!(target_os = "linux") {
        assert!(report["server"]["cpu"]["microseconds_per_request"].is_number(), "{report}");
    }
    let error = failure(address, "cycle -n 3 -c 1 --protocol redis");
    assert!(error.contains("no Redis") || error.contains("set-up"), "{error}");
}

#[test]
fn generator_drives_beanstalkd() {
    let words = |port: u16| ["-l", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned).into();
    let Some((_process, address)) = other("beanstalkd", words) else { return };
    check_other(address, "beanstalkd");
    let report = measure(address, "wait --waiters 4 -n 200 -c 2 --protocol beanstalkd");
    assert_eq!(report["jobs"]["deleted"], 100);
    let error = failure(address, "cycle -n 3 -c 1 --protocol redis");
    assert!(error.contains("no Redis") || error.contains("set-up"), "{error}");
}

#[test]
fn generator_drives_redis() {
    let words = |port: u16| {
        let port = port.to_string();
        let words = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"];
        words.map(str::to_owned).into()
    };
    let Some((_process, address)) = other(&redis_program(), words) else { return };
    check_other(address, "redis");
    let error = failure(address, "wait -n 3 -c 1 --protocol redis");
    assert!(error.contains("cannot wait"), "{error}");
}
