//! Users that change while their clients are in the middle of something: what the simulator of
//! several protocols has found, each by itself.

use crate::rng::TestRng;
use crate::seeds::Plan;
use crate::server_oracle::users::{Allowed, Table, User, token_text};
use jobcentre::access::Right;
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::engine::Engine;
use jobcentre::model::driver::{Core, Protocol};
use jobcentre::model::id::ClientId;
use jobcentre::model::peer::Peer;
use jobcentre::server::{Server, Settings};

const ALL: [Allowed; 4] =
    [(Right::Put, "*"), (Right::Take, "*"), (Right::Manage, "*"), (Right::Observe, "")];

const GET: &str = "{\"request\":\"get\",\"queues\":[\"q\"],\"wait\":true}\n";

fn user(name: &'static str, tokens: &[usize], allow: &[Allowed]) -> User {
    let (tokens, allow) = (tokens.to_vec(), allow.to_vec());
    User { name, tokens, allow, protocol: None, until: None }
}

struct Harness {
    server: Server,
    now: Now,
}

impl Harness {
    fn new(users: Vec<User>) -> Self {
        let settings = Settings { max_request: 8192, max_clients: 100, max_memory: None };
        // The clients of the second listener are the user `one`.
        let listeners = vec![None, Some("one".into())];
        let server = Server::new(settings, Engine::in_memory(7)).with_listener_users(listeners);
        let now = Now { mono: Mono(1_000_000), wall: Wall(1_700_000_000_000) };
        let mut harness = Self { server, now };
        harness.change(users);
        harness
    }

    /// The users are these from now on. The clients are looked at in the next pass.
    fn change(&mut self, users: Vec<User>) {
        self.server.set_users(Table(users).compiled(), self.now);
    }

    fn connect(&mut self, protocol: Protocol, listener: u32) -> ClientId {
        let client = self.server.handle_open(protocol, self.now).unwrap();
        self.server.handle_peer(client, Peer { listener, ..Peer::default() }, self.now);
        self.pass();
        client
    }

    fn say(&mut self, client: ClientId, text: &str) {
        self.server.handle_input(client, text.as_bytes(), self.now);
    }

    fn pass(&mut self) {
        self.server.finish_pass(self.now);
        while self.server.poll_touched().is_some() {}
        self.server.check_invariants();
    }

    fn read(&mut self, client: ClientId) -> String {
        self.pass();
        self.pass();
        let output = String::from_utf8(self.server.output(client).to_vec()).unwrap();
        self.server.handle_sent(client, output.len(), self.now);
        output
    }

    fn ask(&mut self, client: ClientId, text: &str) -> String {
        self.say(client, text);
        self.read(client)
    }

    /// A client of lines, as the user with this token.
    fn line_client(&mut self, token: usize) -> ClientId {
        let client = self.connect(Protocol::JobCentre, 0);
        let answer = self.ask(client, &auth_line(token));
        assert!(answer.contains("\"ok\""), "{answer}");
        client
    }
}

fn auth_line(token: usize) -> String {
    format!("{{\"request\":\"auth\",\"token\":\"{}\"}}\n", token_text(token))
}

fn put_line(queue: &str) -> String {
    format!("{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{{}},\"pri\":1}}\n")
}

#[test]
fn requests_behind_a_wait_that_is_ended_are_served() {
    let mut harness = Harness::new(vec![user("one", &[1], &ALL)]);
    let client = harness.line_client(1);
    harness.say(client, &[GET, &put_line("r")].concat());
    harness.pass();
    harness.change(vec![user("one", &[1], &ALL[..1])]);
    let answers = harness.read(client);
    let lines: Vec<&str> = answers.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("have changed"), "{answers}");
    assert_eq!(lines[1], "{\"status\":\"ok\",\"id\":1}");
}

#[test]
fn right_that_is_withdrawn_ends_also_for_a_request_before_the_next_look() {
    let mut harness = Harness::new(vec![user("one", &[1], &ALL)]);
    let client = harness.connect(Protocol::Http, 0);
    let body = "{\"payload\":1}";
    let post = format!(
        "POST /api/v0/queue/q/job HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        token_text(1),
        body.len()
    );
    let queue = "{\"id\":\"q\"}";
    let declare = format!(
        "POST /api/v0/queue HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Length: {}\r\n\r\n{queue}",
        token_text(1),
        queue.len()
    );
    assert!(harness.ask(client, &declare).starts_with("HTTP/1.1 201"));
    let answer = harness.ask(client, &post);
    assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    // Another user has the place of the former one in the table.
    harness.change(vec![user("two", &[1], &ALL[1..])]);
    for _ in 0..3 {
        let answer = harness.ask(client, &post);
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
}

#[test]
fn token_that_was_said_last_is_the_one_that_counts() {
    let mut harness = Harness::new(vec![user("one", &[1, 2], &ALL)]);
    let client = harness.line_client(1);
    assert!(harness.ask(client, &auth_line(2)).contains("\"ok\""));
    harness.change(vec![user("one", &[2], &ALL)]);
    assert_eq!(harness.ask(client, &put_line("q")), "{\"status\":\"ok\",\"id\":1}\n");
    harness.change(vec![user("one", &[1], &ALL)]);
    assert!(harness.read(client).contains("authenticate first"), "it is closed");
}

#[test]
fn tube_whose_use_or_watch_is_denied_is_neither_used_nor_watched() {
    let mut harness = Harness::new(vec![user("one", &[1], &ALL)]);
    let other = harness.connect(Protocol::Beanstalkd, 1);
    assert_eq!(harness.ask(other, "use t\r\nwatch t\r\n"), "USING t\r\nWATCHING 2\r\n");
    let client = harness.connect(Protocol::Beanstalkd, 0);
    let auth = format!("auth {}\r\nwatch w\r\nauth jc_wrong\r\n", token_text(1));
    assert_eq!(harness.ask(client, &auth), "OK\r\nWATCHING 2\r\nUNAUTHORIZED\r\n");
    let denied = "UNAUTHORIZED\r\n".repeat(3);
    assert_eq!(harness.ask(client, "use t\r\nwatch t\r\nignore w\r\n"), denied);
    let watched = "OK 18\r\n---\n- default\n- w\n\r\n";
    let known = format!("USING default\r\n{watched}");
    assert_eq!(harness.ask(client, "list-tube-used\r\nlist-tubes-watched\r\n"), known);
    harness.server.handle_reset(client, harness.now);
    let stats = harness.ask(other, "stats-tube t\r\n");
    for line in ["current-using: 1\n", "current-watching: 1\n"] {
        assert!(stats.contains(line), "{stats}");
    }
    assert_eq!(harness.ask(other, "stats-tube w\r\n"), "NOT_FOUND\r\n");
}

#[test]
fn client_that_becomes_a_user_in_the_middle_of_a_put_is_served_behind_it() {
    let mut harness = Harness::new(vec![user("other", &[9], &ALL)]);
    let client = harness.connect(Protocol::Beanstalkd, 1);
    assert_eq!(harness.ask(client, "put 0 0 60 4\r\nab"), "");
    harness.change(vec![user("one", &[1], &ALL)]);
    harness.pass();
    assert_eq!(harness.ask(client, "cd\r\n"), "UNAUTHORIZED\r\n");
    assert_eq!(harness.ask(client, "put 0 0 60 1\r\na\r\n"), "INSERTED 1\r\n");
}

#[test]
fn jobs_of_a_client_whose_user_is_gone_go_back() {
    let mut harness = Harness::new(vec![user("one", &[1], &ALL), user("two", &[2], &ALL)]);
    let (client, other) = (harness.line_client(1), harness.line_client(2));
    let held = harness.ask(client, &[&put_line("q"), GET].concat());
    assert!(held.contains("\"job\":{}"), "{held}");
    assert_eq!(harness.ask(other, GET), "");
    harness.change(vec![user("two", &[2], &ALL)]);
    assert!(harness.read(client).contains("authenticate first"));
    harness.server.handle_peer_closed(client, harness.now);
    harness.server.handle_eof(client, harness.now);
    assert!(harness.read(other).contains("\"id\":1"));
}

#[test]
fn packet_that_is_delivered_before_its_subscriber_is_closed_is_sent() {
    let users = vec![user("one", &[1], &ALL), user("two", &[2], &ALL)];
    let mut harness = Harness::new(users);
    // It is looked at before the subscriber, and its job is not that of a user any more.
    let holder = harness.line_client(1);
    assert!(harness.ask(holder, &[&put_line("q"), GET].concat()).contains("\"job\":{}"));
    let subscriber = harness.connect(Protocol::Pinpriq, 1);
    assert_eq!(harness.ask(subscriber, "s\0\u{1}qA"), "");
    harness.server.handle_peer_closed(holder, harness.now);
    harness.change(vec![user("two", &[2], &ALL)]);
    let delivered = harness.read(subscriber);
    assert!(delivered.ends_with("{}"), "{delivered:?}");
}

/// What a user who follows the server may have, beside others.
const WATCHING: [Allowed; 3] = [(Right::Observe, ""), (Right::Peek, "*"), (Right::Take, "q")];

/// A user with some of these rights, if there is one.
fn drawn(rng: &mut TestRng, name: &'static str, token: usize) -> Option<User> {
    let allow: Vec<Allowed> = WATCHING.into_iter().filter(|_| rng.percent(70)).collect();
    rng.percent(80).then(|| user(name, &[token], &allow))
}

/// Event streams begin, and the users change: a stream goes on if and only if its user is there and
/// has all that it had.
fn follow(seed: u64) -> usize {
    let rng = &mut TestRng::new(seed);
    let mut users: Vec<Option<User>> = vec![None, None, None];
    let mut harness = Harness::new(Vec::new());
    let mut streams: Vec<(ClientId, usize)> = Vec::new();
    let mut ended = 0;
    for _ in 0..40 {
        let token = rng.below(3);
        if let Some(user) = &users[token]
            && streams.len() < 8
            && rng.percent(60)
        {
            let client = harness.connect(Protocol::Http, 0);
            let request = format!(
                "GET /api/v1/stream?topics=overview HTTP/1.1\r\nHost: localhost\r\n\
                 Authorization: Bearer {}\r\n\r\n",
                token_text(token)
            );
            let answer = harness.ask(client, &request);
            let status = if user.allow.contains(&WATCHING[0]) { "200" } else { "403" };
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer}");
            if status == "200" {
                streams.push((client, token));
            }
            continue;
        }
        let name = rng.word(&["one", "two", "three"]);
        let is_taken = users.iter().flatten().any(|user| user.name == name);
        let former = users[token].take();
        let keeps_name = former.as_ref().map(|user| user.name);
        let name = if is_taken { keeps_name } else { Some(name) };
        users[token] = name.and_then(|name| drawn(rng, name, token));
        harness.change(users.iter().flatten().cloned().collect());
        let later = users[token].as_ref();
        let keeps_all = former.as_ref().zip(later).is_some_and(|(former, later)| {
            former.name == later.name && former.allow.iter().all(|it| later.allow.contains(it))
        });
        harness.now.mono = harness.now.mono.after(std::time::Duration::from_millis(300));
        streams.retain(|&(client, of)| {
            let goes_on = of != token || keeps_all;
            let has_ended = harness.read(client).ends_with("0\r\n\r\n");
            assert_eq!(has_ended, !goes_on, "of {of}, and {token} changes: {former:?} {later:?}");
            ended += usize::from(has_ended);
            goes_on
        });
    }
    ended
}

#[test]
fn event_streams_end_if_and_only_if_their_user_loses_something() {
    let Some(ended) = Plan::new(100, &[]).play(follow) else { return };
    assert!(ended.into_iter().sum::<usize>() > 200, "too few streams have ended");
}
