//! One client of an async variant, without its socket: a session, its buffers, and its progress
//! towards the close. It is the same for every runtime and engine; a driver moves the bytes, and an
//! [`EngineHandle`] submits the commands.
//!
//! The rules are those of the server: input is parsed at once where it was read, and all replies to
//! it leave in one write; above [`OUTPUT_HIGH_WATER_BYTES`] unsent bytes a connection is neither
//! read nor served; behind a waiting get up to [`STALLED_INPUT_MAX_BYTES`] bytes are buffered.

use jobcentre::base::buf::{BufferPool, InBuf, Input, OutBuf, progress};
use jobcentre::base::limits::{
    OUTPUT_HIGH_WATER_BYTES, READ_BUDGET_BYTES, STALLED_INPUT_MAX_BYTES,
};
use jobcentre::base::time::{Mono, Now, Wall};
use jobcentre::model::command::Command;
use jobcentre::model::driver::Protocol;
use jobcentre::protocol::{Session, SessionAction, SessionContext};
use std::cell::RefCell;
use std::sync::LazyLock;
use std::task::Waker;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Where a connection takes its commands.
pub(super) trait EngineHandle {
    /// Takes a command. Its reply is in the slot at once, or [`EngineHandle::fetch`] brings it.
    fn submit(
        &mut self,
        slot: &mut ClientSlot,
        serial: u32,
        command: &Command<'_>,
        turn: &mut Turn<'_>,
    );

    /// Everything that came in has been submitted.
    fn hand_over(&mut self) {}

    /// Brings what was answered meanwhile; if there is nothing, the turn's waker is woken once
    /// there is.
    fn fetch(&mut self, slot: &mut ClientSlot, turn: &mut Turn<'_>);

    /// The peer sends nothing more: calls off the take that waits, if one does.
    fn call_off(&mut self, slot: &mut ClientSlot, turn: &mut Turn<'_>);

    /// The client is gone, and what it holds goes back.
    fn leave(&mut self);
}

/// What replies are written by, and into.
#[derive(Debug, Default)]
pub(super) struct ClientSlot {
    /// The session; not here while it waits for a job elsewhere.
    pub(super) session: Option<Session>,
    /// What is to be sent.
    pub(super) output: OutBuf,
}

/// One turn of one connection: its time, and the waker for the next.
pub(super) struct Turn<'a> {
    pub(super) now: Now,
    pub(super) waker: &'a Waker,
    pub(super) pool: &'a mut BufferPool,
}

/// What belongs to a thread rather than to a connection: memory that one turn uses after another.
pub(super) struct Scratch {
    /// Everything is read into this.
    pub(super) bytes: Box<[u8]>,
    pub(super) shared: SessionContext,
    pub(super) pool: BufferPool,
}

impl Scratch {
    fn new() -> Self {
        Self {
            bytes: vec![0; READ_BUDGET_BYTES].into_boxed_slice(),
            shared: SessionContext::new(0),
            pool: BufferPool::default(),
        }
    }
}

thread_local! {
    pub(super) static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

/// Both clocks, as the server's loop samples them for every pass.
pub(super) fn now() -> Now {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let mono = Mono(u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { mono, wall: Wall(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)) }
}

/// One client.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, none excludes another"
)]
pub(super) struct Connection<D> {
    handle: D,
    slot: ClientSlot,
    /// Bytes that the driver has taken to send them, and that are not sent yet.
    taken: usize,
    max_request: usize,
    /// What was received and not yet taken by the session.
    input: InBuf,
    /// The input may hold whole requests, but the session takes none at the moment.
    stalled: bool,
    /// The peer will send nothing beyond what is in the socket.
    peer_closed: bool,
    /// Everything that the peer has sent is in `input` or served.
    eof: bool,
    /// Nothing can be sent any more: output is dropped.
    broken: bool,
    /// The session is done with its client: what comes in is passed over.
    over: bool,
    /// The connection is lost, or the peer took nothing for too long.
    lost: bool,
}

impl<D: EngineHandle> Connection<D> {
    pub(super) fn new(handle: D, max_request: usize) -> Self {
        let session = Some(Session::new(Protocol::JobCentre, Now::default()));
        Self {
            handle,
            slot: ClientSlot { session, output: OutBuf::default() },
            taken: 0,
            max_request,
            input: InBuf::default(),
            stalled: false,
            peer_closed: false,
            eof: false,
            broken: false,
            over: false,
            lost: false,
        }
    }

    /// Bytes came in. Only while [`Connection::wants_input`].
    pub(super) fn handle_input(
        &mut self,
        bytes: &[u8],
        shared: &mut SessionContext,
        turn: &mut Turn<'_>,
    ) {
        if self.stalled || self.slot.session.is_none() {
            self.stalled = true;
            self.input.append(bytes);
        } else if self.input.is_empty() {
            let mut input = Input::new(bytes);
            self.serve(&mut input, shared, turn);
            let (used, scanned) = progress(&input);
            if used < bytes.len() {
                self.input.append(&bytes[used..]);
                self.input.commit(0, scanned);
            }
        } else {
            self.serve_buffered(bytes, shared, turn);
        }
        self.settle(turn);
    }

    /// Takes what was answered meanwhile, and goes on with what is buffered while that is possible.
    pub(super) fn resume(&mut self, shared: &mut SessionContext, turn: &mut Turn<'_>) {
        loop {
            let waits = self.slot.session.as_ref().is_none_or(|session| !session.is_settled());
            if waits {
                self.handle.fetch(&mut self.slot, turn);
            }
            let goes_on = self.can_resume();
            if goes_on {
                self.serve_buffered(b"", shared, turn);
            }
            if waits || goes_on {
                self.settle(turn);
            }
            // What was served now may have to be waited for, too.
            if !goes_on {
                return;
            }
        }
    }

    /// Whether buffered requests would be served now.
    pub(super) fn can_resume(&self) -> bool {
        self.stalled
            && self.backlog() <= OUTPUT_HIGH_WATER_BYTES
            && self.slot.session.as_ref().is_some_and(Session::wants_input)
    }

    fn serve_buffered(&mut self, more: &[u8], shared: &mut SessionContext, turn: &mut Turn<'_>) {
        let mut buffered = std::mem::take(&mut self.input);
        buffered.append(more);
        let mut input = buffered.peek();
        self.serve(&mut input, shared, turn);
        let (used, scanned) = progress(&input);
        buffered.commit(used, scanned);
        self.input = buffered;
    }

    /// Lets the session take requests from `input` until it has had enough.
    fn serve(&mut self, input: &mut Input<'_>, shared: &mut SessionContext, turn: &mut Turn<'_>) {
        shared.settings.max_request = self.max_request;
        self.slot.output.prepare(turn.pool);
        let stalled = loop {
            let ClientSlot { session, output } = &mut self.slot;
            let Some(session) = session else { break true };
            if self.taken + output.len() > OUTPUT_HIGH_WATER_BYTES {
                break true;
            }
            match session.poll_command(input, shared, output) {
                SessionAction::NeedInput => break false,
                SessionAction::Stalled => break true,
                SessionAction::Continue => {}
                SessionAction::Submit(serial, command) => {
                    self.handle.submit(&mut self.slot, serial, &command, turn);
                }
                SessionAction::ProtocolError(_) => self.over = true,
                SessionAction::Yield
                | SessionAction::SubmitPending
                | SessionAction::Browser(_)
                | SessionAction::FetchCaller
                | SessionAction::FetchStats(_)
                | SessionAction::Authenticate(_)
                | SessionAction::Observe
                | SessionAction::Administer(_)
                | SessionAction::Cancel(_)
                | SessionAction::FetchWorkers(..)
                | SessionAction::Connections(_)
                | SessionAction::Log(_)
                | SessionAction::Close
                | SessionAction::End => {
                    unreachable!("lines are answered, one by one")
                }
            }
        };
        self.handle.hand_over();
        self.stalled = stalled && !input.unread().is_empty();
    }

    /// Does what follows from the state that the connection is in now.
    fn settle(&mut self, turn: &mut Turn<'_>) {
        let slot = &mut self.slot;
        if self.peer_closed && slot.session.as_ref().is_none_or(|it| it.pending_serial().is_some())
        {
            self.handle.call_off(slot, turn);
        }
        if self.eof && !self.stalled {
            self.input.clear();
        }
        if self.broken {
            let unsent = self.slot.output.len();
            self.slot.output.sent(unsent, turn.pool);
        }
        self.slot.output.release_memory(turn.pool);
    }

    /// The peer will send nothing more, though bytes may still be unread.
    pub(super) fn handle_peer_closed(&mut self, turn: &mut Turn<'_>) {
        self.peer_closed = true;
        self.settle(turn);
    }

    /// The last byte has been handed over.
    pub(super) fn handle_eof(&mut self, turn: &mut Turn<'_>) {
        self.peer_closed = true;
        self.eof = true;
        self.settle(turn);
    }

    /// `count` bytes have been sent.
    pub(super) fn handle_sent(&mut self, count: usize, turn: &mut Turn<'_>) {
        self.slot.output.sent(count, turn.pool);
    }

    /// Hands over everything that is to be sent now, for a driver that must own what it sends.
    pub(super) fn take_output(&mut self) -> Vec<u8> {
        // Such a driver never reports anything as sent of what is not taken, so this is all of it.
        let bytes = std::mem::take(self.slot.output.tail());
        self.taken += bytes.len();
        bytes
    }

    /// `count` of the bytes taken have been sent or given up.
    pub(super) fn handle_taken_sent(&mut self, count: usize) {
        self.taken -= count;
    }

    /// How many bytes are not sent yet.
    pub(super) fn backlog(&self) -> usize {
        self.taken + self.slot.output.len()
    }

    /// Nothing more can be sent; what the peer sent before may still be handed over.
    pub(super) fn handle_broken_output(&mut self, turn: &mut Turn<'_>) {
        self.broken = true;
        self.peer_closed = true;
        self.settle(turn);
    }

    /// The connection is gone.
    pub(super) fn handle_lost(&mut self) {
        self.lost = true;
    }

    /// Gives back what the client holds. The socket is closed after that.
    pub(super) fn leave(&mut self) {
        self.handle.leave();
    }

    /// What is to be sent, oldest first.
    pub(super) fn unsent(&self) -> &[u8] {
        self.slot.output.unsent()
    }

    /// Whether input would be taken now.
    pub(super) fn wants_input(&self) -> bool {
        if self.eof || self.backlog() > OUTPUT_HIGH_WATER_BYTES {
            return false;
        }
        let served = !self.stalled && self.slot.session.as_ref().is_some_and(Session::wants_input);
        served || self.input.len() < STALLED_INPUT_MAX_BYTES
    }

    /// Whether the peer is known to send nothing beyond what is in the socket.
    pub(super) fn is_peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Whether the peer has got all that it will get.
    pub(super) fn is_over(&self) -> bool {
        let settled = self.slot.session.as_ref().is_some_and(Session::is_settled);
        let ends = self.over || (self.eof && !self.stalled);
        self.lost || (ends && settled && self.backlog() == 0)
    }
}
