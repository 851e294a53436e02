//! `jobcentre import-binlog`: the jobs of a stopped beanstalkd, moved into a data directory.
//!
//! The binlog is read to its end first and never changed. If it is damaged nothing is put, unless
//! the user says so. Jobs keep their ids where the data directory has given out none of them; so a
//! second import of the same binlog is refused.

mod files;
mod put;
pub(super) mod staging;
mod survey;

use super::{log, print_error};
use crate::reactor::Clock;
use crate::wire::binlog::BinlogState;
use clap::Args;
use files::BinlogDirectory;
use put::put_jobs;
use staging::Target;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use survey::{Damage, Survey};

/// The arguments of `import-binlog`.
#[derive(Args, Debug)]
pub(super) struct ImportBinlog {
    /// The directory that beanstalkd has been given with -b, or a copy of it.
    binlog_dir: PathBuf,

    /// The data directory for the jobs; made if need be. No server may use it.
    #[arg(long, value_name = "DIR", required_unless_present = "dry_run")]
    data: Option<PathBuf>,

    /// Read the binlog and say what is in it, tube by tube. Nothing is put.
    #[arg(long)]
    dry_run: bool,

    /// Import what can be read of a damaged binlog.
    #[arg(long)]
    skip_damaged: bool,

    /// Give jobs other ids if the data directory has given out theirs: all of them are moved up by
    /// the same number. Imported twice, every job is there twice.
    #[arg(long)]
    new_ids: bool,
}

/// Jobs by state.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    ready: usize,
    delayed: usize,
    buried: usize,
}

impl ImportBinlog {
    /// Runs the command.
    pub(super) fn run(&self) -> ExitCode {
        log::start(log::Format::Human, log::Level::Warn);
        match self.import() {
            Ok(text) => {
                // A closed stdout is ignored: the jobs are there.
                let _ = stdout().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Err(error) => {
                print_error(error);
                ExitCode::FAILURE
            }
        }
    }

    fn import(&self) -> Result<String, String> {
        if let Some(data) = &self.data {
            check_are_two(&self.binlog_dir, data)?;
        }
        let directory = BinlogDirectory::open(&self.binlog_dir)?;
        let survey = Survey::read(&directory)?;
        let mut text = describe(&survey, directory.files.len(), self.dry_run);
        if survey.damage_count > 0 && !self.skip_damaged && !self.dry_run {
            return Err(refuse_damaged(&survey));
        }
        let Some(data) = self.data.as_ref().filter(|_| !self.dry_run) else {
            if survey.damage_count > 0 {
                text.push_str("damaged    an import has to be told to go on: --skip-damaged\n");
            }
            text.push_str("dry run    nothing was put\n");
            return Ok(text);
        };
        if survey.jobs.is_empty() {
            text.push_str("nothing    no job is left in the binlog, and nothing was put\n");
            return Ok(text);
        }
        let target = Target::begin(data)?;
        let shift = put_jobs(&survey, &directory, &target, self.new_ids)?;
        target.finish()?;
        match shift.difference() {
            0 => text.push_str("ids        as they were\n"),
            more => push_line(&mut text, format_args!("ids        {more} was added to each")),
        }
        push_line(
            &mut text,
            format_args!("imported   start the server with --data {}", data.display()),
        );
        Ok(text)
    }
}

fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// Fails if both names lead to one directory.
fn check_are_two(binlog: &Path, data: &Path) -> Result<(), String> {
    let (one, other) = (binlog.canonicalize(), data.canonicalize());
    if one.is_ok() && one.ok() == other.ok() {
        let data = data.display();
        return Err(format!(
            "{data} is the directory of the binlog: name another one with --data. It is made if \
             it is not there"
        ));
    }
    Ok(())
}

/// What the binlog holds, a fact a line; with the tubes if `with_tubes`.
fn describe(survey: &Survey, files: usize, with_tubes: bool) -> String {
    let now_ms = Clock::start().sample().wall.0;
    let (mut all, mut tubes) = (Counts::default(), BTreeMap::<&[u8], Counts>::new());
    for job in survey.jobs.values() {
        let tube = tubes.entry(&survey.tubes[job.tube]).or_default();
        for counts in [&mut all, tube] {
            match job.fields.state {
                BinlogState::Buried => counts.buried += 1,
                BinlogState::Delayed if job.fields.deadline_ns / 1_000_000 > now_ms => {
                    counts.delayed += 1;
                }
                _ => counts.ready += 1,
            }
        }
    }
    let mut text = String::new();
    let line = &mut |line: std::fmt::Arguments<'_>| push_line(&mut text, line);
    line(format_args!("files      {files}\nrecords    {}", survey.records));
    let Counts { ready, delayed, buried } = all;
    line(format_args!(
        "jobs       {}: {ready} ready, {delayed} delayed, {buried} buried",
        survey.jobs.len()
    ));
    line(format_args!("tubes      {}", tubes.len()));
    line(format_args!("next id    {}", survey.next_id));
    for (name, Counts { ready, delayed, buried }) in tubes.iter().filter(|_| with_tubes) {
        // The letters of a name are ASCII.
        let name = String::from_utf8_lossy(name);
        line(format_args!("tube       {name}: {ready} ready, {delayed} delayed, {buried} buried"));
    }
    if let Some(torn) = &survey.torn {
        line(format_args!(
            "torn       {}: the last record is not whole, as after a crash during a write, and is \
             skipped",
            describe_place(torn)
        ));
    }
    for damage in &survey.damages {
        line(format_args!("damaged    {}: {}", describe_place(damage), damage.what));
    }
    let more = survey.damage_count - survey.damages.len();
    if more > 0 {
        line(format_args!("damaged    and {more} more"));
    }
    text
}

fn describe_place(damage: &Damage) -> String {
    let (path, offset) = (damage.path.display(), damage.offset);
    match damage.bytes {
        0 => format!("{path}, byte {offset}"),
        bytes => format!("{path}, byte {offset}, {bytes} bytes"),
    }
}

/// The message about a damaged binlog.
fn refuse_damaged(survey: &Survey) -> String {
    let mut text = String::from("the binlog is damaged:\n");
    for damage in &survey.damages {
        push_line(&mut text, format_args!("  {}: {}", describe_place(damage), damage.what));
    }
    let more = survey.damage_count - survey.damages.len();
    if more > 0 {
        push_line(&mut text, format_args!("  and {more} more"));
    }
    text.push_str(
        "Nothing was put. Take the binlog from a backup, or import what can be read: add \
         --skip-damaged. Jobs whose records are damaged are missing then, and jobs whose deletion \
         is damaged are back. (beanstalkd itself skips the rest of a damaged file)",
    );
    text
}
