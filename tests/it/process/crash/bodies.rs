//! Clients of beanstalkd's protocol.

use super::clients::{Common, connect, until_the_end};
use super::content::{Content, Protocol, TUBES, token_of_body};
use super::job_log::Event;
use crate::rng::TestRng;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;

/// A client that puts jobs, and reserves its own and those of lines.
pub(super) struct Bodies<'t> {
    address: SocketAddr,
    rng: TestRng,
    common: &'t Common,
    events: Vec<Event>,
}

type Stream = BufReader<TcpStream>;

fn line(stream: &mut Stream) -> io::Result<String> {
    let mut reply = String::new();
    stream.read_line(&mut reply)?;
    match reply.strip_suffix("\r\n") {
        Some(reply) => Ok(reply.to_owned()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Sends a command, and reads the line of its reply.
fn ask(stream: &mut Stream, command: &str) -> io::Result<String> {
    stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
    line(stream)
}

fn watch(stream: &mut Stream) -> io::Result<()> {
    for (number, tube) in TUBES.iter().chain(&["l0"]).enumerate() {
        let reply = ask(stream, &format!("watch {tube}"))?;
        assert_eq!(reply, format!("WATCHING {}", number + 2));
    }
    Ok(())
}

impl<'t> Bodies<'t> {
    pub(super) fn new(address: SocketAddr, rng: TestRng, common: &'t Common) -> Self {
        Self { address, rng, common, events: Vec::new() }
    }

    /// Asks until the server is gone; returns what was acknowledged.
    pub(super) fn run(mut self) -> Vec<Event> {
        if let Ok(mut stream) = connect(self.address)
            && watch(&mut stream).is_ok()
        {
            until_the_end(|| self.batch(&mut stream));
        }
        self.events
    }

    fn batch(&mut self, stream: &mut Stream) -> io::Result<()> {
        let (mut bytes, mut tokens) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.between(1, 8) {
            let token = self.common.token();
            let content = Content::new(Protocol::Bodies, token);
            self.events.push(Event::Put(Protocol::Bodies, token));
            bytes.extend_from_slice(format!("use {}\r\n", content.queue).as_bytes());
            content.push_body(&mut bytes);
            tokens.push(token);
        }
        stream.get_mut().write_all(&bytes)?;
        for token in tokens {
            assert!(line(stream)?.starts_with("USING "));
            let reply = line(stream)?;
            let id = reply.strip_prefix("INSERTED ").unwrap_or_else(|| panic!("{reply}"));
            self.common.puts.fetch_add(1, Ordering::Relaxed);
            self.events.push(Event::There(token, id.parse().unwrap()));
        }
        for _ in 0..self.rng.between(0, 8) {
            self.work(stream)?;
        }
        Ok(())
    }

    /// Reserves a job, and does something with it.
    fn work(&mut self, stream: &mut Stream) -> io::Result<()> {
        let reply = ask(stream, "reserve-with-timeout 0")?;
        if reply == "TIMED_OUT" {
            return Ok(());
        }
        let mut words = reply.split(' ');
        assert_eq!(words.next(), Some("RESERVED"), "{reply}");
        let [id, length] = [(); 2].map(|()| words.next().unwrap().parse::<u64>().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap() + 2];
        stream.read_exact(&mut body)?;
        body.truncate(body.len() - 2);
        let (protocol, token) = token_of_body(&body);
        let content = Content::new(protocol, token);
        assert_eq!(body, content.payload, "a job has come back as another");
        self.events.push(Event::There(token, id));
        // A priority of lines is none of this protocol: such a job is only deleted, or held.
        let urgency = content.urgency();
        match self.rng.below(10) {
            0..4 => {
                self.events.push(Event::EndAsked(token));
                // A client of lines may have deleted it: it may delete the jobs of others.
                let reply = ask(stream, &format!("delete {id}"))?;
                assert!(["DELETED", "NOT_FOUND"].contains(&&*reply), "{reply}");
                self.common.ends.fetch_add(1, Ordering::Relaxed);
                self.events.push(Event::EndTold(token));
            }
            4..7 if protocol == Protocol::Bodies => {
                let reply = ask(stream, &format!("release {id} {urgency} 0"))?;
                assert!(["RELEASED", "NOT_FOUND"].contains(&&*reply), "{reply}");
            }
            7..9 if protocol == Protocol::Bodies => {
                let reply = ask(stream, &format!("bury {id} {urgency}"))?;
                assert!(["BURIED", "NOT_FOUND"].contains(&&*reply), "{reply}");
                let reply = ask(stream, &format!("reserve-job {id}"))?;
                if reply.starts_with("RESERVED ") {
                    let mut again = vec![0; body.len() + 2];
                    stream.read_exact(&mut again)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Makes all buried jobs ready.
pub(super) fn kick_all(address: SocketAddr) {
    let mut stream = connect(address).unwrap();
    for tube in TUBES {
        ask(&mut stream, &format!("use {tube}")).unwrap();
        let reply = ask(&mut stream, "kick 1000000").unwrap();
        assert!(reply.starts_with("KICKED "), "{reply}");
    }
}
