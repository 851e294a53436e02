//! Outbound connections: a core that only dials, on the real reactor, and peers in threads.

mod caller;
pub(crate) mod peers;

use crate::support::{Program, Server, TempDir};
use caller::{Calls, Event, target};
use jobcentre::model::driver::{Action, ConnectError};
use jobcentre::model::id::ClientId;
use peers::{Authority, Identity, Secure, closed_port, peer, reset};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;

const HOST: &str = "127.0.0.1";
const YEAR: i32 = 3000;

/// Bytes that differ from place to place.
fn content(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

/// Sends everything back, in small pieces, until there is no more.
fn echo(stream: &mut (impl Read + Write)) -> usize {
    let (mut piece, mut total) = ([0; 1000], 0);
    loop {
        let count = stream.read(&mut piece).unwrap();
        if count == 0 {
            return total;
        }
        stream.write_all(&piece[..count]).unwrap();
        total += count;
    }
}

/// Tells the client that nothing more comes.
fn send_close_notify(mut stream: Secure) {
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}

/// A script that shuts down the sending side of `client` once all is sent, and ends when the peer
/// has ended too.
fn to_the_end(client: ClientId) -> impl FnMut(&mut Calls) -> bool {
    let mut shut = false;
    move |calls| {
        let sent = calls.get(client).output.is_empty();
        if sent && !shut {
            shut = true;
            calls.actions.push_back(Action::ShutdownWrite(client));
        }
        calls.get(client).events.contains(&Event::Eof)
    }
}

#[test]
fn plain_connection_carries_bytes_both_ways() {
    let (address, thread) = peer(|mut stream| echo(&mut stream));
    let (mut calls, words) = (Calls::default(), content(3_000_000));
    let client = calls.call(target(HOST, address, false), &words);
    calls.run(None, to_the_end(client));
    assert!(calls.get(client).received == words, "the echo is another one");
    assert_eq!(calls.get(client).apart_from_hang_up(), [Event::Connected, Event::Eof]);
    assert_eq!(thread.join().unwrap(), words.len());
}

#[test]
fn tls_connection_carries_bytes_both_ways() {
    let authority = Authority::new();
    let identity = authority.identity(HOST, YEAR);
    let (address, thread) = peer(move |stream| {
        let mut stream = identity.secure(stream);
        let total = echo(&mut stream);
        send_close_notify(stream);
        total
    });
    let (mut calls, words) = (Calls::default(), content(3_000_000));
    let client = calls.call(target(HOST, address, true), &words);
    calls.run(Some(authority.trust()), to_the_end(client));
    assert!(calls.get(client).received == words, "the echo is another one");
    assert_eq!(calls.get(client).apart_from_hang_up(), [Event::Connected, Event::Eof]);
    assert_eq!(thread.join().unwrap(), words.len());
}

#[test]
fn bytes_sent_before_a_close_reach_a_slow_peer() {
    let authority = Authority::new();
    let identity = authority.identity("localhost", YEAR);
    let (go, wait) = channel();
    let (address, thread) = peer(move |stream| {
        let (mut stream, mut received) = (identity.secure(stream), Vec::new());
        stream.write_all(b"go").unwrap();
        wait.recv().unwrap();
        stream.read_to_end(&mut received).map(|_| received)
    });
    // More than the system takes for a peer that does not read.
    let (mut calls, words) = (Calls::default(), content(8_000_000));
    calls.keeps_polling = true;
    let client = calls.call(target("localhost", address, true), &words);
    let (mut left, mut held_up) = (words.len(), false);
    calls.run(Some(authority.trust()), |calls| {
        // Unread bytes would make the system reset the connection.
        let received = calls.get(client).received == b"go";
        let before = std::mem::replace(&mut left, calls.get(client).output.len());
        if received && left == before && !held_up {
            held_up = true;
            go.send(()).unwrap();
        }
        if left == 0 {
            calls.close(client);
        }
        left == 0
    });
    assert!(held_up, "the system has taken all at once");
    // Not an error: close_notify was sent to the peer.
    assert!(thread.join().unwrap().unwrap() == words, "something is missing");
}

#[test]
fn bytes_sent_before_an_immediate_close_are_received() {
    let (address, thread) = peer(|mut stream| stream.write_all(b"bye").unwrap());
    let mut calls = Calls::default();
    let client = calls.call(target(HOST, address, false), b"");
    calls.run(None, |calls| calls.get(client).events.contains(&Event::Eof));
    thread.join().unwrap();
    assert_eq!(calls.get(client).received, b"bye");
    assert_eq!(calls.get(client).apart_from_hang_up(), [Event::Connected, Event::Eof]);
}

#[test]
fn tls_end_without_close_notify_is_an_error() {
    let authority = Authority::new();
    let identity = authority.identity(HOST, YEAR);
    let (address, thread) = peer(move |stream| {
        let mut stream = identity.secure(stream);
        stream.write_all(b"half of it").unwrap();
        stream.sock.shutdown(Shutdown::Both).unwrap();
    });
    let mut calls = Calls::default();
    let client = calls.call(target(HOST, address, true), b"");
    calls.run(Some(authority.trust()), |calls| calls.get(client).events.contains(&Event::Reset));
    thread.join().unwrap();
    assert_eq!(calls.get(client).received, b"half of it");
    assert!(!calls.get(client).events.contains(&Event::Eof), "{calls:?}");
}

#[test]
fn reset_by_the_peer_closes_the_connection() {
    let authority = Authority::new();
    for tls in [false, true] {
        let identity = tls.then(|| authority.identity(HOST, YEAR));
        let (address, thread) = peer(move |mut stream| {
            // Nothing is said before there is a connection.
            if let Some(identity) = identity {
                let mut secure = identity.secure(stream);
                secure.read_exact(&mut [0; 1]).unwrap();
                stream = secure.sock;
            } else {
                stream.read_exact(&mut [0; 1]).unwrap();
            }
            reset(stream);
        });
        let mut calls = Calls::default();
        let client = calls.call(target(HOST, address, tls), b"!");
        calls
            .run(Some(authority.trust()), |calls| calls.get(client).events.contains(&Event::Reset));
        thread.join().unwrap();
        assert_eq!(calls.get(client).events.first(), Some(&Event::Connected));
    }
}

/// No read would report it: the end of what the peer sends was met before.
#[test]
fn reset_behind_an_end_that_was_read_closes_the_connection() {
    let (end_was_read, may_reset) = channel();
    let (address, thread) = peer(move |stream| {
        stream.shutdown(Shutdown::Write).unwrap();
        may_reset.recv().unwrap();
        reset(stream);
    });
    let mut calls = Calls::default();
    let client = calls.call(target(HOST, address, false), b"");
    calls.run(None, |calls| {
        let events = &calls.get(client).events;
        if events.last() == Some(&Event::Eof) {
            // The peer may be gone.
            let _ = end_was_read.send(());
        }
        events.contains(&Event::Reset)
    });
    thread.join().unwrap();
    let expected = [Event::Connected, Event::Eof, Event::Reset];
    assert_eq!(calls.get(client).apart_from_hang_up(), expected);
}

/// Why a call fails.
fn failure(target: Arc<jobcentre::model::driver::Target>, authority: &Authority) -> ConnectError {
    let mut calls = Calls::default();
    let client = calls.call(target, b"never received");
    calls.run(Some(authority.trust()), |calls| calls.get(client).failure().is_some());
    assert!(calls.get(client).received.is_empty());
    calls.get(client).failure().cloned().unwrap()
}

#[test]
fn refused_connection_fails_the_dial() {
    let (_socket, address) = closed_port();
    for tls in [false, true] {
        let why = failure(target(HOST, address, tls), &Authority::new());
        assert!(matches!(why, ConnectError::Unreachable(_)), "{why:?}");
        assert!(why.to_string().starts_with(&format!("no connection: {address}: ")), "{why}");
    }
}

#[test]
fn unknown_host_name_fails_the_dial() {
    let (_socket, address) = closed_port();
    // A label of 64 bytes: no name server has to be asked.
    let host = "x".repeat(64);
    let why = failure(target(&host, address, false), &Authority::new());
    assert!(matches!(why, ConnectError::Name(_)), "{why:?}");
    let start = format!("the name cannot be resolved: {host}: ");
    assert!(why.to_string().starts_with(&start), "{why}");
}

/// Why a call to a peer with this identity fails, and what the peer makes of it.
fn untrusting_client(identity: Identity, authority: &Authority) -> (String, String) {
    let (address, thread) =
        peer(move |mut stream| identity.handshake(&mut stream).unwrap_err().to_string());
    let why = failure(target(HOST, address, true), authority);
    assert!(matches!(why, ConnectError::Tls(_)), "{why:?}");
    (why.to_string(), thread.join().unwrap())
}

#[test]
fn invalid_certificate_is_named_in_the_error() {
    let (ours, theirs) = (Authority::new(), Authority::named("theirs"));
    let (why, received) = untrusting_client(theirs.identity(HOST, YEAR), &ours);
    let expected = "no secure connection: its certificate is not valid: its issuer is not among \
        the trusted CAs";
    assert_eq!(why, expected);
    assert!(received.contains("UnknownCA"), "{received}");
    let (why, received) = untrusting_client(ours.identity("other.example", YEAR), &ours);
    assert!(why.contains("its certificate is for another name: "), "{why}");
    assert!(why.contains("127.0.0.1") && why.contains("other.example"), "{why}");
    assert!(received.contains("BadCertificate"), "{received}");
    let (why, received) = untrusting_client(ours.identity(HOST, 2000), &ours);
    assert!(why.contains("its certificate is out of date: "), "{why}");
    assert!(received.contains("CertificateExpired"), "{received}");
}

/// Why a call by TLS fails if the peer does this.
fn failed_handshake(serve: impl FnOnce(TcpStream) + Send + 'static) -> String {
    let (address, thread) = peer(serve);
    let why = failure(target(HOST, address, true), &Authority::new());
    thread.join().unwrap();
    assert!(matches!(why, ConnectError::Tls(_)), "{why:?}");
    why.to_string()
}

#[test]
fn failed_tls_handshake_is_named_in_the_error() {
    let why = failed_handshake(|mut stream| {
        stream.read_exact(&mut [0; 5]).unwrap();
        reset(stream);
    });
    assert!(why.contains("the connection broke during the handshake: "), "{why}");
    let why = failed_handshake(|mut stream| {
        stream.shutdown(Shutdown::Write).unwrap();
        // What the client has said is read, so that it is not reset.
        let mut received = Vec::new();
        assert!(stream.read_to_end(&mut received).unwrap() > 0);
    });
    assert!(why.ends_with("it closed the connection during the handshake"), "{why}");
    let why = failed_handshake(|mut stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        while stream.read(&mut [0; 1000]).is_ok_and(|count| count > 0) {}
    });
    assert!(why.contains("it does not speak TLS: "), "{why}");
}

#[test]
fn host_name_invalid_for_tls_is_rejected() {
    let (address, thread) = peer(|mut stream| stream.read(&mut [0; 1]).unwrap());
    // The system resolves it like 127.0.0.1.
    let why = failure(target("127.1", address, true), &Authority::new());
    assert_eq!(
        why.to_string(),
        "no secure connection: there can be no certificate for a name like \"127.1\""
    );
    assert_eq!(thread.join().unwrap(), 0);
}

#[test]
fn dial_can_be_cancelled_during_the_dns_lookup() {
    let (address, thread) = peer(|mut stream| echo(&mut stream));
    let mut calls = Calls::default();
    let first = calls.call(target("localhost", address, false), b"first");
    calls.close(first);
    let second = calls.call(target("localhost", address, false), b"second");
    assert_eq!(first.index, second.index, "only the generation tells them apart");
    calls.run(None, to_the_end(second));
    assert_eq!(calls.get(second).received, b"second");
    assert_eq!(thread.join().unwrap(), "second".len());
}

#[test]
fn dial_can_be_cancelled_during_the_tls_handshake() {
    let (silent, hears) = peer(|mut stream| {
        stream.read_exact(&mut [0; 5]).unwrap();
        stream
    });
    let (address, thread) = peer(move |mut stream| {
        let mut silent = hears.join().unwrap();
        stream.write_all(b"now").unwrap();
        // The rest of what the silent one is told, and its end.
        let end = silent.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
        stream.write_all(b"!").unwrap();
        end
    });
    let mut calls = Calls::default();
    let first = calls.call(target(HOST, silent, true), b"never received");
    let second = calls.call(target(HOST, address, false), b"");
    calls.run(None, |calls| {
        if calls.get(second).received == b"now" && calls.table.get(first).is_some() {
            assert_eq!(calls.get(first).events, [], "hands are not shaken");
            calls.close(first);
        }
        calls.get(second).received == b"now!"
    });
    let end = thread.join().unwrap();
    assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
    assert!(calls.table.get(first).is_none());
}

#[test]
fn server_start_fails_with_an_invalid_worker_ca() {
    let dir = TempDir::new();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(dir.path()).unwrap();
    let sound = Authority::new().pem();
    std::fs::write(path("sound.pem"), sound.repeat(2)).unwrap();
    std::fs::write(path("empty.pem"), "").unwrap();
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    std::fs::write(path("damaged.pem"), [&sound, damaged].concat()).unwrap();
    for (name, why) in [
        ("none.pem", "cannot be read: "),
        ("empty.pem", "holds no certificate"),
        ("damaged.pem", "certificate 2 is not sound: "),
    ] {
        let output = Program::output(&["serve", "--listen", ":0", "--worker-ca", &path(name)], &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("--worker-ca {}: {why}", path(name))), "{text}");
    }
    let server = Server::start(&["--worker-ca", &path("sound.pem")]);
    server.connect().settle();
}

#[test]
fn many_dials_run_in_one_loop() {
    const ROUNDS: usize = 20;
    let authority = Authority::new();
    let (mut calls, mut said) = (Calls::default(), Vec::new());
    let mut threads = Vec::new();
    for number in 0..20 {
        let tls = number % 2 == 1;
        let identity = tls.then(|| authority.identity(HOST, YEAR));
        let (address, thread) = peer(move |mut stream| match identity {
            None => echo(&mut stream),
            Some(identity) => echo(&mut identity.secure(stream)),
        });
        threads.push(thread);
        said.push((calls.call(target(HOST, address, tls), b"0"), 1));
    }
    // Each says more once it has received the last that it has said, until all have said enough.
    calls.run(Some(authority.trust()), |calls| {
        for (client, count) in &mut said {
            if calls.get(*client).received.len() == *count && *count < ROUNDS {
                calls.say(*client, b"1");
                *count += 1;
            }
        }
        let over = said.iter().all(|&(client, _)| calls.get(client).received.len() == ROUNDS);
        if over {
            for &(client, _) in &said {
                calls.close(client);
            }
        }
        over
    });
    for thread in threads {
        assert_eq!(thread.join().unwrap(), ROUNDS);
    }
}
