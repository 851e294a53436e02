//! Jobs as JSON: one, or a list.

use crate::base::limits::HTTP_CHUNK_BYTES;
use crate::model::event::write_events;
use crate::model::job::Encoding;
use crate::model::row::{Row, RowKey, Rows};
use crate::protocol::http::Long;
use crate::wire::json::{push_bytes, push_number, push_packet};
use crate::wire::msgpack::push_json;
use std::ops::Bound;
use std::sync::Arc;

/// A list of jobs that is written from a snapshot.
#[derive(Debug)]
pub(in crate::protocol::http) struct Stream {
    rows: Source,
    begun: bool,
}

#[derive(Debug)]
enum Source {
    /// Id and state of each; written up to and including `after`.
    Brief { rows: Rows, after: Option<RowKey> },
    /// Each with payload and history; the first `written` are written.
    Full { rows: Arc<[Arc<Row>]>, written: usize },
}

impl Stream {
    pub(super) fn brief(rows: Rows) -> Self {
        Self { rows: Source::Brief { rows, after: None }, begun: false }
    }

    pub(super) fn full(rows: Arc<[Arc<Row>]>) -> Self {
        Self { rows: Source::Full { rows, written: 0 }, begun: false }
    }
}

impl Long for Stream {
    /// Writes the next chunk. O(text + log n).
    fn fill(&mut self, text: &mut Vec<u8>) -> bool {
        let mut first = !std::mem::replace(&mut self.begun, true);
        if first {
            text.extend_from_slice(b"{\"jobs\":[");
        }
        let mut part = |row: &Row, text: &mut Vec<u8>, push: fn(&Row, &mut Vec<u8>)| {
            if !std::mem::take(&mut first) {
                text.push(b',');
            }
            push(row, text);
            text.len() >= HTTP_CHUNK_BYTES
        };
        match &mut self.rows {
            Source::Brief { rows, after } => {
                let start = after.map_or(Bound::Unbounded, Bound::Excluded);
                for (key, row) in rows.range((start, Bound::Unbounded)) {
                    if part(row, text, push_brief) {
                        *after = Some(*key);
                        return false;
                    }
                }
            }
            Source::Full { rows, written } => {
                for row in &rows[*written..] {
                    *written += 1;
                    if part(row, text, push_job) {
                        return false;
                    }
                }
            }
        }
        text.extend_from_slice(b"]}");
        true
    }
}

fn push_brief(row: &Row, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"id\":");
    push_number(out, row.id.0);
    out.extend_from_slice(b",\"state\":");
    out.extend_from_slice(&row.state);
    out.push(b'}');
}

/// Writes a job with payload and history. O(bytes).
pub(super) fn push_job(row: &Row, out: &mut Vec<u8>) {
    out.reserve(FIXED_PART + row.payload.len() + row.state.len());
    out.extend_from_slice(b"{\"id\":");
    push_number(out, row.id.0);
    out.extend_from_slice(b",\"payload\":");
    match row.encoding {
        Encoding::Json | Encoding::JsonLine => out.extend_from_slice(&row.payload),
        Encoding::MsgPack => push_json(out, &row.payload),
        Encoding::Packet { key_len } => push_packet(out, key_len, &row.payload),
        Encoding::Bytes => push_bytes(out, &row.payload),
    }
    out.extend_from_slice(b",\"events\":");
    write_events(&row.events, out);
    out.extend_from_slice(b",\"state\":");
    out.extend_from_slice(&row.state);
    out.extend_from_slice(b",\"modified\":");
    push_number(out, row.modified);
    out.push(b'}');
}

/// Bytes of a job besides payload and state, with a short history.
const FIXED_PART: usize = 256;
