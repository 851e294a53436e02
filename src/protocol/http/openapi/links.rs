//! Links from a response to the operations on the queue or the job that it names.

use crate::protocol::http::jobq::Operation::{CreateQueue, Poll, Put};
use crate::protocol::http::route::{Operation, ROUTES, Route, Segment};
use utoipa::openapi::link::{Link, LinkBuilder};

const ID: &str = "$response.body#/id";

/// The links of an operation's success response, by the operations to which they lead.
pub(super) fn links(route: &Route) -> Vec<(&'static str, Link)> {
    let Operation::Jobq(operation) = route.operation else { return Vec::new() };
    let has = |route: &Route, segment: Segment| route.path.contains(&segment);
    let of_jobq = |to: &&Route| matches!(to.operation, Operation::Jobq(_));
    let of_queue = |to: &&Route| of_jobq(to) && has(to, Segment::Queue) && !has(to, Segment::Job);
    let of_job = |to: &&Route| {
        has(to, Segment::Job) && has(to, Segment::Queue) == has(route, Segment::Queue)
    };
    match operation {
        CreateQueue => {
            let link = |to: &Route| LinkBuilder::new().operation_id(to.name).parameter("queue", ID);
            ROUTES.iter().filter(of_queue).map(|to| (to.name, link(to).build())).collect()
        }
        Put | Poll => {
            let link = |to: &Route| {
                let link = LinkBuilder::new().operation_id(to.name).parameter("id", ID);
                if has(to, Segment::Queue) {
                    link.parameter("queue", "$request.path.queue")
                } else {
                    link
                }
            };
            ROUTES.iter().filter(of_job).map(|to| (to.name, link(to).build())).collect()
        }
        _ => Vec::new(),
    }
}
