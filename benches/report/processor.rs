//! The processor: messages through a pipe, at full speed.
//!
//! The four message types of a job's life are mixed: jobs are added, workers are idle, accept and
//! finish. So each fourth message leads to an assignment on stdout, and each assignment is awaited
//! and counted; at the end the queue must be empty. A finished job's uuid is free again, so the
//! same text is written repeatedly, and the writer costs next to nothing.

use crate::chapters::Chapter;
use crate::metric::{Metric, Sample};
use crate::process::{Moment, peak};
use crate::scenarios::{Entry, Scenario, Sizes, Task, short};
use crate::stats::float;
use crate::targets::Programs;
use crate::targets::Target::JobCentre;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The line with a tenth of the messages.
pub(crate) const FEWER: &str = "jobcentre, a tenth of the messages";

const WORKERS: u64 = 50;
/// Messages of a group: each worker has one job from its beginning to its end.
const GROUP: u64 = 4 * WORKERS;

/// Its only scenario.
pub(crate) fn scenario(sizes: &Sizes) -> Scenario {
    let entry = |label: &str, messages| Entry {
        label: label.to_owned(),
        target: JobCentre,
        task: Task::Messages { messages },
    };
    let count = sizes.messages;
    Scenario {
        id: "processor".to_owned(),
        group: Chapter::Processor,
        title: format!("{} messages through a pipe, {WORKERS} workers", short(count)),
        entries: vec![entry(JobCentre.name(), count), entry(FEWER, count / 10)],
        columns: vec![Metric::Messages, Metric::Cpu, Metric::Share, Metric::PeakMemory],
        compared: Vec::new(),
        note: Some(
            "jobs are added, workers are idle, accept and finish, in equal parts, a message of \
             about 250 B each; a request is a message. A thread of the report writes, another \
             counts the assignments, both on the generator's core",
        ),
    }
}

/// A processor between two pipes. It is killed when this is dropped.
struct Processor(Child);

impl Drop for Processor {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has this many messages processed.
pub(crate) fn measure(programs: &Programs, messages: u64) -> Result<Sample, String> {
    let mut processor = start(programs)?;
    let pid = processor.0.id();
    let mut input = processor.0.stdin.take().ok_or("no stdin")?;
    let mut output =
        BufReader::with_capacity(1 << 16, processor.0.stdout.take().ok_or("no stdout")?);
    let groups = messages / GROUP;
    let (text, list) = (group(), message("job_queue/list_job_queue", "report", json!({})));
    // Once it answers, it has started.
    say(&mut input, list.as_bytes())?;
    result(&mut output)?;
    let (before, start) = (Moment::now(pid)?, Instant::now());
    let (assigned, rest) = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            (0..groups).try_for_each(|_| say(&mut input, text.as_bytes()))?;
            say(&mut input, list.as_bytes())
        });
        let read = result(&mut output);
        let written = writing.join().unwrap_or_else(|_| Err("the writer panicked".to_owned()));
        written.and(read)
    })?;
    let (elapsed, after) = (start.elapsed().as_secs_f64(), Moment::now(pid)?);
    let peak = peak(pid)?;
    if assigned != groups * WORKERS || rest != json!([]) {
        return Err(format!("{assigned} jobs were assigned, and there are left: {rest}"));
    }
    drop(input);
    let status = processor.0.wait().map_err(|error| format!("no processor: {error}"))?;
    if !status.success() {
        return Err(format!("the processor ended badly ({status})"));
    }
    let sent = float(groups * GROUP);
    let nanos = after.server - before.server;
    let values = [
        (Metric::Messages, sent / elapsed),
        (Metric::Cpu, float(nanos) / 1e3 / sent),
        (Metric::Share, before.share_until(&after)),
        (Metric::PeakMemory, float(peak) / float(1 << 20)),
    ];
    let raw = json!({
        "messages": groups * GROUP,
        "bytes": groups * text.len() as u64,
        "assigned": assigned,
        "seconds": elapsed,
        "server_cpu_nanos": nanos,
        "peak_bytes": peak,
    });
    Ok(Sample { values: values.into(), others: before.others_until(&after), raw })
}

fn start(programs: &Programs) -> Result<Processor, String> {
    let program = programs.program(JobCentre).ok_or("absent")?;
    let mut command = match &programs.cores {
        Some(cores) => cores.command(cores.server, program),
        None => Command::new(program),
    };
    for (name, _) in std::env::vars_os() {
        // Settings of the user are no settings of this measurement.
        let name = name.to_string_lossy();
        if ["JOBCENTRE_", "NAMESPACE_", "SERVICE_"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(&*name);
        }
    }
    let log = programs.log(JobCentre);
    let stderr = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    // Messages that are written again and again do not get old in an hour.
    command.args(["serve", "--processor", "--tick", "3600000", "--log-level", "warn"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
    let child = command.spawn().map_err(|error| format!("does not start: {error}"))?;
    Ok(Processor(child))
}

fn say(input: &mut ChildStdin, text: &[u8]) -> Result<(), String> {
    input.write_all(text).map_err(|error| format!("the processor does not read: {error}"))
}

/// Reads on to the next list: how many assignments came before, and the list.
fn result(output: &mut impl BufRead) -> Result<(u64, Value), String> {
    let (mut assigned, mut line) = (0, String::new());
    loop {
        line.clear();
        let read = output.read_line(&mut line);
        if read.map_err(|error| format!("the processor cannot be read: {error}"))? == 0 {
            return Err("the processor has ended".to_owned());
        }
        if line.contains("/job_assignment\"") {
            assigned += 1;
            continue;
        }
        let message: Value = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        return Ok((assigned, message["payload"].clone()));
    }
}

/// The lives of as many jobs as there are workers. A worker that finishes is idle, so all but the
/// first group are assigned when they are added.
fn group() -> String {
    let mut text = String::new();
    for worker in 0..WORKERS {
        let job = json!({ "uuid": uuid("job", worker), "file": "/in/video.mp4" });
        text += &message("job_queue/add_job", &uuid("creator", 0), job);
    }
    for what in ["worker_idle", "job_accepted", "job_finished"] {
        for worker in 0..WORKERS {
            let name = uuid("worker", worker);
            let about = match what {
                "worker_idle" => json!({}),
                _ => json!({ "uuid": uuid("job", worker) }),
            };
            text += &message(&format!("job_queue/workers/{name}/{what}"), &name, about);
        }
    }
    text
}

/// As long as such names usually are.
fn uuid(kind: &str, number: u64) -> String {
    let mut text = format!("{kind}-{number:08}-");
    while text.len() < 36 {
        text.push('0');
    }
    text
}

fn message(topic: &str, from: &str, mut payload: Value) -> String {
    payload["queue_name"] = "encode".into();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let message = json!({
        "topic": format!("default/{topic}"),
        "service_name": "report",
        "service_uuid": from,
        "service_host": "localhost",
        "created_at": moment.to_string(),
        "payload": payload,
    });
    format!("{message}\n")
}
