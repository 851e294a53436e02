//! The session alone, with replies that the test makes: pages, repeated commands, rejections.

use super::Session;
use crate::base::buf::{Input, OutBuf};
use crate::base::time::Now;
use crate::model::command::Command;
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedCommand, IndexedPage, IndexedReply, QueueSize};
use crate::model::reply::Reply;
use crate::protocol::{SessionAction, SessionContext};

struct Client {
    session: Session,
    shared: SessionContext,
    out: OutBuf,
    serial: u32,
}

impl Client {
    fn new() -> Self {
        let session = Session::new(Now::default());
        Self { session, shared: SessionContext::new(100), out: OutBuf::default(), serial: 0 }
    }

    /// Offers a request, or a turn without one. Returns the command, or the action, as text.
    fn turn(&mut self, request: &str) -> String {
        let mut input = Input::new(request.as_bytes());
        let step = self.session.poll_command(&mut input, &mut self.shared, &mut self.out);
        let (serial, words) = match step {
            SessionAction::Submit(serial, Command::Indexed(command)) => {
                (Some(serial), words(&command))
            }
            step => (None, format!("{step:?}")),
        };
        assert!(input.unread().is_empty());
        self.serial = serial.unwrap_or(self.serial);
        words
    }

    fn reply(&mut self, reply: &Reply<'_>) {
        assert!(!self.session.is_settled() && !self.session.wants_poll());
        self.session.handle_reply(self.serial, reply);
        assert!(self.session.wants_poll());
    }

    fn raw(&mut self) -> String {
        String::from_utf8(std::mem::take(self.out.tail())).unwrap()
    }

    /// The status and the body of the response, without the last line feed.
    fn written(&mut self) -> String {
        let text = self.raw();
        let status = text.get(9..12).unwrap_or_default().to_owned();
        let body = text.split_once("\r\n\r\n").map_or(text.as_str(), |(_, body)| body);
        format!("{status} {}", body.strip_suffix('\n').unwrap_or(body))
    }
}

fn words(watch: &IndexedCommand<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    match watch {
        IndexedCommand::Stats(census) => format!("census {census:?}"),
        IndexedCommand::Queues { from } => format!("queues {from}"),
        IndexedCommand::CreateQueue { queue } => format!("declare {:?}", queue.map(text)),
        IndexedCommand::DropQueue { queue } => format!("drop {}", text(queue)),
        IndexedCommand::List { queue } => format!("list {}", text(queue)),
        IndexedCommand::Find { queue, query, limit } => {
            format!("find {} {} {limit:?}", text(queue), query.terms.len())
        }
        IndexedCommand::Poll { queue, query, state } => {
            format!("poll {} {} {}", text(queue), query.terms.len(), text(state))
        }
        IndexedCommand::Put { queue, payload, state } => {
            format!("put {} {} {}", text(queue), text(payload), text(state))
        }
        IndexedCommand::Show { queue, id } => format!("show {} {}", text(queue), id.0),
        IndexedCommand::Delete { queue, id } => format!("delete {} {}", text(queue), id.0),
        IndexedCommand::CompareAndSetState { queue, id, old, new } => {
            format!("advance {} {} {} {}", text(queue), id.0, text(old), text(new))
        }
        IndexedCommand::AppendEvent { queue, id, event } => {
            format!("note {} {} {}", text(queue), id.0, text(event))
        }
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    let fields = format!("Host: localhost\r\nContent-Length: {length}\r\n");
    format!("{method} /api/v0/{path} HTTP/1.1\r\n{fields}\r\n{body}")
}

#[test]
fn every_jobq_route_submits_its_command() {
    for (method, path, body, asked) in [
        ("GET", "queue", "", "queues 0"),
        ("POST", "queue", r#"{"id":"a\u0062"}"#, "declare Some(\"ab\")"),
        ("POST", "queue", "{}", "declare None"),
        ("DELETE", "queue/q%2F", "", "drop q/"),
        ("GET", "queue/q/job", "", "list q"),
        ("POST", "queue/q/query_jobs", r#"{"limit":1e1,"query":[["=",1,2]]}"#, "find q 1 Some(10)"),
        ("POST", "queue/q/poll_job", r#"{"state":{"b":1.0,"a":[]}}"#, r#"poll q 0 {"a":[],"b":1}"#),
        ("POST", "queue/q/job", r#"{"payload": {"x":1.0} }"#, r#"put q {"x":1.0} null"#),
        ("GET", "queue/q/job/7", "", "show q 7"),
        ("DELETE", "queue/q/job/7", "", "delete q 7"),
        ("POST", "queue/q/job/7/state", r#"{"new":-0,"old":"\u0061"}"#, r#"advance q 7 "a" 0"#),
        ("POST", "queue/q/job/7/event", " [ 1 ]\n", "note q 7 [ 1 ]"),
        ("POST", "job/poll", "{}", "poll default 0 null"),
    ] {
        assert_eq!(Client::new().turn(&request(method, path, body)), asked);
        // The same with a body that arrives later.
        let (mut client, text) = (Client::new(), request(method, path, body));
        let (head, body) = text.split_at(text.len() - body.len());
        if !body.is_empty() {
            assert_eq!(client.turn(head), "NeedInput");
            assert_eq!(client.turn(body), asked);
        }
    }
}

#[test]
fn queue_list_is_paged() {
    let mut client = Client::new();
    let page = |names: &[&str], next| {
        let size = |name: &&str| QueueSize { name: name.as_bytes().into(), jobs: 2 };
        IndexedPage::Queues { queues: names.iter().map(size).collect(), next }
    };
    assert_eq!(client.turn(&request("GET", "queue", "")), "queues 0");
    client.reply(&Reply::IndexedPage(&page(&["a", "b"], Some(7))));
    assert_eq!(client.turn(""), "Yield");
    let first = r#"{"queues":[{"id":"a","jobs":2},{"id":"b","jobs":2}"#;
    assert_eq!(client.written(), format!("200 {:x}\r\n{first}\r", first.len()));
    assert_eq!(client.turn(""), "queues 7");
    // A page may be empty.
    client.reply(&Reply::IndexedPage(&page(&[], Some(9))));
    assert_eq!((client.turn(""), client.raw()), ("Yield".to_owned(), String::new()));
    assert_eq!(client.turn(""), "queues 9");
    client.reply(&Reply::IndexedPage(&page(&["c"], None)));
    assert_eq!(client.turn(""), "Continue");
    let last = r#",{"id":"c","jobs":2}]}"#;
    assert_eq!(client.raw(), format!("{:x}\r\n{last}\n\r\n0\r\n\r\n", last.len() + 1));
    assert!(client.session.is_settled());
}

#[test]
fn long_queue_name_is_shortened_unless_whole_names_are_requested() {
    let long = "\u{e9}".repeat(460_800);
    let queues = vec![QueueSize { name: long.as_bytes().into(), jobs: 2 }];
    let page = IndexedPage::Queues { queues, next: None };
    let asked = |path: &str| {
        let mut client = Client::new();
        assert_eq!(client.turn(&request("GET", path, "")), "queues 0");
        client.reply(&Reply::IndexedPage(&page));
        client.turn("");
        client.written()
    };
    let entry = |id: &str| format!("200 {{\"queues\":[{{\"id\":\"{id}\",\"jobs\":2");
    let cut = entry(&format!("{}...(921600 bytes)", "\u{e9}".repeat(512)));
    assert_eq!(asked("queue"), cut + ",\"bytes\":921600}]}");
    for path in ["queue?names=whole", "queue?x&n%61mes=whol%65"] {
        assert_eq!(asked(path), entry(&long) + "}]}", "{path}");
    }
    let mut client = Client::new();
    client.turn(&request("GET", "queue?names=all", ""));
    let why = "400 {\"error\":\"parameter 'names': the only value is 'whole'\"}";
    assert_eq!(client.written(), why);
}

#[test]
fn queue_drop_and_pending_backfill_repeat_their_command() {
    let mut client = Client::new();
    let drop = request("DELETE", "queue/q", "");
    let last = IndexedPage::QueueDropped { jobs: 5, more: false };
    let no_queue = Reply::Indexed(&IndexedReply::NoQueue);
    for (end, gone) in [(Reply::IndexedPage(&last), 2005), (no_queue, 2000)] {
        assert_eq!(client.turn(&drop), "drop q");
        for _ in 0..2 {
            let page = IndexedPage::QueueDropped { jobs: 1000, more: true };
            client.reply(&Reply::IndexedPage(&page));
            assert_eq!(client.turn(""), "Yield");
            assert_eq!(client.turn(""), "drop q");
        }
        client.reply(&end);
        assert_eq!(client.turn(""), "Continue");
        assert_eq!(client.written(), format!("200 {{\"deleted\":{gone}}}"));
    }
    assert_eq!(client.turn(&request("POST", "job/poll", r#"{"state":1}"#)), "poll default 0 1");
    for _ in 0..3 {
        client.reply(&Reply::IndexedPage(&IndexedPage::NotYet));
        assert_eq!(client.turn(""), "Yield");
        assert_eq!(client.turn(""), "poll default 0 1");
    }
    let bad = IndexedReply::BadQuery("no such function: x".into());
    client.reply(&Reply::Indexed(&bad));
    assert_eq!(client.turn(""), "Continue");
    assert_eq!(client.written(), r#"400 {"error":"no such function: x"}"#);
}

#[test]
fn rejections_have_their_statuses() {
    for (refusal, status) in [
        (IndexedReply::Full, 503),
        (IndexedReply::DiskFull, 507),
        (IndexedReply::LogFull, 507),
        (IndexedReply::QueueExists, 409),
    ] {
        let mut client = Client::new();
        client.turn(&request("POST", "job/create", r#"{"payload":1}"#));
        client.reply(&Reply::Indexed(&refusal));
        assert_eq!(client.turn(""), "Continue");
        assert!(client.written().starts_with(&format!("{status} {{\"error\":")));
    }
    let mut client = Client::new();
    client.turn(&request("GET", &format!("job/{}", u64::MAX), ""));
    client.reply(&Reply::Indexed(&IndexedReply::NoJob));
    client.turn("");
    assert_eq!(
        client.written(),
        format!("404 {{\"error\":\"there is no job {} in this queue\"}}", u64::MAX)
    );
    assert_eq!(JobId::NEVER.0, 0);
}
