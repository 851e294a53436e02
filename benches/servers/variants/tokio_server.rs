//! Connections on tokio: one task for each, one read for each readiness into memory of the thread,
//! one write for all replies to it.

use super::Start;
use super::actor_server::{self, ActorHandle};
use super::connection::{Connection, EngineHandle, SCRATCH, Scratch, Turn, now};
use super::shared_engine::{Local, LocalHandle, SharedEngine};
use jobcentre::base::limits::{ACCEPT_RETRY_DELAY, FLUSH_TIMEOUT};
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Sleep, sleep};

/// One thread, whose own the engine is.
pub(super) fn run_current(start: Start) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let max_request = start.max_request;
    runtime.block_on(accept(start, move |stream| {
        serve(stream, Connection::new(LocalHandle::open(Local), max_request))
    }))
}

/// All cores, and a mutex around the engine.
pub(super) fn run_mutex(start: Start) -> io::Result<()> {
    let runtime = on_all_cores(&start)?;
    let max_request = start.max_request;
    let engine = Arc::new(Mutex::new(SharedEngine::new()));
    block_on_task(
        &runtime,
        accept(start, move |stream| {
            serve(stream, Connection::new(LocalHandle::open(Arc::clone(&engine)), max_request))
        }),
    )
}

/// All cores, and the engine in an actor.
pub(super) fn run_actor(start: Start) -> io::Result<()> {
    let runtime = on_all_cores(&start)?;
    let max_request = start.max_request;
    let (requests, inbox) = unbounded_channel();
    runtime.spawn(actor_server::run(inbox));
    block_on_task(
        &runtime,
        accept(start, move |stream| {
            let requests = requests.clone();
            async move {
                if let Some(handle) = ActorHandle::open(requests).await {
                    serve(stream, Connection::new(handle, max_request)).await;
                }
            }
        }),
    )
}

fn on_all_cores(start: &Start) -> io::Result<Runtime> {
    Builder::new_multi_thread().thread_name(start.variant.name()).enable_all().build()
}

/// Accepting runs on a worker thread, close to the connections.
fn block_on_task(
    runtime: &Runtime,
    task: impl Future<Output = io::Result<()>> + Send + 'static,
) -> io::Result<()> {
    runtime.block_on(runtime.spawn(task)).map_err(io::Error::other)?
}

/// Accepts connections and spawns what `open` makes of each.
async fn accept<F>(start: Start, open: impl Fn(TcpStream) -> F) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::from_std(start.bind()?)?;
    loop {
        match listener.accept().await {
            _ if start.is_stopping() => return Ok(()),
            Ok((stream, _)) => drop(tokio::spawn(open(stream))),
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // No file descriptors or no memory: there may be some soon.
            Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// The interest that is met when the peer has closed, but not by bytes to be read.
#[cfg(target_os = "linux")]
const CLOSED: Interest = Interest::PRIORITY;
#[cfg(not(target_os = "linux"))]
const CLOSED: Interest = Interest::ERROR;

/// How a connection follows what its peer does.
enum ReadSide<'a, 's> {
    /// By reading.
    Reads(&'a mut ReadHalf<'s>),
    /// Nothing is to be read, but that the peer is gone is to be noticed.
    Closing(Pin<&'a mut (dyn Future<Output = io::Result<Ready>> + Send)>),
    /// Nothing further is to be learned for now.
    Shut,
}

enum ReadEvent {
    Nothing,
    Bytes(usize),
    End,
    PeerClosed,
    Lost,
}

impl ReadSide<'_, '_> {
    fn poll(&mut self, cx: &mut Context<'_>, bytes: &mut [u8]) -> ReadEvent {
        match self {
            Self::Reads(reader) => {
                let mut buffer = ReadBuf::new(bytes);
                match Pin::new(&mut **reader).poll_read(cx, &mut buffer) {
                    Poll::Pending => ReadEvent::Nothing,
                    Poll::Ready(Ok(())) if buffer.filled().is_empty() => ReadEvent::End,
                    Poll::Ready(Ok(())) => ReadEvent::Bytes(buffer.filled().len()),
                    Poll::Ready(Err(_)) => ReadEvent::Lost,
                }
            }
            Self::Closing(closed) => match closed.as_mut().poll(cx) {
                Poll::Pending => ReadEvent::Nothing,
                Poll::Ready(_) => ReadEvent::PeerClosed,
            },
            Self::Shut => ReadEvent::Nothing,
        }
    }
}

/// When a peer that has closed must have taken something of its answers.
type Patience = Option<Pin<Box<Sleep>>>;

/// Serves one connection to its end.
async fn serve<D: EngineHandle>(mut stream: TcpStream, mut connection: Connection<D>) {
    let (mut reader, mut writer) = stream.split();
    let mut patience = None;
    while !connection.is_over() {
        let (connection, writer, patience) = (&mut connection, &mut writer, &mut patience);
        if connection.wants_input() {
            let mut read_side = ReadSide::Reads(&mut reader);
            poll_fn(|cx| turn(cx, connection, &mut read_side, writer, patience)).await;
        } else if connection.is_peer_closed() {
            poll_fn(|cx| turn(cx, connection, &mut ReadSide::Shut, writer, patience)).await;
        } else {
            let mut read_side = ReadSide::Closing(pin!(reader.ready(CLOSED)));
            poll_fn(|cx| turn(cx, connection, &mut read_side, writer, patience)).await;
        }
    }
    connection.leave();
}

/// Goes on until there is nothing to be done, or until another read side is needed.
fn turn<D: EngineHandle>(
    cx: &mut Context<'_>,
    connection: &mut Connection<D>,
    read_side: &mut ReadSide<'_, '_>,
    writer: &mut WriteHalf<'_>,
    patience: &mut Patience,
) -> Poll<()> {
    SCRATCH.with_borrow_mut(|Scratch { bytes, shared, pool }| {
        let turn = &mut Turn { now: now(), waker: cx.waker(), pool };
        let io_interest = |connection: &Connection<D>| {
            (connection.is_over(), connection.wants_input(), connection.is_peer_closed())
        };
        let before = io_interest(connection);
        loop {
            connection.resume(shared, turn);
            let heard = read_side.poll(cx, bytes);
            match heard {
                ReadEvent::Nothing => {}
                ReadEvent::Bytes(count) => connection.handle_input(&bytes[..count], shared, turn),
                ReadEvent::End => connection.handle_eof(turn),
                ReadEvent::PeerClosed => connection.handle_peer_closed(turn),
                ReadEvent::Lost => connection.handle_lost(),
            }
            if write(cx, connection, writer, turn) {
                *patience = None;
            }
            if io_interest(connection) != before {
                return Poll::Ready(());
            }
            match heard {
                ReadEvent::Nothing if !connection.can_resume() => break,
                ReadEvent::Bytes(count) if count == bytes.len() => {
                    // Others have their turn before the rest is read.
                    cx.waker().wake_by_ref();
                    break;
                }
                _ => {}
            }
        }
        wait_for_peer(cx, connection, patience)
    })
}

/// Writes what there is; tells whether anything was taken.
fn write<D: EngineHandle>(
    cx: &mut Context<'_>,
    connection: &mut Connection<D>,
    writer: &mut WriteHalf<'_>,
    turn: &mut Turn<'_>,
) -> bool {
    let mut taken = false;
    while !connection.unsent().is_empty() {
        match Pin::new(&mut *writer).poll_write(cx, connection.unsent()) {
            Poll::Pending => break,
            Poll::Ready(Ok(count)) => {
                taken = true;
                connection.handle_sent(count, turn);
            }
            Poll::Ready(Err(_)) => connection.handle_broken_output(turn),
        }
    }
    taken
}

/// Counts the time in which a peer that has closed takes nothing.
fn wait_for_peer<D: EngineHandle>(
    cx: &mut Context<'_>,
    connection: &mut Connection<D>,
    patience: &mut Patience,
) -> Poll<()> {
    if !connection.is_peer_closed() || connection.unsent().is_empty() {
        return Poll::Pending;
    }
    let patience = patience.get_or_insert_with(|| Box::pin(sleep(FLUSH_TIMEOUT)));
    patience.as_mut().poll(cx).map(|()| connection.handle_lost())
}
