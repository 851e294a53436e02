//! `jobcentre put --lines`: a job for each line of stdin, pipelined.
//!
//! Invariants: at most [`WINDOW`] requests wait for their answers, so the answers fit into the
//! buffers of both systems and neither side waits for the other; answers come in the order of the
//! requests; every line that was sent is acknowledged, refused by its number, or named as
//! unanswered when the command ends.

use super::failure::{Exit, Failure, Outcome};
use super::interrupts::Interrupts;
use super::line_client::{LineClient, Reply, parse};
use super::put_request::PutRequest;
use crate::cli::print_error;
use crate::reactor::Clock;
use memchr::memchr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, BufWriter, ErrorKind, Read as _, Stdin, Stdout, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

/// Requests that wait for their answers, at most.
const WINDOW: usize = 1_000;

/// Bytes of requests that are sent at once.
const BATCH_BYTES: usize = 64 * 1024;

const READ_BYTES: usize = 128 * 1024;

/// The longest line; the server takes 1 MiB unless it is told otherwise.
const LINE_MAX_BYTES: usize = 64 << 20;

/// How lines are put.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineOptions {
    /// The byte behind each line.
    pub(super) separator: u8,
    /// Lines a second, at most.
    pub(super) rate: Option<u32>,
    /// Ids are not printed.
    pub(super) is_quiet: bool,
    /// Lines with nothing but blanks are passed over.
    pub(super) skips_blank: bool,
    /// A carriage return before the end of a line is a part of that end.
    pub(super) drops_cr: bool,
}

/// Lines of stdin on their way.
struct LinePutter<'a> {
    client: &'a mut LineClient,
    request: &'a PutRequest,
    options: LineOptions,
    interrupts: Interrupts,
    clock: Clock,
    input: Stdin,
    /// What was read; the part before `taken` is done with, and up to `scanned` there is no other
    /// line end.
    buffer: Vec<u8>,
    taken: usize,
    scanned: usize,
    reads: bool,
    /// Lines so far.
    number: u64,
    /// The numbers of lines without an answer.
    waiting: VecDeque<u64>,
    sent: u64,
    acknowledged: u64,
    refused: u64,
    ids: BufWriter<Stdout>,
    is_stdout_closed: bool,
    /// Why ids could not be printed, if stdout was not closed by its reader.
    unprinted: Option<io::Error>,
    interrupted: bool,
}

/// Puts the lines of stdin, and prints their ids.
pub(super) fn put_lines(
    client: &mut LineClient,
    request: &PutRequest,
    options: LineOptions,
) -> Outcome {
    let mut putter = LinePutter {
        client,
        request,
        options,
        interrupts: Interrupts::install()?,
        clock: Clock::start(),
        input: io::stdin(),
        buffer: Vec::new(),
        taken: 0,
        scanned: 0,
        reads: true,
        number: 0,
        waiting: VecDeque::with_capacity(WINDOW),
        sent: 0,
        acknowledged: 0,
        refused: 0,
        ids: BufWriter::with_capacity(BATCH_BYTES, io::stdout()),
        is_stdout_closed: options.is_quiet,
        unprinted: None,
        interrupted: false,
    };
    let result = putter.run();
    putter.flush_ids();
    putter.summary(result)
}

impl LinePutter<'_> {
    fn run(&mut self) -> Outcome {
        loop {
            self.send_lines()?;
            if !self.reads && self.waiting.is_empty() && (self.interrupted || self.is_drained()) {
                return Ok(());
            }
            self.wait()?;
        }
    }

    /// Whether no line is left that was read.
    fn is_drained(&self) -> bool {
        self.taken == self.buffer.len()
    }

    /// Sends the lines that were read, as many as may be on their way.
    fn send_lines(&mut self) -> Outcome {
        let mut batch = Vec::new();
        while !self.interrupted && self.waiting.len() < WINDOW && self.pause_ns() == 0 {
            let Some((start, end)) = self.next_line() else { break };
            self.number += 1;
            let line = &self.buffer[start..end];
            if self.options.skips_blank && line.trim_ascii().is_empty() {
                continue;
            }
            let before = batch.len();
            if let Err(why) = self.request.write(line, &mut batch) {
                batch.truncate(before);
                self.refuse(self.number, &why);
                continue;
            }
            self.sent += 1;
            self.waiting.push_back(self.number);
            if batch.len() >= BATCH_BYTES {
                self.client.send(&batch)?;
                batch.clear();
            }
        }
        if batch.is_empty() { Ok(()) } else { self.client.send(&batch) }
    }

    /// The place of the next line without its end. The last one may have no end.
    fn next_line(&mut self) -> Option<(usize, usize)> {
        let start = self.taken;
        if let Some(at) = memchr(self.options.separator, &self.buffer[self.scanned..]) {
            let end = self.scanned + at;
            self.taken = end + 1;
            self.scanned = self.taken;
            let is_crlf = self.options.drops_cr && self.buffer[start..end].ends_with(b"\r");
            return Some((start, end - usize::from(is_crlf)));
        }
        self.scanned = self.buffer.len();
        if !self.reads {
            let end = self.buffer.len();
            self.taken = end;
            return (start < end).then_some((start, end));
        }
        if self.buffer.len() - start > LINE_MAX_BYTES {
            self.reads = false;
            self.interrupted = true;
            let number = self.number + 1;
            self.refuse(number, "it is longer than 64 MiB, and reading ends here");
        }
        None
    }

    /// Nanoseconds until the next line may be sent.
    fn pause_ns(&mut self) -> u64 {
        let Some(rate) = self.options.rate else { return 0 };
        let due = u128::from(self.sent) * 1_000_000_000 / u128::from(rate);
        let now = u128::from(self.clock.moment().0);
        u64::try_from(due.saturating_sub(now)).unwrap_or(u64::MAX)
    }

    /// Waits until there is input, an answer, a signal, or the time for the next line.
    fn wait(&mut self) -> Outcome {
        let has_line = memchr(self.options.separator, &self.buffer[self.scanned..]).is_some()
            || (!self.reads && !self.is_drained());
        let has_room = self.waiting.len() < WINDOW;
        let pause = self.pause_ns();
        let until_line =
            (has_line && has_room && !self.interrupted).then(|| Duration::from_nanos(pause));
        let until_answer = (!self.waiting.is_empty()).then(|| self.client.timeout());
        let time = until_line.into_iter().chain(until_answer).min();
        let timeout = time.and_then(|time| Timespec::try_from(time).ok());
        let reads = self.reads && has_room && !has_line;
        if self.waiting.is_empty() || !reads {
            self.flush_ids();
        }
        let (stdin_ready, signal, answers) = {
            let mut fds = vec![self.interrupts.poll_fd(), self.client.poll_fd()];
            if reads {
                // Otherwise it is left out: the end of a pipe is told without being asked for.
                fds.push(PollFd::from_borrowed_fd(self.input.as_fd(), PollFlags::IN));
            }
            loop {
                match poll(&mut fds, timeout.as_ref()) {
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(Failure::failed(format!("poll: {error}"))),
                    Ok(0) if until_answer.is_some() && time == until_answer => {
                        return Err(self.client.silent());
                    }
                    Ok(_) => break,
                }
            }
            let is_ready = |place: usize| fds.get(place).is_some_and(|fd| !fd.revents().is_empty());
            (is_ready(2), is_ready(0), is_ready(1))
        };
        if signal && self.interrupts.take() {
            (self.reads, self.interrupted) = (false, true);
        }
        if answers {
            self.client.read_more()?;
            self.take_answers()?;
        }
        if stdin_ready && self.reads { self.read_input() } else { Ok(()) }
    }

    fn read_input(&mut self) -> Outcome {
        self.buffer.drain(..self.taken);
        self.scanned -= self.taken;
        self.taken = 0;
        let before = self.buffer.len();
        self.buffer.resize(before + READ_BYTES, 0);
        let read = self.input.lock().read(&mut self.buffer[before..]);
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(count) => self.reads = count > 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Failure::failed(format!("cannot read stdin: {error}"))),
        }
        Ok(())
    }

    /// Takes the answers that have arrived.
    fn take_answers(&mut self) -> Outcome {
        loop {
            let Some(line) = self.client.buffered_line() else { return Ok(()) };
            let Some(number) = self.waiting.pop_front() else {
                let why = "the server has answered more than it was asked";
                return Err(Failure::unreachable(why));
            };
            if let Some(digits) = plain_id(line) {
                self.acknowledged += 1;
                if !self.is_stdout_closed {
                    let written = self.ids.write_all(digits);
                    let written = written.and_then(|()| self.ids.write_all(b"\n"));
                    self.note_written(written);
                }
                continue;
            }
            match parse(line)? {
                Reply::Ok(record) => {
                    self.acknowledged += 1;
                    let id = record.at("id").unwrap_or_default();
                    if !self.is_stdout_closed {
                        let written = writeln!(self.ids, "{id}");
                        self.note_written(written);
                    }
                }
                Reply::Missing => self.refuse(number, "the server does not take it"),
                Reply::Error(sentence) => {
                    let failure = Failure::refused(sentence);
                    if failure.exit == Exit::Denied {
                        self.waiting.push_front(number);
                        return Err(failure);
                    }
                    self.refuse(number, &failure.sentence);
                }
            }
        }
    }

    fn refuse(&mut self, number: u64, why: &str) {
        self.refused += 1;
        print_error(format!("line {number}: {why}"));
    }

    fn flush_ids(&mut self) {
        if !self.is_stdout_closed {
            let written = self.ids.flush();
            self.note_written(written);
        }
    }

    fn note_written(&mut self, written: io::Result<()>) {
        let Err(error) = written else { return };
        self.is_stdout_closed = true;
        if error.kind() != ErrorKind::BrokenPipe {
            self.unprinted = Some(error);
        }
    }

    /// What comes of it, with a sentence about lines that are not put.
    fn summary(&self, result: Outcome) -> Outcome {
        let (acknowledged, refused) = (self.acknowledged, self.refused);
        let counts = format!("{acknowledged} lines were acknowledged, {refused} refused");
        if let Err(failure) = result {
            let unanswered = match (self.waiting.front(), self.waiting.back()) {
                (Some(first), Some(last)) => format!(
                    ", and lines {first} to {last} have no answer: they may be in the queue"
                ),
                _ => String::new(),
            };
            let exit = if acknowledged > 0 { Exit::Partly } else { failure.exit };
            return Err(Failure::new(exit, format!("{}; {counts}{unanswered}", failure.sentence)));
        }
        if self.interrupted {
            let sentence = format!("interrupted: {counts}, up to line {}", self.number);
            return Err(Failure::new(Exit::Interrupted, sentence));
        }
        if let Some(error) = &self.unprinted {
            let sentence = format!("cannot write to stdout: {error}; {counts}, without their ids");
            return Err(Failure::failed(sentence));
        }
        match (refused, acknowledged) {
            (0, _) => Ok(()),
            (_, 0) => Err(Failure::failed(counts)),
            _ => Err(Failure::new(Exit::Partly, counts)),
        }
    }
}

/// The digits of the id in the answer to most puts.
fn plain_id(line: &[u8]) -> Option<&[u8]> {
    let digits = line.strip_prefix(b"{\"status\":\"ok\",\"id\":")?.strip_suffix(b"}")?;
    digits.iter().all(u8::is_ascii_digit).then_some(digits)
}
