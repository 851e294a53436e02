//! Name lookup, by threads that block in the system's resolver so that the loop does not.
//!
//! The threads start with the first lookup, take requests from a bounded queue, skip cancelled ones
//! and wake the loop after each answer. There are [`DNS_THREADS`], so that one dead name server
//! does not delay all other names.

use super::loop_waker::LoopWaker;
use super::shortage;
use crate::base::limits::{DNS_ADDRESSES_MAX, DNS_LOOKUPS_QUEUED_MAX, DNS_THREADS};
use crate::model::driver::{ConnectError, Target};
use crate::model::id::ClientId;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// Dropping it cancels the lookup.
#[derive(Debug)]
pub(super) struct LookupGuard {
    _alive: Arc<()>,
}

/// Addresses, to be tried in this order.
pub(super) type Resolution = Result<Vec<SocketAddr>, ConnectError>;

#[derive(Debug)]
struct Request {
    client: ClientId,
    target: Arc<Target>,
    wanted: Weak<()>,
}

#[derive(Debug)]
struct Threads {
    requests: SyncSender<Request>,
    answers: Receiver<(ClientId, Resolution)>,
}

/// The lookup threads and their channels.
#[derive(Debug)]
pub(super) struct Resolver {
    wake: LoopWaker,
    threads: Option<Threads>,
}

/// The address of a target whose host is an IP address.
pub(super) fn literal(target: &Target) -> Option<SocketAddr> {
    let address: IpAddr = target.host.parse().ok()?;
    Some(SocketAddr::new(address, target.port))
}

impl Resolver {
    /// Starts no thread yet.
    pub(super) fn new(wake: LoopWaker) -> Self {
        Self { wake, threads: None }
    }

    /// Requests the addresses of a name; [`Resolver::poll`] returns them, unless the guard is
    /// dropped before.
    pub(super) fn submit(
        &mut self,
        client: ClientId,
        target: &Arc<Target>,
    ) -> Result<LookupGuard, ConnectError> {
        let alive = Arc::new(());
        let wanted = Arc::downgrade(&alive);
        let request = Request { client, target: Arc::clone(target), wanted };
        let threads = match &mut self.threads {
            Some(threads) => threads,
            none => none.insert(start(&self.wake).map_err(|error| {
                ConnectError::NoRoom(format!("no thread to look up names with: {error}").into())
            })?),
        };
        match threads.requests.try_send(request) {
            Ok(()) => Ok(LookupGuard { _alive: alive }),
            Err(TrySendError::Full(_)) => Err(ConnectError::Busy),
            Err(TrySendError::Disconnected(_)) => {
                Err(ConnectError::Name("the threads that ask have died".into()))
            }
        }
    }

    /// The next answer, if there is one.
    pub(super) fn poll(&self) -> Option<(ClientId, Resolution)> {
        self.threads.as_ref()?.answers.try_recv().ok()
    }
}

fn start(wake: &LoopWaker) -> std::io::Result<Threads> {
    let (requests, queue) = sync_channel(DNS_LOOKUPS_QUEUED_MAX);
    let (answer, answers) = channel();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..DNS_THREADS {
        let (queue, answer, wake) = (Arc::clone(&queue), answer.clone(), wake.clone());
        // Not joined: the system's resolver cannot be cancelled.
        thread::Builder::new()
            .name("resolve".to_owned())
            .spawn(move || serve(&queue, &answer, &wake))?;
    }
    Ok(Threads { requests, answers })
}

fn serve(
    queue: &Mutex<Receiver<Request>>,
    answer: &Sender<(ClientId, Resolution)>,
    wake: &LoopWaker,
) {
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(request) = next() {
        if request.wanted.strong_count() == 0 {
            continue;
        }
        if answer.send((request.client, resolve(&request.target))).is_err() {
            return;
        }
        wake.wake();
    }
}

fn resolve(target: &Target) -> Resolution {
    let host = &*target.host;
    let unknown = |why: String| match shortage::now() {
        Some(shortage) => ConnectError::NoRoom(format!("{host}: {why}: {shortage}").into()),
        None => ConnectError::Name(format!("{host}: {why}").into()),
    };
    let found =
        (host, target.port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
    let addresses: Vec<SocketAddr> = found.take(DNS_ADDRESSES_MAX).collect();
    if addresses.is_empty() {
        return Err(unknown("no address".to_owned()));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str) -> Arc<Target> {
        Arc::new(Target { host: host.into(), port: 80, tls: false })
    }

    fn client(index: u32) -> ClientId {
        ClientId { index, generation: 1 }
    }

    /// A resolver without threads, and the thread side of its channels.
    fn idle() -> (Resolver, Receiver<Request>, Sender<(ClientId, Resolution)>) {
        let (requests, queue) = sync_channel(DNS_LOOKUPS_QUEUED_MAX);
        let (answer, answers) = channel();
        let threads = Some(Threads { requests, answers });
        (Resolver { wake: LoopWaker::default(), threads }, queue, answer)
    }

    #[test]
    fn ip_address_is_parsed_without_a_lookup() {
        let address = |host: &str| literal(&target(host)).map(|address| address.to_string());
        assert_eq!(address("127.0.0.1").as_deref(), Some("127.0.0.1:80"));
        assert_eq!(address("::1").as_deref(), Some("[::1]:80"));
        assert_eq!(address("localhost"), None);
        assert_eq!(address("127.1"), None);
    }

    #[test]
    fn full_queue_and_dead_threads_are_errors_of_submit() {
        let (mut resolver, queue, _answer) = idle();
        let name = target("name");
        let guards: Vec<_> = (0..).map_while(|i| resolver.submit(client(i), &name).ok()).collect();
        assert_eq!(guards.len(), DNS_LOOKUPS_QUEUED_MAX);
        assert_eq!(resolver.submit(client(0), &name).unwrap_err(), ConnectError::Busy);
        drop(queue);
        let ConnectError::Name(why) = resolver.submit(client(0), &name).unwrap_err() else {
            panic!("another reason");
        };
        assert!(why.contains("have died"), "{why}");
    }

    #[test]
    fn cancelled_lookup_is_skipped() {
        let (mut resolver, queue, answer) = idle();
        // A label of 64 bytes is too long, so the resolver fails without a name server.
        let long = target(&"x".repeat(64));
        let dropped = resolver.submit(client(1), &long).unwrap();
        let _kept = resolver.submit(client(2), &long).unwrap();
        drop(dropped);
        let threads = resolver.threads.take().unwrap();
        drop(threads.requests);
        serve(&Mutex::new(queue), &answer, &LoopWaker::default());
        let (who, found) = threads.answers.try_recv().unwrap();
        assert_eq!(who, client(2));
        let Err(ConnectError::Name(why)) = found else { panic!("{found:?}") };
        assert!(why.starts_with(&format!("{}: ", long.host)), "{why}");
        assert!(threads.answers.try_recv().is_err(), "the cancelled lookup was answered");
    }
}
