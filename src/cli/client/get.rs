//! `jobcentre get`: takes jobs, prints them or runs a command for each, and deletes them.

use super::ClientArgs;
use super::completions::queue_names;
use super::failure::{Exit, Failure, Outcome};
use super::fields::JOB_FIELDS;
use super::line_client::{LineClient, Reply};
use super::output::{Column, Meaning, OutputArgs, column};
use super::payload::payload_bytes;
use super::record::Record;
use super::request::Request;
use super::units::jobs;
use super::values::parse_time;
use crate::reactor::Clock;
use clap::Args;
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Shortest and longest time between two renewals of a lease.
const RENEWAL_MIN: Duration = Duration::from_millis(50);
const RENEWAL_MAX: Duration = Duration::from_secs(10);

/// Take jobs out of queues, print them, and delete them.
///
/// A job is deleted once it is printed. With --hold it is kept reserved until stdin or this command
/// ends, and goes back then; if the connection is lost before, the command fails. With --exec the
/// command gets the payload on stdin, and JOBCENTRE_JOB_ID and JOBCENTRE_QUEUE in its environment:
/// exit status 0 completes the job, another one counts as a failed attempt. A lease (put --ttr) is
/// renewed meanwhile.
#[expect(clippy::doc_markdown, reason = "this is what --help prints")]
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre get mail -o raw
  jobcentre get mail urgent --wait=5s --ignore-missing
  jobcentre get numbers --count 3 --exec 'wc -c'")]
pub(in crate::cli) struct Get {
    /// The queues: the most urgent job of all of them comes first.
    #[arg(required = true, value_name = "QUEUE", add = queue_names())]
    queues: Vec<String>,

    /// Wait for a job, as long as it takes or for this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time, require_equals = true)]
    #[expect(clippy::option_option, reason = "the flag without a value waits for any time")]
    wait: Option<Option<Duration>>,

    /// Take this many jobs, or as many as there are.
    #[arg(long, short, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,

    /// Do not delete: give the jobs back at the end of stdin.
    #[arg(long, conflicts_with = "exec")]
    hold: bool,

    /// Run this command of the shell for each job.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// The columns of a job that was taken.
const GET_COLUMNS: &[Column] = &[
    column("id", "id", Meaning::Exact),
    column("queue", "queue", Meaning::Text),
    column("pri", "pri", Meaning::Exact),
    column("payload", "payload", Meaning::Json),
];

/// Whether a text is a time with its unit.
fn is_time(text: &str) -> bool {
    text.ends_with(|last: char| last.is_ascii_lowercase()) && parse_time(text).is_ok()
}

impl Get {
    pub(super) fn run(&self) -> Outcome {
        if let (Some(None), Some(time)) = (self.wait, self.queues.iter().find(|it| is_time(it))) {
            return Err(Failure::usage(format!(
                "'{time}' is taken as a queue, and the wait has no end: write --wait={time}, or \
                 --wait=3650d if a queue has this name"
            )));
        }
        self.output.check(GET_COLUMNS, JOB_FIELDS)?;
        let mut client = self.client.line_client()?;
        let mut printer = self.exec.is_none().then(|| self.output.printer(GET_COLUMNS));
        let (mut taken, mut failed, mut held) = (0, 0, Vec::new());
        while taken < self.count {
            let Some(job) = self.reserve(&mut client)? else { break };
            taken += 1;
            match (&self.exec, &mut printer) {
                (Some(command), _) => failed += u64::from(!run(command, &job, &mut client)?),
                (None, Some(printer)) => {
                    printer.row(&job);
                    if !self.hold {
                        // What could not be printed goes back when the connection ends.
                        printer.flush()?;
                        if printer.is_closed() {
                            return Ok(());
                        }
                        finish(&mut client, Request::new("delete"), &job)?;
                    } else if let Some(next) = renew(&mut client, &job)? {
                        held.push((job, next));
                    }
                }
                (None, None) => {}
            }
        }
        if let Some(mut printer) = printer {
            printer.flush()?;
            if self.hold && taken > 0 {
                super::print_note("reserved until the end of stdin, or SIGINT");
                hold(&mut client, held)?;
            }
            printer.finish()?;
        }
        match (taken, failed) {
            (0, _) => Err(Failure::nothing("there is no job")),
            (_, 0) => Ok(()),
            (taken, failed) if taken == failed => {
                Err(Failure::failed(format!("the command failed for {}", jobs(failed))))
            }
            (taken, failed) => {
                let sentence = format!("the command failed for {failed} of {}", jobs(taken));
                Err(Failure::new(Exit::Partly, sentence))
            }
        }
    }

    /// The next job, if there is one in time.
    fn reserve(&self, client: &mut LineClient) -> Outcome<Option<Record>> {
        let request = Request::new("get").texts("queues", &self.queues).number("limit", 1);
        let request = match self.wait {
            None => request,
            Some(None) => request.json("wait", "true"),
            Some(Some(time)) => request.time("timeout", time),
        };
        if let Some(wait) = self.wait {
            client.allow_wait(wait);
        }
        let answer = client.ask(request, "there is no job")?;
        let mut jobs = answer.records("jobs")?;
        let Some(mut job) = jobs.pop() else { return Ok(None) };
        job.rename("job", "payload");
        Ok(Some(job))
    }
}

/// Says what became of a job.
fn finish(client: &mut LineClient, request: Request, job: &Record) -> Outcome {
    let id = job.number("id").unwrap_or_default();
    let missing = format!("job {id} was deleted or taken back meanwhile");
    client.ask(request.number("id", id), &missing).map(|_| ())
}

/// Runs the command for a job, and reports its end. Returns whether it was done.
fn run(command: &str, job: &Record, client: &mut LineClient) -> Outcome<bool> {
    let explain = |error: io::Error| Failure::failed(format!("cannot run sh: {error}"));
    let renewal = renew(client, job)?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .env("JOBCENTRE_JOB_ID", job.at("id").unwrap_or_default())
        .env("JOBCENTRE_QUEUE", job.text("queue").unwrap_or_default())
        .stdin(Stdio::piped())
        .spawn()
        .map_err(explain)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command need not read all of it.
        let _ = stdin.write_all(&payload_bytes(job));
    }
    let status = match renewal {
        None => child.wait(),
        Some(first) => wait_and_renew(&mut child, (client, job), first),
    };
    let status = status.map_err(explain)?;
    if status.success() {
        finish(client, Request::new("done"), job)?;
        return Ok(true);
    }
    let id = job.number("id").unwrap_or_default();
    crate::cli::print_error(format!("job {id}: {status}"));
    let request = Request::new("fail").text("error", "CommandFailed");
    finish(client, request.text("message", &status.to_string()), job)?;
    Ok(false)
}

/// Begins the lease of a job again. Returns when that is due once more; `None`: it has no lease, or
/// is gone, which the report of its end will say.
#[expect(clippy::disallowed_methods, reason = "client programs read the clock of the machine")]
fn renew(client: &mut LineClient, job: &Record) -> Outcome<Option<Duration>> {
    let id = job.number("id").unwrap_or_default();
    let request = Request::new("touch").number("id", id).json("ttr", "null");
    let Reply::Ok(job) = client.reply(request)? else { return Ok(None) };
    let until = job.text("lease.until").and_then(|text| text.parse::<Timestamp>().ok());
    Ok(until.map(|until| {
        // The clock of the server may be another one.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = Duration::from_millis(u64::try_from(until.as_millisecond()).unwrap_or(0));
        (until.saturating_sub(now) / 3).clamp(RENEWAL_MIN, RENEWAL_MAX)
    }))
}

/// Waits for the end of stdin, and renews leases meanwhile: those of these jobs, which have some,
/// the first time after so long.
fn hold(client: &mut LineClient, mut leased: Vec<(Record, Duration)>) -> Outcome {
    let failed = |error: io::Error| Failure::failed(format!("cannot read stdin: {error}"));
    let (stdin, mut clock) = (io::stdin(), Clock::start());
    let first = |leased: &[(Record, Duration)]| leased.iter().map(|(_, next)| *next).min();
    let mut renewed_at = clock.moment();
    loop {
        let now = clock.moment();
        let left = first(&leased).map(|next| renewed_at.after(next).until(now));
        let is_due = left.is_some_and(|left| left.is_zero());
        let time = left.and_then(|left| Timespec::try_from(left).ok());
        let ready = {
            let input = PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN);
            let mut both = [input, client.poll_fd()];
            match poll(&mut both, time.as_ref()) {
                Ok(_) | Err(Errno::INTR) => both.map(|fd| !fd.revents().is_empty()),
                Err(error) => return Err(failed(error.into())),
            }
        };
        let [has_input, has_ended] = ready;
        if has_ended {
            // Nothing was asked: it is the end of the connection, and the jobs have gone back.
            client.read_more()?;
        } else if is_due {
            renewed_at = now;
            leased = renew_all(client, leased)?;
        } else if has_input && stdin.lock().read(&mut [0; 4096]).map_err(failed)? == 0 {
            return Ok(());
        }
    }
}

/// Renews the leases of these jobs, and returns those that have one still, each with when that is
/// due once more.
fn renew_all(
    client: &mut LineClient,
    leased: Vec<(Record, Duration)>,
) -> Outcome<Vec<(Record, Duration)>> {
    let mut renewed = Vec::with_capacity(leased.len());
    for (job, _) in leased {
        if let Some(next) = renew(client, &job)? {
            renewed.push((job, next));
        } else {
            let id = job.number("id").unwrap_or_default();
            super::print_note(&format!("job {id} was deleted or taken back meanwhile"));
        }
    }
    Ok(renewed)
}

/// Waits for a command, and renews the lease of its job meanwhile.
fn wait_and_renew(
    child: &mut Child,
    (client, job): (&mut LineClient, &Record),
    first: Duration,
) -> io::Result<ExitStatus> {
    let (ended, end) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut next = Some(first);
            while let Some(time) = next
                && end.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
            {
                // A connection that is lost is noticed by the report of the end.
                next = renew(client, job).unwrap_or(None);
            }
        });
        let status = child.wait();
        drop(ended);
        status
    })
}
