//! Names to addresses, by threads that wait for the system's resolver so that the loop never does.
//!
//! The threads begin with the first name, take requests from a bounded queue, pass over those that
//! nobody waits for any more, and wake the loop after each answer. There are a few of them, because
//! one dead name server would otherwise hold up every other name.

use super::loop_waker::LoopWaker;
use super::shortage;
use crate::base::limits::{DNS_ADDRESSES_MAX, DNS_LOOKUPS_QUEUED_MAX, DNS_THREADS};
use crate::model::driver::{ConnectError, Target};
use crate::model::id::ClientId;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

/// Held by whoever waits for an answer: without it a request is passed over.
#[derive(Debug)]
pub(super) struct LookupGuard {
    _alive: Arc<()>,
}

/// Addresses to be tried in this order.
pub(super) type Found = Result<Vec<SocketAddr>, ConnectError>;

#[derive(Debug)]
struct Request {
    client: ClientId,
    target: Arc<Target>,
    wanted: Weak<()>,
}

#[derive(Debug)]
struct Lanes {
    requests: SyncSender<Request>,
    answers: Receiver<(ClientId, Found)>,
}

/// The threads, and the way to them.
#[derive(Debug)]
pub(super) struct Resolver {
    wake: LoopWaker,
    lanes: Option<Lanes>,
}

/// The address of a target that is given in numbers.
pub(super) fn literal(target: &Target) -> Option<SocketAddr> {
    let address: IpAddr = target.host.parse().ok()?;
    Some(SocketAddr::new(address, target.port))
}

impl Resolver {
    /// No thread is started yet.
    pub(super) fn new(wake: LoopWaker) -> Self {
        Self { wake, lanes: None }
    }

    /// Asks for the addresses of a name; [`Resolver::poll`] gives them, unless the claim is dropped
    /// before.
    pub(super) fn submit(
        &mut self,
        client: ClientId,
        target: &Arc<Target>,
    ) -> Result<LookupGuard, ConnectError> {
        let alive = Arc::new(());
        let wanted = Arc::downgrade(&alive);
        let request = Request { client, target: Arc::clone(target), wanted };
        let lanes = match &mut self.lanes {
            Some(lanes) => lanes,
            none => none.insert(start(&self.wake).map_err(|error| {
                ConnectError::NoRoom(format!("no thread to look up names with: {error}").into())
            })?),
        };
        match lanes.requests.try_send(request) {
            Ok(()) => Ok(LookupGuard { _alive: alive }),
            Err(TrySendError::Full(_)) => Err(ConnectError::Busy),
            Err(TrySendError::Disconnected(_)) => {
                Err(ConnectError::Name("the threads that ask have died".into()))
            }
        }
    }

    /// An answer, if there is one.
    pub(super) fn poll(&self) -> Option<(ClientId, Found)> {
        self.lanes.as_ref()?.answers.try_recv().ok()
    }
}

fn start(wake: &LoopWaker) -> std::io::Result<Lanes> {
    let (requests, queue) = sync_channel(DNS_LOOKUPS_QUEUED_MAX);
    let (answer, answers) = channel();
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..DNS_THREADS {
        let (queue, answer, wake) = (Arc::clone(&queue), answer.clone(), wake.clone());
        // Nobody joins it: the system's resolver cannot be called off.
        thread::Builder::new()
            .name("resolve".to_owned())
            .spawn(move || serve(&queue, &answer, &wake))?;
    }
    Ok(Lanes { requests, answers })
}

fn serve(queue: &Mutex<Receiver<Request>>, answer: &Sender<(ClientId, Found)>, wake: &LoopWaker) {
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

fn resolve(target: &Target) -> Found {
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

    /// A resolver without threads, and what its threads would have.
    fn idle() -> (Resolver, Receiver<Request>, Sender<(ClientId, Found)>) {
        let (requests, queue) = sync_channel(DNS_LOOKUPS_QUEUED_MAX);
        let (answer, answers) = channel();
        let lanes = Some(Lanes { requests, answers });
        (Resolver { wake: LoopWaker::default(), lanes }, queue, answer)
    }

    #[test]
    fn an_address_in_numbers_needs_nobody() {
        let address = |host: &str| literal(&target(host)).map(|address| address.to_string());
        assert_eq!(address("127.0.0.1").as_deref(), Some("127.0.0.1:80"));
        assert_eq!(address("::1").as_deref(), Some("[::1]:80"));
        assert_eq!(address("localhost"), None);
        assert_eq!(address("127.1"), None);
    }

    #[test]
    fn the_queue_is_bounded_and_its_end_is_told() {
        let (mut resolver, queue, _answer) = idle();
        let name = target("name");
        let claims: Vec<_> = (0..).map_while(|i| resolver.submit(client(i), &name).ok()).collect();
        assert_eq!(claims.len(), DNS_LOOKUPS_QUEUED_MAX);
        assert_eq!(resolver.submit(client(0), &name).unwrap_err(), ConnectError::Busy);
        drop(queue);
        let ConnectError::Name(why) = resolver.submit(client(0), &name).unwrap_err() else {
            panic!("another reason");
        };
        assert!(why.contains("have died"), "{why}");
    }

    #[test]
    fn what_nobody_waits_for_is_passed_over() {
        let (mut resolver, queue, answer) = idle();
        // No name has a label of 64 bytes, so nobody has to be asked.
        let long = target(&"x".repeat(64));
        let dropped = resolver.submit(client(1), &long).unwrap();
        let _kept = resolver.submit(client(2), &long).unwrap();
        drop(dropped);
        let lanes = resolver.lanes.take().unwrap();
        drop(lanes.requests);
        serve(&Mutex::new(queue), &answer, &LoopWaker::default());
        let (who, found) = lanes.answers.try_recv().unwrap();
        assert_eq!(who, client(2));
        let Err(ConnectError::Name(why)) = found else { panic!("{found:?}") };
        assert!(why.starts_with(&format!("{}: ", long.host)), "{why}");
        assert!(lanes.answers.try_recv().is_err(), "somebody else was answered");
    }
}
