//! The responses that all operations have in common.

use super::{Answer, Content, Schemas};
use crate::protocol::http::lightjq;
use crate::protocol::http::route::{Method, Operation, Route, Segment, takes};

/// Statuses of all operations, with their reasons: errors in the HTTP message, and a server beyond
/// `--max-clients`.
const ALL: [(u16, &str); 10] = [
    (400, "The message is no proper HTTP"),
    (408, "The request took too long to come"),
    (413, "The body is longer than the server takes (--max-request, and 64 KiB)"),
    (414, "The target is longer than 8 KiB"),
    (417, "Something else is expected than 100-continue"),
    (421, "It is for a host by whose name this server is not known (--http-name)"),
    (431, "There are too many fields, or they are too long"),
    (501, "A Transfer-Encoding other than chunked"),
    (503, "The server already serves as many clients as it may"),
    (505, "The version is neither HTTP/1.1 nor HTTP/1.0"),
];

/// The status of operations with an effect.
const ACTS: (u16, &str) = (403, "A browser asks on behalf of a page of another origin");

/// Statuses of operations that read a body.
const POSTS: [(u16, &str); 2] = [
    (411, "There is no body: neither Content-Length nor chunks"),
    (
        415,
        "The body has a Content-Encoding or another Content-Type, or a page does not say its type",
    ),
];

const BAD_BODY: &str = "The body is not what it has to be";
const BAD_NAME: &str = "The name of the queue is empty, or the message is no proper HTTP";

/// The responses that a route has in common with others.
pub(super) fn answers(route: &Route, shapes: &mut Schemas) -> impl Iterator<Item = Answer> {
    let posts = route.method.has_body();
    let bad = match (posts, route.path.contains(&Segment::Queue)) {
        (true, _) => BAD_BODY,
        (false, true) => BAD_NAME,
        (false, false) => ALL[0].1,
    };
    let acts = route.method != Method::Get || takes(route.operation);
    let all = ALL.iter().chain(if posts { &POSTS[..] } else { &[] }).chain(acts.then_some(&ACTS));
    let mut answers = Vec::new();
    for &(status, when) in all {
        let when = if status == 400 { bad } else { when };
        let (json, packed) = kinds(route, status);
        if packed {
            let content = Content::Packed(lightjq::error(shapes));
            answers.push(Answer { status, when, content });
        }
        if json {
            answers.push(shapes.error(status, when));
        }
    }
    answers.into_iter()
}

/// Whether an error with this status may be JSON, and whether MessagePack: that depends on how much
/// of the request was known when it was rejected.
fn kinds(route: &Route, status: u16) -> (bool, bool) {
    let Operation::LightJq(_) = route.operation else { return (true, false) };
    let after = matches!(status, 400 | 403 | 408 | 411 | 413 | 415 | 417 | 421);
    (true, after)
}
