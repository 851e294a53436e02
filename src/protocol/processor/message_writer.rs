//! Messages as lines, with a timestamp.

use super::settings::Settings;
use super::timestamp::CachedTimestamp;
use crate::base::time::Now;
use crate::model::reply::JobView;
use crate::protocol::queue_listing::push_job;
use crate::wire::json::push_string;

#[derive(Debug)]
pub(super) struct MessageWriter {
    publisher: String,
    /// The constant fields of every message, and the name of the field behind them.
    signature: Vec<u8>,
    topic: Vec<u8>,
    stamp: CachedTimestamp,
}

/// Bytes of a message besides signature, topic and payload, at most.
const FIXED_PART: usize = 160;

impl MessageWriter {
    pub(super) fn new(settings: &Settings) -> Self {
        let mut signature = Vec::new();
        for (name, value) in [
            (",\"service_name\":", &settings.name),
            (",\"service_uuid\":", &settings.uuid),
            (",\"service_host\":", &settings.host),
        ] {
            signature.extend_from_slice(name.as_bytes());
            push_string(&mut signature, value.as_bytes());
        }
        signature.extend_from_slice(b",\"created_at\":\"");
        let mut publisher = settings.publisher.clone();
        if !publisher.is_empty() {
            publisher.push('/');
        }
        Self { publisher, signature, topic: Vec::new(), stamp: CachedTimestamp::default() }
    }

    /// Writes a message up to its payload. O(bytes).
    pub(super) fn start(&mut self, topic: [&str; 3], now: Now, out: &mut Vec<u8>) {
        self.topic.clear();
        for part in [&*self.publisher, "job_queue/"].into_iter().chain(topic) {
            self.topic.extend_from_slice(part.as_bytes());
        }
        out.extend_from_slice(b"{\"topic\":");
        push_string(out, &self.topic);
        out.extend_from_slice(&self.signature);
        out.extend_from_slice(self.stamp.at(now.wall));
        out.extend_from_slice(b"\",\"payload\":");
    }

    /// Writes the assignment of a job to a worker. O(bytes).
    pub(super) fn write_assignment(
        &mut self,
        worker: &str,
        job: &JobView<'_>,
        now: Now,
        out: &mut Vec<u8>,
    ) {
        let bytes = job.payload.bytes.len() + job.queue.len() + worker.len();
        out.reserve(FIXED_PART + self.signature.len() + self.publisher.len() + bytes);
        self.start(["workers/", worker, "/job_assignment"], now, out);
        push_job(job, Some(self.stamp.at(now.wall)), out);
        out.extend_from_slice(b"}\n");
    }
}
