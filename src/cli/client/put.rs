//! `jobcentre put`: one job, or one for each line of stdin ([`super::put_lines`]).

use super::ClientArgs;
use super::completions::queue_names;
use super::failure::{Failure, Outcome};
use super::output::{Column, Meaning, OutputArgs, column};
use super::put_lines::{LineOptions, put_lines};
use super::put_request::{PayloadKind, PutRequest};
use super::request::Request;
use super::values::{parse_priority, parse_time};
use clap::{Args, ValueEnum};
use std::io::Read as _;
use std::time::Duration;

/// Put a job into a queue, and print its id.
///
/// JOB is JSON of any kind; with --text or --bytes it is taken as it is. `-` reads it from stdin.
/// With --lines each line of stdin is a job: up to 1,000 are on their way at a time, and the ids
/// are printed in the order of the lines. Lines that are refused are named on stderr by their
/// numbers. After SIGINT or SIGTERM no more lines are read, and the command says how many the
/// server has acknowledged.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre put mail '{\"to\":\"ann\"}'
  jobcentre put mail '{\"to\":\"bob\"}' --pri 9 --delay 10s --max-attempts 5
  echo '{\"to\":\"eve\"}' | jobcentre put mail -
  seq 3 | jobcentre put numbers --lines
  jobcentre put notes --text 'any text'")]
pub(in crate::cli) struct Put {
    /// The queue.
    #[arg(add = queue_names())]
    queue: String,

    /// The job, or - for stdin.
    #[arg(required_unless_present_any = ["lines", "null"], value_name = "JOB")]
    #[arg(allow_hyphen_values = true)]
    job: Option<String>,

    /// Its priority, from 0 on: bigger is more urgent.
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(allow_negative_numbers = true, value_parser = parse_priority)]
    pri: u64,

    /// Hand it out after this time only.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    delay: Option<Duration>,

    /// Remove it if it still waits after this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    ttl: Option<Duration>,

    /// Take it back from a client that has it for longer.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    ttr: Option<Duration>,

    /// Bury it after this many attempts [default: any number of them].
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// Keep it with its result for this time after its completion.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    keep_result: Option<Duration>,

    /// A key that is unique in the queue.
    #[arg(long, value_name = "TEXT")]
    key: Option<String>,

    /// What happens if the key is taken.
    #[arg(long, value_enum, value_name = "WHAT", requires = "key")]
    on_duplicate: Option<OnDuplicate>,

    /// The group of which it is a member.
    #[arg(long, value_name = "TEXT")]
    group: Option<String>,

    /// Jobs that must be done first, with commas between them.
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    after: Vec<u64>,

    /// JOB is a text, and is put as a JSON string.
    #[arg(long, conflicts_with = "bytes")]
    text: bool,

    /// JOB is put as these bytes.
    #[arg(long)]
    bytes: bool,

    /// Put each line of stdin.
    #[arg(long, conflicts_with = "job")]
    lines: bool,

    /// Put each text of stdin that ends with a zero byte.
    #[arg(long, conflicts_with_all = ["job", "lines"])]
    null: bool,

    /// Put at most this many lines a second.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,

    /// Do not print ids.
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// What becomes of the put if the key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnDuplicate {
    Keep,
    Replace,
    Reject,
}

const PUT_COLUMNS: &[Column] = &[column("id", "id", Meaning::Exact)];

impl Put {
    /// The request for a payload.
    fn request(&self) -> PutRequest {
        let start = Request::new("put").text("queue", &self.queue).line();
        let on_duplicate = self.on_duplicate.map(|it| match it {
            OnDuplicate::Keep => "keep",
            OnDuplicate::Replace => "replace",
            OnDuplicate::Reject => "reject",
        });
        let after = self.after.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let end = Request::empty()
            .number("pri", self.pri)
            .maybe(self.delay, |request, time| request.time("delay", time))
            .maybe(self.ttl, |request, time| request.time("ttl", time))
            .maybe(self.ttr, |request, time| request.time("ttr", time))
            .maybe(self.max_attempts, |request, most| request.number("max_attempts", most.into()))
            .maybe(self.keep_result, |request, time| request.time("keep_result", time))
            .maybe(self.key.as_ref(), |request, key| request.text("key", key))
            .maybe(on_duplicate, |request, word| request.text("on_duplicate", word))
            .maybe(self.group.as_ref(), |request, group| request.text("group", group))
            .maybe((!after.is_empty()).then_some(after), |request, after| {
                request.json("after", format!("[{after}]"))
            })
            .line();
        let kind = match (self.text, self.bytes) {
            (true, _) => PayloadKind::Text,
            (_, true) => PayloadKind::Bytes,
            _ => PayloadKind::Json,
        };
        let start = start.strip_suffix(b"}\n").unwrap_or(&start).to_vec();
        PutRequest::new(start, end, kind)
    }

    pub(super) fn run(&self) -> Outcome {
        self.output.check(PUT_COLUMNS, &["duplicate", "state"])?;
        let request = self.request();
        if self.lines || self.null {
            if self.output.is_said() {
                let why = "-o and --columns are for one job: --lines and --null print ids only";
                return Err(Failure::usage(why));
            }
            let separator = if self.null { 0 } else { b'\n' };
            let (rate, is_quiet) = (self.rate, self.quiet);
            let skips_blank = request.kind() == PayloadKind::Json;
            let drops_cr = self.lines && request.kind() != PayloadKind::Bytes;
            let options = LineOptions { separator, rate, is_quiet, skips_blank, drops_cr };
            return put_lines(&mut self.client.line_client()?, &request, options);
        }
        let argument = self.job.as_deref().unwrap_or_default();
        let payload = if argument == "-" { read_stdin()? } else { argument.as_bytes().to_vec() };
        let mut line = Vec::new();
        request.write(&payload, &mut line).map_err(|why| Failure::failed(format!("JOB: {why}")))?;
        let mut client = self.client.line_client()?;
        client.send(&line)?;
        let record = client.answered("the server refuses the job")?;
        if record.is_true("duplicate") {
            let id = record.number("id").unwrap_or_default();
            super::print_note(&format!("job {id} has this key already: it stays"));
        }
        if self.quiet {
            return Ok(());
        }
        if self.output.is_said() {
            let mut printer = self.output.printer(PUT_COLUMNS);
            printer.row(&record);
            return printer.finish();
        }
        let id = record.at("id").unwrap_or_default();
        super::local::print(format!("{id}\n").as_bytes())
            .map_err(|failure| Failure::failed(format!("{}; job {id} is put", failure.sentence)))
    }
}

/// All of stdin.
fn read_stdin() -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().read_to_end(&mut bytes);
    read.map_err(|error| Failure::failed(format!("cannot read stdin: {error}")))?;
    Ok(bytes)
}
