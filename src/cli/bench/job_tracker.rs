//! Tracks all jobs of a run: each is put once, delivered once with its content, and deleted once.
//! Anything else is an error that ends the run.

use super::content::Content;
use super::protocols::Job;

/// What has happened to one job.
#[derive(Clone, Copy, Debug, Default)]
struct JobEntry {
    /// The id the server gave it; meaningful once it is acknowledged or delivered.
    id: u64,
    acknowledged: bool,
    delivered: bool,
    deleted: bool,
}

/// All jobs of a run, by number.
#[derive(Debug, Default)]
pub(super) struct JobTracker {
    jobs: Vec<JobEntry>,
    totals: JobTotals,
}

/// Numbers of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(super) struct JobTotals {
    pub(super) put: u64,
    pub(super) delivered: u64,
    pub(super) deleted: u64,
}

impl JobTracker {
    pub(super) fn totals(&self) -> JobTotals {
        self.totals
    }

    /// The number of jobs that were started.
    pub(super) fn started(&self) -> u64 {
        self.jobs.len() as u64
    }

    /// The number of a new job, about to be put.
    #[inline]
    pub(super) fn start(&mut self) -> u64 {
        self.jobs.push(JobEntry::default());
        self.jobs.len() as u64 - 1
    }

    /// The id that the server gave this job; 0: not known yet.
    #[inline]
    pub(super) fn id(&self, seq: u64) -> u64 {
        self.jobs.get(index(seq)).map_or(0, |entry| entry.id)
    }

    /// The server has accepted a job.
    #[inline]
    pub(super) fn acknowledge(&mut self, seq: u64, id: u64) -> Result<(), String> {
        let entry = &mut self.jobs[index(seq)];
        assert!(!entry.acknowledged, "one answer belongs to one request");
        if entry.delivered && entry.id != id {
            let other = entry.id;
            return Err(format!(
                "job n={seq} was delivered with id {other}, but its put was answered with id {id}"
            ));
        }
        entry.id = id;
        entry.acknowledged = true;
        self.totals.put += 1;
        Ok(())
    }

    /// The server has delivered a job in reply to a get from `queue`. Returns its number.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        job: &Job<'_>,
        queue: &str,
        content: &Content,
    ) -> Result<u64, String> {
        let Some(seq) = content.recognise(job.text) else {
            return Err(format!(
                "a get from {queue} delivered job {} with a content that this run never put: {}",
                job.id,
                quote(job.text)
            ));
        };
        if job.priority.is_some_and(|priority| priority != content.priority(seq)) {
            return Err(format!(
                "job n={seq} was put with priority {}, and came back with priority {}",
                content.priority(seq),
                job.priority.unwrap_or_default()
            ));
        }
        if job.queue.is_some_and(|name| name != queue.as_bytes()) {
            return Err(format!(
                "a get from {queue} delivered job n={seq} from another queue: {}",
                quote(job.queue.unwrap_or_default())
            ));
        }
        self.record_delivery(seq, job.id)?;
        Ok(seq)
    }

    /// The server has delivered the job with this number.
    #[inline]
    pub(super) fn record_delivery(&mut self, seq: u64, id: u64) -> Result<(), String> {
        let Some(entry) = self.jobs.get_mut(index(seq)) else {
            return Err(format!("job n={seq} was delivered before it was put"));
        };
        if entry.delivered {
            return Err(format!("job n={seq} (id {id}) was delivered twice"));
        }
        if entry.acknowledged && entry.id != id {
            let other = entry.id;
            return Err(format!("job n={seq} was put as id {other} and delivered as id {id}"));
        }
        entry.id = id;
        entry.delivered = true;
        self.totals.delivered += 1;
        Ok(())
    }

    /// The server has deleted a job.
    #[inline]
    pub(super) fn delete(&mut self, seq: u64) {
        let entry = &mut self.jobs[index(seq)];
        assert!(entry.delivered && !entry.deleted, "only what was delivered is deleted, once");
        entry.deleted = true;
        self.totals.deleted += 1;
    }

    /// The numbers of the jobs that were put and are still at the server.
    pub(super) fn undelivered(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).zip(&self.jobs).filter(|(_, entry)| !entry.delivered).map(|(seq, _)| seq)
    }

    /// Checks that every job was put, delivered and deleted.
    pub(super) fn check_complete(&self) -> Result<(), String> {
        let problem = |entry: &JobEntry| match entry {
            JobEntry { acknowledged: false, .. } => Some("its put was never acknowledged"),
            JobEntry { delivered: false, .. } => Some("it was put and never delivered"),
            JobEntry { deleted: false, .. } => Some("it was delivered and never deleted"),
            _ => None,
        };
        let mut lost = (0..).zip(&self.jobs).filter_map(|(seq, job)| Some((seq, problem(job)?)));
        let first: Option<(u64, _)> = lost.next();
        match first {
            None => Ok(()),
            Some((seq, problem)) => {
                Err(format!("{} jobs are lost; job n={seq}: {problem}", 1 + lost.count()))
            }
        }
    }
}

fn index(seq: u64) -> usize {
    usize::try_from(seq).unwrap_or(usize::MAX)
}

/// The start of what the server sent, escaped, for a message.
pub(super) fn quote(bytes: &[u8]) -> String {
    const QUOTED_MAX_BYTES: usize = 200;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(QUOTED_MAX_BYTES)]).into_owned();
    let text: String = text.chars().flat_map(char::escape_default).collect();
    if bytes.len() > QUOTED_MAX_BYTES {
        format!("'{text}'... ({} bytes)", bytes.len())
    } else {
        format!("'{text}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        tracker: JobTracker,
        content: Content,
    }

    impl Fixture {
        fn new() -> Self {
            Self { tracker: JobTracker::default(), content: Content::new(64, 10, 1, 1) }
        }

        fn text(&self, seq: u64) -> Vec<u8> {
            let mut text = Vec::new();
            self.content.push(seq, &mut text);
            text
        }

        fn deliver(&mut self, id: u64, text: &[u8]) -> Result<u64, String> {
            let job = Job { id, text, priority: None, queue: Some(b"q") };
            self.tracker.deliver(&job, "q", &self.content)
        }
    }

    #[test]
    fn job_is_put_delivered_and_deleted_once() {
        let mut fixture = Fixture::new();
        let (first, second) = (fixture.tracker.start(), fixture.tracker.start());
        fixture.tracker.acknowledge(first, 1).unwrap();
        let (text, other) = (fixture.text(first), fixture.text(second));
        assert_eq!(fixture.deliver(1, &text), Ok(first));
        assert_eq!(fixture.deliver(2, &other), Ok(second), "before its acknowledgement arrives");
        fixture.tracker.acknowledge(second, 2).unwrap();
        fixture.tracker.delete(first);
        assert!(fixture.tracker.check_complete().unwrap_err().contains("n=1"));
        fixture.tracker.delete(second);
        assert_eq!(fixture.tracker.check_complete(), Ok(()));
        assert_eq!(fixture.tracker.totals(), JobTotals { put: 2, delivered: 2, deleted: 2 });
    }

    #[test]
    fn second_delivery_is_an_error() {
        let mut fixture = Fixture::new();
        let seq = fixture.tracker.start();
        fixture.tracker.acknowledge(seq, 1).unwrap();
        let text = fixture.text(seq);
        fixture.deliver(1, &text).unwrap();
        let error = fixture.deliver(1, &text).unwrap_err();
        assert!(error.contains("delivered twice"), "{error}");
    }

    #[test]
    fn delivery_of_a_wrong_job_is_an_error() {
        let mut fixture = Fixture::new();
        let seq = fixture.tracker.start();
        fixture.tracker.acknowledge(seq, 1).unwrap();
        let mut text = fixture.text(seq);
        let error = fixture.deliver(2, &text).unwrap_err();
        assert!(error.contains("delivered as id 2"), "{error}");
        let early = fixture.text(5);
        let error = fixture.deliver(6, &early).unwrap_err();
        assert!(error.contains("before it was put"), "{error}");
        let priority = Some(fixture.content.priority(seq) + 1);
        let job = Job { id: 1, text: &text, priority, queue: Some(b"q") };
        let error = fixture.tracker.deliver(&job, "q", &fixture.content).unwrap_err();
        assert!(error.contains("priority"), "{error}");
        let job = Job { id: 1, text: &text, priority: None, queue: Some(b"q2") };
        let error = fixture.tracker.deliver(&job, "q", &fixture.content).unwrap_err();
        assert!(error.contains("another queue"), "{error}");
        text[40] ^= 1;
        let error = fixture.deliver(1, &text).unwrap_err();
        assert!(error.contains("never put"), "{error}");
    }

    #[test]
    fn lost_job_is_an_error() {
        let mut fixture = Fixture::new();
        let seq = fixture.tracker.start();
        assert!(fixture.tracker.check_complete().unwrap_err().contains("never acknowledged"));
        fixture.tracker.acknowledge(seq, 1).unwrap();
        assert!(fixture.tracker.check_complete().unwrap_err().contains("never delivered"));
    }
}
