//! `jobcentre engine import`: everything in a data directory, into a shared engine.
//!
//! It is written under a prefix of its own, and gets its keys when everything is there: so an
//! import that ends early leaves nothing that a server would begin with.

use super::Pump;
use super::arguments::Reached;
use crate::cli::data_dir::{RestoreProgress, explain_open_error};
use crate::cli::entropy;
use crate::cli::passes::write_records;
use crate::engine::Moving;
use crate::engine::shared::redis::{self, Adopted, Lead, Requests, StartError, Status};
use crate::engine::shared::{Begin, Leader, STAGING_SUFFIX, Settings};
use crate::journal::RecoveryProgress;
use crate::reactor::Clock;
use crate::reactor::disk::{Directory, LockMode};
use std::path::Path;

pub(super) fn import(mut reached: Reached, data: &Path) -> Result<String, String> {
    redis::check_node(&mut reached.connection, &reached.settings.address)
        .map_err(|why| reached.fault(&why))?;
    if let Some(status) = reached.look()? {
        check_is_free(&status)?;
    }
    let mut clock = Clock::start();
    let moving = read(data, &mut clock)?;
    let jobs = moving.counts().jobs;
    let prefix = format!("{}{STAGING_SUFFIX}", reached.settings.prefix).into();
    let settings = Settings { prefix, name: "import".into(), ..reached.settings.clone() };
    let staging = Requests::new(&settings);
    let begin = begin(&mut reached, &staging)?;
    let (birth, epoch) = (begin.birth.clone(), begin.epoch);
    let term = (&birth[..], epoch);
    let written = write(moving, Leader::new(settings, begin), &reached, &mut clock);
    let adopted = written.and_then(|total| adopt(&mut reached, &staging, term).map(|()| total));
    let total = adopted.inspect_err(|_| {
        // If that fails, too, the next import removes them.
        let _ = redis::drop_all(&mut reached.connection, &staging, term);
    })?;
    Ok(format!(
        "jobs       {jobs}\nrecords    {total}\nimported   start servers with --engine. The \
         jobs are in {} still: do not serve both\n",
        data.display()
    ))
}

/// Writes all records under the prefix of imports. Returns how many they are.
fn write(
    moving: Moving,
    leader: Leader,
    reached: &Reached,
    clock: &mut Clock,
) -> Result<usize, String> {
    let (mut engine, mut keys) = moving.into_shared(leader);
    let mut pump = Pump::new(Some(reached.trust.clone()));
    let (total, mut time) = (keys.len(), || clock.sample());
    let written = write_records(&mut engine, &mut pump, &mut keys, &mut time, "import");
    written.map(|()| total).map_err(|error| {
        format!(
            "{}: {error}. Nothing was imported: import again, with more maxmemory if Redis is full",
            reached.place()
        )
    })
}

/// Gives what was written the keys that servers look for.
fn adopt(reached: &mut Reached, staging: &Requests, term: (&[u8], u64)) -> Result<(), String> {
    let adopted = redis::adopt(&mut reached.connection, staging, term, &reached.requests);
    match adopted.map_err(|why| reached.fault(&why))? {
        Adopted::Done => Ok(()),
        Adopted::Led(name) => Err(refuse_led(&name)),
        Adopted::Taken => Err(refuse_taken()),
    }
}

fn refuse_led(name: &str) -> String {
    format!("a server leads ({name}): stop all servers, and import again. Nothing was imported")
}

fn refuse_taken() -> String {
    "there are jobs or queues with this prefix already: take another --engine-prefix, or remove \
     them. Nothing was imported"
        .to_owned()
}

/// Fails unless nothing is there, and no server leads.
fn check_is_free(status: &Status) -> Result<(), String> {
    if let Some(name) = status.leader() {
        return Err(refuse_led(name));
    }
    if status.records == (0, 0) { Ok(()) } else { Err(refuse_taken()) }
}

/// Reads the directory, which no server may use.
fn read(data: &Path, clock: &mut Clock) -> Result<Moving, String> {
    let files = Directory::open(data, LockMode::ReadOnly);
    let mut files = files.map_err(|error| error.to_string())?;
    let (now, mut line) = (clock.sample(), RestoreProgress::new());
    let mut show =
        |progress: RecoveryProgress| line.show(clock.sample().mono.0 - now.mono.0, progress);
    let read = Moving::from_journal(&mut files, entropy::random_u64(), now, &mut show);
    line.clear();
    let (moving, report) = read.map_err(|error| explain_open_error(data, &error))?;
    if report.segments == 0 {
        let data = data.display();
        return Err(format!("{data} holds no journal: is it the right one? Nothing was imported"));
    }
    Ok(moving)
}

/// An empty partition under the prefix of imports, which this program leads.
fn begin(reached: &mut Reached, staging: &Requests) -> Result<Begin, String> {
    // Twice if an earlier import has left something.
    for _ in 0..2 {
        let birth = redis::init(&mut reached.connection, staging, (entropy::random_u64(), None));
        let birth = birth.map_err(|why| reached.fault(&why))?;
        let led = redis::lead(&mut reached.connection, staging, &birth);
        match led.map_err(|why| reached.fault(&why))? {
            Lead::Held { for_ms, .. } => {
                return Err(format!(
                    "another import is under way, or has ended early less than {for_ms} ms ago. \
                     Nothing was imported"
                ));
            }
            Lead::Led { epoch, seq: 0, mark } => return Ok(Begin { birth, epoch, seq: 0, mark }),
            Lead::Led { epoch, .. } => {
                redis::drop_all(&mut reached.connection, staging, (&birth, epoch))
                    .map_err(|why| reached.fault(&why))?;
            }
        }
    }
    let why = StartError::Fatal("another import has begun at the same time".to_owned());
    Err(reached.fault(&why))
}
