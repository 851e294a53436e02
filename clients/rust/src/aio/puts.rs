//! Many puts: their lines are sent in batches, each of which has one place among those who wait.
//!
//! Invariants: answers come in the order of the lines, so what is unanswered is the end of what was
//! sent; a batch is forgotten when it is answered, so that the lines that are held are bounded by
//! what a connection may have unanswered.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use super::link::{Answered, Link};
use crate::core::put::{NewJob, Placed, Written};
use crate::error::Result;

/// Several batches may be unanswered: the server has always one to execute.
const BATCH_LINES: usize = 256;
const BATCH_BYTES: usize = 64 << 10;

/// Lines that are sent together.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lines: Vec<Written>,
    /// Where each line ends.
    ends: Vec<usize>,
}

impl Batch {
    fn push(&mut self, job: NewJob) -> Result<()> {
        self.lines.push(job.write_line(&mut self.bytes)?);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES || self.bytes.len() >= BATCH_BYTES
    }

    /// Forgets the first lines.
    fn drop_first(&mut self, count: usize) {
        let Some(last) = count.checked_sub(1) else { return };
        let length = self.ends[last];
        self.bytes.drain(..length);
        self.lines.drain(..count);
        self.ends.drain(..count);
        for end in &mut self.ends {
            *end -= length;
        }
    }
}

/// The puts of one call.
pub(crate) struct Puts<I> {
    jobs: I,
    answers: Vec<Result<Placed>>,
    /// What was sent, or is to be sent again.
    unanswered: VecDeque<Batch>,
}

impl<I: Iterator<Item = NewJob>> Puts<I> {
    pub(crate) fn new(jobs: I) -> Self {
        // A bound from outside is a hint, no size to be trusted.
        let answers = Vec::with_capacity(jobs.size_hint().0.min(1 << 20));
        Self { jobs, answers, unanswered: VecDeque::new() }
    }

    pub(crate) fn into_answers(self) -> Vec<Result<Placed>> {
        self.answers
    }

    /// Whether what has no answer may be sent once more.
    pub(crate) fn are_repeatable(&self) -> bool {
        self.unanswered.iter().flat_map(|batch| &batch.lines).all(|line| line.repeatable)
    }

    /// Sends what is unanswered, then the other jobs, and takes the answers.
    pub(crate) async fn send_on(&mut self, link: &Link) -> Result<()> {
        // Those of the first batches of `unanswered`.
        let mut coming: VecDeque<oneshot::Receiver<Answered>> = VecDeque::new();
        let mut end = Ok(());
        while coming.len() < self.unanswered.len() || self.fill()? {
            match link.send_batch(&self.unanswered[coming.len()]).await {
                Ok(answered) => coming.push_back(answered),
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
            while let Some(Ok(answered)) = coming.front_mut().map(oneshot::Receiver::try_recv) {
                coming.pop_front();
                self.take(answered)?;
            }
        }
        for answered in coming {
            self.take(answered.await.unwrap_or_else(|_| link.unanswered()))?;
        }
        end
    }

    /// Adds a batch of the next jobs, if there are any.
    fn fill(&mut self) -> Result<bool> {
        let mut batch = Batch::default();
        while !batch.is_full()
            && let Some(job) = self.jobs.next()
        {
            batch.push(job)?;
        }
        let has_lines = !batch.lines.is_empty();
        if has_lines {
            self.unanswered.push_back(batch);
        }
        Ok(has_lines)
    }

    /// Takes the answers to the first batch.
    fn take(&mut self, mut answered: Answered) -> Result<()> {
        let count = answered.placed.len();
        self.answers.append(&mut answered.placed);
        match answered.lost {
            None => drop(self.unanswered.pop_front()),
            Some(error) => {
                if let Some(first) = self.unanswered.front_mut() {
                    first.drop_first(count);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_forgets_its_first_lines() {
        let mut batch = Batch::default();
        for n in 0..5 {
            let job = NewJob::new("q", &serde_json::json!({ "n": n })).expect("a job");
            batch.push(job.safe(n == 4)).expect("a line");
        }
        batch.drop_first(0);
        assert_eq!(batch.lines.len(), 5);
        batch.drop_first(3);
        batch.drop_first(1);
        let text = String::from_utf8_lossy(&batch.bytes);
        assert!(text.starts_with("{\"request\":\"put\"") && text.contains("{\"n\":4}"), "{text}");
        assert_eq!((text.lines().count(), batch.ends[0]), (1, batch.bytes.len()));
        assert!(batch.lines[0].repeatable);
        batch.drop_first(1);
        assert!(batch.bytes.is_empty() && batch.lines.is_empty());
    }
}
