//! Types of the simulated protocols: queues, states, requests and replies.

use super::beanstalkd;
use super::users::Token;
use crate::oracle::wire;
use jobcentre::base::limits::HTTP_CHUNK_BYTES;

/// A queue's name: how it may be written in JSON and in a path, how it is shown, what it is.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) written: &'static [&'static str],
    pub(crate) path: [&'static str; 2],
    pub(crate) shown: &'static str,
    pub(crate) bytes: &'static str,
}

pub(crate) use crate::oracle::types::Queue;

/// All queues of the simulator in which clients come by HTTP.
pub(crate) const QUEUES: [Name; 5] = [
    Name { written: &[r#""a""#, r#""\u0061""#], path: ["a", "%61"], shown: r#""a""#, bytes: "a" },
    Name {
        written: &[r#""default""#, r#""def\u0061ult""#],
        path: ["default", "%64efault"],
        shown: r#""default""#,
        bytes: "default",
    },
    Name {
        written: &[r#""a/b""#, r#""a\/b""#],
        path: ["a%2Fb", "a%2fb"],
        shown: r#""a/b""#,
        bytes: "a/b",
    },
    Name {
        written: &[r#""\u0000""#, r#""\u0000""#],
        path: ["%00", "%00"],
        shown: r#""\u0000""#,
        bytes: "\0",
    },
    Name {
        written: &[r#""é😀""#, r#""\u00e9\ud83d\ude00""#],
        path: ["%C3%A9%F0%9F%98%80", "%c3%a9%f0%9f%98%80"],
        shown: r#""é😀""#,
        bytes: "é😀",
    },
];

/// The number of the queue that always exists.
pub(crate) const DEFAULT: Queue = 1;

/// A user state: its canonical text, how else it may be written, and how a query names it.
pub(crate) struct Spelling {
    pub(crate) shown: &'static str,
    pub(crate) other: &'static str,
    pub(crate) query: &'static str,
}

/// A state, by its number in [`STATES`].
pub(crate) type State = usize;

/// All states; the first is that of a job that was never given one.
pub(crate) const STATES: [Spelling; 5] = [
    Spelling { shown: "null", other: " null", query: "null" },
    Spelling { shown: r#""A""#, other: r#""\u0041""#, query: r#""'\"A\"'""# },
    Spelling { shown: r#"[1,"x"]"#, other: r#"[ 1, "x" ]"#, query: r#""'[1,\"x\"]'""# },
    Spelling {
        shown: r#"{"a":1,"b":2}"#,
        other: r#"{"b":2,"a":1}"#,
        query: r#""'{\"a\":1,\"b\":2}'""#,
    },
    Spelling { shown: "true", other: "true", query: r#""true""# },
];

/// Which jobs a query is for: those in a state, those whose payload has this `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) state: Option<State>,
    pub(crate) n: Option<usize>,
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// Of a line or of packets.
    Wire(wire::Request),
    /// Of HTTP: what, and how.
    Http(Question, HttpOptions),
    Beanstalkd(beanstalkd::Request),
    /// Of lines and of beanstalkd: a token.
    Auth(Token),
}

impl Request {
    pub(crate) fn is_put(&self) -> bool {
        matches!(
            self,
            Self::Http(Question::Post { .. }, _)
                | Self::Wire(wire::Request::Put { .. } | wire::Request::Push { .. })
                | Self::Beanstalkd(beanstalkd::Request::Put { .. })
        )
    }
}

/// How an HTTP request is made.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpOptions {
    /// The bytes of its head.
    pub(crate) head: usize,
    /// Only the head of the answer is wanted.
    pub(crate) to_head: bool,
    /// The connection ends with it.
    pub(crate) close: bool,
    /// It ends with its head, whatever is behind, because nothing can be made of that.
    pub(crate) fatal: bool,
    /// It may be told to go on.
    pub(crate) expects: bool,
    /// The token that it carries.
    pub(crate) token: Option<Token>,
}

/// What an HTTP request is for.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Queues,
    Declare(Queue),
    Drop(Queue),
    List(Queue),
    Find {
        queue: Queue,
        want: Want,
        limit: Option<usize>,
    },
    Poll {
        queue: Queue,
        want: Want,
        new: State,
    },
    Post {
        queue: Queue,
        payload: String,
        state: State,
    },
    Show(Queue, u64),
    Delete(Queue, u64),
    Advance {
        queue: Queue,
        id: u64,
        old: State,
        new: State,
    },
    Note {
        queue: Queue,
        id: u64,
        event: &'static str,
    },
    /// What is no request of the protocol: the status, and the methods that it is told.
    Wrong(u16, Option<&'static str>),
}

/// An HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) status: u16,
    pub(crate) body: Body,
    pub(crate) allow: Option<&'static str>,
    /// In how many turns it is written.
    pub(crate) turns: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    /// This value, as text; of `queues` the order is left open.
    Json(String),
    /// An object with a sentence in `error`, and with this state if there is one.
    Error(Option<String>),
}

impl Page {
    pub(crate) fn new(status: u16, body: Body) -> Self {
        Self { status, body, allow: None, turns: 1 }
    }

    pub(crate) fn json(text: String) -> Self {
        Self::new(200, Body::Json(text))
    }

    pub(crate) fn error(status: u16) -> Self {
        Self::new(status, Body::Error(None))
    }

    /// A list of jobs, whose text may be too long for one turn.
    pub(crate) fn jobs(rows: &[String]) -> Self {
        let (mut turns, mut length) = (1, "{\"jobs\":[".len());
        for (number, row) in rows.iter().enumerate() {
            length += row.len() + usize::from(number > 0);
            if length >= HTTP_CHUNK_BYTES {
                (turns, length) = (turns + 1, 0);
            }
        }
        Self { turns, ..Self::json(format!("{{\"jobs\":[{}]}}", rows.join(","))) }
    }
}

/// What a client receives.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Bytes(Vec<u8>),
    Page(Page),
    /// Nothing, and nothing will come.
    Nothing,
    /// Something will come.
    Later,
}
