//! `POST /import`: the lines of an export, as they arrive.
//!
//! Lines are put together to batches, one at a time: while one is being put, nothing more is read.

use super::answer::{Answer, rejected};
use super::import_fields::imported_job;
use super::import_ids::ImportIds;
use super::job_json::{push_count, push_name};
use super::problem::{Problem, ProblemKind};
use crate::base::api_limits::{
    DEPENDENCIES_PER_REQUEST_MAX, IMPORT_BYTES_PER_BATCH, IMPORT_ERRORS_MAX, IMPORT_JOBS_PER_BATCH,
};
use crate::base::limits::HTTP_BODY_EXTRA_BYTES;
use crate::base::time::Now;
use crate::model::id::JobId;
use crate::model::manage::{ManageReply, PutOutcome};
use crate::model::reply::{Rejection, Reply};
use crate::model::transfer::ImportedJob;
use memchr::memchr;
use std::collections::{BTreeMap, BTreeSet};

/// What a line has at most beside payload and result, about.
const LINE_EXTRA_BYTES: usize = 64 * 1024;

/// An import in progress.
#[derive(Debug)]
pub(in crate::protocol) struct Import {
    /// Longest line, and longest payload.
    max_line: usize,
    max_payload: usize,
    /// What has arrived and is not parsed yet.
    text: Vec<u8>,
    /// Where the next line begins in `text`.
    at: usize,
    /// The rest of a line that is too long is to come.
    skips: bool,
    /// Lines so far.
    line: u64,
    /// The jobs of the next batch, and their lines.
    jobs: Vec<ImportedJob>,
    lines: Vec<u64>,
    batch_bytes: usize,
    /// What the jobs of the next batch wait for together.
    batch_after: usize,
    /// The places of the jobs of a batch, by the ids that they had.
    places: BTreeMap<JobId, u32>,
    /// The ids of the jobs of earlier batches.
    ids: ImportIds,
    /// Groups are kept for the jobs that wait for them.
    keeps_groups: bool,
    imported: u64,
    duplicates: u64,
    /// The first ones.
    errors: Vec<(u64, Problem)>,
}

impl Import {
    /// An import into a server with this `--max-request`: a line may have a payload and a result of
    /// that length, both in base64, and what is said beside them.
    pub(in crate::protocol) fn new(max_request: usize) -> Self {
        Self {
            max_line: max_request.saturating_mul(3).saturating_add(LINE_EXTRA_BYTES),
            max_payload: max_request.saturating_add(HTTP_BODY_EXTRA_BYTES),
            text: Vec::new(),
            at: 0,
            skips: false,
            line: 0,
            jobs: Vec::new(),
            lines: Vec::new(),
            batch_bytes: 0,
            batch_after: 0,
            places: BTreeMap::new(),
            ids: ImportIds::default(),
            keeps_groups: false,
            imported: 0,
            duplicates: 0,
            errors: Vec::new(),
        }
    }

    /// The bytes that it keeps, about.
    pub(in crate::protocol) fn buffered_bytes(&self) -> usize {
        self.text.len() + self.batch_bytes
    }

    /// Adds a piece of the body. O(piece).
    pub(in crate::protocol) fn push(&mut self, piece: &[u8]) {
        self.text.drain(..self.at);
        self.at = 0;
        self.text.extend_from_slice(piece);
    }

    /// The body has ended: what is left of it is the last line.
    pub(in crate::protocol) fn end(&mut self) {
        if self.at < self.text.len() {
            self.text.push(b'\n');
        }
    }

    fn is_full(&self) -> bool {
        self.jobs.len() >= IMPORT_JOBS_PER_BATCH
            || self.batch_bytes >= IMPORT_BYTES_PER_BATCH
            || self.batch_after >= DEPENDENCIES_PER_REQUEST_MAX
    }

    /// Parses lines until a batch is full; whether it is. O(lines + ids).
    pub(in crate::protocol) fn fill(&mut self, now: Now) -> bool {
        while !self.is_full() {
            let rest = &self.text[self.at..];
            let Some(end) = memchr(b'\n', rest) else {
                if rest.len() > self.max_line {
                    self.begin_skip();
                }
                return false;
            };
            let line = self.at..self.at + end;
            self.at += end + 1;
            if std::mem::take(&mut self.skips) {
                continue;
            }
            self.line += 1;
            if line.len() > self.max_line {
                self.too_long();
            } else if !self.text[line.clone()].iter().all(|byte| b" \t\r".contains(byte)) {
                let bytes = line.len();
                let parsed = imported_job(&self.text[line], now);
                match parsed.and_then(|(other, job)| self.add(other, job)) {
                    Ok(()) => self.batch_bytes += bytes,
                    Err(problem) => self.fail(self.line, problem),
                }
            }
        }
        true
    }

    /// Adds a job to the next batch, with the new ids of what it waits for. O(ids * log r).
    fn add(&mut self, other: Option<JobId>, mut job: ImportedJob) -> Result<(), Problem> {
        if job.job.payload.len() > self.max_payload {
            let detail = format!(
                "the payload is longer than {} bytes, which a put may have at most: start the \
                 server with a larger --max-request",
                self.max_payload
            );
            return Err(Problem::new(ProblemKind::TooLarge, detail));
        }
        if let Some(new) = &mut job.job.dependencies {
            let (mut here, mut earlier) = (Vec::new(), BTreeSet::new());
            for id in &new.after {
                if let Some(&place) = self.places.get(id) {
                    here.push(place);
                } else if let Some(id) = self.ids.find(*id) {
                    earlier.insert(id);
                } else if self.ids.is_full() {
                    return Err(too_many_ids());
                }
            }
            self.batch_after += here.len() + earlier.len();
            new.after = earlier.into_iter().collect();
            job.after_here = here.into();
            self.keeps_groups |= job.waits && new.after_group.is_some();
        }
        if let Some(other) = other {
            let place = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
            self.places.entry(other).or_insert(place);
        }
        self.jobs.push(job);
        self.lines.push(self.line);
        Ok(())
    }

    /// A line is too long, and its end has not arrived: it is not kept.
    fn begin_skip(&mut self) {
        if !std::mem::replace(&mut self.skips, true) {
            self.line += 1;
            self.too_long();
        }
        self.at = 0;
        self.text.clear();
    }

    fn too_long(&mut self) {
        let detail = format!(
            "the line is longer than {} bytes, which are three times --max-request and 64 KiB: \
             start the server with a larger one",
            self.max_line
        );
        self.fail(self.line, Problem::new(ProblemKind::TooLarge, detail));
    }

    fn fail(&mut self, line: u64, problem: Problem) {
        if self.errors.len() < IMPORT_ERRORS_MAX {
            self.errors.push((line, problem));
        }
    }

    /// Whether the server keeps groups until it is told that the import is over.
    pub(in crate::protocol) fn keeps_groups(&self) -> bool {
        self.keeps_groups
    }

    /// Whether jobs are to be put.
    pub(in crate::protocol) fn has_batch(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// The jobs to put next.
    pub(in crate::protocol) fn take_batch(&mut self) -> Vec<ImportedJob> {
        (self.batch_bytes, self.batch_after) = (0, 0);
        std::mem::take(&mut self.jobs)
    }

    /// Takes what came of a batch. Returns why the whole import is refused, if it is. O(batch).
    pub(in crate::protocol) fn handle_reply(&mut self, reply: &Reply<'_>) -> Option<Problem> {
        let mut lines = std::mem::take(&mut self.lines);
        let places = std::mem::take(&mut self.places);
        match reply {
            Reply::Manage(ManageReply::Rejected(Rejection::Draining)) if self.imported == 0 => {
                return Some(rejected(Rejection::Draining));
            }
            Reply::Manage(ManageReply::Rejected(why)) => {
                for line in lines.drain(..) {
                    self.fail(line, rejected(*why));
                }
            }
            Reply::Manage(ManageReply::Puts(outcomes)) => {
                for (other, place) in places {
                    if let Some(new) = outcomes.get(place as usize).and_then(PutOutcome::id) {
                        self.ids.insert(other, new);
                    }
                }
                for (&line, outcome) in lines.iter().zip(outcomes) {
                    match *outcome {
                        PutOutcome::Added(_) => self.imported += 1,
                        PutOutcome::Duplicate(_) | PutOutcome::KeyTaken(_) => self.duplicates += 1,
                        PutOutcome::Rejected(why) => self.fail(line, rejected(why)),
                    }
                }
            }
            // The import is over.
            Reply::Manage(ManageReply::Done) => self.keeps_groups = false,
            other => other.unexpected(),
        }
        lines.clear();
        self.lines = lines;
        None
    }

    /// The answer at the end.
    pub(in crate::protocol) fn answer(&self) -> Answer {
        let mut body = Vec::from(*b"{");
        push_count(&mut body, "imported", self.imported);
        push_count(&mut body, "duplicates", self.duplicates);
        push_name(&mut body, "errors");
        body.push(b'[');
        for (number, (line, problem)) in self.errors.iter().enumerate() {
            body.extend_from_slice(if number > 0 { b",{" } else { b"{" });
            push_count(&mut body, "line", *line);
            push_name(&mut body, "error");
            problem.write(&mut body);
            body.push(b'}');
        }
        body.extend_from_slice(b"]}");
        Answer::new(200, body)
    }
}

/// What a job waits for cannot be found out.
fn too_many_ids() -> Problem {
    let detail = "field 'after' has ids that are not known any more: too many ids of this import \
                  do not follow each other. Import the jobs that wait for each other by themselves";
    let problem = Problem::new(ProblemKind::InvalidField, detail.to_owned());
    Problem { field: Some("after".to_owned()), ..problem }
}
