//! The comparison servers: what the same model, wire, store and protocol code costs on other
//! runtimes (see `README.md` beside this file).
//!
//! `cargo bench --bench servers -- VARIANT --listen 127.0.0.1:0` prints `listening VARIANT ADDRESS`
//! and serves until SIGTERM. Without a variant each is started in this process and gets three
//! requests, so that `cargo test --benches` checks that they work.

#![allow(clippy::disallowed_methods, reason = "the servers have clocks of their own")]

mod variants;

use jobcentre::base::limits::REQUEST_BYTES_DEFAULT;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;
use variants::{Variant, start_if_possible};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const VARIANTS: [Variant; 5] = [
    Variant::Echo,
    Variant::TokioCurrent,
    Variant::TokioMutex,
    Variant::TokioActor,
    Variant::Uring,
];

const NO_URING: &str = "this system has no io_uring, or forbids it";

const USAGE: &str = "usage: servers [VARIANT] [--listen ADDRESS] [--max-request BYTES]";

fn main() -> ExitCode {
    let outcome = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => run(&arguments),
        Err(problem) => Err(io::Error::other(format!("{problem}\n{USAGE}"))),
    };
    if let Err(error) = outcome {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// What is to be done.
struct Arguments {
    variant: Option<Variant>,
    listen: SocketAddr,
    max_request: usize,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            variant: None,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            max_request: REQUEST_BYTES_DEFAULT,
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                // Cargo says so to every bench.
                "--bench" => {}
                "--listen" => arguments.listen = value(&word, words.next())?,
                "--max-request" => arguments.max_request = value(&word, words.next())?,
                name => {
                    let variant = VARIANTS.into_iter().find(|variant| variant.name() == name);
                    let names = VARIANTS.map(Variant::name).join(", ");
                    arguments.variant =
                        Some(variant.ok_or_else(|| format!("'{name}' is no variant: {names}"))?);
                }
            }
        }
        Ok(arguments)
    }
}

fn value<T: std::str::FromStr>(option: &str, word: Option<String>) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("{option} wants a value"))?;
    word.parse().map_err(|_| format!("{option}: '{word}' makes no sense"))
}

fn run(arguments: &Arguments) -> io::Result<()> {
    // As many connections as the system allows; if it does not, fewer will do.
    if let Ok((_, most)) = rlimit::Resource::NOFILE.get() {
        let _ = rlimit::Resource::NOFILE.set(most, most);
    }
    let Some(variant) = arguments.variant else {
        return VARIANTS.into_iter().try_for_each(check);
    };
    let running = start_if_possible(variant, arguments.listen, arguments.max_request)?
        .ok_or_else(|| io::Error::other(NO_URING))?;
    println!("listening {} {}", variant.name(), running.address);
    io::stdout().flush()?;
    running.wait()
}

/// Starts a variant and has it serve one job.
fn check(variant: Variant) -> io::Result<()> {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let Some(running) = start_if_possible(variant, listen, REQUEST_BYTES_DEFAULT)? else {
        println!("{}: left out, {NO_URING}", variant.name());
        return Ok(());
    };
    let mut stream = BufReader::new(TcpStream::connect(running.address)?);
    stream.get_ref().set_read_timeout(Some(Duration::from_mins(1)))?;
    let requests = [
        r#"{"request":"put","queue":"q","job":{"n":1},"pri":7}"#,
        r#"{"request":"get","queues":["q"]}"#,
        r#"{"request":"delete","id":1}"#,
    ];
    let replies = [
        r#"{"status":"ok","id":1}"#,
        r#"{"status":"ok","id":1,"job":{"n":1},"pri":7,"queue":"q"}"#,
        r#"{"status":"ok"}"#,
    ];
    let replies = if variant == Variant::Echo { requests } else { replies };
    for (request, expected) in requests.into_iter().zip(replies) {
        writeln!(stream.get_mut(), "{request}")?;
        let mut reply = String::new();
        stream.read_line(&mut reply)?;
        if reply.trim_end() != expected {
            let name = variant.name();
            return Err(io::Error::other(format!("{name} answered {request} by {reply}")));
        }
    }
    println!("{}: {} requests answered as they should be", variant.name(), requests.len());
    // The echo ends with the process.
    if variant == Variant::Echo { Ok(()) } else { running.stop() }
}
