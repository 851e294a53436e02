//! The metrics as text, a chunk at a time: first the server's own, then those of queues, one metric
//! after the other, some queues at a time.

use super::form::Form;
use super::text::{Family, General, Queues, write};
use super::{Queue, QueueSample};
use crate::base::limits::METRICS_QUEUES_PER_STEP;
use crate::model::stats::ServerStats;
use crate::protocol::http::Long;
use std::sync::Arc;

/// A `/metrics` response that is being written.
#[derive(Debug)]
pub(in crate::protocol::http) struct Stream {
    form: Form,
    general: Option<General>,
    /// The server has a processor.
    processor: bool,
    queues: Arc<[Queue]>,
    /// The metric that is being written, and the number of queues written of it.
    family: usize,
    written: usize,
}

impl Stream {
    pub(in crate::protocol::http) fn new(
        figures: Box<ServerStats>,
        found: QueueSample,
        form: Form,
    ) -> Self {
        let QueueSample { queues, others, other_queues } = found;
        let processor = figures.bus_workers.is_some();
        let general = General { figures, others, other_queues };
        let (general, queues) = (Some(general), queues.into());
        Self { form, general, processor, queues, family: 0, written: 0 }
    }
}

impl Long for Stream {
    /// O([`METRICS_QUEUES_PER_STEP`]).
    fn fill(&mut self, text: &mut Vec<u8>) -> bool {
        if let Some(general) = self.general.take() {
            write(general, true, self.form, text);
            return false;
        }
        let more = Family::ALL.get(self.family);
        let Some(&family) = more.filter(|&&family| self.processor || !family.is_of_processor())
        else {
            text.extend_from_slice(self.form.end().as_bytes());
            return true;
        };
        let end = (self.written + METRICS_QUEUES_PER_STEP).min(self.queues.len());
        let range = self.written..end;
        let queues = Queues { family, all: Arc::clone(&self.queues), range };
        write(queues, self.written == 0, self.form, text);
        self.written = end;
        if end == self.queues.len() {
            self.family += 1;
            self.written = 0;
        }
        false
    }
}
