//! The routes: method, path, operation, and the operation's name in the documents.

use super::jobq;
use super::lightjq::{self, RequestParams, messages};
use super::native::{self, NativeRoute};
use super::route_error::RouteError;
use super::ui::{self, PageRoute};
use crate::model::id::JobId;
use percent_encoding::percent_decode_str;

/// A method of a route. HEAD is answered like GET, and every path answers OPTIONS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Post,
    Put,
    Delete,
}

impl Method {
    const ALL: [Self; 4] = [Self::Get, Self::Post, Self::Put, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }

    /// Whether the body of its requests is read.
    pub(super) fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }
}

/// The module of each variant says what its operations do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Index,
    Health,
    Metrics,
    OpenApi,
    Processor,
    Jobq(jobq::Operation),
    LightJq(lightjq::Operation),
    Native(NativeRoute),
    Page(PageRoute),
}

/// A segment of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Is(&'static str),
    /// A queue name: any bytes, percent-encoded, at least one.
    Queue,
    /// A job id: a decimal number.
    Job,
    /// A job id, or any other text, which names a job that never existed.
    Id,
    /// A constraint name: UTF-8, percent-encoded, not empty.
    Constraint,
}

#[derive(Debug)]
pub(super) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static [Segment],
    pub(super) operation: Operation,
    /// The `operationId`; unique.
    pub(super) name: &'static str,
}

use Segment::{Constraint, Id, Is, Job, Queue};

const fn route(
    method: Method,
    path: &'static [Segment],
    operation: Operation,
    name: &'static str,
) -> Route {
    Route { method, path, operation, name }
}

const fn jobq(
    method: Method,
    path: &'static [Segment],
    operation: jobq::Operation,
    name: &'static str,
) -> Route {
    route(method, path, Operation::Jobq(operation), name)
}

const fn lightjq(
    method: Method,
    path: &'static [Segment],
    operation: lightjq::Operation,
    name: &'static str,
) -> Route {
    route(method, path, Operation::LightJq(operation), name)
}

const QUEUES: &[Segment] = &[Is("api"), Is("v0"), Is("queue")];
const QUEUE: &[Segment] = &[Is("api"), Is("v0"), Is("queue"), Queue];
const JOBS: &[Segment] = &[Is("api"), Is("v0"), Is("queue"), Queue, Is("job")];
const QUERY: &[Segment] = &[Is("api"), Is("v0"), Is("queue"), Queue, Is("query_jobs")];
const POLL: &[Segment] = &[Is("api"), Is("v0"), Is("queue"), Queue, Is("poll_job")];
const JOB: &[Segment] = &[Is("api"), Is("v0"), Is("queue"), Queue, Is("job"), Job];
const STATE: &[Segment] = &[Is("api"), Is("v0"), Is("queue"), Queue, Is("job"), Job, Is("state")];
const EVENT: &[Segment] = &[Is("api"), Is("v0"), Is("queue"), Queue, Is("job"), Job, Is("event")];

// Paths without a queue mean the queue `default`.
const SHORT_JOBS: &[Segment] = &[Is("api"), Is("v0"), Is("job")];
const SHORT_CREATE: &[Segment] = &[Is("api"), Is("v0"), Is("job"), Is("create")];
const SHORT_POLL: &[Segment] = &[Is("api"), Is("v0"), Is("job"), Is("poll")];
const SHORT_JOB: &[Segment] = &[Is("api"), Is("v0"), Is("job"), Job];
const SHORT_STATE: &[Segment] = &[Is("api"), Is("v0"), Is("job"), Job, Is("state")];
const SHORT_EVENT: &[Segment] = &[Is("api"), Is("v0"), Is("job"), Job, Is("event")];

const PUSHED: &[Segment] = &[Is("job"), Id];
const POLLING: &[Segment] = &[Is("job"), Id, Is("polling")];
const WORKER: &[Segment] = &[Is("worker")];
const CONSTRAINT: &[Segment] = &[Is("constraint"), Constraint];

/// All routes. Method and path together are unique.
pub(super) static ROUTES: [Route; 34] = {
    use Method::{Delete, Get, Post, Put};
    use jobq::Operation as Jobq;
    use lightjq::Operation as Light;
    [
        route(Get, &[Is("")], Operation::Index, "index"),
        route(Get, &[Is("health")], Operation::Health, "health"),
        route(Get, &[Is("metrics")], Operation::Metrics, "metrics"),
        route(Get, &[Is("openapi.json")], Operation::OpenApi, "openapi"),
        route(Get, &[Is("processor"), Queue], Operation::Processor, "processor"),
        jobq(Get, QUEUES, Jobq::Queues, "list_queues"),
        jobq(Post, QUEUES, Jobq::CreateQueue, "create_queue"),
        jobq(Delete, QUEUE, Jobq::DropQueue, "delete_queue"),
        jobq(Get, JOBS, Jobq::List, "list_jobs"),
        jobq(Post, QUERY, Jobq::Find, "query_jobs"),
        jobq(Post, POLL, Jobq::Poll, "poll_job"),
        jobq(Post, JOBS, Jobq::Put, "create_job"),
        jobq(Get, JOB, Jobq::GetJob, "show_job"),
        jobq(Delete, JOB, Jobq::Delete, "delete_job"),
        jobq(Post, STATE, Jobq::CompareAndSetState, "advance_job"),
        jobq(Post, EVENT, Jobq::AppendEvent, "append_event"),
        jobq(Get, SHORT_JOBS, Jobq::List, "list_default_jobs"),
        jobq(Post, SHORT_JOBS, Jobq::Find, "query_default_jobs"),
        jobq(Post, SHORT_POLL, Jobq::Poll, "poll_default_job"),
        jobq(Post, SHORT_CREATE, Jobq::Put, "create_default_job"),
        jobq(Get, SHORT_JOB, Jobq::GetJob, "show_default_job"),
        jobq(Delete, SHORT_JOB, Jobq::Delete, "delete_default_job"),
        jobq(Post, SHORT_STATE, Jobq::CompareAndSetState, "advance_default_job"),
        jobq(Post, SHORT_EVENT, Jobq::AppendEvent, "append_default_event"),
        lightjq(Post, &[Is("job")], Light::Put, "push_job"),
        lightjq(Get, PUSHED, Light::GetStatus, "follow_job"),
        lightjq(Get, POLLING, Light::Await, "await_job"),
        lightjq(Delete, PUSHED, Light::Cancel, "cancel_job"),
        lightjq(Post, WORKER, Light::Register, "enlist_worker"),
        lightjq(Delete, WORKER, Light::Deregister, "dismiss_worker"),
        lightjq(Post, &[Is("done")], Light::Report, "report_job"),
        lightjq(Get, CONSTRAINT, Light::GetConstraint, "show_constraint"),
        lightjq(Put, CONSTRAINT, Light::SetConstraint, "set_constraint"),
        lightjq(Delete, CONSTRAINT, Light::RemoveConstraint, "delete_constraint"),
    ]
};

const DEFAULT_QUEUE: &[u8] = b"default";

/// The route of a request, and the parameters in its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteMatch {
    pub(super) operation: Operation,
    /// The job in the path, or [`JobId::NEVER`].
    pub(super) job: JobId,
    /// The response has no body.
    pub(super) to_head: bool,
    /// Parameters of LightJQ.
    pub(super) details: RequestParams,
    /// Names in lists are written whole, however long.
    pub(super) whole_names: bool,
    /// The client has the file that it asks for.
    pub(super) is_known: bool,
}

/// The most segments of a route.
const SEGMENTS_MAX: usize = 8;

/// Finds the route of a request, and writes the name of the queue or of the constraint into
/// `queue`. O(rows + target).
pub(super) fn find(
    method: &str,
    target: &str,
    queue: &mut Vec<u8>,
) -> Result<RouteMatch, RouteError> {
    if target == "*" {
        let methods = allow(ROUTES.iter());
        return Err(if method == "OPTIONS" {
            RouteError::Options(methods)
        } else {
            RouteError::NotFound
        });
    }
    let path = path(target)?;
    let mut parts = [""; SEGMENTS_MAX];
    let mut count = 0;
    for part in path.split('/') {
        let Some(place) = parts.get_mut(count) else { return Err(RouteError::NotFound) };
        *place = part;
        count += 1;
    }
    let parts = &parts[..count];
    if !parts.iter().all(|part| is_encoded_well(part)) {
        return Err(RouteError::Bad("in the path a '%' is not followed by two hexadecimal digits"));
    }
    let to_head = method == "HEAD";
    if native::is_native(parts) {
        let (route, job) = native::find(method, parts, queue)?;
        let (operation, details) = (Operation::Native(route), RequestParams::NONE);
        return Ok(RouteMatch {
            operation,
            job,
            to_head,
            details,
            whole_names: false,
            is_known: false,
        });
    }
    if let Some(page) = ui::find(parts) {
        return find_page(method, page);
    }
    let asked = if to_head { "GET" } else { method };
    let fits = |route: &&Route| leads_to(route.path, parts);
    let is_meant =
        |route: &&Route| route.method.name() == asked && (!to_head || answers_head(route));
    match ROUTES.iter().filter(fits).find(is_meant) {
        Some(route) => {
            let job = capture(route.path, parts, queue)?;
            let (operation, details) = (route.operation, RequestParams::NONE);
            Ok(RouteMatch { operation, job, to_head, details, whole_names: false, is_known: false })
        }
        None if has_slash_too_many(parts) => Err(RouteError::Slash),
        None if !ROUTES.iter().any(|route| fits(&route)) => Err(RouteError::NotFound),
        None => {
            let methods = allow(ROUTES.iter().filter(fits));
            Err(if method == "OPTIONS" {
                RouteError::Options(methods)
            } else {
                RouteError::Method(methods)
            })
        }
    }
}

/// The route of a file of the dashboard.
fn find_page(method: &str, page: PageRoute) -> Result<RouteMatch, RouteError> {
    match method {
        "GET" | "HEAD" => Ok(RouteMatch {
            operation: Operation::Page(page),
            job: JobId::NEVER,
            to_head: method == "HEAD",
            details: RequestParams::NONE,
            whole_names: false,
            is_known: false,
        }),
        "OPTIONS" => Err(RouteError::Options(PAGE_METHODS.to_owned())),
        _ => Err(RouteError::Method(PAGE_METHODS.to_owned())),
    }
}

/// The methods of the files of the dashboard.
const PAGE_METHODS: &str = "GET, HEAD, OPTIONS";

/// Whether there is a route without the slash at the end.
fn has_slash_too_many(parts: &[&str]) -> bool {
    let [rest @ .., ""] = parts else { return false };
    !rest.is_empty() && ROUTES.iter().any(|route| leads_to(route.path, rest))
}

/// Whether HEAD is answered: not for a GET that has an effect.
fn answers_head(route: &Route) -> bool {
    route.method == Method::Get && !takes(route.operation)
}

/// Whether a GET has an effect: a result is fetched once.
pub(super) fn takes(operation: Operation) -> bool {
    use lightjq::Operation::{Await, GetStatus};
    matches!(operation, Operation::LightJq(Await | GetStatus))
}

/// Whether a path without a route begins like those of LightJQ.
#[cold]
pub(super) fn is_of_lightjq(target: &str) -> bool {
    let Some(first) = path(target).ok().and_then(|path| path.split('/').next()) else {
        return false;
    };
    let of_lightjq = |route: &&Route| matches!(route.operation, Operation::LightJq(_));
    ROUTES.iter().filter(of_lightjq).any(|route| leads_to(&route.path[..1], &[first]))
}

/// What follows the scheme of a target in absolute form, which proxies send.
fn behind_scheme(target: &str) -> Option<&str> {
    let begins = |prefix: &&str| {
        target.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let prefix = ["http://", "https://"].into_iter().find(begins)?;
    Some(&target[prefix.len()..])
}

/// The authority of a target in absolute form.
pub(super) fn authority(target: &str) -> Option<&str> {
    let rest = behind_scheme(target)?;
    Some(rest.find(['/', '?', '#']).map_or(rest, |at| &rest[..at]))
}

/// The path of a target, without its first slash and its query.
fn path(target: &str) -> Result<&str, RouteError> {
    let rest = match behind_scheme(target) {
        Some(rest) => rest.find(['/', '?']).map_or("/", |at| &rest[at..]),
        None => target,
    };
    if rest.contains('#') {
        return Err(RouteError::Bad("the target has a fragment, which is of no use to a server"));
    }
    let path = rest.split('?').next().unwrap_or_default();
    match path.strip_prefix('/') {
        Some(path) => Ok(path),
        None if path.is_empty() => Ok(""),
        None => Err(RouteError::Bad("the target is no path: it has to begin with '/'")),
    }
}

fn is_encoded_well(part: &str) -> bool {
    let mut rest = part.as_bytes();
    while let Some(at) = memchr::memchr(b'%', rest) {
        rest = &rest[at + 1..];
        match rest {
            [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {}
            _ => return false,
        }
    }
    true
}

fn leads_to(path: &[Segment], parts: &[&str]) -> bool {
    let fits = |(segment, part): (&Segment, &&str)| match segment {
        Is(text) => {
            text == part || (part.contains('%') && percent_decode_str(part).eq(text.bytes()))
        }
        Queue | Constraint => true,
        Id => !part.is_empty(),
        Job => !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()),
    };
    path.len() == parts.len() && path.iter().zip(parts).all(fits)
}

fn capture(path: &[Segment], parts: &[&str], queue: &mut Vec<u8>) -> Result<JobId, RouteError> {
    queue.clear();
    let mut job = JobId::NEVER;
    for (segment, part) in path.iter().zip(parts) {
        match segment {
            Is(_) => {}
            Queue if part.is_empty() => {
                return Err(RouteError::Bad("the name of the queue is empty"));
            }
            Queue => queue.extend(percent_decode_str(part)),
            // A number with leading zeros, or above all ids, names no job.
            Job if part.len() > 1 && part.starts_with('0') => {}
            Job => job = part.parse().map_or(JobId::NEVER, JobId),
            Id => job = messages::job_id(part.as_bytes()),
            Constraint if part.is_empty() => {
                return Err(RouteError::Bad("the name of the constraint is empty"));
            }
            Constraint => {
                queue.extend(percent_decode_str(part));
                if std::str::from_utf8(queue).is_err() {
                    return Err(RouteError::Bad("the name of the constraint is not UTF-8"));
                }
            }
        }
    }
    if !path.contains(&Queue) && !path.contains(&Constraint) {
        queue.extend_from_slice(DEFAULT_QUEUE);
    }
    Ok(job)
}

fn allow(routes: impl Iterator<Item = &'static Route>) -> String {
    let routes: Vec<&Route> = routes.collect();
    let mut names = Vec::new();
    for method in Method::ALL {
        if routes.iter().any(|route| route.method == method) {
            names.push(method.name());
        }
        if method == Method::Get && routes.iter().any(|route| answers_head(route)) {
            names.push("HEAD");
        }
    }
    names.push("OPTIONS");
    names.join(", ")
}

/// Whether the body of a request for this operation is read.
pub(super) fn reads_body(call: &RouteMatch) -> bool {
    if let Operation::Native(route) = call.operation {
        return route.has_body();
    }
    let row = ROUTES.iter().find(|route| route.operation == call.operation);
    row.is_some_and(|route| route.method.has_body())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn found(method: &str, target: &str) -> Result<(&'static str, String, u64), RouteError> {
        let mut queue = Vec::new();
        let call = find(method, target, &mut queue)?;
        let named = |route: &&Route| route.operation == call.operation;
        let name = ROUTES.iter().find(named).unwrap().name;
        Ok((name, queue.escape_ascii().to_string(), call.job.0))
    }

    #[test]
    fn routes_have_unique_names_and_paths() {
        let names: HashSet<_> = ROUTES.iter().map(|route| route.name).collect();
        assert_eq!(names.len(), ROUTES.len());
        for (number, route) in ROUTES.iter().enumerate() {
            assert!(route.path.len() <= SEGMENTS_MAX);
            let same = |other: &&Route| other.method == route.method && other.path == route.path;
            assert!(!ROUTES[number + 1..].iter().any(|other| same(&other)), "{}", route.name);
        }
    }

    #[test]
    fn target_resolves_to_its_route() {
        let queue = |target: &str| found("DELETE", target).map(|(_, queue, _)| queue);
        for (target, name) in [
            ("/api/v0/queue/q", "q"),
            ("/api/v0/queue/q?x=/y", "q"),
            ("http://host:1/api/v0/queue/q", "q"),
            ("HTTP://host/api/v0/queue/q?", "q"),
            ("/%61pi/v0/queue/%71", "q"),
            ("/api/v0/queue/a%2Fb%2f", "a/b/"),
            ("/api/v0/queue/%2E%2E", ".."),
            ("/api/v0/queue/..", ".."),
            ("/api/v0/queue/%00%ff+%25", "\\x00\\xff+%"),
        ] {
            assert_eq!(queue(target), Ok(name.to_owned()), "{target}");
        }
        for target in ["/api/v0/queue/", "api/v0/queue/q", "/api/v0/queue/%", "/a/%4", "/%zz", "/#"]
        {
            assert!(matches!(queue(target), Err(RouteError::Bad(_))), "{target}");
        }
        for target in ["//api/v0/queue/q", "/a/b/c/d/e/f/g/h/i", "*", "http://h/x"] {
            assert_eq!(queue(target), Err(RouteError::NotFound), "{target}");
        }
        for target in ["/api/v0/queue/q/", "/health/", "//", "/worker/?x", "/api/v0/job/7/"] {
            assert_eq!(queue(target), Err(RouteError::Slash), "{target}");
        }
        assert_eq!(found("GET", "/api/v0/queue/"), Err(RouteError::Slash));
        assert_eq!(found("POST", "/job/"), Err(RouteError::Slash));
        assert_eq!(found("GET", "/job//"), Err(RouteError::NotFound));
        assert_eq!(found("GET", "/").map(|(name, ..)| name), Ok("index"));
        assert_eq!(found("HEAD", "/health?"), Ok(("health", "default".to_owned(), 0)));
    }

    #[test]
    fn job_id_is_a_plain_decimal_number() {
        let job = |name: &str| found("GET", &format!("/api/v0/job/{name}")).map(|(_, _, job)| job);
        assert_eq!(job("17"), Ok(17));
        assert_eq!(job("18446744073709551615"), Ok(u64::MAX));
        for none in ["0", "007", "18446744073709551616", "99999999999999999999999"] {
            assert_eq!(job(none), Ok(0), "{none}");
        }
        assert_eq!(job(""), Err(RouteError::Slash));
        for name in ["x", "-1", "1.0", "1e3", "%31", "+1"] {
            assert_eq!(job(name), Err(RouteError::NotFound), "{name}");
        }
    }

    #[test]
    fn path_lists_its_methods() {
        let methods = |method: &str, target: &str| match found(method, target) {
            Err(RouteError::Method(methods) | RouteError::Options(methods)) => methods,
            other => panic!("{method} {target}: {other:?}"),
        };
        assert_eq!(methods("PUT", "/health"), "GET, HEAD, OPTIONS");
        assert_eq!(methods("get", "/health"), "GET, HEAD, OPTIONS");
        assert_eq!(methods("OPTIONS", "/api/v0/queue"), "GET, HEAD, POST, OPTIONS");
        assert_eq!(methods("POST", "/api/v0/queue/q/job/1"), "GET, HEAD, DELETE, OPTIONS");
        assert_eq!(methods("GET", "/api/v0/job/create"), "POST, OPTIONS");
        assert_eq!(methods("OPTIONS", "*"), "GET, HEAD, POST, PUT, DELETE, OPTIONS");
        assert_eq!(methods("HEAD", "/job/1"), "GET, DELETE, OPTIONS");
        assert_eq!(methods("POST", "/constraint/c"), "GET, HEAD, PUT, DELETE, OPTIONS");
        assert_eq!(found("OPTIONS", "/nothing"), Err(RouteError::NotFound));
    }
}
