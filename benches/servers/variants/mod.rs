//! The comparison servers, each by its name, on a thread of its own.
//!
//! ```text
//! echo.rs             lines sent back on the server's own reactor: the cost of the loop alone
//! connection.rs       one client of an async variant, without its socket: the server's rules, once
//! shared_engine.rs    the engine behind a RefCell or a Mutex, with the sessions of its waiters
//! actor_server.rs     the engine in its own task, behind a channel
//! owned.rs            owned commands and replies, which can be sent over that channel
//! tokio_server.rs     connections and accepting on tokio
//! io_uring_server.rs  the same on io_uring, by monoio
//! ```

mod actor_server;
mod connection;
pub(crate) mod echo;
#[cfg(target_os = "linux")]
mod io_uring_server;
mod owned;
mod shared_engine;
mod tokio_server;

use jobcentre::base::limits::LISTEN_BACKLOG;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

/// The comparison servers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// Lines sent back, on the server's own reactor.
    Echo,
    /// tokio on one thread; the engine is that thread's.
    TokioCurrent,
    /// tokio on all cores; one mutex around the engine.
    TokioMutex,
    /// tokio on all cores; the engine in an actor task behind a channel.
    TokioActor,
    /// `io_uring` on one thread; the engine is that thread's.
    Uring,
}

impl Variant {
    /// Its name on the command line, and that of its threads.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::TokioCurrent => "tokio-current",
            Self::TokioMutex => "tokio-mutex",
            Self::TokioActor => "tokio-actor",
            Self::Uring => "uring",
        }
    }
}

/// A server on a thread of its own.
pub(crate) struct Running {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Waits for its end: the echo ends by SIGTERM, the others with the process.
    pub(crate) fn wait(self) -> io::Result<()> {
        self.thread.join().expect("a server does not panic")
    }

    /// Ends it, connections and all. The echo ends by signals only.
    pub(crate) fn stop(self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address)?);
        self.wait()
    }
}

/// What a server is started with.
pub(crate) struct Start {
    variant: Variant,
    listen: SocketAddr,
    max_request: usize,
    stop: Arc<AtomicBool>,
    bound: mpsc::Sender<SocketAddr>,
}

impl Start {
    /// Binds, with the server's own options, and tells the starter where. Accepted connections
    /// inherit that small writes are not delayed.
    fn bind(&self) -> io::Result<TcpListener> {
        let socket =
            Socket::new(Domain::for_address(self.listen), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        socket.bind(&SockAddr::from(self.listen))?;
        socket.listen(LISTEN_BACKLOG)?;
        let listener = TcpListener::from(socket);
        self.tell(listener.local_addr()?);
        Ok(listener)
    }

    fn tell(&self, address: SocketAddr) {
        // The starter waits for it; if it does not, the error does not matter.
        let _ = self.bound.send(address);
    }

    fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn run(self) -> io::Result<()> {
        match self.variant {
            Variant::Echo => echo::run(&self),
            Variant::TokioCurrent => tokio_server::run_current(self),
            Variant::TokioMutex => tokio_server::run_mutex(self),
            Variant::TokioActor => tokio_server::run_actor(self),
            #[cfg(target_os = "linux")]
            Variant::Uring => io_uring_server::run(self),
            #[cfg(not(target_os = "linux"))]
            Variant::Uring => Err(ErrorKind::Unsupported.into()),
        }
    }
}

/// Starts a server and returns once it listens. `None`: this system has no `io_uring`, or does
/// not permit it.
pub(crate) fn start_if_possible(
    variant: Variant,
    listen: SocketAddr,
    max_request: usize,
) -> io::Result<Option<Running>> {
    match start(variant, listen, max_request) {
        Err(error)
            if variant == Variant::Uring
                && matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::PermissionDenied) =>
        {
            Ok(None)
        }
        outcome => outcome.map(Some),
    }
}

/// Starts a server and returns once it listens.
fn start(variant: Variant, listen: SocketAddr, max_request: usize) -> io::Result<Running> {
    let stop = Arc::new(AtomicBool::new(false));
    let (bound, address) = mpsc::channel();
    let start = Start { variant, listen, max_request, stop: Arc::clone(&stop), bound };
    let name = variant.name().to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || start.run())?;
    if let Ok(address) = address.recv() {
        return Ok(Running { address, stop, thread });
    }
    let ended = thread.join().expect("a server does not panic");
    Err(ended.err().unwrap_or_else(|| io::Error::other("the server ended at once")))
}
