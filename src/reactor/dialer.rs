//! Outbound connections until they are established: name lookup, addresses tried one after the
//! other, TLS handshake.
//!
//! A dial ends in exactly one outcome, unless it is cancelled before: then later lookup results and
//! events for it are ignored. An event only marks a dial as ready; [`Dialer::poll`] advances it, in
//! the order of the events, up to [`DIALS_PER_PASS`] of them in a pass. The core has the timeout of
//! a dial.

use super::listener::enable_keepalive;
use super::loop_waker::LoopWaker;
use super::resolve::{self, LookupGuard, Resolution, Resolver};
use super::shortage;
use super::socket::{self, Socket, Stream};
use super::tls::{Tls, TrustStore};
use crate::base::address_set::AddressSet;
use crate::base::limits::DIALS_PER_PASS;
use crate::model::driver::{ConnectError, Target};
use crate::model::id::ClientId;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry};
use socket2::SockRef;
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

/// How a dial ends.
pub(super) type Outcome = Result<Socket, ConnectError>;

/// All pending dials.
#[derive(Debug)]
pub(super) struct Dialer {
    pending: HashMap<ClientId, Dial>,
    /// Dials that may be able to advance.
    ready: VecDeque<ClientId>,
    /// How many may still be advanced in this pass.
    steps_left: usize,
    resolver: Resolver,
    trust: Option<TrustStore>,
    permitted: AddressSet,
}

#[derive(Debug)]
struct Dial {
    target: Arc<Target>,
    state: State,
    /// The peer of the current address has shut down its sending side already.
    hung_up: bool,
}

#[derive(Debug)]
enum State {
    Resolving {
        _guard: LookupGuard,
    },
    /// The remaining addresses, the next one last, and the error of the last attempt.
    Trying(Vec<SocketAddr>, ConnectError),
    /// The current address, and the remaining ones.
    Connecting(TcpStream, SocketAddr, Vec<SocketAddr>),
    Handshaking(Box<Tls>),
    Failed(ConnectError),
}

/// Result of [`Dial::advance`].
enum Advanced {
    Waits(Dial),
    Ends(Outcome),
}

/// Result of one state.
enum Transition {
    Next(State),
    Waits(State),
    Ends(Result<Stream, ConnectError>),
}

fn unreachable(address: SocketAddr, error: &io::Error) -> ConnectError {
    ConnectError::Unreachable(format!("{address}: {error}").into())
}

impl Dialer {
    pub(super) fn new(wake: LoopWaker) -> Self {
        let resolver = Resolver::new(wake);
        let (pending, ready) = (HashMap::new(), VecDeque::new());
        Self {
            pending,
            ready,
            steps_left: DIALS_PER_PASS,
            resolver,
            trust: None,
            permitted: AddressSet::any(),
        }
    }

    /// Sets the trusted certificates. Default: [`TrustStore::default`].
    pub(super) fn set_trust(&mut self, trust: TrustStore) {
        self.trust = Some(trust);
    }

    /// Sets the addresses that are called. Default: any. They count from the next dial on.
    pub(super) fn set_permitted(&mut self, permitted: AddressSet) {
        self.permitted = permitted;
    }

    /// Begins a dial.
    pub(super) fn begin(&mut self, client: ClientId, target: Arc<Target>) {
        let state = match resolve::literal(&target) {
            Some(address) => self.try_permitted(vec![address], &target),
            None => match self.resolver.submit(client, &target) {
                Ok(guard) => State::Resolving { _guard: guard },
                Err(why) => State::Failed(why),
            },
        };
        self.insert(client, Dial { target, state, hung_up: false });
    }

    fn insert(&mut self, client: ClientId, dial: Dial) {
        if !matches!(dial.state, State::Resolving { .. }) {
            self.ready.push_back(client);
        }
        self.pending.insert(client, dial);
    }

    /// Cancels a dial, if it is pending.
    pub(super) fn cancel(&mut self, client: ClientId) {
        self.pending.remove(&client);
    }

    /// Whether [`Dialer::poll`] has work that needs no further event.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn on_event(&mut self, client: ClientId, event: &Event) {
        if let Some(dial) = self.pending.get_mut(&client) {
            dial.hung_up |= event.is_read_closed() || event.is_error();
            self.ready.push_back(client);
        }
    }

    /// Begins a pass.
    pub(super) fn begin_pass(&mut self) {
        self.steps_left = DIALS_PER_PASS;
    }

    /// Advances ready dials until one ends, or those of this pass are used up.
    pub(super) fn poll(&mut self, registry: &Registry) -> Option<(ClientId, Outcome)> {
        if self.pending.is_empty() {
            self.ready.clear();
            return None;
        }
        while let Some((client, found)) = self.resolver.poll() {
            self.handle_found(client, found);
        }
        while self.steps_left > 0
            && let Some(client) = self.ready.pop_front()
        {
            let Some(dial) = self.pending.remove(&client) else { continue };
            self.steps_left -= 1;
            let trust = &mut self.trust;
            match dial.advance(client, registry, || trust.get_or_insert_default().clone()) {
                Advanced::Waits(dial) => {
                    self.pending.insert(client, dial);
                }
                Advanced::Ends(outcome) => return Some((client, outcome)),
            }
        }
        None
    }

    fn handle_found(&mut self, client: ClientId, found: Resolution) {
        let Some(mut dial) = self.pending.remove(&client) else { return };
        dial.state = match found {
            Ok(addresses) => self.try_permitted(addresses, &dial.target),
            Err(why) => State::Failed(why),
        };
        self.pending.insert(client, dial);
        self.ready.push_back(client);
    }

    /// Tries those of the addresses that are permitted, which are checked here: a name may have
    /// other addresses at each call.
    fn try_permitted(&self, mut addresses: Vec<SocketAddr>, target: &Target) -> State {
        let refusal = addresses.iter().find_map(|address| self.permitted.refusal(address.ip()));
        addresses.retain(|address| self.permitted.contains(address.ip()));
        match refusal {
            Some(why) if addresses.is_empty() => {
                let why = format!("{}:{} is not called: {why}", target.host, target.port);
                State::Failed(ConnectError::Forbidden(why.into()))
            }
            _ => State::try_address(addresses),
        }
    }
}

impl State {
    /// Tries the addresses in their order.
    fn try_address(mut addresses: Vec<SocketAddr>) -> Self {
        addresses.reverse();
        Self::Trying(addresses, ConnectError::Unreachable("no address".into()))
    }
}

impl Dial {
    /// Advances as far as possible without waiting.
    fn advance(
        self,
        client: ClientId,
        registry: &Registry,
        mut trust: impl FnMut() -> TrustStore,
    ) -> Advanced {
        let Self { target, mut state, mut hung_up } = self;
        loop {
            let transition = match state {
                State::Resolving { .. } => Transition::Waits(state),
                State::Trying(addresses, why) => {
                    // The hang-up of one address says nothing about the next.
                    hung_up = false;
                    try_next(addresses, why, client, registry)
                }
                State::Connecting(stream, address, rest) => match is_connected(&stream) {
                    Ok(false) => Transition::Waits(State::Connecting(stream, address, rest)),
                    Ok(true) if target.tls => match Tls::begin(stream, &target.host, &trust()) {
                        Ok(tls) => Transition::Next(State::Handshaking(tls)),
                        Err(why) => Transition::Ends(Err(ConnectError::Tls(why.into()))),
                    },
                    Ok(true) => Transition::Ends(Ok(Stream::Plain(stream))),
                    Err(error) => {
                        Transition::Next(State::Trying(rest, unreachable(address, &error)))
                    }
                },
                State::Handshaking(mut tls) => match tls.handshake() {
                    Ok(true) => Transition::Ends(Ok(Stream::Tls(tls))),
                    Ok(false) => Transition::Waits(State::Handshaking(tls)),
                    Err(why) => Transition::Ends(Err(ConnectError::Tls(why.into()))),
                },
                State::Failed(why) => Transition::Ends(Err(why)),
            };
            match transition {
                Transition::Next(next) => state = next,
                Transition::Waits(state) => {
                    return Advanced::Waits(Self { target, state, hung_up });
                }
                Transition::Ends(end) => {
                    return Advanced::Ends(end.map(|stream| Socket::connected(stream, hung_up)));
                }
            }
        }
    }
}

/// Begins to connect to the next address; without one the dial fails for the last reason.
fn try_next(
    mut addresses: Vec<SocketAddr>,
    why: ConnectError,
    client: ClientId,
    registry: &Registry,
) -> Transition {
    let Some(address) = addresses.pop() else { return Transition::Ends(Err(why)) };
    match connect(client, address, registry) {
        // An event follows when it is connected or has failed.
        Ok(stream) => Transition::Waits(State::Connecting(stream, address, addresses)),
        // The next address would need the same resource.
        Err(error) if shortage::of_connections(&error) => {
            Transition::Ends(Err(ConnectError::NoRoom(error.to_string().into())))
        }
        Err(error) => Transition::Next(State::Trying(addresses, unreachable(address, &error))),
    }
}

fn connect(client: ClientId, address: SocketAddr, registry: &Registry) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    enable_keepalive(&SockRef::from(&stream))?;
    let interest = Interest::READABLE | Interest::WRITABLE;
    registry.register(&mut stream, socket::token(client), interest)?;
    Ok(stream)
}

fn is_connected(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        // TCP simultaneous open: if the kernel picks the closed target port as the local port, the
        // socket is connected to itself.
        Ok(peer) if stream.local_addr()? == peer => Err(ErrorKind::ConnectionRefused.into()),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll};
    use socket2::{Domain, SockAddr, Socket as Raw, Type};
    use std::net::{Ipv4Addr, TcpListener};

    const CLIENT: ClientId = ClientId { index: 3, generation: 9 };

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// An address without a listener, as long as the socket lives.
    fn closed() -> (Raw, SocketAddr) {
        let socket = Raw::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, address)
    }

    /// The outcome of a name with these addresses.
    fn dial(addresses: Vec<SocketAddr>) -> Outcome {
        let mut poll = Poll::new().unwrap();
        let mut dialer = Dialer::new(LoopWaker::default());
        let target = Arc::new(Target { host: "several".into(), port: 0, tls: false });
        let state = State::try_address(addresses);
        dialer.insert(CLIENT, Dial { target, state, hung_up: false });
        let mut events = Events::with_capacity(8);
        loop {
            dialer.begin_pass();
            if let Some((client, outcome)) = dialer.poll(poll.registry()) {
                assert_eq!(client, CLIENT);
                assert!(dialer.pending.is_empty());
                return outcome;
            }
            poll.poll(&mut events, None).unwrap();
            for event in &events {
                assert_eq!(event.token(), socket::token(CLIENT));
                dialer.on_event(CLIENT, event);
            }
        }
    }

    #[test]
    fn addresses_of_a_name_are_tried_in_order() {
        let ((first, at_first), (second, at_second)) = (listener(), listener());
        let (_closed, at_closed) = closed();
        let socket = dial(vec![at_closed, at_closed, at_first, at_second]).unwrap();
        first.accept().unwrap();
        assert_eq!(socket.stream.peer(), Some(at_first.to_string()));
        assert!(!socket.hung_up, "hang-ups of the closed addresses are reset");
        second.set_nonblocking(true).unwrap();
        assert_eq!(second.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn hang_up_before_the_connect_event_is_kept() {
        let (listener, address) = listener();
        let mut poll = Poll::new().unwrap();
        let mut dialer = Dialer::new(LoopWaker::default());
        let host = address.ip().to_string().into();
        dialer.begin(CLIENT, Arc::new(Target { host, port: address.port(), tls: false }));
        assert!(dialer.poll(poll.registry()).is_none(), "the connect is still pending");
        // The peer accepts and closes before the loop gets an event.
        drop(listener.accept().unwrap());
        let mut events = Events::with_capacity(8);
        let (_, outcome) = loop {
            poll.poll(&mut events, None).unwrap();
            events.iter().for_each(|event| dialer.on_event(CLIENT, event));
            if let Some(outcome) = dialer.poll(poll.registry()) {
                break outcome;
            }
        };
        let socket = outcome.unwrap();
        assert!(socket.hung_up && socket.readable && socket.writable, "{socket:?}");
    }

    #[test]
    fn error_names_the_last_address_if_all_fail() {
        let ((_one, first), (_other, last)) = (closed(), closed());
        let why = dial(vec![first, last]).unwrap_err();
        let ConnectError::Unreachable(why) = why else { panic!("{why:?}") };
        assert!(why.starts_with(&format!("{last}: ")), "{why}");
        let none = ConnectError::Unreachable("no address".into());
        assert_eq!(dial(Vec::new()).unwrap_err(), none);
    }

    #[test]
    fn only_permitted_addresses_are_called() {
        let (_listener, address) = listener();
        let mut dialer = Dialer::new(LoopWaker::default());
        dialer.set_permitted("public,127.9.0.0/16".parse().unwrap());
        let other: SocketAddr = "127.9.0.1:9".parse().unwrap();
        let target = Target { host: "two".into(), port: 1, tls: false };
        let State::Trying(tried, _) = dialer.try_permitted(vec![address, other], &target) else {
            panic!("there is a permitted address")
        };
        assert_eq!(tried, [other], "the other address of the name is passed over");
        let mut poll = Poll::new().unwrap();
        let host = address.ip().to_string().into();
        dialer.begin(CLIENT, Arc::new(Target { host, port: address.port(), tls: false }));
        let (_, outcome) = dialer.poll(poll.registry()).expect("it is not called");
        let why = outcome.unwrap_err().to_string();
        assert!(why.contains("127.0.0.1 is a loopback one"), "{why}");
        assert!(why.contains("--worker-net public,127.9.0.0/16,loopback"), "{why}");
        poll.poll(&mut Events::with_capacity(1), Some(std::time::Duration::ZERO)).unwrap();
    }

    #[test]
    fn dials_of_a_pass_are_bounded() {
        let (listener, address) = listener();
        let mut poll = Poll::new().unwrap();
        let mut dialer = Dialer::new(LoopWaker::default());
        let target =
            Target { host: address.ip().to_string().into(), port: address.port(), tls: false };
        let target = Arc::new(target);
        let dials = u32::try_from(DIALS_PER_PASS).unwrap() + 1;
        for index in 0..dials {
            dialer.begin(ClientId { index, ..CLIENT }, Arc::clone(&target));
        }
        assert!(dialer.poll(poll.registry()).is_none(), "a connect ended at once");
        assert_eq!(dialer.ready.len(), 1, "more dials are advanced than a pass permits");
        dialer.begin_pass();
        assert!(dialer.poll(poll.registry()).is_none() && !dialer.has_ready());
        drop(listener);
        let (mut events, mut ended) = (Events::with_capacity(1024), 0);
        while ended < dials {
            if !dialer.has_ready() {
                poll.poll(&mut events, None).unwrap();
            }
            events.iter().for_each(|event| dialer.on_event(socket::client(event.token()), event));
            events.clear();
            dialer.begin_pass();
            while dialer.poll(poll.registry()).is_some() {
                ended += 1;
            }
        }
    }

    #[test]
    fn cancelled_dial_yields_no_outcome() {
        let (_listener, address) = listener();
        let poll = Poll::new().unwrap();
        let mut dialer = Dialer::new(LoopWaker::default());
        let host = address.ip().to_string().into();
        let target = Arc::new(Target { host, port: address.port(), tls: false });
        dialer.begin(CLIENT, Arc::clone(&target));
        assert!(dialer.has_ready());
        dialer.cancel(CLIENT);
        assert!(dialer.poll(poll.registry()).is_none());
        assert!(!dialer.has_ready(), "nothing is left to poll");
        dialer.handle_found(CLIENT, Ok(vec![address]));
        assert!(dialer.poll(poll.registry()).is_none());
    }
}
