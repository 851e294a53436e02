//! `jobcentre engine export`: everything that is kept, into a new data directory.

use super::Pump;
use super::arguments::Reached;
use crate::cli::import_binlog::staging::Target;
use crate::cli::passes::write_records;
use crate::cli::{data_dir, entropy};
use crate::engine::shared::redis::{self, Lead, Loaded};
use crate::engine::{Engine, Moving};
use crate::journal::disk::DiskError;
use crate::journal::{JournalOptions, OpenError, SyncMode};
use crate::reactor::disk::{Directory, FileDisk, LockMode};
use crate::reactor::{Clock, LoopWaker};
use std::fs;
use std::path::Path;
use std::sync::Arc;

pub(super) fn export(mut reached: Reached, data: &Path) -> Result<String, String> {
    check_is_empty(data)?;
    let (loaded, mark) = read(&mut reached)?;
    if loaded.is_empty() {
        return Err("there are no jobs or queues to export: start a new server".to_owned());
    }
    let mut clock = Clock::start();
    let now = clock.sample();
    let moving = Moving::from_shared(&loaded, mark, entropy::random_u64(), now);
    let moving = moving.map_err(|why| {
        format!(
            "{}: {why}. `jobcentre engine check` says more. Nothing was written",
            reached.place()
        )
    })?;
    let (jobs, records) = (moving.counts().jobs, loaded.len());
    let target = Target::begin(data)?;
    write(moving, &target, &mut clock)?;
    target.finish()?;
    Ok(format!(
        "jobs       {jobs}\nrecords    {records}\nexported   start the server with --data {}. The \
         jobs are in Redis still: do not serve both\n",
        data.display()
    ))
}

/// Fails unless the directory is a new one.
fn check_is_empty(data: &Path) -> Result<(), String> {
    let Ok(mut entries) = fs::read_dir(data) else { return Ok(()) };
    if entries.next().is_none() {
        return Ok(());
    }
    Err(format!(
        "{} is not empty: name a directory that is not there, or is empty. Nothing was written",
        data.display()
    ))
}

/// All records, and the next id: under a lead of this program, or while the engine is paused.
fn read(reached: &mut Reached) -> Result<(Loaded, u64), String> {
    redis::check_node(&mut reached.connection, &reached.settings.address)
        .map_err(|why| reached.fault(&why))?;
    let status = reached.status()?;
    if status.is_paused() {
        let scanned = redis::scan(&mut reached.connection, &reached.requests);
        let scanned = scanned.map_err(|why| reached.fault(&why))?;
        let after = reached.status()?;
        let same = |name| status.value(name) == after.value(name);
        if !["birth", "epoch", "seq", "paused"].into_iter().all(same) {
            return Err(
                "the pause has ended meanwhile: pause the engine again, and export again. \
                        Nothing was written"
                    .to_owned(),
            );
        }
        return Ok((scanned.loaded, status.value("mark").parse().unwrap_or(0)));
    }
    let birth = status.value("birth").as_bytes().to_vec();
    let led = redis::lead(&mut reached.connection, &reached.requests, &birth);
    match led.map_err(|why| reached.fault(&why))? {
        Lead::Held { name, .. } => Err(format!(
            "a server leads ({name}): stop all servers, or pause the engine (`jobcentre engine \
             pause`), and export again. Nothing was written"
        )),
        Lead::Led { epoch, mark, .. } => {
            let term = (&birth[..], epoch);
            let loaded = redis::load(&mut reached.connection, &reached.requests, term);
            // If that fails its lease ends by itself.
            let _ = reached.requests.give_back(&mut reached.connection, term);
            Ok((loaded.map_err(|why| reached.fault(&why))?, mark))
        }
    }
}

/// Writes everything to the directory, which is new.
fn write(moving: Moving, target: &Target<'_>, clock: &mut Clock) -> Result<(), String> {
    let failed = |error: &OpenError| data_dir::explain_open_error(target.path(), error);
    let of_disk = |error: DiskError| failed(&error.into());
    let mut files = Directory::open(target.path(), LockMode::Exclusive).map_err(of_disk)?;
    let options = JournalOptions {
        segment_bytes: data_dir::segment_bytes(target.path(), &mut files).map_err(of_disk)?,
        sync: SyncMode::Always,
        salt: entropy::random_u64(),
    };
    let now = clock.sample();
    let empty = Engine::restore(&mut files, &options, None, 0, now, &mut |_| {});
    let (empty, _) = empty.map_err(|error| failed(&error))?;
    let wake = LoopWaker::default();
    let disk = FileDisk::start(files, SyncMode::Always, Arc::new(move || wake.wake()));
    let (mut engine, mut keys) =
        moving.into_journal(empty, Box::new(disk.map_err(of_disk)?), clock.sample());
    let mut pump = Pump::default();
    let mut time = || clock.sample();
    let written = write_records(&mut engine, &mut pump, &mut keys, &mut time, "export");
    written.map_err(|error| {
        format!(
            "{}: {error}. The engine is as it was: make room, and export again, which begins anew",
            target.path().display()
        )
    })
}
