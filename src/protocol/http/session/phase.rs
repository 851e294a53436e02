//! The phases of a session: from the head of a request to the end of its response.

use super::importing::Importing;
use crate::model::id::JobId;
use crate::model::indexed_queue::{IndexedPage, IndexedReply};
use crate::model::stats::StatsPage;
use crate::protocol::SessionAction;
use crate::protocol::http::Long;
use crate::protocol::http::jobq::{PagedRequest, SingleRequest};
use crate::protocol::http::lightjq::{self, Response};
use crate::protocol::http::live::LiveStream;
use crate::protocol::http::metrics::{self, StatsCollector};
use crate::protocol::http::processor_status::ProcessorStatus;
use crate::protocol::http::request::PendingBody;
use crate::protocol::http::response::HttpError;
use crate::protocol::http::route::RouteMatch;
use crate::protocol::operations::{Call, Next};
use crate::wire::http::{Expect, Framing};

/// What a session does: it reads a request, waits for a reply, or writes a response.
#[derive(Debug)]
pub(super) enum Phase {
    /// Between two requests, or in the head of one: then it has begun.
    Head {
        begun: bool,
    },
    /// The head is read, and it is not known yet who asks.
    Authenticating(Box<Arrived>),
    Body(Box<PendingBody>),
    /// The body of an import, which is executed as it arrives.
    Importing(Box<Importing>),
    /// The engine has a command of this request.
    Submitted(Submitted),
    /// The last reply to a Jobq request, which may have taken several commands.
    Answered(JobId, Option<Box<PagedRequest>>, IndexedReply),
    /// A request that may take several commands, with the latest page. `None`: the next command is
    /// due.
    Paging(Box<PagedRequest>, Option<IndexedPage>),
    /// What follows the reply to the last command of a request of the native API.
    Replied(Box<Call>, Next),
    /// The response to a LightJQ request.
    Respond(Result<Response, HttpError>),
    /// Queue samples for `/metrics` are being collected. `None`: the next command is due.
    Collecting(Box<StatsCollector>, Option<StatsPage>),
    /// The samples are complete; the server's own counters are requested.
    FetchingStats(metrics::QueueSample),
    /// `/processor/{queue}` is being collected and written.
    Listing(Box<ProcessorStatus>),
    /// The response continues.
    Streaming(Box<dyn Long>),
    /// Frames are written once a second.
    Live(Box<LiveStream>),
    /// Further input is discarded.
    Over,
}

/// A request whose head is read.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) routed: Result<RouteMatch, HttpError>,
    pub(super) framing: Framing,
    pub(super) expect: Expect,
    /// The name of the queue in the path.
    pub(super) queue: Vec<u8>,
    pub(super) query_text: String,
}

/// The request to which a submitted command belongs.
#[derive(Debug)]
pub(super) enum Submitted {
    Jobq(JobId),
    Paged(Box<PagedRequest>),
    LightJq(lightjq::Operation, JobId),
    Native(Box<Call>),
    Import(Box<Importing>),
    Stats(Box<StatsCollector>),
    Listing(Box<ProcessorStatus>),
    Live(Box<LiveStream>),
}

/// A request whose body has been read.
pub(super) enum Prepared {
    /// It is answered, or rejected.
    Answered(SessionAction<'static>),
    Jobq(SingleRequest),
    Paged(Box<PagedRequest>),
    LightJq(lightjq::Operation),
    Native(Box<Call>),
    Stats,
    Listing(Box<ProcessorStatus>),
}
