//! Verbs that ask whether a server is there and well: `ping`, `health`, `latency`.

use super::ClientArgs;
use super::failure::{Exit, Failure, Outcome};
use super::line_client::{LineClient, Reply};
use super::output::{Column, Meaning, OutputArgs, column};
use super::record::Record;
use super::request::Request;
use crate::cli::bench::{float, seconds};
use crate::reactor::Clock;
use clap::Args;
use hdrhistogram::Histogram;

/// Ask the server for an answer, and print how long it took.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre ping
  jobcentre ping --url 127.0.0.1:11400 --timeout 2s")]
pub(in crate::cli) struct Ping {
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Sends a request that changes nothing, and that every user may send: a get from no queue. Returns
/// the nanoseconds until its answer.
fn ping(client: &mut LineClient, clock: &mut Clock) -> Outcome<u64> {
    let start = clock.moment();
    match client.reply(Request::new("get").texts("queues", &[""; 0]))? {
        Reply::Missing | Reply::Ok(_) => Ok(clock.moment().0 - start.0),
        Reply::Error(sentence) => Err(Failure::refused(sentence)),
    }
}

fn print(text: &str) -> Outcome {
    super::local::print(format!("{text}\n").as_bytes())
}

impl Ping {
    pub(super) fn run(&self) -> Outcome {
        let mut client = self.client.line_client()?;
        let milliseconds = seconds(ping(&mut client, &mut Clock::start())?) * 1_000.0;
        print(&format!("{} answers in {milliseconds:.3} ms", client.shown()))
    }
}

/// Exit with 0 if the server answers: a health check of containers and balancers.
///
/// A server that has users answers without a token too.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre health
  jobcentre health --ready")]
pub(in crate::cli) struct Health {
    /// The server must take jobs too: it is not drained. On a server with users this takes the
    /// right 'observe'.
    #[arg(long)]
    ready: bool,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl Health {
    pub(super) fn run(&self) -> Outcome {
        let mut client = self.client.line_client()?;
        if self.ready {
            let stats = client.ask(Request::new("stats"), "the server has no counters")?;
            if stats.is_true("draining") {
                return Err(Failure::failed("the server is being drained"));
            }
        } else {
            match ping(&mut client, &mut Clock::start()) {
                Err(failure) if failure.exit != Exit::Denied => return Err(failure),
                _ => {}
            }
        }
        print("ok")
    }
}

/// Measure how long answers of the server take, one request at a time.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre latency
  jobcentre latency -c 1000 -o json")]
pub(in crate::cli) struct Latency {
    /// This many requests.
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

const LATENCY_COLUMNS: &[Column] = &[
    column("requests", "requests", Meaning::Number),
    column("min ms", "min_ms", Meaning::Text),
    column("mean ms", "mean_ms", Meaning::Text),
    column("p50 ms", "p50_ms", Meaning::Text),
    column("p99 ms", "p99_ms", Meaning::Text),
    column("max ms", "max_ms", Meaning::Text),
];

impl Latency {
    pub(super) fn run(&self) -> Outcome {
        self.output.check(LATENCY_COLUMNS, &[])?;
        let mut client = self.client.line_client()?;
        let mut clock = Clock::start();
        let made = Histogram::<u64>::new(3);
        let mut histogram = made.map_err(|error| Failure::failed(error.to_string()))?;
        for _ in 0..self.count {
            let nanos = ping(&mut client, &mut clock)?;
            // It grows as it has to.
            histogram.record(nanos).map_err(|error| Failure::failed(error.to_string()))?;
        }
        let mut record = Record::default();
        record.push("requests", self.count.to_string());
        for (name, nanos) in [
            ("min_ms", float(histogram.min())),
            ("mean_ms", histogram.mean()),
            ("p50_ms", float(histogram.value_at_quantile(0.5))),
            ("p99_ms", float(histogram.value_at_quantile(0.99))),
            ("max_ms", float(histogram.max())),
        ] {
            record.push(name, format!("{:.3}", nanos / 1e6));
        }
        let mut printer = self.output.printer(LATENCY_COLUMNS);
        printer.row(&record);
        printer.finish()
    }
}
