//! Verbs that ask whether a server is there and well: `ping`.

use super::ClientArgs;
use super::failure::{Failure, Outcome};
use super::line_client::{LineClient, Reply};
use super::request::Request;
use crate::cli::bench::seconds;
use crate::reactor::Clock;
use clap::Args;
use std::io::Write as _;

/// Ask the server for an answer, and print how long it took.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre ping
  jobcentre ping --url 127.0.0.1:11400 --timeout 2s")]
pub(in crate::cli) struct Ping {
    #[command(flatten)]
    pub(super) client: ClientArgs,
}

/// Sends a request that changes nothing, and that every user may send: a get from no queue. Returns
/// the nanoseconds until its answer.
pub(super) fn ping(client: &mut LineClient, clock: &mut Clock) -> Outcome<u64> {
    let start = clock.moment();
    match client.reply(Request::new("get").texts("queues", &[""; 0]))? {
        Reply::Missing | Reply::Ok(_) => Ok(clock.moment().0 - start.0),
        Reply::Error(sentence) => Err(Failure::refused(sentence)),
    }
}

impl Ping {
    pub(super) fn run(&self) -> Outcome {
        let mut client = self.client.line_client()?;
        let nanos = ping(&mut client, &mut Clock::start())?;
        let shown = client.shown().to_owned();
        // A closed stdout is ignored.
        let _ =
            writeln!(std::io::stdout(), "{shown} answers in {:.3} ms", seconds(nanos) * 1_000.0);
        Ok(())
    }
}
