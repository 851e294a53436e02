//! Connections on `io_uring`, by monoio: operations that own their memory are handed to the kernel
//! and come back when they are done. One task for each connection holds a loop that reads and one
//! that writes; the engine is the thread's own.

use super::Start;
use super::connection::{Connection, SCRATCH, Scratch, Turn, now};
use super::shared_engine::{Local, LocalHandle};
use jobcentre::base::limits::{ACCEPT_RETRY_DELAY, FLUSH_TIMEOUT};
use jobcentre::protocol::SessionContext;
use monoio::buf::IoBuf;
use monoio::io::{AsyncReadRent, AsyncWriteRent, Splitable};
use monoio::net::tcp::{TcpOwnedReadHalf, TcpOwnedWriteHalf};
use monoio::net::{TcpListener, TcpStream};
use monoio::time::{Sleep, sleep};
use monoio::{IoUringDriver, RuntimeBuilder};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// Operations handed to the kernel in one system call.
const RING: u32 = 1024;

/// A read owns its memory for as long as it waits, so every connection has this much of its own.
const READ_BUFFER: usize = 16 * 1024;

/// One thread, whose own the engine is.
pub(super) fn run(start: Start) -> io::Result<()> {
    let builder = RuntimeBuilder::<IoUringDriver>::new().with_entries(RING).enable_timer();
    builder.build()?.block_on(accept(start))
}

async fn accept(start: Start) -> io::Result<()> {
    let listener = start.bind()?;
    // The kernel waits; it would not if the socket said so.
    listener.set_nonblocking(false)?;
    let listener = TcpListener::from_std(listener)?;
    loop {
        match listener.accept().await {
            _ if start.is_stopping() => return Ok(()),
            Ok((stream, _)) => {
                let handle = LocalHandle::open(Local);
                drop(monoio::spawn(serve(stream, Connection::new(handle, start.max_request))));
            }
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
            // No file descriptors or no memory: there may be some soon.
            Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// A connection that the loops of its task share; each uses it between two waits only.
type Shareable = RefCell<Connection<LocalHandle<Local>>>;

/// Serves one connection to its end.
async fn serve(stream: TcpStream, connection: Connection<LocalHandle<Local>>) {
    let connection = RefCell::new(connection);
    let (mut reader, mut writer) = stream.into_split();
    {
        let mut reading = pin!(read(&mut reader, &connection));
        let mut writing = pin!(write(&mut writer, &connection));
        let mut patience = None;
        poll_fn(|cx| {
            loop {
                let before = io_interest(&connection.borrow());
                with_turn(cx, &connection, Connection::resume);
                let (Poll::Pending, Poll::Pending) =
                    (reading.as_mut().poll(cx), writing.as_mut().poll(cx));
                if connection.borrow().is_over() {
                    return Poll::Ready(());
                }
                if io_interest(&connection.borrow()) == before && !connection.borrow().can_resume()
                {
                    return wait_for_peer(cx, &mut connection.borrow_mut(), &mut patience);
                }
            }
        })
        .await;
    }
    connection.borrow_mut().leave();
}

/// What the two loops wait for: that input is wanted, that there is something to be sent.
fn io_interest(connection: &Connection<LocalHandle<Local>>) -> (bool, bool) {
    (connection.wants_input(), connection.unsent().is_empty())
}

/// Has `act` act on the connection with what a turn needs.
fn with_turn(
    cx: &Context<'_>,
    connection: &Shareable,
    act: impl FnOnce(&mut Connection<LocalHandle<Local>>, &mut SessionContext, &mut Turn<'_>),
) {
    SCRATCH.with_borrow_mut(|Scratch { shared, pool, .. }| {
        let turn = &mut Turn { now: now(), waker: cx.waker(), pool };
        act(&mut connection.borrow_mut(), shared, turn);
    });
}

/// The same in an async function.
async fn in_turn(
    connection: &Shareable,
    mut act: impl FnMut(&mut Connection<LocalHandle<Local>>, &mut SessionContext, &mut Turn<'_>),
) {
    poll_fn(|cx| {
        with_turn(cx, connection, &mut act);
        Poll::Ready(())
    })
    .await;
}

/// One read after another, while input is wanted.
async fn read(reader: &mut TcpOwnedReadHalf, connection: &Shareable) -> std::convert::Infallible {
    let mut buffer = Vec::with_capacity(READ_BUFFER);
    loop {
        poll_fn(
            |_| {
                if connection.borrow().wants_input() { Poll::Ready(()) } else { Poll::Pending }
            },
        )
        .await;
        let (outcome, filled) = reader.read(buffer).await;
        buffer = filled;
        in_turn(connection, |connection, shared, turn| match outcome {
            Ok(0) => connection.handle_eof(turn),
            Ok(count) => connection.handle_input(&buffer[..count], shared, turn),
            Err(_) => connection.handle_lost(),
        })
        .await;
        if connection.borrow().is_over() {
            std::future::pending::<()>().await;
        }
    }
}

/// One write after another of all that there is to be sent.
async fn write(writer: &mut TcpOwnedWriteHalf, connection: &Shareable) -> std::convert::Infallible {
    loop {
        let mut buffer = poll_fn(|_| {
            let mut connection = connection.borrow_mut();
            if connection.unsent().is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(connection.take_output())
            }
        })
        .await;
        let mut sent = 0;
        while sent < buffer.len() {
            let (outcome, slice) = writer.write(buffer.slice(sent..)).await;
            buffer = slice.into_inner();
            let count = outcome.as_ref().map_or(buffer.len() - sent, |&count| count);
            sent += count;
            connection.borrow_mut().handle_taken_sent(count);
            if outcome.is_err() {
                in_turn(connection, |connection, _, turn| connection.handle_broken_output(turn))
                    .await;
            }
        }
        SCRATCH.with_borrow_mut(|scratch| scratch.pool.put(buffer));
    }
}

/// Counts the time in which a peer that has closed takes nothing.
fn wait_for_peer(
    cx: &mut Context<'_>,
    connection: &mut Connection<LocalHandle<Local>>,
    patience: &mut Option<(usize, Pin<Box<Sleep>>)>,
) -> Poll<()> {
    let backlog = connection.backlog();
    if !connection.is_peer_closed() || backlog == 0 {
        return Poll::Pending;
    }
    if patience.as_ref().is_none_or(|&(before, _)| before != backlog) {
        *patience = Some((backlog, Box::pin(sleep(FLUSH_TIMEOUT))));
    }
    let Some((_, timer)) = patience else { return Poll::Pending };
    timer.as_mut().poll(cx).map(|()| connection.handle_lost())
}
