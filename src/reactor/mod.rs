//! L6: the reactor. Only this part of the server uses mio, sockets, TLS, clocks and signals; in
//! [`disk`] files and the journal's threads, in [`query_threads`] the threads of queries.
//!
//! One thread, one `epoll`, edge-triggered, every socket registered once. [`Reactor::run`] repeats
//! a pass of fixed phases; the order is the contract:
//!
//! 1. compute the poll timeout: until the nearest deadline, zero while work is left
//! 2. wait for events
//! 3. sample the clock once
//! 4. record readiness; nothing is read or written yet
//! 5. accept; advance TLS handshakes, outbound and forwarded connections; then one read of at most
//!    [`READ_BUDGET_BYTES`] bytes per runnable connection, until the core has enough for this pass,
//!    and one per lingering connection
//! 6. the core finishes its pass: expiry, group commit, replies, resumed pipelines
//! 7. one write per connection that has output, until the work of writes is enough for this pass
//! 8. log notices; close connections and begin outbound ones, in one place
//!
//! Invariants: readiness is cleared only by a short read or write or by `WouldBlock`, so no edge is
//! lost; a listener that had to stop accepting stays ready or in backoff and is tried again; every
//! loop is bounded, and if work is left the next poll timeout is zero.

mod accept;
mod background;
mod certificate_names;
mod client_tls;
mod clock;
mod dialer;
pub mod disk;
mod engine_link;
mod forward;
mod handshakes;
mod linger;
mod listen_address;
mod listener;
mod listeners;
mod loop_waker;
mod notices;
mod outbound;
mod passed_sockets;
mod purge;
pub mod query_threads;
mod resolve;
mod rss;
mod server_tls;
mod service_manager;
mod shortage;
mod shutdown;
mod signals;
mod socket;
mod stdio;
mod succession;
mod thread_priority;
mod tls;
mod transfers;
mod unix_socket;

use crate::base::address_set::AddressSet;
use crate::base::limits::{
    EVENTS_PER_PASS, FORBIDDEN_CALL_NOTICE_INTERVAL, MEMORY_SAMPLE_INTERVAL, READ_BUDGET_BYTES,
};
use crate::base::rate_limited_counter::RateLimitedCounter;
use crate::base::time::{Mono, Now};
use crate::model::driver::{Action, Core, Protocol};
pub use background::{Background, Foreground};
pub use client_tls::{BlockingTls, TlsError};
pub use clock::Clock;
use clock::PassCpuTime;
use dialer::Dialer;
use engine_link::{EngineLink, LINK};
use forward::Forwarder;
pub use forward::{Forwarding, Leader};
use handshakes::Handshakes;
use linger::Lingering;
pub use listen_address::ListenAddress;
pub use listener::CannotListen;
use listener::Listener;
pub use listeners::Listeners;
pub use loop_waker::LoopWaker;
use mio::event::Event;
use mio::{Events, Poll, Token};
pub use passed_sockets::{PassedSocket, PassedSockets};
use purge::Purger;
pub use purge::defer_purges;
pub use server_tls::{ClientCertificates, ServerTls, TlsFiles};
pub use service_manager::ServiceManager;
use shutdown::Shutdown;
pub use shutdown::{ShutdownOutcome, TimedOut};
use signals::Signals;
pub use signals::ignore_signals;
use socket::Sockets;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
pub use succession::Remains;
pub use tls::{Tls, TrustStore};
use tracing::info;
use transfers::Transfers;
pub use unix_socket::UnixAddress;

/// No token of a connection: those have their index in the low half.
const SIGNALS: Token = Token(usize::MAX);
const WAKE: Token = Token(usize::MAX - 1);
const STDIN: Token = Token(usize::MAX - 2);
const STDOUT: Token = Token(usize::MAX - 3);
const FIRST_LISTENER: usize = usize::MAX - 1024;

/// What is read once more besides the certificate of TLS listeners, on SIGHUP or for a client: it
/// changes the core, and logs what it does. It returns how many users there are, or why they stay
/// as they were.
pub type Reload<C> = Box<dyn FnMut(&mut C, Now) -> Result<Option<usize>, String>>;

/// The event loop around a core.
pub struct Reactor<C> {
    core: C,
    poll: Poll,
    clock: Clock,
    pass_cpu: PassCpuTime,
    now: Now,
    listeners: Vec<Listener>,
    sockets: Sockets,
    dialer: Dialer,
    engine_link: EngineLink,
    forwarder: Forwarder,
    handshakes: Handshakes,
    server_tls: Option<ServerTls>,
    reload: Option<Reload<C>>,
    service_manager: ServiceManager,
    lingering: Lingering,
    stdio: stdio::State,
    /// The limit on open files permits fewer clients than the settings.
    lacks_descriptors: bool,
    /// What is to be read and written, and what was left over by the last pass.
    transfers: Transfers,
    /// The buffer of all reads, [`READ_BUDGET_BYTES`] long.
    scratch: Box<[u8]>,
    signals: Signals,
    stop: Option<Shutdown>,
    /// Another server is to take over before this one stops.
    hands_over: bool,
    /// Calls of workers whose addresses are not permitted.
    forbidden_calls: RateLimitedCounter,
    purger: Purger,
    /// When the resident memory is sampled next.
    next_memory_sample: Mono,
}

impl<C: Core> Reactor<C> {
    /// Binds every protocol and installs the signal handlers (`reactor::signals`). `clock` is the
    /// time of the passes; `wake` interrupts the poll.
    ///
    /// # Errors
    /// If an address cannot be bound, with [`CannotListen`], or if epoll or the signal handlers
    /// cannot be set up.
    pub fn bind(
        core: C,
        protocols: &[(Protocol, ListenAddress)],
        clock: Clock,
        wake: &LoopWaker,
    ) -> io::Result<Self> {
        Self::bind_with(core, protocols, &[], clock, wake)
    }

    /// The same; `passed` has the sockets of those protocols that need not be bound, in their
    /// order.
    ///
    /// # Errors
    /// As above.
    pub fn bind_with(
        core: C,
        protocols: &[(Protocol, ListenAddress)],
        passed: &[Option<PassedSocket>],
        clock: Clock,
        wake: &LoopWaker,
    ) -> io::Result<Self> {
        Self::on(core, Listeners::bind(protocols, passed)?, clock, wake)
    }

    /// The same with listeners that are bound already.
    ///
    /// # Errors
    /// If epoll or the signal handlers cannot be set up.
    pub fn on(
        mut core: C,
        mut listeners: Listeners,
        mut clock: Clock,
        wake: &LoopWaker,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        wake.register(poll.registry(), WAKE)?;
        let signals = Signals::register(poll.registry(), SIGNALS)?;
        listeners.register(poll.registry())?;
        for (protocol, address) in listeners.addresses() {
            info!(protocol = protocol.name(), %address, "listening");
            core.handle_listening(protocol, &address.to_string());
        }
        Ok(Self {
            core,
            poll,
            now: clock.sample(),
            clock,
            pass_cpu: PassCpuTime::default(),
            listeners: listeners.0,
            sockets: Sockets::default(),
            dialer: Dialer::new(wake.clone()),
            engine_link: EngineLink::new(wake.clone()),
            forwarder: Forwarder::new(wake.clone()),
            handshakes: Handshakes::default(),
            server_tls: None,
            reload: None,
            service_manager: ServiceManager::default(),
            lingering: Lingering::default(),
            stdio: stdio::State::default(),
            lacks_descriptors: false,
            transfers: Transfers::default(),
            scratch: vec![0; READ_BUDGET_BYTES].into_boxed_slice(),
            signals,
            stop: None,
            hands_over: false,
            forbidden_calls: RateLimitedCounter::new(FORBIDDEN_CALL_NOTICE_INTERVAL),
            purger: Purger::default(),
            next_memory_sample: Mono::default(),
        })
    }

    /// Sets the trusted certificates of outbound TLS. Default: [`TrustStore::default`].
    pub fn set_trust(&mut self, trust: TrustStore) {
        self.dialer.set_trust(trust);
    }

    /// Sets the trusted certificates of the engine's connection. Default: as above.
    pub fn set_engine_trust(&mut self, trust: TrustStore) {
        self.engine_link.set_trust(trust);
    }

    /// Sets the addresses that are called. Default: any.
    pub fn set_permitted_addresses(&mut self, permitted: AddressSet) {
        self.dialer.set_permitted(permitted);
    }

    /// The bound addresses of TCP, with the actual ports, in the order of the protocols.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let tcp = |listener: &Listener| match listener.address() {
            ListenAddress::Tcp(address) | ListenAddress::Tls(address) => Some(*address),
            ListenAddress::Unix(_) | ListenAddress::Passed { .. } => None,
        };
        self.listeners.iter().filter_map(tcp).collect()
    }

    /// Sets the certificate of TLS listeners, without which they close every connection.
    pub fn set_server_tls(&mut self, tls: ServerTls) {
        self.core.record_certificate(tls.expires());
        self.server_tls = Some(tls);
    }

    /// Sets what is read once more on SIGHUP or for a client.
    pub fn set_reload(&mut self, reload: Reload<C>) {
        self.reload = Some(reload);
    }

    /// The core, for its state after the run.
    #[must_use]
    pub fn core(&self) -> &C {
        &self.core
    }

    /// Runs until a signal, or the end of stdin or stdout, shuts the server down.
    ///
    /// # Errors
    /// If polling fails, or the core reports a fatal error.
    pub fn run(&mut self) -> io::Result<ShutdownOutcome> {
        // Proof: it ends with an outcome, as nothing else ends it.
        let ended = self.run_until(|_| false)?;
        ended.ok_or_else(|| io::Error::other("the loop has ended without a reason"))
    }

    /// The same, but at the end of the first pass for which `is_over` is true it ends with `None`,
    /// and may run again.
    ///
    /// # Errors
    /// As above.
    pub fn run_until(
        &mut self,
        mut is_over: impl FnMut(&mut Self) -> bool,
    ) -> io::Result<Option<ShutdownOutcome>> {
        let mut events = Events::with_capacity(EVENTS_PER_PASS);
        self.begin_stdio();
        // The start may have freed memory.
        self.purger.end_pass(self.now.mono);
        loop {
            let timeout = self.timeout();
            let polled = self.poll.poll(&mut events, timeout);
            match polled {
                Ok(()) => {}
                // A signal interrupted the wait; it is read from its own descriptor.
                Err(error) if error.kind() == ErrorKind::Interrupted => events.clear(),
                Err(error) => return Err(error),
            }
            self.now = self.clock.sample();
            self.core.begin_pass(self.now);
            for event in &events {
                self.on_event(event);
            }
            self.accept();
            self.advance_handshakes();
            self.dial();
            self.advance_forwards();
            self.read();
            self.linger();
            self.read_engine_link();
            self.advance_hand_over();
            self.close_engine_early();
            self.core.finish_pass(self.now);
            self.write();
            self.write_engine_link();
            self.log_notices();
            self.close();
            self.check()?;
            self.look_at_certificate();
            self.service_manager.watch(self.now.mono);
            self.sample_stats();
            self.purger.end_pass(self.now.mono);
            if let Some(ending) = self.ending() {
                let whole = ending != ShutdownOutcome::Forced && self.finish(&mut events)?;
                return Ok(Some(if whole { ending } else { ShutdownOutcome::Forced }));
            }
            if self.stop.is_none() && is_over(self) {
                return Ok(None);
            }
        }
    }

    /// Reads the certificate of TLS listeners once more if its files have changed.
    fn look_at_certificate(&mut self) {
        if let Some(tls) = &mut self.server_tls
            && tls.look(self.now)
        {
            self.core.record_certificate(tls.expires());
        }
    }

    /// Reports the duration of the pass to the core, and every [`MEMORY_SAMPLE_INTERVAL`] the
    /// resident memory.
    fn sample_stats(&mut self) {
        let end = self.clock.moment();
        let cpu_ns = self.pass_cpu.end_pass(end.0.saturating_sub(self.now.mono.0));
        self.core.record_pass(self.now.mono, end, cpu_ns);
        if end >= self.next_memory_sample {
            self.next_memory_sample = end.after(MEMORY_SAMPLE_INTERVAL);
            if let Some(resident) = rss::resident_bytes() {
                self.core.record_memory(resident);
            }
            if let Some((user_us, system_us)) = rss::processor_us() {
                self.core.record_processor(user_us, system_us);
            }
        }
    }

    /// The fatal error of the core, if it has one.
    fn check(&self) -> io::Result<()> {
        self.core.failure().map_or(Ok(()), |why| Err(io::Error::other(why)))
    }

    /// The poll timeout; `None` waits for an event.
    fn timeout(&self) -> Option<Duration> {
        let now = self.now.mono;
        let may_accept = |it: &Listener| it.is_ready() && self.may_accept(it);
        let ready = self.listeners.iter().any(may_accept) || self.handshakes.has_ready();
        let forwards = self.forwarder.has_ready(now);
        let dials = self.dialer.has_ready() || self.engine_link.is_due() || forwards;
        if self.transfers.is_due() || ready || dials || self.lingering.has_ready() {
            return Some(Duration::ZERO);
        }
        let open = self.listeners.iter().filter(|it| self.may_accept(it));
        let retry = open.filter_map(Listener::retry_at).min();
        let stop = self.stop.map(|stop| stop.next(now));
        let certificate = self.server_tls.as_ref().map(ServerTls::next_look);
        let forwards = self.forwarder.next(now);
        let own = [retry, stop, self.lingering.next(), self.purger.next(), certificate, forwards];
        let others =
            [self.handshakes.next(), self.service_manager.next(), self.core.poll_timeout(self.now)];
        let next = own.into_iter().chain(others).flatten().min()?;
        // mio rounds up to the milliseconds of epoll, so the poll does not end early and spin.
        Some(next.until(now))
    }

    fn on_event(&mut self, event: &Event) {
        let token = event.token();
        if let Some(number) = token.0.checked_sub(FIRST_LISTENER) {
            match token {
                SIGNALS => self.handle_signals(),
                // The pass itself polls whatever has called for it.
                WAKE => {}
                STDIN | STDOUT => self.on_stdio_event(event),
                _ => {
                    if let Some(listener) = self.listeners.get_mut(number) {
                        listener.set_ready();
                    }
                }
            }
            return;
        }
        if let Some((place, side)) = forward::place(token) {
            return self.forwarder.on_event(place, side, event);
        }
        if let Some(place) = handshakes::place(token) {
            return self.handshakes.on_event(place, event);
        }
        let client = socket::client(token);
        let Some(socket) = self.sockets.get_mut(client) else {
            if client == LINK {
                self.engine_link.on_event(event);
            } else if !self.lingering.on_event(client) {
                self.dialer.on_event(client, event);
            }
            return;
        };
        if socket.ended && event.is_error() && !socket.lost {
            // The socket is no longer read, so no read would report the reset.
            socket.lost = true;
            return self.transfers.hung_up.push_back(client);
        }
        let hung_up = event.is_read_closed() || event.is_error();
        socket.readable |= event.is_readable() || hung_up;
        if (event.is_writable() || event.is_error()) && !socket.writable {
            socket.writable = true;
            self.transfers.flushable.push_back(client);
        }
        if hung_up && !socket.hung_up {
            socket.hung_up = true;
            self.transfers.hung_up.push_back(client);
        }
        self.enqueue(client);
    }

    /// The limit on open files permits fewer clients than the settings: log lines advise to raise
    /// that limit.
    pub fn set_lacks_descriptors(&mut self) {
        self.lacks_descriptors = true;
    }

    fn log_notices(&mut self) {
        while let Some(notice) = self.core.poll_notice() {
            let socket = notice.client.and_then(|client| self.sockets.get_mut(client));
            let address = socket.and_then(|socket| socket.stream.peer());
            notices::log(notice, address, self.lacks_descriptors);
        }
    }

    /// The one place where connections are closed and outbound ones begin, and where files are read
    /// again because a client wants it.
    fn close(&mut self) {
        while let Some(action) = self.core.poll_action() {
            match action {
                Action::Close(client) => {
                    self.close_outbound(client);
                    self.release_stdio(client);
                    self.close_lingering(client);
                    for listener in &mut self.listeners {
                        listener.wake();
                    }
                }
                Action::ShutdownWrite(client) => {
                    if let Some(socket) = self.sockets.get_mut(client) {
                        socket.stream.shut_down();
                        self.transfers.flushable.push_back(client);
                    }
                }
                Action::Connect(client, target) => self.dialer.begin(client, target),
                Action::Reload => self.reload_by_request(),
            }
        }
    }
}
