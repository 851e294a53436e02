//! Each request of the protocols without HTTP with each right: the tables say which one a request
//! needs. Those of HTTP stand in `tests/it/process/users/matrix.rs`.

use super::{Server, Settings};
use crate::access::{Digest, Permission, UserSpec, Users};
use crate::base::time::{Mono, Now, Wall};
use crate::engine::Engine;
use crate::model::driver::{Core, Incident, Protocol};
use crate::model::id::ClientId;
use crate::model::peer::Peer;
use crate::protocol::line_operations;
use crate::wire::packets::{Request, push_request};

/// A request, under the name of its operation, and what it needs: a permission as in the settings,
/// `user` for any user, or `open`.
type Row = (&'static str, &'static str, &'static str);

/// There is a job 1 in the queue `q`, and it is ready.
const LINES: &[Row] = &[
    ("auth", r#"{"request":"auth","token":"none"}"#, "open"),
    ("put", r#"{"request":"put","queue":"q","job":{},"pri":1}"#, "put:q"),
    ("put", r#"{"request":"put","queue":"q","job":{},"pri":1,"max_attempts":2}"#, "put:q"),
    ("get", r#"{"request":"get","queues":["q"]}"#, "take:q"),
    ("get", r#"{"request":"get","queues":["q"],"limit":2}"#, "take:q"),
    ("get", r#"{"request":"get","queues":["q","r"]}"#, "take:q and take:r"),
    ("delete", r#"{"request":"delete","id":1}"#, "manage:q"),
    ("abort", r#"{"request":"abort","id":1}"#, "take:q"),
    ("touch", r#"{"request":"touch","id":1}"#, "take:q"),
    ("get_job", r#"{"request":"peek","id":1}"#, "peek:q"),
    ("peek_queue", r#"{"request":"peek","queue":"q"}"#, "peek:q"),
    ("get_result", r#"{"request":"result","id":1,"timeout":0}"#, "peek:q"),
    ("complete_job", r#"{"request":"done","id":1}"#, "take:q"),
    ("fail_job", r#"{"request":"fail","id":1,"error":"e"}"#, "take:q"),
    ("release_job", r#"{"request":"release","id":1}"#, "manage:q"),
    ("touch_job", r#"{"request":"touch","id":1,"ttr":1000}"#, "take:q"),
    ("report_progress", r#"{"request":"progress","id":1,"progress":0.5}"#, "take:q"),
    ("list_all_queues", r#"{"request":"queues"}"#, "observe"),
    ("get_queue", r#"{"request":"stats","queue":"q"}"#, "observe"),
    ("get_server", r#"{"request":"stats"}"#, "observe"),
    ("get_job_stats", r#"{"request":"stats","id":1}"#, "peek:q"),
    ("pause_queue", r#"{"request":"pause","queue":"q"}"#, "manage:q"),
    ("resume_queue", r#"{"request":"resume","queue":"q"}"#, "manage:q"),
    ("list_jobs_of_queue", r#"{"request":"list","queue":"q"}"#, "peek:q"),
    ("change_job", r#"{"request":"change","id":1,"fields":{"pri":3}}"#, "manage:q"),
    ("change_job", r#"{"request":"change","id":1,"fields":{"queue":"r"}}"#, "manage:q and put:r"),
    ("cancel_job_of_any_state", r#"{"request":"cancel","id":1}"#, "manage:q"),
    ("bury_job", r#"{"request":"bury","id":1}"#, "manage:q"),
    ("kick_job", r#"{"request":"kick","id":1}"#, "manage:q"),
    ("purge_queue", r#"{"request":"purge","queue":"q","states":["buried"]}"#, "manage:q"),
    ("kick_queue", r#"{"request":"kick","queue":"q"}"#, "manage:q"),
    (
        "move_jobs",
        r#"{"request":"move","queue":"q","to":"r","states":["ready"]}"#,
        "manage:q and put:r",
    ),
    ("drain_server", r#"{"request":"drain","on":false}"#, "admin"),
    ("reload_server", r#"{"request":"reload"}"#, "admin"),
    ("list_connections", r#"{"request":"clients"}"#, "admin"),
    ("close_connection", r#"{"request":"close","id":9}"#, "admin"),
    (
        "begin_action",
        r#"{"request":"act","queue":"q","where":{"state":"ready"},"do":"bury","dry_run":true}"#,
        "manage:q",
    ),
    ("list_actions", r#"{"request":"actions"}"#, "observe"),
    ("get_action", r#"{"request":"actions","action":9}"#, "observe"),
    ("cancel_action", r#"{"request":"cancel","action":9}"#, "manage:*"),
];

/// The tube `q` is used and watched.
const TUBES: &[Row] = &[
    ("auth", "auth none", "open"),
    ("put", "put 0 0 1 1\r\na", "put:q"),
    ("peek", "peek 1", "peek:q"),
    ("peek-ready", "peek-ready", "peek:q"),
    ("peek-delayed", "peek-delayed", "peek:q"),
    ("peek-buried", "peek-buried", "peek:q"),
    ("reserve", "reserve", "take:q"),
    ("reserve-with-timeout", "reserve-with-timeout 0", "take:q"),
    ("reserve-job", "reserve-job 1", "take:q"),
    ("delete", "delete 1", "manage:q"),
    ("release", "release 1 0 0", "take:q"),
    ("bury", "bury 1 0", "take:q"),
    ("touch", "touch 1", "take:q"),
    ("kick", "kick 1", "manage:q"),
    ("kick-job", "kick-job 1", "manage:q"),
    ("pause-tube", "pause-tube q 1", "manage:q"),
    ("use", "use r", "user"),
    ("watch", "watch r", "user"),
    ("ignore", "ignore q", "user"),
    ("list-tube-used", "list-tube-used", "user"),
    ("list-tubes-watched", "list-tubes-watched", "user"),
    ("list-tubes", "list-tubes", "observe"),
    ("stats", "stats", "observe"),
    ("stats-job", "stats-job 1", "observe"),
    ("stats-tube", "stats-tube q", "observe"),
    ("quit", "quit", "open"),
];

/// The permissions of the users, one each, besides those of the user who may do all.
const PERMISSIONS: [&str; 14] = [
    "put:q", "put:*", "put:r", "take:q", "take:*", "take:r", "peek:q", "peek:*", "peek:r",
    "manage:q", "manage:*", "manage:r", "observe", "admin",
];

const ALL: &str = "put:*,take:*,peek:*,manage:*,observe,admin";

/// Whether one permission is enough for a need.
fn is_enough(permission: &str, need: &str) -> bool {
    let all = |need: &str| format!("{}:*", need.split(':').next().unwrap_or_default());
    let covers = |need: &str| {
        matches!(need, "open" | "user")
            || permission == need
            || (need.contains(':') && permission == all(need))
    };
    permission == ALL || need.split(" and ").all(covers)
}

struct Harness {
    server: Server,
    now: Now,
}

impl Harness {
    /// A server with a job, whose users are the one with these permissions, by the first listener,
    /// and the one who may do all, by the second one. By the third one comes no user.
    fn new(allow: &str) -> Self {
        let settings = Settings { max_request: 8192, max_clients: 10, max_memory: None };
        let listeners = vec![Some("one".into()), Some("all".into()), None];
        let server = Server::new(settings, Engine::in_memory(7)).with_listener_users(listeners);
        let now = Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) };
        let mut harness = Self { server, now };
        let user = |name: &str, allow: &str| UserSpec {
            name: name.into(),
            tokens: vec![Digest::of(name.as_bytes())],
            certificates: Vec::new(),
            uids: Vec::new(),
            allow: allow.split(',').map(|text| Permission::parse(text).unwrap()).collect(),
            protocols: None,
            until: None,
        };
        let users = Users::new(vec![user("one", allow), user("all", ALL)]).unwrap();
        harness.server.set_users(users, now);
        let owner = harness.connect(Protocol::JobCentre, 1);
        let answer =
            harness.ask(owner, b"{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":1}\n");
        assert!(answer.contains("\"ok\""), "{answer}");
        harness
    }

    fn connect(&mut self, protocol: Protocol, listener: u32) -> ClientId {
        let client = self.server.handle_open(protocol, self.now).unwrap();
        self.server.handle_peer(client, Peer { listener, ..Peer::default() }, self.now);
        client
    }

    /// What the client is answered.
    fn ask(&mut self, client: ClientId, bytes: &[u8]) -> String {
        self.server.handle_input(client, bytes, self.now);
        for _ in 0..3 {
            self.server.finish_pass(self.now);
        }
        while self.server.poll_touched().is_some() {}
        self.server.check_invariants();
        let output = String::from_utf8_lossy(self.server.output(client)).into_owned();
        self.server.handle_sent(client, output.len(), self.now);
        output
    }

    /// Whether something was denied since the last time.
    fn was_denied(&mut self) -> bool {
        let notices = std::iter::from_fn(|| self.server.poll_notice());
        notices.filter(|notice| matches!(notice.incident, Incident::Denied(_))).count() > 0
    }
}

/// Plays each row as each user, and as no user. `is_denied`: of an answer.
fn check(
    protocol: Protocol,
    rows: &[Row],
    (first, end): (&str, &str),
    is_denied: impl Fn(&str) -> bool,
) {
    for &(name, text, need) in rows {
        let request = format!("{text}{end}");
        for permission in PERMISSIONS.into_iter().chain([ALL]) {
            let mut harness = Harness::new(permission);
            let client = harness.connect(protocol, 0);
            harness.ask(client, first.as_bytes());
            let answer = harness.ask(client, request.as_bytes());
            // A wrong token is no right that is missing.
            let denied = is_denied(&answer) && name != "auth";
            assert_eq!(denied, !is_enough(permission, need), "{text} as {permission}: {answer}");
        }
        let mut harness = Harness::new(ALL);
        let client = harness.connect(protocol, 2);
        let answer = harness.ask(client, request.as_bytes());
        let is_refused = answer.contains("authenticate first") || answer.contains("UNAUTHORIZED");
        assert_eq!(
            is_refused || name == "auth",
            need != "open" || name == "auth",
            "{text}: {answer}"
        );
        assert_eq!(harness.server.counts().jobs, 1, "{text}: nothing was carried out");
    }
}

#[test]
fn line_request_is_carried_out_for_those_who_have_its_right_and_only_for_them() {
    for name in line_operations() {
        let has_row = LINES.iter().any(|row| row.0 == name);
        assert!(has_row, "{name} has no row: which right does it need?");
    }
    let is_denied = |answer: &str| answer.contains("lacks the right");
    check(Protocol::JobCentre, LINES, ("", "\n"), is_denied);
}

#[test]
fn command_of_beanstalkd_is_carried_out_for_those_who_have_its_right_and_only_for_them() {
    let mut harness = Harness::new(ALL);
    let client = harness.connect(Protocol::Beanstalkd, 0);
    let stats = harness.ask(client, b"stats\r\n");
    let names: Vec<&str> = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmd-")?.split_once(':').map(|pair| pair.0))
        .collect();
    assert!(names.len() > 20, "{stats}");
    for name in names {
        let has_row = TUBES.iter().any(|row| row.0 == name);
        assert!(has_row, "{name} has no row: which right does it need?");
    }
    let first = "use q\r\nwatch q\r\nignore default\r\n";
    let is_denied = |answer: &str| answer == "UNAUTHORIZED\r\n";
    check(Protocol::Beanstalkd, TUBES, (first, "\r\n"), is_denied);
}

#[test]
fn packet_is_taken_and_given_for_those_who_have_the_right_and_only_for_them() {
    let all = [
        Request::Push { queue: b"q", ttl_ms: 0, priority: 1, key_len: 0, packet: b"p" },
        Request::Pop { queue: b"q" },
        Request::Subscribe { queue: b"q" },
        Request::Unsubscribe { queue: b"q" },
        Request::Ready,
    ];
    for request in &all {
        let need = match request {
            Request::Push { .. } => "put:q",
            Request::Pop { .. } | Request::Subscribe { .. } => "take:q",
            Request::Unsubscribe { .. } | Request::Ready => "user",
        };
        let mut bytes = Vec::new();
        push_request(&mut bytes, request);
        if let Request::Subscribe { .. } = request {
            // A subscription counts when there is a credit.
            push_request(&mut bytes, &Request::Ready);
        }
        for permission in PERMISSIONS.into_iter().chain([ALL]) {
            let mut harness = Harness::new(permission);
            let client = harness.connect(Protocol::Pinpriq, 0);
            harness.ask(client, &bytes);
            let what = format!("{request:?} as {permission}");
            assert_eq!(harness.was_denied(), !is_enough(permission, need), "{what}");
        }
    }
}
