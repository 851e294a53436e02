//! A put and its options.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::requests::{Line, milliseconds};
use super::wire::Answer;
use crate::error::{Error, Result};

/// How long a key that was drawn stays taken after its job is done: longer than a put is repeated.
const DRAWN_KEY_TTL: u64 = 60_000;

/// The length of a lease unless a put says another one.
const TTR: u64 = 60_000;

/// What a put whose key is taken does.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OnDuplicate {
    /// The job that has the key stays as it is.
    Keep,
    /// Payload and options become those of the new put.
    Replace,
    /// The put fails with [`Error::Duplicate`].
    Reject,
}

/// The pause before a run is repeated.
#[derive(Clone, Debug, Serialize)]
pub struct Backoff {
    kind: &'static str,
    first_ms: u64,
    max_ms: u64,
    jitter: f64,
}

impl Backoff {
    /// Always the same pause.
    pub fn fixed(pause: Duration) -> Self {
        let pause = milliseconds(pause);
        Self { kind: "fixed", first_ms: pause, max_ms: pause, jitter: 0.0 }
    }

    /// A pause that doubles from the first to the longest, a fifth shorter or longer by chance.
    pub fn exponential(first: Duration, longest: Duration) -> Self {
        let (first_ms, max_ms) = (milliseconds(first), milliseconds(longest));
        Self { kind: "exponential", first_ms, max_ms, jitter: 0.2 }
    }
}

/// What a put has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The job: the new one, or the one that has the key.
    pub id: u64,
    /// Whether the key was taken, so that no job was made.
    pub duplicate: bool,
}

/// A job to be put, with its options: [`NewJob::new`] and methods that change it.
#[derive(Clone, Debug, Serialize)]
pub struct NewJob {
    /// The name of the request, which is the first member of its line.
    request: &'static str,
    queue: String,
    job: Box<RawValue>,
    pri: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u64>,
    #[serde(skip_serializing_if = "u64_is_zero")]
    ttr: u64,
    #[serde(skip_serializing_if = "u32_is_zero")]
    max_attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_result: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_duplicate: Option<OnDuplicate>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_group: Option<String>,
    #[serde(skip)]
    safe: bool,
}

impl NewJob {
    /// A job with this payload, which serde writes as a JSON object.
    pub fn new(queue: impl Into<String>, payload: &(impl Serialize + ?Sized)) -> Result<Self> {
        let job = to_raw_value(payload).map_err(|wrong| Error::payload(&wrong))?;
        Ok(Self {
            request: "put",
            queue: queue.into(),
            job,
            pri: 0,
            delay: None,
            ttl: None,
            ttr: TTR,
            max_attempts: 10,
            backoff: None,
            keep_result: None,
            key: None,
            key_ttl: None,
            on_duplicate: None,
            group: None,
            after: Vec::new(),
            after_group: None,
            safe: true,
        })
    }

    /// The priority: bigger is more urgent.
    pub fn pri(mut self, pri: i64) -> Self {
        self.pri = pri;
        self
    }

    /// The job is not handed out before this time has passed.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(milliseconds(delay));
        self
    }

    /// The job is removed if it still waits after this time.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(milliseconds(ttl));
        self
    }

    /// The length of the lease: 60 s unless set. A worker of this library renews it by itself. Zero:
    /// the lease ends only with the connection.
    pub fn ttr(mut self, ttr: Duration) -> Self {
        self.ttr = milliseconds(ttr);
        self
    }

    /// After this number of runs that failed the job is buried: 10 unless set. 0: never.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// The pause before a run that failed is repeated.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// How long the job is kept for its result after it is completed.
    pub fn keep_result(mut self, time: Duration) -> Self {
        self.keep_result = Some(milliseconds(time));
        self
    }

    /// A key that is unique in the queue until the job is done.
    pub fn unique(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// How long the key stays taken after the job is completed.
    pub fn unique_for(mut self, time: Duration) -> Self {
        self.key_ttl = Some(milliseconds(time));
        self
    }

    /// What the put does if the key is taken.
    pub fn on_duplicate(mut self, what: OnDuplicate) -> Self {
        self.on_duplicate = Some(what);
        self
    }

    /// The group of which the job is a member.
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.group = Some(name.into());
        self
    }

    /// Jobs that must be done first.
    pub fn after(mut self, ids: impl IntoIterator<Item = u64>) -> Self {
        self.after.extend(ids);
        self
    }

    /// The group that must have no unfinished member first.
    pub fn after_group(mut self, name: impl Into<String>) -> Self {
        self.after_group = Some(name.into());
        self
    }

    /// `false`: no key is drawn for a job without one, and a put whose answer is lost is an
    /// [`Error::AnswerLost`] in place of being repeated.
    pub fn safe(mut self, safe: bool) -> Self {
        self.safe = safe;
        self
    }

    /// The line, under a drawn key if it has none, and whether the key was drawn.
    pub(crate) fn into_line(self) -> Result<(Line, bool)> {
        let mut bytes = Vec::new();
        let Written { repeatable, drawn } = self.write_line(&mut bytes)?;
        Ok((Line { bytes, repeatable }, drawn))
    }

    /// Adds its line to others, under a drawn key if it has none.
    pub(crate) fn write_line(mut self, out: &mut Vec<u8>) -> Result<Written> {
        let drawn = self.key.is_none() && self.safe;
        if drawn {
            self.key = Some(drawn_key());
            self.key_ttl = Some(DRAWN_KEY_TTL);
        }
        serde_json::to_writer(&mut *out, &self).map_err(|wrong| Error::payload(&wrong))?;
        out.push(b'\n');
        Ok(Written { repeatable: self.key.is_some(), drawn })
    }
}

/// What is to be known of the line of a put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Twice is as good as once.
    pub(crate) repeatable: bool,
    /// Its key is not the caller's.
    pub(crate) drawn: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn u64_is_zero(number: &u64) -> bool {
    *number == 0
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn u32_is_zero(number: &u32) -> bool {
    *number == 0
}

/// A key that no other put has: the standard library's random state, twice.
fn drawn_key() -> String {
    let draw = || RandomState::new().build_hasher().finish();
    format!("put:{:016x}{:016x}", draw(), draw())
}

#[derive(Deserialize)]
struct PutAnswer {
    id: u64,
    #[serde(default)]
    duplicate: bool,
}

/// What the answer says. Under a drawn key `duplicate` means only that the put was repeated.
pub(crate) fn placed(answer: Answer, drawn: bool) -> Result<Placed> {
    let answer: Option<PutAnswer> = answer.members()?;
    let missing = || Error::BadAnswer("a put was answered by no-job".into());
    let PutAnswer { id, duplicate } = answer.ok_or_else(missing)?;
    Ok(Placed { id, duplicate: duplicate && !drawn })
}

/// What a line says that is exactly as the server answers a put of a new job.
#[cfg(feature = "async")]
pub(crate) fn placed_by_line(line: &[u8]) -> Option<Placed> {
    let digits = line.strip_prefix(b"{\"status\":\"ok\",\"id\":")?.strip_suffix(b"}")?;
    // As many digits as fit: no overflow.
    if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let id = digits.iter().fold(0, |id, digit| id * 10 + u64::from(digit - b'0'));
    Some(Placed { id, duplicate: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_one_line_that_begins_with_its_request() {
        let job = NewJob::new("q", &serde_json::json!({"n": 1})).expect("a job").safe(false);
        let (line, drawn) = job.clone().into_line().expect("a line");
        let text = "{\"request\":\"put\",\"queue\":\"q\",\"job\":{\"n\":1},\"pri\":0,\"ttr\":60000,\
                    \"max_attempts\":10}\n";
        assert_eq!(String::from_utf8_lossy(&line.bytes), text);
        assert!(!line.repeatable && !drawn);
        let bare = job.clone().ttr(Duration::ZERO).max_attempts(0).into_line().expect("a line").0;
        let text = "{\"request\":\"put\",\"queue\":\"q\",\"job\":{\"n\":1},\"pri\":0}\n";
        assert_eq!(String::from_utf8_lossy(&bare.bytes), text);
        let (line, drawn) = job.clone().safe(true).into_line().expect("a line");
        assert!(line.repeatable && drawn);
        let (line, drawn) = job.unique("k").into_line().expect("a line");
        assert!(line.repeatable && !drawn);
    }

    #[cfg(feature = "async")]
    #[test]
    fn the_short_way_reads_what_the_long_way_reads() {
        for (line, id) in [
            (r#"{"status":"ok","id":17}"#, Some(17)),
            (r#"{"status":"ok","id":9999999999999999999}"#, Some(9_999_999_999_999_999_999)),
            (r#"{"status":"ok","id":18446744073709551615}"#, None),
            (r#"{"status":"ok","id":}"#, None),
            (r#"{"status":"ok","id":-1}"#, None),
            (r#"{"status":"ok","id":17,"duplicate":true}"#, None),
            (r#"{"status":"error","error":"full"}"#, None),
        ] {
            assert_eq!(placed_by_line(line.as_bytes()).map(|placed| placed.id), id, "{line}");
            if let Some(id) = id {
                let answer = Answer::parse(line.as_bytes()).expect("an answer");
                assert_eq!(placed(answer, false).expect("ok").id, id);
            }
        }
    }
}
