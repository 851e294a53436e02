//! `jobcentre engine status`: who leads, and what there is.

use super::arguments::{EngineArguments, Reached};
use crate::cli::print_error;
use crate::engine::shared::redis::{self, Status};
use clap::Subcommand;
use std::io::Write as _;
use std::process::ExitCode;

/// What there is to be done about a shared engine.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum EngineCommand {
    /// Print who leads, who waits to lead, and how much is kept.
    Status(EngineArguments),
}

impl EngineCommand {
    /// Does it.
    pub(in crate::cli) fn run(self) -> ExitCode {
        let Self::Status(arguments) = self;
        match status(arguments) {
            Ok(text) => {
                // A closed stdout is ignored.
                let _ = std::io::stdout().write_all(text.as_bytes());
                ExitCode::SUCCESS
            }
            Err(why) => {
                print_error(why);
                ExitCode::FAILURE
            }
        }
    }
}

fn status(arguments: EngineArguments) -> Result<String, String> {
    let Reached { mut connection, settings, requests } = arguments.reach()?;
    let explain = |why| Reached::explain(&settings, &why);
    let status = redis::status(&mut connection, &requests).map_err(explain)?;
    let none = || format!("there are no jobs with the prefix {} there", settings.prefix);
    status.map(|status| text(&status)).ok_or_else(none)
}

fn text(status: &Status) -> String {
    let value = |name: &str| {
        let found = status.meta.iter().find(|(field, _)| field == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let until: u64 = value("until").parse().unwrap_or(0);
    let leader = if until >= status.now && !value("name").is_empty() {
        format!("{} (for {} ms more at least)", value("name"), until - status.now)
    } else {
        "none".to_owned()
    };
    let standbys =
        if status.standbys.is_empty() { "none".to_owned() } else { status.standbys.join(", ") };
    let (bases, beside) = status.records;
    format!(
        "leader: {leader}\nwaiting to lead: {standbys}\nepoch: {}\nlast write: {}\nids below: {}\n\
         records: {bases}\nstates and events: {beside}\nschema: {}\n",
        value("epoch"),
        value("seq"),
        value("mark"),
        value("schema"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leader_counts_while_its_lease_lasts() {
        let meta = [("name", "a"), ("until", "1500"), ("epoch", "7"), ("seq", "9")];
        let meta = meta.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let standbys = vec!["b".to_owned()];
        let mut status = Status { meta, records: (3, 1), standbys, now: 1000 };
        let shown = text(&status);
        assert!(shown.starts_with("leader: a (for 500 ms more at least)\nwaiting to lead: b\n"));
        assert!(shown.contains("epoch: 7\nlast write: 9\n") && shown.contains("records: 3\n"));
        status.now = 1501;
        assert!(text(&status).starts_with("leader: none\n"));
    }
}
