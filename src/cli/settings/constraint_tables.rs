//! Constraints in the settings file: tables `[[constraint]]` with a `name` and the fields that
//! `PUT /constraint/{name}` takes.
//!
//! They are set at each start and replace constraints of the same name; those that were set over
//! HTTP under other names stay. The parser is that of the HTTP protocol, so both accept the same
//! and give the same errors.

use crate::base::limits::CONSTRAINTS_MAX;
use crate::base::time::Now;
use crate::cli::engine::Pump;
use crate::cli::passes::run_commands_over;
use crate::cli::settings::errors::located;
use crate::engine::Engine;
use crate::model::command::Command;
use crate::model::reply::Reply;
use crate::model::worker::{Constraint, ConstraintReply, WorkerCommand};
use crate::protocol::http::lightjq::messages::read_constraint_json;
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io;
use toml::Spanned;

/// Reads a table `[[constraint]]`. The error is a sentence.
fn read_table(mut table: Map<String, Value>) -> Result<Constraint, String> {
    let name = match table.remove("name") {
        Some(Value::String(name)) if !name.is_empty() => name,
        Some(_) => return Err("field 'name' must be a string, not empty".to_owned()),
        None => return Err("field 'name' is missing: it must be a string".to_owned()),
    };
    let text = serde_json::to_vec(&table).map_err(|error| error.to_string())?;
    read_constraint_json(&name, &text).map_err(|problem| format!("constraint '{name}': {problem}"))
}

/// Deserializes all tables; names are unique.
pub(in crate::cli) fn deserialize<'de, D: serde::Deserializer<'de>>(
    toml: D,
) -> Result<Option<Vec<Constraint>>, D::Error> {
    let tables = Vec::<Spanned<Map<String, Value>>>::deserialize(toml)?;
    if tables.len() > CONSTRAINTS_MAX {
        let message = format!("there are more than {CONSTRAINTS_MAX} constraints");
        return Err(D::Error::custom(message));
    }
    let read = |table: Spanned<Map<String, Value>>| {
        let at = table.span().start;
        read_table(table.into_inner()).map_err(|why| D::Error::custom(located(at, &why)))
    };
    let constraints = tables.into_iter().map(read).collect::<Result<Vec<Constraint>, _>>()?;
    let mut names = BTreeSet::new();
    if let Some(duplicate) = constraints.iter().find(|constraint| !names.insert(&constraint.name)) {
        let message = format!("there are two constraints named '{}'", duplicate.name);
        return Err(D::Error::custom(message));
    }
    Ok(Some(constraints))
}

/// Sets the constraints of the file, and returns when they are in force, before any client is
/// served. Those that are set already are not set again: they need no space on a disk that may be
/// full. `pump` reaches a shared engine; `clock` gives the time of each pass. O(constraints), and
/// if some have changed, O(jobs).
///
/// # Errors
/// A message for the operator.
pub(in crate::cli) fn apply(
    engine: &mut Engine,
    pump: &mut Pump,
    constraints: &[Constraint],
    mut clock: impl FnMut() -> Now,
) -> io::Result<()> {
    let all: Vec<&Constraint> = constraints.iter().collect();
    let mut changed = Vec::new();
    let get = all.iter().map(|constraint| WorkerCommand::GetConstraint { name: &constraint.name });
    let get = get.map(Command::Work);
    run_commands_over(engine, pump, get, &mut clock, |number, reply| {
        if *reply != Reply::ConstraintFound(all[number]) {
            changed.push(all[number]);
        }
    })?;
    let mut rejected = None;
    let set = changed.iter().map(|constraint| WorkerCommand::SetConstraint(constraint));
    let set = set.map(Command::Work);
    run_commands_over(engine, pump, set, &mut clock, |number, reply| {
        if let Reply::Constraint(full @ (ConstraintReply::Full | ConstraintReply::DiskFull)) =
            *reply
        {
            rejected.get_or_insert((changed[number], full));
        }
    })?;
    let Some((constraint, full)) = rejected else { return Ok(()) };
    let reason = match full {
        ConstraintReply::DiskFull => "the disk is full".to_owned(),
        _ => format!("there are no more than {CONSTRAINTS_MAX}"),
    };
    let name = &constraint.name;
    Err(io::Error::other(format!("constraint '{name}' of the settings cannot be set: {reason}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::CommandExecutor;
    use crate::model::worker::{Condition, Path, Rate, Scalar};

    #[derive(Debug, Deserialize)]
    struct File {
        #[serde(deserialize_with = "deserialize")]
        constraint: Option<Vec<Constraint>>,
    }

    fn parse(toml: &str) -> Result<Vec<Constraint>, String> {
        let file: Result<File, _> = toml::from_str(toml);
        file.map(|file| file.constraint.unwrap()).map_err(|error| error.to_string())
    }

    const TWO_TABLES: &str = r#"
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
    fn tables_mean_what_http_requests_mean() {
        let constraints = parse(TWO_TABLES).unwrap();
        let [hosts, mails] = &constraints[..] else { panic!("{constraints:?}") };
        assert_eq!((&*hosts.name, hosts.max_running, hosts.rate), ("hosts", Some(4), None));
        assert_eq!(hosts.per, Some(Path::Argument(vec!["host".into()])));
        let Condition { path, values, .. } = &hosts.matcher[1];
        assert_eq!(*path, Path::Argument(vec!["size".into()]));
        assert_eq!(*values, [Scalar::Integer(1000)]);
        assert_eq!(mails.rate, Some(Rate { count: 10, period_ms: 500, burst: 10 }));
    }

    #[test]
    fn error_of_a_table_names_the_field() {
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
            let error = parse(&format!("[[constraint]]\n{toml}")).unwrap_err();
            assert!(error.contains(expected), "{toml}: {error}");
            assert!(error.contains("line"), "{toml}: {error}");
        }
    }

    #[test]
    fn applying_constraints_again_changes_nothing() {
        let mut engine = Engine::in_memory(1);
        let constraints = parse(TWO_TABLES).unwrap();
        for _ in 0..2 {
            apply(&mut engine, &mut Pump::default(), &constraints, Now::default).unwrap();
            assert_eq!(engine.counts().constraints, 2);
        }
        let many: Vec<Constraint> = (0..CONSTRAINTS_MAX)
            .map(|number| Constraint { name: number.to_string().into(), ..constraints[0].clone() })
            .collect();
        let error =
            apply(&mut engine, &mut Pump::default(), &many, Now::default).unwrap_err().to_string();
        assert!(error.contains("constraint '254' of the settings cannot be set"), "{error}");
    }
}
