//! Constraints in the settings file: tables `[[constraint]]` with a `name` and the fields that
//! `PUT /constraint/{name}` takes.
//!
//! They are set at each start, in place of those of the same names; what was set over HTTP under
//! other names stays. The reader is that of the HTTP protocol, so that both say and mean the same.

use crate::base::limits::CONSTRAINTS_MAX;
use crate::base::time::Now;
use crate::engine::Engine;
use crate::model::command::Command;
use crate::model::id::{ClientId, Ticket};
use crate::model::reply::{Rejection, Reply};
use crate::model::worker::{Constraint, WorkerCommand};
use crate::protocol::http::lightjq::messages::read_constraint_json;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io;

/// A table `[[constraint]]`.
#[derive(Clone, Debug)]
pub(super) struct Table(Constraint);

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: serde::Deserializer<'de>>(toml: D) -> Result<Self, D::Error> {
        let mut table = Map::<String, Value>::deserialize(toml)?;
        let name = match table.remove("name") {
            Some(Value::String(name)) if !name.is_empty() => name,
            Some(_) => return Err(D::Error::custom("field 'name' must be a string, not empty")),
            None => return Err(D::Error::custom("field 'name' is missing: it must be a string")),
        };
        let text = serde_json::to_vec(&table).map_err(D::Error::custom)?;
        match read_constraint_json(&name, &text) {
            Ok(constraint) => Ok(Self(constraint)),
            Err(problem) => Err(D::Error::custom(format!("constraint '{name}': {problem}"))),
        }
    }
}

/// Reads all tables.
pub(super) fn read<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<Vec<Constraint>>, D::Error> {
    let tables = Vec::<Table>::deserialize(toml)?;
    if tables.len() > CONSTRAINTS_MAX {
        let what = format!("there are more than {CONSTRAINTS_MAX} constraints");
        return Err(D::Error::custom(what));
    }
    let constraints: Vec<Constraint> = tables.into_iter().map(|table| table.0).collect();
    let mut names = BTreeSet::new();
    if let Some(twice) = constraints.iter().find(|constraint| !names.insert(&constraint.name)) {
        let what = format!("there are two constraints named '{}'", twice.name);
        return Err(D::Error::custom(what));
    }
    Ok(Some(constraints))
}

/// Nobody: what is answered to this client is dropped.
const NOBODY: ClientId = ClientId { index: u32::MAX, generation: 0 };

/// Sets the constraints of the file before anybody is served. O(constraints), and a bounded number
/// of jobs that are matched anew for each; the rest follows in the passes.
///
/// # Errors
/// A sentence for the operator.
pub(super) fn set(engine: &mut Engine, constraints: &[Constraint], now: Now) -> io::Result<()> {
    for (constraint, serial) in constraints.iter().zip(0..) {
        // One that is there already needs no space on a disk that may be full.
        if engine.constraint(&constraint.name) == Some(constraint) {
            continue;
        }
        let ticket = Ticket { client: NOBODY, serial };
        engine.submit(ticket, &Command::Work(WorkerCommand::SetConstraint(constraint)), now);
        let mut full = false;
        while let Some(completion) = engine.poll_completion() {
            full |= completion.reply == Reply::Rejected(Rejection::DiskFull);
        }
        // After a crash other answers wait for the disk; what was refused is not there.
        if engine.constraint(&constraint.name) != Some(constraint) {
            let name = &constraint.name;
            let why = if full {
                "the disk is full".to_owned()
            } else {
                format!("there are no more than {CONSTRAINTS_MAX}")
            };
            let what = format!("constraint '{name}' of the settings cannot be set: {why}");
            return Err(io::Error::other(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::worker::{Condition, Path, Rate, Scalar};

    #[derive(Debug, Deserialize)]
    struct File {
        #[serde(deserialize_with = "read")]
        constraint: Option<Vec<Constraint>>,
    }

    fn file(toml: &str) -> Result<Vec<Constraint>, String> {
        let file: Result<File, _> = toml::from_str(toml);
        file.map(|file| file.constraint.unwrap()).map_err(|error| error.to_string())
    }

    const TWO: &str = r#"
        [[constraint]]
        name = "hosts"
        matcher = [["name", "=", "fetch-*"], ["argument.size", "<", 1000]]
        max_running = 4
        per = "argument.host"

        [[constraint]]
        name = "mails"
        matcher = []
        rate = { count = 10, period = 0.5 }
    "#;

    #[test]
    fn tables_are_what_the_http_door_takes() {
        let found = file(TWO).unwrap();
        let [hosts, mails] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*hosts.name, hosts.max_running, hosts.rate), ("hosts", Some(4), None));
        assert_eq!(hosts.per, Some(Path::Argument(vec!["host".into()])));
        let Condition { path, values, .. } = &hosts.matcher[1];
        assert_eq!(*path, Path::Argument(vec!["size".into()]));
        assert_eq!(*values, [Scalar::Integer(1000)]);
        assert_eq!(mails.rate, Some(Rate { count: 10, period_ms: 500, burst: 10 }));
    }

    #[test]
    fn what_is_wrong_with_a_table_is_named() {
        for (toml, expected) in [
            ("max_running = 1", "field 'name' is missing"),
            ("name = 7\nmax_running = 1", "field 'name' must be a string"),
            ("name = 'c'\nmax_running = 1", "constraint 'c': field 'matcher' is missing"),
            ("name = 'c'\nmatcher = []", "constraint 'c': field 'max_running' is missing"),
            ("name = 'c'\nmatcher = []\nmax_runing = 1", "constraint 'c': field 'max_runing'"),
            (
                "name = 'c'\nmatcher = [['name', '~', 'x']]\nmax_running = 1",
                "constraint 'c': field 'matcher[0]' must have an operator",
            ),
            (
                "name = 'c'\nmatcher = []\nmax_running = 1\n[[constraint]]\nname = 'c'\n\
                 matcher = []\nmax_running = 2",
                "there are two constraints named 'c'",
            ),
        ] {
            let error = file(&format!("[[constraint]]\n{toml}")).unwrap_err();
            assert!(error.contains(expected), "{toml}: {error}");
            assert!(error.contains("line"), "{toml}: {error}");
        }
    }

    #[test]
    fn they_are_set_at_start_and_once_more_without_a_change() {
        let mut engine = Engine::in_memory(1);
        let constraints = file(TWO).unwrap();
        for _ in 0..2 {
            set(&mut engine, &constraints, Now::default()).unwrap();
            assert_eq!(engine.counts().constraints, 2);
        }
        let many: Vec<Constraint> = (0..CONSTRAINTS_MAX)
            .map(|number| Constraint { name: number.to_string().into(), ..constraints[0].clone() })
            .collect();
        let error = set(&mut engine, &many, Now::default()).unwrap_err().to_string();
        assert!(error.contains("constraint '254' of the settings cannot be set"), "{error}");
    }
}
