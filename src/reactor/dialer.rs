//! Outgoing connections that are not yet connections: names are looked up, addresses tried one
//! after the other, hands shaken.
//!
//! Each ends in exactly one outcome, unless it is called off before; then nothing that still comes
//! for it finds anybody. An event only marks a dial as ready; [`Dialer::poll`] does the rest, once
//! in each pass. How long a dial may take is not known here.

use super::listener::enable_keepalive;
use super::loop_waker::LoopWaker;
use super::resolve::{self, Found, LookupGuard, Resolver};
use super::shortage;
use super::socket::{self, Socket, Stream};
use super::tls::{Tls, TrustStore};
use crate::model::driver::{ConnectError, Target};
use crate::model::id::ClientId;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Interest, Registry};
use socket2::SockRef;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;

/// How a dial ends.
pub(super) type Outcome = Result<Socket, ConnectError>;

/// All dials under way.
#[derive(Debug)]
pub(super) struct Dialer {
    under_way: HashMap<ClientId, Dial>,
    /// Those that may be able to go on.
    ready: Vec<ClientId>,
    resolver: Resolver,
    trust: Option<TrustStore>,
}

#[derive(Debug)]
struct Dial {
    target: Arc<Target>,
    state: State,
    /// The peer of the present connection has shut down its sending side already.
    hung_up: bool,
}

#[derive(Debug)]
enum State {
    /// Its name is being looked up.
    Resolving { _claim: LookupGuard },
    /// These addresses are left, the next one last, and this is why there is no connection yet.
    Trying(Vec<SocketAddr>, ConnectError),
    /// One address has been asked; the others are left.
    Connecting(TcpStream, SocketAddr, Vec<SocketAddr>),
    /// Connected, but not yet encrypted.
    Handshaking(Box<Tls>),
    /// It is over.
    Over(ConnectError),
}

/// What came of going on.
enum Step {
    Waits(Dial),
    Ends(Outcome),
}

/// What came of one step.
enum Turn {
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
        Self { under_way: HashMap::new(), ready: Vec::new(), resolver, trust: None }
    }

    /// Whom connections by TLS trust; without this, the usual authorities.
    pub(super) fn set_trust(&mut self, trust: TrustStore) {
        self.trust = Some(trust);
    }

    /// Begins one.
    pub(super) fn begin(&mut self, client: ClientId, target: Arc<Target>) {
        let state = match resolve::literal(&target) {
            Some(address) => State::try_address(vec![address]),
            None => match self.resolver.submit(client, &target) {
                Ok(claim) => State::Resolving { _claim: claim },
                Err(why) => State::Over(why),
            },
        };
        self.insert(client, Dial { target, state, hung_up: false });
    }

    fn insert(&mut self, client: ClientId, dial: Dial) {
        if !matches!(dial.state, State::Resolving { .. }) {
            self.ready.push(client);
        }
        self.under_way.insert(client, dial);
    }

    /// Calls one off, if it is under way.
    pub(super) fn cancel(&mut self, client: ClientId) {
        self.under_way.remove(&client);
    }

    /// Whether [`Dialer::poll`] has something to do even if nothing happens.
    pub(super) fn are_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Something has happened to the socket of one.
    pub(super) fn note(&mut self, client: ClientId, event: &Event) {
        if let Some(dial) = self.under_way.get_mut(&client) {
            dial.hung_up |= event.is_read_closed() || event.is_error();
            self.ready.push(client);
        }
    }

    /// Lets all go on that can, until one ends.
    pub(super) fn poll(&mut self, registry: &Registry) -> Option<(ClientId, Outcome)> {
        if self.under_way.is_empty() {
            self.ready.clear();
            return None;
        }
        while let Some((client, found)) = self.resolver.poll() {
            self.handle_found(client, found);
        }
        while let Some(client) = self.ready.pop() {
            let Some(dial) = self.under_way.remove(&client) else { continue };
            let trust = &mut self.trust;
            match dial.advance(client, registry, || trust.get_or_insert_default().clone()) {
                Step::Waits(dial) => {
                    self.under_way.insert(client, dial);
                }
                Step::Ends(outcome) => return Some((client, outcome)),
            }
        }
        None
    }

    fn handle_found(&mut self, client: ClientId, found: Found) {
        let Some(dial) = self.under_way.get_mut(&client) else { return };
        dial.state = match found {
            Ok(addresses) => State::try_address(addresses),
            Err(why) => State::Over(why),
        };
        self.ready.push(client);
    }
}

impl State {
    /// Begins with the first address.
    fn try_address(mut addresses: Vec<SocketAddr>) -> Self {
        addresses.reverse();
        Self::Trying(addresses, ConnectError::Unreachable("no address".into()))
    }
}

impl Dial {
    /// Goes on as far as it goes without waiting.
    fn advance(
        self,
        client: ClientId,
        registry: &Registry,
        mut trust: impl FnMut() -> TrustStore,
    ) -> Step {
        let Self { target, mut state, mut hung_up } = self;
        loop {
            let turn = match state {
                State::Resolving { .. } => Turn::Waits(state),
                State::Trying(addresses, why) => {
                    // What the last address did says nothing about the next one.
                    hung_up = false;
                    try_next(addresses, why, client, registry)
                }
                State::Connecting(stream, address, rest) => match is_connected(&stream) {
                    Ok(false) => Turn::Waits(State::Connecting(stream, address, rest)),
                    Ok(true) if target.tls => match Tls::begin(stream, &target.host, &trust()) {
                        Ok(tls) => Turn::Next(State::Handshaking(tls)),
                        Err(why) => Turn::Ends(Err(ConnectError::Tls(why.into()))),
                    },
                    Ok(true) => Turn::Ends(Ok(Stream::Plain(stream))),
                    Err(error) => Turn::Next(State::Trying(rest, unreachable(address, &error))),
                },
                State::Handshaking(mut tls) => match tls.handshake() {
                    Ok(true) => Turn::Ends(Ok(Stream::Tls(tls))),
                    Ok(false) => Turn::Waits(State::Handshaking(tls)),
                    Err(why) => Turn::Ends(Err(ConnectError::Tls(why.into()))),
                },
                State::Over(why) => Turn::Ends(Err(why)),
            };
            match turn {
                Turn::Next(next) => state = next,
                Turn::Waits(state) => return Step::Waits(Self { target, state, hung_up }),
                Turn::Ends(end) => {
                    return Step::Ends(end.map(|stream| Socket::connected(stream, hung_up)));
                }
            }
        }
    }
}

/// Asks the next address that can be asked at all.
fn try_next(
    mut addresses: Vec<SocketAddr>,
    why: ConnectError,
    client: ClientId,
    registry: &Registry,
) -> Turn {
    let Some(address) = addresses.pop() else { return Turn::Ends(Err(why)) };
    match connect(client, address, registry) {
        // The system tells when it has an answer.
        Ok(stream) => Turn::Waits(State::Connecting(stream, address, addresses)),
        // Another address would need as much.
        Err(error) if shortage::of_connections(&error) => {
            Turn::Ends(Err(ConnectError::NoRoom(error.to_string().into())))
        }
        Err(error) => Turn::Next(State::Trying(addresses, unreachable(address, &error))),
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
        // The system may pick a closed port for its own side, and then finds itself there.
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

    /// An address at which nobody listens, as long as the socket lives.
    fn closed() -> (Raw, SocketAddr) {
        let socket = Raw::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        (socket, address)
    }

    /// What comes of a name with these addresses.
    fn dial(addresses: Vec<SocketAddr>) -> Outcome {
        let mut poll = Poll::new().unwrap();
        let mut dials = Dialer::new(LoopWaker::default());
        let target = Arc::new(Target { host: "several".into(), port: 0, tls: false });
        let state = State::try_address(addresses);
        dials.insert(CLIENT, Dial { target, state, hung_up: false });
        let mut events = Events::with_capacity(8);
        loop {
            if let Some((client, outcome)) = dials.poll(poll.registry()) {
                assert_eq!(client, CLIENT);
                assert!(dials.under_way.is_empty());
                return outcome;
            }
            poll.poll(&mut events, None).unwrap();
            for event in &events {
                assert_eq!(event.token(), socket::token(CLIENT));
                dials.note(CLIENT, event);
            }
        }
    }

    #[test]
    fn the_addresses_of_a_name_are_tried_in_order() {
        let ((first, at_first), (second, at_second)) = (listener(), listener());
        let (_closed, at_closed) = closed();
        let socket = dial(vec![at_closed, at_closed, at_first, at_second]).unwrap();
        first.accept().unwrap();
        assert_eq!(socket.stream.peer(), Some(at_first));
        assert!(!socket.hung_up, "what the closed ones did is forgotten");
        second.set_nonblocking(true).unwrap();
        assert_eq!(second.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn what_came_with_the_connection_is_not_forgotten() {
        let (listener, address) = listener();
        let mut poll = Poll::new().unwrap();
        let mut dials = Dialer::new(LoopWaker::default());
        let host = address.ip().to_string().into();
        dials.begin(CLIENT, Arc::new(Target { host, port: address.port(), tls: false }));
        assert!(dials.poll(poll.registry()).is_none(), "the system has not been asked");
        // The peer has come and gone before the loop hears of either.
        drop(listener.accept().unwrap());
        let mut events = Events::with_capacity(8);
        let (_, outcome) = loop {
            poll.poll(&mut events, None).unwrap();
            events.iter().for_each(|event| dials.note(CLIENT, event));
            if let Some(outcome) = dials.poll(poll.registry()) {
                break outcome;
            }
        };
        let socket = outcome.unwrap();
        assert!(socket.hung_up && socket.readable && socket.writable, "{socket:?}");
    }

    #[test]
    fn if_no_address_answers_the_last_one_is_named() {
        let ((_one, first), (_other, last)) = (closed(), closed());
        let why = dial(vec![first, last]).unwrap_err();
        let ConnectError::Unreachable(why) = why else { panic!("{why:?}") };
        assert!(why.starts_with(&format!("{last}: ")), "{why}");
        let none = ConnectError::Unreachable("no address".into());
        assert_eq!(dial(Vec::new()).unwrap_err(), none);
    }

    #[test]
    fn one_that_is_called_off_ends_in_nothing() {
        let (_listener, address) = listener();
        let poll = Poll::new().unwrap();
        let mut dials = Dialer::new(LoopWaker::default());
        let host = address.ip().to_string().into();
        let target = Arc::new(Target { host, port: address.port(), tls: false });
        dials.begin(CLIENT, Arc::clone(&target));
        assert!(dials.are_ready());
        dials.cancel(CLIENT);
        assert!(dials.poll(poll.registry()).is_none());
        assert!(!dials.are_ready(), "nothing keeps the loop awake");
        dials.handle_found(CLIENT, Ok(vec![address]));
        assert!(dials.poll(poll.registry()).is_none());
    }
}
