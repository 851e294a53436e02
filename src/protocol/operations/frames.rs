//! Topics of event streams, and their frames: server-sent events, each one line of JSON.

use super::job_json::{push_flag, push_text};
use super::queue_json::push_queue;
use super::server_json::{self, ServerLimits};
use crate::base::api_limits::TOPICS_MAX;
use crate::base::time::Now;
use crate::model::manage::ManageReply;
use crate::model::reply::Reply;
use crate::model::stats::ServerStats;
use std::sync::Arc;

/// What a stream shows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::protocol) enum Topic {
    /// The server.
    Overview,
    /// A queue by name, known or not.
    Queue(Box<[u8]>),
}

impl Topic {
    /// The topics in a list, each once; or the first text that names none.
    pub(super) fn read_list(list: &str) -> Result<Box<[Self]>, &str> {
        let mut topics = Vec::new();
        for text in list.split(',') {
            let topic = match text.strip_prefix("queue:") {
                _ if text == "overview" => Self::Overview,
                Some(name) if !name.is_empty() => Self::Queue(name.as_bytes().into()),
                _ => return Err(text),
            };
            if !topics.contains(&topic) {
                topics.push(topic);
            }
            if topics.len() > TOPICS_MAX {
                return Err(text);
            }
        }
        Ok(topics.into())
    }
}

fn frame(event: &str, data: &[u8]) -> Arc<[u8]> {
    let mut text = format!("event: {event}\ndata: ").into_bytes();
    text.extend_from_slice(data);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// The frame of [`Topic::Overview`].
pub(in crate::protocol) fn overview_frame(
    stats: &ServerStats,
    limits: ServerLimits<'_>,
    now: Now,
) -> Arc<[u8]> {
    frame("overview", &server_json::server(stats, limits, now).body)
}

/// The frame of [`Topic::Queue`], from the answer to a request for that queue.
pub(in crate::protocol) fn queue_frame(name: &[u8], reply: &Reply<'_>) -> Arc<[u8]> {
    let mut data = Vec::from(*b"{");
    if let Reply::Manage(ManageReply::Queue(queue)) = reply {
        push_queue(&mut data, queue);
    } else {
        push_text(&mut data, "name", Some(name));
        push_flag(&mut data, "missing", true);
    }
    data.push(b'}');
    frame("queue", &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_once_each() {
        let queue = |name: &str| Topic::Queue(name.as_bytes().into());
        let all = Topic::read_list("queue:a,overview,queue:a,queue:overview");
        let expected: Box<[Topic]> = [queue("a"), Topic::Overview, queue("overview")].into();
        assert_eq!(all, Ok(expected));
        for (list, wrong) in [("", ""), ("overview,", ""), ("jobs", "jobs"), ("queue:", "queue:")] {
            assert_eq!(Topic::read_list(list), Err(wrong));
        }
        let many: Vec<String> = (0..=TOPICS_MAX).map(|number| format!("queue:{number}")).collect();
        assert!(Topic::read_list(&many[1..].join(",")).is_ok());
        assert_eq!(Topic::read_list(&many.join(",")), Err(&*many[TOPICS_MAX]));
    }
}
