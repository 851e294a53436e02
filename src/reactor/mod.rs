//! F6: the reactor. The only place of the server that knows mio, sockets, TLS, clocks, signals, and
//! in [`disk`] files and the threads that wait for them, in [`query_threads`] the threads that
//! evaluate.
//!
//! One thread, one `epoll`, edge-triggered, every socket registered once. [`Reactor::run`] repeats
//! a pass of fixed phases; the order is the contract:
//!
//! 1. how long may we sleep: until the nearest deadline, not at all while work is left over
//! 2. wait for events
//! 3. sample the clock once
//! 4. note what is ready: facts to remember, not commands to act on
//! 5. accept; outgoing connections go on towards being connected; then every runnable connection:
//!    one read of at most [`READ_BUDGET_BYTES`] bytes, and of what only lingers until it can be
//!    closed
//! 6. the core ends its pass: expiry, group commit, replies, pipelines that go on
//! 7. one write for every connection that has output
//! 8. log what the operator should know; close what is to be closed, and begin what is to be
//!    connected, in one place
//!
//! Invariants: readiness is cleared only by a short read or write or by `WouldBlock`, so no edge is
//! lost; a listener that had to stop accepting stays on the list and is tried again; every loop is
//! bounded, and what is left makes the next sleep zero.

mod clock;
mod dialer;
pub mod disk;
mod linger;
mod listener;
mod loop_waker;
mod notices;
mod outbound;
pub mod query_threads;
mod resolve;
mod rss;
mod shortage;
mod shutdown;
mod signals;
mod socket;
mod stdio;
mod thread_priority;
mod tls;

use crate::base::limits::{
    ACCEPTS_PER_PASS, EVENTS_PER_PASS, MEMORY_SAMPLE_INTERVAL, READ_BUDGET_BYTES,
};
use crate::base::time::{Mono, Now};
use crate::model::driver::{Action, Core, Protocol};
use crate::model::id::ClientId;
pub use clock::Clock;
use dialer::Dialer;
use linger::Lingering;
pub use listener::CannotListen;
use listener::{Accepted, Listener};
pub use loop_waker::LoopWaker;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use shutdown::Shutdown;
pub use shutdown::{ShutdownOutcome, TimedOut};
use signals::Signals;
pub use signals::ignore_signals;
use socket::{Socket, Sockets, Stream};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::Duration;
pub use tls::TrustStore;
use tracing::{debug, info, warn};

/// Tokens of connections have their index in the low half, so these can never be one.
const SIGNALS: Token = Token(usize::MAX);
const WAKE: Token = Token(usize::MAX - 1);
const STDIN: Token = Token(usize::MAX - 2);
const STDOUT: Token = Token(usize::MAX - 3);
const FIRST_LISTENER: usize = usize::MAX - 1024;

/// The shell around a core.
pub struct Reactor<C> {
    core: C,
    poll: Poll,
    clock: Clock,
    now: Now,
    listeners: Vec<Listener>,
    sockets: Sockets,
    dials: Dialer,
    lingering: Lingering,
    stdio: stdio::State,
    /// Connections that have something to read and are wanted to be read.
    runnable: Vec<ClientId>,
    /// Connections whose output can go on.
    flushable: Vec<ClientId>,
    /// The one buffer that everything is read into.
    scratch: Box<[u8]>,
    signals: Signals,
    stop: Option<Shutdown>,
    /// When to look next.
    look_at_memory: Mono,
}

impl<C: Core> Reactor<C> {
    /// Binds every protocol and takes charge of signals (`reactor::signals`). Time goes on as
    /// `clock` has begun, and `wake` ends the loop's sleep.
    ///
    /// # Errors
    /// If an address cannot be bound, naming it, or the system refuses what every event loop needs.
    pub fn bind(
        core: C,
        protocols: &[(Protocol, SocketAddr)],
        mut clock: Clock,
        wake: &LoopWaker,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        wake.register(poll.registry(), WAKE)?;
        let signals = Signals::register(poll.registry(), SIGNALS)?;
        let mut listeners = Vec::new();
        for (number, &(protocol, address)) in protocols.iter().enumerate() {
            let mut listener = Listener::bind(protocol, address)?;
            listener.register(poll.registry(), Token(FIRST_LISTENER + number))?;
            info!(protocol = protocol.name(), address = %listener.address(), "listening");
            listeners.push(listener);
        }
        Ok(Self {
            core,
            poll,
            now: clock.sample(),
            clock,
            listeners,
            sockets: Sockets::default(),
            dials: Dialer::new(wake.clone()),
            lingering: Lingering::default(),
            stdio: stdio::State::default(),
            runnable: Vec::new(),
            flushable: Vec::new(),
            scratch: vec![0; READ_BUDGET_BYTES].into_boxed_slice(),
            signals,
            stop: None,
            look_at_memory: Mono::default(),
        })
    }

    /// Whose word is taken for who other servers are. Without this, the usual authorities'.
    pub fn set_trust(&mut self, trust: TrustStore) {
        self.dials.set_trust(trust);
    }

    /// The addresses really bound, in the order of the protocols.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// What it serves, to be asked when the run is over.
    #[must_use]
    pub fn core(&self) -> &C {
        &self.core
    }

    /// Serves until a signal ends it.
    ///
    /// # Errors
    /// If the system refuses to wait for events.
    pub fn run(&mut self) -> io::Result<ShutdownOutcome> {
        let mut events = Events::with_capacity(EVENTS_PER_PASS);
        self.begin_stdio();
        loop {
            let timeout = self.timeout();
            let polled = self.poll.poll(&mut events, timeout);
            match polled {
                Ok(()) => {}
                // A signal interrupted the wait; what it means is read from its own descriptor.
                Err(error) if error.kind() == ErrorKind::Interrupted => events.clear(),
                Err(error) => return Err(error),
            }
            self.now = self.clock.sample();
            for event in &events {
                self.on_event(event);
            }
            self.accept();
            self.dial();
            self.read();
            self.linger();
            self.core.finish_pass(self.now);
            self.write();
            self.log_notices();
            self.close();
            self.check()?;
            self.sample_stats();
            if let Some(ending) = self.ending() {
                let whole = ending != ShutdownOutcome::Forced && self.finish(&mut events)?;
                return Ok(if whole { ending } else { ShutdownOutcome::Forced });
            }
        }
    }

    /// Tells the core how long the pass took, and now and then how much memory there is.
    fn sample_stats(&mut self) {
        let end = self.clock.moment();
        self.core.record_pass(self.now.mono, end);
        if end >= self.look_at_memory {
            self.look_at_memory = end.after(MEMORY_SAMPLE_INTERVAL);
            if let Some(resident) = rss::resident_bytes() {
                self.core.record_memory(resident);
            }
        }
    }

    /// The core may have met something that it cannot go on with.
    fn check(&self) -> io::Result<()> {
        self.core.failure().map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    /// How long the loop may sleep; `None` is until something happens.
    fn timeout(&self) -> Option<Duration> {
        let ready = self.listeners.iter().any(Listener::is_ready);
        let left = !self.runnable.is_empty() || !self.flushable.is_empty();
        if left || ready || self.dials.are_ready() || self.lingering.are_ready() {
            return Some(Duration::ZERO);
        }
        let resting = self.listeners.iter().filter_map(Listener::rests_until).min();
        let stop = self.stop.map(|stop| stop.next(self.now.mono));
        let next = [self.core.poll_timeout(self.now), resting, stop, self.lingering.next()];
        let next = next.into_iter().flatten().min()?;
        // mio rounds up to the milliseconds of epoll, so this never wakes early and spins.
        Some(next.until(self.now.mono))
    }

    fn on_event(&mut self, event: &Event) {
        let token = event.token();
        if let Some(number) = token.0.checked_sub(FIRST_LISTENER) {
            match token {
                SIGNALS => self.handle_signals(),
                // The pass that follows looks at everything.
                WAKE => {}
                STDIN | STDOUT => self.note_stdio(event),
                _ => {
                    if let Some(listener) = self.listeners.get_mut(number) {
                        listener.set_ready();
                    }
                }
            }
            return;
        }
        let client = socket::client(token);
        let Some(socket) = self.sockets.get_mut(client) else {
            if !self.lingering.note(client) {
                self.dials.note(client, event);
            }
            return;
        };
        if socket.ended && event.is_error() {
            // Nobody reads here any more, so no read would say that the peer is gone for good.
            debug!("connection lost behind its end");
            self.sockets.remove(client);
            return self.core.handle_reset(client, self.now);
        }
        let hung_up = event.is_read_closed() || event.is_error();
        socket.readable |= event.is_readable() || hung_up;
        if (event.is_writable() || event.is_error()) && !socket.writable {
            socket.writable = true;
            self.flushable.push(client);
        }
        if hung_up && !socket.hung_up {
            socket.hung_up = true;
            self.core.handle_peer_closed(client, self.now);
        }
        self.enqueue(client);
    }

    /// Puts a connection on the run list if it can be read and nobody minds.
    fn enqueue(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.get_mut(client) else { return };
        if socket.readable && !socket.queued && self.core.wants_input(client) {
            socket.queued = true;
            self.runnable.push(client);
        }
    }

    fn accept(&mut self) {
        for number in 0..self.listeners.len() {
            for _ in 0..ACCEPTS_PER_PASS {
                let listener = &mut self.listeners[number];
                match listener.accept(self.now) {
                    Accepted::Connection(stream) => {
                        let protocol = listener.protocol();
                        self.open(stream, protocol);
                    }
                    Accepted::TryAgain => {}
                    Accepted::NoMore => break,
                }
            }
        }
    }

    fn open(&mut self, mut stream: TcpStream, protocol: Protocol) {
        let Some(client) = self.core.handle_open(protocol, self.now) else {
            debug!(protocol = protocol.name(), "no room to refuse a connection politely: closed");
            return;
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) =
            self.poll.registry().register(&mut stream, socket::token(client), interest)
        {
            warn!(%error, "cannot watch a new connection: closed");
            return self.core.handle_reset(client, self.now);
        }
        self.sockets.insert(client, Socket::new(stream, self.now.mono));
    }

    /// One read for each runnable connection.
    fn read(&mut self) {
        let mut batch = std::mem::take(&mut self.runnable);
        for client in batch.drain(..) {
            let Some(socket) = self.sockets.get_mut(client) else { continue };
            socket.queued = false;
            if !socket.readable || !self.core.wants_input(client) {
                continue;
            }
            let read = socket.stream.read(&mut self.scratch);
            if socket.stream.wants_write() {
                self.flushable.push(client);
            }
            match read {
                Ok(0) => {
                    socket.readable = false;
                    socket.ended = true;
                    self.core.handle_eof(client, self.now);
                }
                Ok(count) => {
                    // A hang-up was announced once and will not be announced again, and what is
                    // decrypted already never is.
                    let may_drain = !socket.hung_up && socket.stream.is_plain();
                    let short = count < self.scratch.len() && may_drain;
                    socket.readable = !short;
                    socket.heard = self.now.mono;
                    let more = socket.stream.is_stdio();
                    self.core.handle_input(client, &self.scratch[..count], self.now);
                    if !more && self.stop.is_some() && !self.core.survives_shutdown(client) {
                        self.core.handle_eof(client, self.now);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    socket.readable = false;
                    if self.stop.is_some() && !self.core.survives_shutdown(client) {
                        self.core.handle_eof(client, self.now);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => self.enqueue(client),
                Err(error) if socket.stream.is_stdio() => self.on_stdin_lost(client, &error),
                Err(error) => {
                    debug!(%error, "connection lost");
                    self.sockets.remove(client);
                    self.core.handle_reset(client, self.now);
                }
            }
        }
        // What the core still wants to read comes back by `write`; keep the larger memory.
        batch.append(&mut self.runnable);
        self.runnable = batch;
    }

    /// One write for each connection that has output, then its place on the run list.
    fn write(&mut self) {
        let mut batch = std::mem::take(&mut self.flushable);
        for client in batch.drain(..) {
            self.flush(client);
        }
        // What has had its turn, but would take more.
        batch.append(&mut self.flushable);
        self.flushable = batch;
        while let Some(client) = self.core.poll_touched() {
            self.flush(client);
            self.enqueue(client);
        }
    }

    fn flush(&mut self, client: ClientId) {
        let Some(socket) = self.sockets.get_mut(client) else { return };
        if !socket.writable {
            return;
        }
        let Stream::Plain(stream) = &mut socket.stream else { return self.flush_other(client) };
        let output = self.core.output(client);
        if output.is_empty() {
            return;
        }
        let written = loop {
            match stream.write(output) {
                // Nobody would come back to this connection: no edge was lost.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => break written,
            }
        };
        match written {
            Ok(count) => {
                socket.writable = count == output.len();
                self.core.handle_sent(client, count, self.now);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => socket.writable = false,
            Err(error) => {
                debug!(%error, "connection takes no more output");
                self.core.handle_broken_output(client, self.now);
            }
        }
    }

    fn log_notices(&mut self) {
        while let Some(notice) = self.core.poll_notice() {
            let socket = notice.client.and_then(|client| self.sockets.get_mut(client));
            let address = socket.and_then(|socket| socket.stream.peer());
            notices::log(notice, address);
        }
    }

    /// The one place where connections are closed, and where outgoing ones begin.
    fn close(&mut self) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Close(client) => {
                    self.close_outbound(client);
                    self.release_stdio(client);
                    self.let_go(client);
                    for listener in &mut self.listeners {
                        listener.wake();
                    }
                }
                Action::ShutdownWrite(client) => {
                    if let Some(socket) = self.sockets.get_mut(client) {
                        socket.stream.shut_down();
                        self.flushable.push(client);
                    }
                }
                Action::Connect(client, target) => self.dials.begin(client, target),
            }
        }
    }
}
