//! `GET /metrics`: figures compared with the requests, and the bound on the work of one pass.

#![expect(clippy::float_cmp, reason = "these are whole numbers and halves")]

mod driver;

use crate::support::{Server as Process, TempDir};
use driver::SimDriver;
use jobcentre::base::limits::{
    HTTP_CHUNK_BYTES, METRICS_QUEUES_MAX, STATS_QUEUES_PER_STEP, STATS_SLOTS_PER_STEP,
};
use jobcentre::base::time::Now;
use jobcentre::engine::{CommandExecutor, Engine};
use jobcentre::model::command::Command;
use jobcentre::model::driver::Protocol;
use jobcentre::model::id::{ClientId, Ticket};
use jobcentre::model::indexed_queue::IndexedCommand;
use jobcentre::model::job::{Encoding, Payload, Priority, TieBreak};
use jobcentre::model::reply::Reply;
use jobcentre::model::stats::{StatsPage, StatsScan};
use jobcentre::model::worker::{Worker, WorkerCommand};
use prometheus_parse::{Sample, Scrape, Value};
use std::collections::HashSet;
use std::time::Duration;

/// A scrape, as a parser of the format understands it.
struct Figures(Scrape);

impl Figures {
    fn parse(text: &str) -> Self {
        Self(Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap())
    }

    fn samples(&self, metric: &str) -> impl Iterator<Item = &Sample> {
        self.0.samples.iter().filter(move |sample| sample.metric == metric)
    }

    /// The one sample of a metric that has these labels.
    fn of(&self, metric: &str, labels: &[(&str, &str)]) -> f64 {
        let fits = |sample: &&Sample| {
            labels.iter().all(|(name, value)| sample.labels.get(name) == Some(value))
        };
        let found: Vec<_> = self.samples(metric).filter(fits).collect();
        assert_eq!(found.len(), 1, "{metric} {labels:?}");
        match found[0].value {
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
            ref other => panic!("{metric} is {other:?}"),
        }
    }

    fn counts(&self, metric: &str, label: &str, expected: &[(&str, f64)]) {
        for (value, count) in expected {
            assert_eq!(self.of(metric, &[(label, value)]), *count, "{value}");
        }
    }
}

fn put(queue: &str) -> String {
    format!("{{\"request\":\"put\",\"queue\":\"{queue}\",\"pri\":1,\"job\":{{}}}}\n")
}

#[test]
fn metrics_match_the_requests() {
    let mut driver = SimDriver::new();
    let client = driver.open(Protocol::JobCentre);
    let mut sent = 0;
    let mut received = 0;
    let mut say = |driver: &mut SimDriver, text: &str| {
        sent += text.len();
        driver.send(client, text.as_bytes());
        received += driver.pass(client).len();
    };
    for _ in 0..5 {
        say(&mut driver, &put("a"));
    }
    driver.sleep(Duration::from_millis(1_500));
    say(&mut driver, &put("b"));
    say(&mut driver, "{\"request\":\"get\",\"queues\":[\"a\"]}\n");
    say(&mut driver, "{\"request\":\"get\",\"queues\":[\"a\"]}\n");
    say(&mut driver, "{\"request\":\"abort\",\"id\":1}\n{\"request\":\"delete\",\"id\":2}\n");
    say(&mut driver, "{\"request\":\"get\",\"queues\":[\"c\"],\"wait\":true}\n");
    driver.sleep(Duration::from_millis(500));
    let other = driver.open(Protocol::JobCentre);
    driver.send(other, put("d").as_bytes());
    driver.pass(other);
    driver.close(other);
    let figures = Figures::parse(&driver.scrape());

    let events = [("put", 7.), ("reserved", 2.), ("released", 1.), ("deleted", 1.), ("popped", 0.)];
    figures.counts("jobcentre_job_events_total", "event", &events);
    assert_eq!(figures.of("jobcentre_jobs", &[]), 6.);
    assert_eq!(figures.of("jobcentre_waiters", &[]), 1.);
    for (queue, ready) in [("a", 4.), ("b", 1.), ("d", 1.)] {
        let of =
            |status| figures.of("jobcentre_queue_jobs", &[("queue", queue), ("status", status)]);
        assert_eq!((of("ready"), of("reserved"), of("buried")), (ready, 0., 0.), "{queue}");
    }
    let ages = [("a", 2.), ("b", 0.5), ("d", 0.)];
    figures.counts("jobcentre_queue_oldest_ready_seconds", "queue", &ages);
    assert_eq!(figures.of("jobcentre_other_queues", &[]), 0.);
    let open = [("job-centre", 1.), ("http", 1.), ("pinpriq", 0.)];
    figures.counts("jobcentre_connections", "protocol", &open);
    let accepted = [("job-centre", 2.), ("http", 1.), ("pinpriq", 0.)];
    figures.counts("jobcentre_connections_accepted_total", "protocol", &accepted);
    let bytes = f64::from(u32::try_from(sent + put("d").len()).unwrap());
    figures.counts("jobcentre_received_bytes_total", "protocol", &[("job-centre", bytes)]);
    let received = f64::from(u32::try_from(received).unwrap());
    assert!(figures.of("jobcentre_sent_bytes_total", &[("protocol", "job-centre")]) > received);
    // Two jobs were handed out after a second and a half.
    assert_eq!(figures.of("jobcentre_job_ready_seconds_count", &[]), 2.);
    assert_eq!(figures.of("jobcentre_job_ready_seconds_sum", &[]), 3.);
    // Each pass of this driver takes a millisecond. The get that waits is not answered, and the
    // pass that tells of all this is not over.
    assert_eq!(figures.of("jobcentre_command_seconds_count", &[]), 11.);
    assert!((figures.of("jobcentre_command_seconds_sum", &[]) - 0.011).abs() < 1e-9);
    let passes = figures.of("jobcentre_loop_pass_seconds_count", &[]);
    assert!((figures.of("jobcentre_loop_pass_seconds_sum", &[]) - passes / 1e3).abs() < 1e-9);
    assert_eq!(figures.of("jobcentre_loop_longest_pass_seconds", &[]), 0.001);
    assert_eq!(figures.of("jobcentre_loop_longest_pass_cpu_seconds", &[]), 0.0005);
    assert_eq!(figures.samples("jobcentre_journal_full").count(), 0, "there is no journal");
}

#[test]
fn stats_of_ten_thousand_queues_are_bounded_in_each_pass() {
    const QUEUES: usize = 10_000;
    let mut driver = SimDriver::new();
    let client = driver.open(Protocol::JobCentre);
    for number in 0..QUEUES {
        // Every tenth queue has two jobs.
        for _ in 0..=usize::from(number % 10 == 0) {
            driver.send(client, put(&format!("q{number}")).as_bytes());
            driver.pass(client);
        }
    }
    (driver.passes, driver.most) = (0, 0);
    let text = driver.scrape_with(|driver| {
        // Another client is answered in the pass that reads the request.
        driver.send(client, b"{\"request\":\"get\",\"queues\":[\"none\"]}\n");
        assert!(!driver.pass(client).is_empty());
    });
    let least = QUEUES / STATS_QUEUES_PER_STEP
        + QUEUES / STATS_SLOTS_PER_STEP as usize
        + METRICS_QUEUES_MAX / 64;
    assert!(driver.passes >= least, "only {} passes", driver.passes);
    assert!(driver.most <= HTTP_CHUNK_BYTES, "{} bytes at once", driver.most);
    let figures = Figures::parse(&text);
    let name = |sample: &Sample| sample.labels.get("queue").unwrap().to_owned();
    let named: HashSet<String> = figures.samples("jobcentre_queue_jobs").map(name).collect();
    let large: HashSet<String> = (0..QUEUES).step_by(10).map(|at| format!("q{at}")).collect();
    assert_eq!(named, large, "the queues with the most jobs are listed");
    assert_eq!(figures.of("jobcentre_other_queues", &[]), 9_000.);
    figures.counts("jobcentre_other_queue_jobs", "status", &[("ready", 9_000.), ("reserved", 0.)]);
    let ready = |sample: &Sample| match sample.value {
        Value::Gauge(count) if sample.labels.get("status") == Some("ready") => count,
        _ => 0.,
    };
    assert_eq!(figures.samples("jobcentre_queue_jobs").map(ready).sum::<f64>(), 2_000.);
}

#[test]
fn stats_pages_are_bounded_and_complete() {
    const JOBS: u32 = 30_000;
    let mut engine = Engine::in_memory(3);
    let mut serial = 0;
    let mut ask = |command: &Command<'_>| {
        serial += 1;
        let client = ClientId { index: 1, generation: 1 };
        engine.submit(Ticket { client, serial }, command, Now::default());
        let mut page = StatsPage::default();
        while let Some(completion) = engine.poll_completion() {
            if let Reply::Stats(part) = completion.reply {
                page = part.clone();
            }
        }
        page
    };
    for number in 0..JOBS {
        ask(&Command::Put {
            queue: (number % 7_000).to_string().as_bytes(),
            priority: Priority::Small(0),
            tie_break: TieBreak::Fifo,
            payload: Payload { encoding: Encoding::Json, bytes: b"{}" },
            options: None,
        });
    }
    ask(&Command::Indexed(IndexedCommand::CreateQueue { queue: Some(b"declared") }));
    let worker = Worker { name: "w", url: "http://w", max_jobs: 1, queues: None };
    ask(&Command::Work(WorkerCommand::Register(worker)));
    let (mut next, mut serials, mut jobs) = (Some(0), HashSet::new(), 0);
    while let Some(from) = next {
        let page = ask(&Command::Indexed(IndexedCommand::Stats(StatsScan::Queues(from))));
        assert!(page.queues.len() <= STATS_QUEUES_PER_STEP && page.counts.is_empty());
        jobs += page.queues.iter().map(|queue| queue.jobs).sum::<u32>();
        serials.extend(page.queues.iter().map(|queue| queue.serial));
        next = page.next;
    }
    assert_eq!((serials.len(), jobs), (7_001, JOBS));
    (next, jobs) = (Some(0), 0);
    while let Some(from) = next {
        let page = ask(&Command::Indexed(IndexedCommand::Stats(StatsScan::Jobs(from))));
        let ready: u64 = page.counts.iter().map(|(_, tally)| tally.ready).sum();
        assert!(page.queues.is_empty() && ready <= u64::from(STATS_SLOTS_PER_STEP));
        assert!(page.counts.iter().all(|(serial, _)| serials.contains(serial)));
        jobs += u32::try_from(ready).unwrap();
        next = page.next;
    }
    assert_eq!(jobs, JOBS);
}

#[test]
fn process_exports_metrics_of_loop_memory_and_journal() {
    let dir = TempDir::new();
    let server = Process::start(&["--data", dir.text(), "--http", ":0"]);
    let mut client = server.connect();
    for _ in 0..3 {
        client.ask(put("a").trim_end());
    }
    let mut http = crate::support::Client::connect(server.address_of("http"));
    http.send_bytes(b"GET /metrics HTTP/1.0\r\n\r\n");
    let answer = http.receive_all();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let figures = Figures::parse(text);
    assert_eq!(figures.of("jobcentre_jobs", &[]), 3.);
    assert_eq!(figures.of("jobcentre_journal_records_total", &[]), 3.);
    assert!(figures.of("jobcentre_journal_sync_seconds_count", &[]) >= 1.);
    assert!(figures.of("jobcentre_journal_sync_seconds_sum", &[]) > 0.);
    assert!(figures.of("jobcentre_journal_bytes", &[("kind", "live")]) > 0.);
    // The three puts at least, each of which had to wait for the disk.
    assert!(figures.of("jobcentre_command_seconds_count", &[]) >= 3.);
    assert!(figures.of("jobcentre_loop_pass_seconds_count", &[]) >= 3.);
    if cfg!(target_os = "linux") {
        assert!(figures.of("jobcentre_resident_memory_bytes", &[]) > 1e6);
    }
}
