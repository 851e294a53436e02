//! `jobcentre engine check`: is what is kept sound?

use super::arguments::Reached;
use crate::engine::shared::redis::{self, StartError, Status};
use crate::engine::{SharedCheck, check_shared};
use crate::reactor::Clock;
use std::fmt::Write as _;

pub(super) fn check(mut reached: Reached) -> Result<String, String> {
    let warnings = redis::check_node(&mut reached.connection, &reached.settings.address);
    let warnings = warnings.map_err(|why| reached.fault(&why))?;
    let before = reached.status()?;
    check_meta(&before).map_err(|why| reached.fault(&StartError::Fatal(why)))?;
    let scanned = redis::scan(&mut reached.connection, &reached.requests);
    let scanned = scanned.map_err(|why| reached.fault(&why))?;
    let after = reached.status()?;
    let is_still = stamp(&before) == stamp(&after);
    let mark = after.value("mark").parse().unwrap_or(0);
    let now = Clock::start().sample();
    let mut check = check_shared(&scanned.loaded, mark, is_still, now);
    for name in &scanned.unknown {
        check.add(|| format!("the field {} is no record's", name.escape_ascii()));
    }
    if scanned.unkept > 0 {
        check.add(|| {
            "the field - that keeps a hash from being empty is missing: another program has \
             written these keys"
                .to_owned()
        });
    }
    let mut text = describe(&check, &after, scanned.loaded.bytes());
    for warning in warnings {
        push_line(&mut text, format_args!("warning    {warning}"));
    }
    if check.wrong > 0 {
        return Err(refuse(&text, &check));
    }
    if is_still {
        text.push_str("sound: every record is read, and they fit each other\n");
    } else {
        text.push_str(
            "sound: every record is read. They were not compared with each other, because a \
             server has written meanwhile: `jobcentre engine pause`, and check again\n",
        );
    }
    Ok(text)
}

/// What changes with each write.
fn stamp(status: &Status) -> (&str, &str, &str) {
    (status.value("birth"), status.value("epoch"), status.value("seq"))
}

fn check_meta(status: &Status) -> Result<(), String> {
    for name in ["schema", "partitions", "partition", "epoch", "seq", "until", "mark"] {
        let value = status.value(name);
        if value.parse::<u64>().is_err() {
            return Err(format!(
                "the field {name} of its meta is {value:?}, and no number: another program has \
                 written these keys. Restore them from a backup of Redis, with all servers stopped"
            ));
        }
    }
    let (schema, known) = (status.value("schema"), redis::SCHEMA.to_string());
    if schema == known {
        return Ok(());
    }
    Err(format!(
        "its jobs have schema {schema}, and this version reads {known}: take the newer one"
    ))
}

fn push_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

fn describe(check: &SharedCheck, status: &Status, bytes: usize) -> String {
    let SharedCheck { jobs, bases, states, events, .. } = check;
    let mut text = format!("jobs       {jobs}\nrecords    {bases}\nstates     {states}\n");
    push_line(&mut text, format_args!("events     {events}\nbytes      {bytes}"));
    let (epoch, seq, mark) = (status.value("epoch"), status.value("seq"), status.value("mark"));
    push_line(&mut text, format_args!("epoch      {epoch}\nlast write {seq}\nnext id    {mark}"));
    push_line(&mut text, format_args!("leader     {}", status.leader().unwrap_or("none")));
    if status.is_paused() {
        text.push_str("paused     until `jobcentre engine resume`\n");
    }
    text
}

fn refuse(text: &str, check: &SharedCheck) -> String {
    let things = if check.wrong == 1 { "thing is" } else { "things are" };
    let mut why = format!("what is kept is not sound: {} {things} wrong\n{text}", check.wrong);
    for finding in &check.findings {
        push_line(&mut why, format_args!("wrong      {finding}"));
    }
    if check.wrong > check.findings.len() {
        why.push_str("wrong      and more\n");
    }
    why.push_str(
        "A server that leads goes on with what it has in memory: `jobcentre engine export` is no \
         help then, but its clients can take the jobs out. Otherwise restore Redis from a backup, \
         with all servers stopped",
    );
    why
}
