//! Passes of an engine that no loop drives: before the server runs, or instead of it.

use super::bench::float;
use super::engine::Pump;
use super::progress_line::ProgressLine;
use crate::base::time::Now;
use crate::engine::{CommandExecutor, Engine, RecordKeys};
use crate::model::command::Command;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::Reply;
use std::collections::BTreeSet;
use std::io;
use std::thread::sleep;
use std::time::Duration;

/// The client that submits commands here. No connection has its id.
const OWN_CLIENT: ClientId = ClientId { index: u32::MAX, generation: 0 };

/// Pause between two passes in which the engine waits for its disk.
const DISK_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Submits commands, and runs passes until all are answered. `handle` gets the number of each
/// command and its reply. `clock` gives the time of each pass.
///
/// # Errors
/// The fatal error of the journal.
pub(super) fn run_commands<'a>(
    engine: &mut Engine,
    commands: impl Iterator<Item = Command<'a>>,
    clock: &mut impl FnMut() -> Now,
    handle: impl FnMut(usize, &Reply<'_>),
) -> io::Result<()> {
    run_commands_over(engine, &mut Pump::default(), commands, clock, handle)
}

/// The same of an engine that is reached by `pump`.
///
/// # Errors
/// The fatal error of the journal, or of what keeps the jobs.
pub(super) fn run_commands_over<'a>(
    engine: &mut Engine,
    pump: &mut Pump,
    commands: impl Iterator<Item = Command<'a>>,
    clock: &mut impl FnMut() -> Now,
    mut handle: impl FnMut(usize, &Reply<'_>),
) -> io::Result<()> {
    let mut pending = BTreeSet::new();
    let mut drain = |engine: &mut Engine, pending: &mut BTreeSet<u32>| {
        while let Some(completion) = engine.poll_completion() {
            let Ticket { client, serial } = completion.ticket;
            if client == OWN_CLIENT && pending.remove(&serial) {
                handle(serial as usize, &completion.reply);
            }
        }
    };
    for (command, serial) in commands.zip(0..) {
        pending.insert(serial);
        let ticket = Ticket { client: OWN_CLIENT, serial };
        engine.submit(ticket, &command, clock());
        drain(engine, &mut pending);
    }
    while !pending.is_empty() {
        check(engine)?;
        let now = clock();
        engine.expire(now);
        drain(engine, &mut pending);
        engine.commit(now);
        drain(engine, &mut pending);
        pause(engine, pump, now);
    }
    pump.end(engine, clock());
    Ok(())
}

/// Writes all records of an engine whose sink has none of them, and closes it. A progress line has
/// `name` before it.
///
/// # Errors
/// The fatal error of the sink, or that it has no room for all.
pub(super) fn write_records(
    engine: &mut Engine,
    pump: &mut Pump,
    keys: &mut RecordKeys,
    clock: &mut impl FnMut() -> Now,
    name: &str,
) -> io::Result<()> {
    let (total, mut progress) = (keys.len(), ProgressLine::new());
    while !keys.is_empty() {
        check(engine)?;
        let now = clock();
        engine.write_records(keys, now).map_err(io::Error::other)?;
        engine.commit(now);
        if progress.is_due(now.mono.0) {
            let done = total - keys.len();
            let part = float(done as u64) / float(total as u64);
            progress.show(now.mono.0, name, part, format_args!("{done} of {total} records"));
        }
        pause(engine, pump, now);
    }
    progress.clear();
    close_over(engine, pump, clock)
}

/// Closes the journal, and runs passes until everything is durable.
///
/// # Errors
/// The fatal error of the journal.
pub(super) fn close(engine: &mut Engine, clock: &mut impl FnMut() -> Now) -> io::Result<()> {
    close_over(engine, &mut Pump::default(), clock)
}

fn close_over(
    engine: &mut Engine,
    pump: &mut Pump,
    clock: &mut impl FnMut() -> Now,
) -> io::Result<()> {
    engine.close(clock());
    while !engine.is_closed() {
        let now = clock();
        engine.commit(now);
        pause(engine, pump, now);
    }
    check(engine)
}

fn check(engine: &Engine) -> io::Result<()> {
    engine.fatal_error().map_or(Ok(()), |error| Err(io::Error::other(error)))
}

/// Lets the disk work, or whatever keeps the jobs.
fn pause(engine: &mut Engine, pump: &mut Pump, now: Now) {
    if pump.drive(engine, now) {
        return;
    }
    if engine.poll_timeout().is_none_or(|at| at > now.mono) {
        #[expect(clippy::disallowed_methods, reason = "there is no loop yet")]
        sleep(DISK_POLL_INTERVAL);
    }
}
