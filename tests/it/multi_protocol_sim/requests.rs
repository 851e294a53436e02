//! HTTP requests in the forms that clients may use.

use crate::rng::TestRng;
use crate::server_oracle::types::{
    DEFAULT, HttpOptions, QUEUES, Question, Queue, Request, STATES, State, Want,
};
use std::fmt::Write as _;

/// What a request says, before its head is written.
pub(super) struct Form {
    method: &'static str,
    path: String,
    body: Option<String>,
}

fn put(path: String, body: String) -> Form {
    Form { method: "POST", path, body: Some(body) }
}

fn get(path: String) -> Form {
    Form { method: "GET", path, body: None }
}

fn delete(path: String) -> Form {
    Form { method: "DELETE", path, body: None }
}

/// A state as it may be written.
fn write_state(rng: &mut TestRng, state: State) -> &'static str {
    let state = &STATES[state];
    rng.word(&[state.shown, state.shown, state.other])
}

/// The member `state` with its comma, which may be left out if it is the first one.
fn state_member(rng: &mut TestRng, state: State) -> String {
    if state == 0 && rng.percent(30) {
        return String::new();
    }
    format!(",\"state\":{}", write_state(rng, state))
}

fn write_want(rng: &mut TestRng, want: Want) -> String {
    let mut options = Vec::new();
    if let Some(state) = want.state {
        let (column, literal) = (rng.word(&["state", "j.state", "STATE"]), STATES[state].query);
        options.push(if rng.percent(70) {
            format!("[\"IS\",\"{column}\",{literal}]")
        } else {
            format!("[\"IS\",{literal},\"{column}\"]")
        });
    }
    if let Some(n) = want.n {
        options.push(format!("[\"=\",\"json_extract(payload,'$.n')\",{n}]"));
    }
    rng.shuffle(&mut options);
    format!("[{}]", options.join(","))
}

impl Form {
    pub(super) fn of(rng: &mut TestRng, question: &Question) -> Self {
        let short = rng.percent(50);
        let mut jobs = |queue: Queue, end: &str, short_end: &str| {
            if queue == DEFAULT && short {
                return format!("/api/v0/job{short_end}");
            }
            format!("/api/v0/queue/{}{end}", rng.word(&QUEUES[queue].path))
        };
        let job = |id: u64, end: &str| (format!("/job/{id}{end}"), format!("/{id}{end}"));
        match *question {
            Question::Queues => get("/api/v0/queue?all".to_owned()),
            Question::Declare(queue) => {
                let name = rng.word(QUEUES[queue].written);
                put("/api/v0/queue".to_owned(), format!("{{\"id\":{name}}}"))
            }
            Question::Drop(queue) => {
                let path = rng.word(&QUEUES[queue].path);
                delete(format!("/api/v0/queue/{path}"))
            }
            Question::List(queue) => get(jobs(queue, "/job", "")),
            Question::Find { queue, want, limit } => {
                let path = jobs(queue, "/query_jobs", "");
                let limit = limit.map(|limit| format!(",\"limit\":{limit}")).unwrap_or_default();
                put(path, format!("{{\"query\":{}{limit}}}", write_want(rng, want)))
            }
            Question::Poll { queue, want, new } => {
                let path = jobs(queue, "/poll_job", "/poll");
                let (want, state) = (write_want(rng, want), state_member(rng, new));
                put(path, format!("{{\"query\":{want}{state}}}"))
            }
            Question::Post { queue, ref payload, state } => {
                let path = jobs(queue, "/job", "/create");
                let state = state_member(rng, state);
                put(path, format!("{{\"payload\":{payload}{state}}}"))
            }
            Question::Show(queue, id) => {
                let (end, short_end) = job(id, "");
                get(jobs(queue, &end, &short_end))
            }
            Question::Delete(queue, id) => {
                let (end, short_end) = job(id, "");
                delete(jobs(queue, &end, &short_end))
            }
            Question::Advance { queue, id, old, new } => {
                let (end, short_end) = job(id, "/state");
                let path = jobs(queue, &end, &short_end);
                let (old, new) = (write_state(rng, old), write_state(rng, new));
                put(path, format!("{{\"new\":{new},\"old\":{old}}}"))
            }
            Question::Note { queue, id, event } => {
                let (end, short_end) = job(id, "/event");
                put(jobs(queue, &end, &short_end), event.to_owned())
            }
            Question::Wrong(..) => unreachable!("there are many ways to be wrong"),
        }
    }

    /// Writes the request: its body as it is, or in chunks.
    pub(super) fn write(
        mut self,
        rng: &mut TestRng,
        mut manner: HttpOptions,
    ) -> (Vec<u8>, HttpOptions) {
        if self.method == "GET" && rng.percent(10) {
            (self.method, manner.to_head) = ("HEAD", true);
        }
        let mut head = format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", self.method, self.path);
        if rng.percent(20) {
            head.push_str("User-Agent: a client, of this protocol\r\naccept: */*\r\n");
        }
        if manner.close {
            head.push_str("Connection: close\r\n");
        }
        let mut written = Vec::new();
        if let Some(body) = self.body.take() {
            let chunked = body.len() < 10_000 && rng.percent(20);
            manner.expects = rng.percent(5);
            if manner.expects {
                head.push_str("Expect: 100-continue\r\n");
            }
            if chunked {
                head.push_str("Transfer-Encoding: chunked\r\n");
                let mut rest = body.as_bytes();
                while !rest.is_empty() {
                    let count = rng.between(1, rest.len());
                    written.extend_from_slice(format!("{count:x}\r\n").as_bytes());
                    written.extend_from_slice(&rest[..count]);
                    written.extend_from_slice(b"\r\n");
                    rest = &rest[count..];
                }
                written.extend_from_slice(b"0\r\n\r\n");
            } else {
                write!(head, "Content-Length: {}\r\n", body.len()).unwrap();
                written = body.into_bytes();
            }
        }
        head.push_str("\r\n");
        manner.head = head.len();
        (([head.as_bytes(), &written]).concat(), manner)
    }
}

/// A request that is no good: method, path, body, status, and what the answer allows.
type Wrong = (&'static str, &'static str, Option<&'static str>, u16, Option<&'static str>);

const WRONG: [Wrong; 10] = [
    ("GET", "/nowhere", None, 404, None),
    ("GET", "/api/v0/queue/a/job/x", None, 404, None),
    ("PUT", "/api/v0/queue", Some("{}"), 405, Some("GET, HEAD, POST, OPTIONS")),
    ("DELETE", "/api/v0/queue/a/poll_job", None, 405, Some("POST, OPTIONS")),
    ("OPTIONS", "/api/v0/queue/a", None, 204, Some("DELETE, OPTIONS")),
    ("POST", "/api/v0/queue/default/job", Some("{\"state\":1}"), 400, None),
    ("POST", "/api/v0/queue/default/job", Some("{payload:1}"), 400, None),
    ("POST", "/api/v0/queue//job", Some("{\"payload\":1}"), 400, None),
    ("POST", "/api/v0/job/1/state", Some("{\"old\":null}"), 400, None),
    ("POST", "/api/v0/job/poll", None, 411, None),
];

/// Heads behind which nothing can be understood.
const FATAL: [(&str, u16); 3] = [
    ("POST /api/v0/job/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n", 413),
    ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
    (
        "POST /api/v0/job/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
        400,
    ),
];

/// A request that is answered by an error.
pub(super) fn wrong(rng: &mut TestRng) -> (Vec<u8>, Request) {
    if rng.percent(8) {
        let (head, status) = *rng.pick(&FATAL);
        let manner =
            HttpOptions { head: head.len(), close: true, fatal: true, ..HttpOptions::default() };
        let bytes = [head, "0\r\n\r\nGET /health HTTP/1.1\r\n\r\n"].concat().into_bytes();
        return (bytes, Request::Http(Question::Wrong(status, None), manner));
    }
    let (method, path, body, status, allow) = *rng.pick(&WRONG);
    let form = Form { method, path: path.to_owned(), body: body.map(str::to_owned) };
    let (bytes, manner) = form.write_plainly(rng);
    (bytes, Request::Http(Question::Wrong(status, allow), manner))
}

impl Form {
    /// Without anything that would make another error of it.
    fn write_plainly(self, rng: &mut TestRng) -> (Vec<u8>, HttpOptions) {
        let close = if rng.percent(3) { "Connection: close\r\n" } else { "" };
        let body = self.body.as_deref().unwrap_or_default();
        let length = match &self.body {
            Some(body) => format!("Content-Length: {}\r\n", body.len()),
            None => String::new(),
        };
        let first = format!("{} {} HTTP/1.1\r\nHost: localhost\r\n", self.method, self.path);
        let head = format!("{first}{close}{length}\r\n");
        let (head_len, close) = (head.len(), !close.is_empty());
        let manner = HttpOptions { head: head_len, close, ..HttpOptions::default() };
        ([head.as_bytes(), body.as_bytes()].concat(), manner)
    }
}
