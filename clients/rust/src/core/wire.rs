//! Lines: what the server answers is cut into lines, and a line into what its status says.
//!
//! Invariant: answers come in the order of the requests of their connection, so that whoever reads
//! keeps a queue of those who wait.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The answer to one request: `ok` with members, `no-job`, or an error with a sentence.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The line, of which the caller takes the members that it knows.
    Done(Vec<u8>),
    /// There is no such job, or none in time.
    NoJob,
    /// What the server refuses.
    Refused(Error),
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    status: std::borrow::Cow<'a, str>,
    #[serde(borrow, default)]
    error: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    kind: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    id: Option<u64>,
}

impl Answer {
    /// Parses a line without its end. What the server writes first in most answers is compared, so
    /// that their members are parsed once, by whoever takes them.
    pub(crate) fn parse(line: &[u8]) -> Result<Self> {
        if line.starts_with(b"{\"status\":\"ok\",") && line.ends_with(b"}") {
            return Ok(Self::Done(line.to_vec()));
        }
        let head: Head<'_> = serde_json::from_slice(line).map_err(|_| {
            let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
            Error::BadAnswer(format!("this is not a Job Centre listener: it answered {shown:?}"))
        })?;
        Ok(match &*head.status {
            "ok" => Self::Done(line.to_vec()),
            "no-job" => Self::NoJob,
            _ => Self::Refused(Error::of_answer(
                &head.error.unwrap_or(head.status),
                head.kind.as_deref(),
                head.id,
            )),
        })
    }

    /// The members of an `ok`; `None` of a `no-job`.
    pub(crate) fn members<T: DeserializeOwned>(self) -> Result<Option<T>> {
        match self {
            Self::Done(line) => match serde_json::from_slice(&line) {
                Ok(members) => Ok(Some(members)),
                Err(wrong) => Err(Error::BadAnswer(format!("an answer lacks a member: {wrong}"))),
            },
            Self::NoJob => Ok(None),
            Self::Refused(error) => Err(error),
        }
    }

    /// Whether it was `ok`, of an answer whose members do not matter.
    pub(crate) fn done(self) -> Result<bool> {
        match self {
            Self::Done(_) => Ok(true),
            Self::NoJob => Ok(false),
            Self::Refused(error) => Err(error),
        }
    }
}

/// What was read and is not a whole line yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    read: Vec<u8>,
    /// Where the first line begins that was not taken.
    start: usize,
    /// Up to where there is no line end.
    searched: usize,
}

impl Lines {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.read.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.read.extend_from_slice(bytes);
    }

    /// The next line without its end, if it is complete.
    pub(crate) fn next_line(&mut self) -> Option<&[u8]> {
        let Some(length) = self.read[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.read.len();
            return None;
        };
        let (start, end) = (self.start, self.searched + length);
        self.start = end + 1;
        self.searched = self.start;
        Some(&self.read[start..end])
    }

    /// The next answer, if its line is complete.
    #[cfg(any(feature = "blocking", test))]
    pub(crate) fn next(&mut self) -> Result<Option<Answer>> {
        self.next_line().map(Answer::parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_they_are_cut() {
        let text = b"{\"status\":\"ok\",\"id\":7}\n{\"status\":\"no-job\"}\n";
        for cut in 1..text.len() {
            let mut lines = Lines::default();
            let mut answers = Vec::new();
            for part in text.chunks(cut) {
                lines.push(part);
                while let Some(answer) = lines.next().expect("valid lines") {
                    answers.push(answer);
                }
            }
            assert!(matches!(&answers[..], [Answer::Done(_), Answer::NoJob]), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for line in [&b"HTTP/1.1 400 Bad Request"[..], b"{}", b"", b"\xff", b"[1]"] {
            let kind = Answer::parse(line).expect_err("no answer").kind();
            assert_eq!(kind, "bad-answer", "{line:?}");
        }
    }
}
