//! A request before its execution: routing, and a body that is incomplete.

use super::guard;
use super::index;
use super::jobq;
use super::lightjq;
use super::native;
use super::response::{HTML, HttpError, JSON};
use super::route::{self, Operation, RouteMatch};
use super::route_error::RouteError;
use super::ui::{self, PageRoute};
use crate::base::limits::{HTTP_BODY_MIN_BYTES_PER_SECOND, HTTP_BODY_TIMEOUT};
use crate::base::time::Mono;
use crate::protocol::SessionSettings;
use crate::wire::http::{Body, Expect, RequestHead};
use std::time::Duration;

/// A request whose body is incomplete.
#[derive(Debug)]
pub(super) struct PendingBody {
    /// Its route, or the error response that follows the body.
    pub(super) routed: Result<RouteMatch, HttpError>,
    pub(super) body: Body,
    /// The body so far, if it is read at all.
    pub(super) bytes: Vec<u8>,
    /// Bytes of the body so far, read or discarded.
    pub(super) received: u64,
    /// The name of the queue in the path.
    pub(super) queue: Vec<u8>,
    pub(super) query_text: String,
    pub(super) since: Mono,
}

impl PendingBody {
    /// When the client times out. Each second has to bring [`HTTP_BODY_MIN_BYTES_PER_SECOND`].
    pub(super) fn deadline(&self) -> Mono {
        let earned = Duration::from_secs(self.received / HTTP_BODY_MIN_BYTES_PER_SECOND);
        self.since.after(HTTP_BODY_TIMEOUT).after(earned)
    }
}

/// Whether the body of a request is executed as it arrives.
pub(super) fn is_import(operation: Operation) -> bool {
    matches!(operation, Operation::Native(route) if route.is_import())
}

/// The route of a request, or its error response, and the media type of the response.
pub(super) fn route_request(
    head: &RequestHead<'_>,
    settings: &SessionSettings,
    queue: &mut Vec<u8>,
) -> (Result<RouteMatch, HttpError>, &'static str) {
    let found = with_page(route::find(head.method, head.target, queue), head, settings);
    let kind = match &found {
        Ok(RouteMatch { operation: Operation::LightJq(_), .. }) => lightjq::kind(head),
        Err(_) if route::is_of_lightjq(head.target) => lightjq::kind(head),
        Ok(RouteMatch { operation: Operation::Index, .. }) if index::is_for_page(head.accept) => {
            HTML
        }
        _ => JSON,
    };
    let takes = found.as_ref().is_ok_and(|call| route::takes(call.operation));
    let verdict = guard::admit(head, &settings.http_names, takes).and_then(|()| match found {
        Ok(call) => check_headers(head, call),
        Err(miss) => Err(explain(miss)),
    });
    (verdict, kind)
}

/// Whether the dashboard is there, and where browsers begin.
fn with_page(
    found: Result<RouteMatch, RouteError>,
    head: &RequestHead<'_>,
    settings: &SessionSettings,
) -> Result<RouteMatch, RouteError> {
    let mut call = found?;
    match call.operation {
        Operation::Page(_) if !settings.ui.is_on => return Err(RouteError::NotFound),
        Operation::Index if settings.ui.is_on && index::is_for_page(head.accept) => {
            call.operation = Operation::Page(PageRoute::Redirect("ui/"));
        }
        Operation::Page(page) => {
            let page = ui::pack(page, head.accept_encoding, &settings.ui);
            call.operation = Operation::Page(page);
            if head.if_none_match.is_some() {
                let version = ui::version(&ui::content(page, &settings.ui));
                call.is_known = ui::is_known(&version, head.if_none_match);
            }
        }
        _ => {}
    }
    Ok(call)
}

/// Checks the other fields of the head, and adds the parameters in them.
fn check_headers(head: &RequestHead<'_>, mut call: RouteMatch) -> Result<RouteMatch, HttpError> {
    if let Operation::Native(route) = call.operation {
        native::check_type(head, route)?;
    }
    guard::check_type(head, &call)?;
    if head.expect == Expect::Unknown {
        return Err(HttpError::new(417, "the only expectation known is 100-continue"));
    }
    let posts = matches!(head.method, "POST" | "PUT" | "PATCH");
    let takes_nothing = matches!(call.operation, Operation::Native(_));
    if posts && head.framing.is_none() && !takes_nothing {
        let why = "the request has no body: send Content-Length, or chunks";
        return Err(HttpError::new(411, why));
    }
    if posts && head.coded {
        return Err(HttpError::new(415, "the body has a Content-Encoding: send it as it is"));
    }
    match call.operation {
        Operation::LightJq(operation) => call.details = lightjq::request_params(operation, head)?,
        Operation::Jobq(jobq::Operation::Queues) => {
            call.whole_names = jobq::wants_whole_names(head.target)?;
        }
        _ => {}
    }
    Ok(call)
}

fn explain(miss: RouteError) -> HttpError {
    match miss {
        RouteError::Bad(why) => HttpError::new(400, why),
        RouteError::Slash => {
            let why = "there is nothing at this path: leave out the slash at its end";
            HttpError::new(404, why)
        }
        RouteError::NotFound => HttpError::new(404, "there is nothing at this path"),
        RouteError::Method(methods) => {
            let why = format!("this path answers to {methods}");
            HttpError { allow: Some(methods), ..HttpError::new(405, why) }
        }
        RouteError::Options(methods) => {
            HttpError { allow: Some(methods), ..HttpError::new(204, "") }
        }
    }
}
