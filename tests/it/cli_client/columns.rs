//! `--columns`: a name that there is not is named, before anything is sent.

use super::{help, verbs};
use crate::support::Program;
use serde_json::Value;
use std::collections::BTreeSet;

/// Words behind a verb that needs some.
fn words(verb: &str) -> &'static [&'static str] {
    match verb {
        "put" => &["q", "1"],
        "move" => &["1", "--to", "q"],
        "change" => &["1", "--pri", "1"],
        "get" | "peek" | "list" | "pause" | "resume" => &["q"],
        "delete" | "kick" | "bury" | "release" => &["1"],
        _ => &[],
    }
}

/// What a verb says to a column that there is not, with these words. No server is there.
fn refusal(verb: &str, words: &[&str], column: &str) -> String {
    let mut all = vec![verb];
    all.extend_from_slice(words);
    all.extend_from_slice(&["--columns", column, "--url", "127.0.0.1:1"]);
    let output = Program::output(&all, &[]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{all:?}: {errors}");
    assert!(output.stdout.is_empty(), "{all:?}: something was printed before");
    errors
}

#[test]
fn unknown_column_is_refused_by_every_verb_before_it_connects() {
    let with_columns = verbs().into_iter().filter(|verb| help(&[verb, "-h"]).contains("--columns"));
    let mut count = 0;
    for verb in with_columns {
        let errors = refusal(&verb, words(&verb), "nonsense");
        let named = "error: --columns: 'nonsense' is unknown here: ";
        assert!(errors.starts_with(named), "{verb}: {errors}");
        count += 1;
    }
    assert!(count > 20, "the verbs with columns were not found");
}

#[test]
fn most_similar_column_is_suggested() {
    for (verb, words, wrong, right) in [
        ("list", &["q"][..], "id,sate", "state"),
        ("list", &["q"], "last_error.mesage", "last_error.message"),
        ("queues", &[], "name,count.ready", "counts.ready"),
        ("connections", &[], "per", "peer"),
    ] {
        let errors = refusal(verb, words, wrong);
        assert!(errors.contains(&format!("did you mean '{right}'?")), "{errors}");
    }
}

/// The paths of a schema's members.
fn members(document: &Value, schema: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return members(document, &document["components"]["schemas"][name], prefix, found);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        members(document, part, prefix, found);
    }
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        found.insert(format!("{prefix}{name}"));
        members(document, member, &format!("{prefix}{name}."), found);
    }
}

#[test]
fn columns_are_the_fields_of_the_openapi_document() {
    let document = include_str!("../../texts/openapi.json");
    let document: Value = serde_json::from_str(document).unwrap();
    let schemas = &document["components"]["schemas"];
    let constraints = &schemas["V1ConstraintPage"]["properties"]["items"]["items"];
    for (verb, words, schema) in [
        ("list", &["q"][..], &schemas["V1Job"]),
        ("queues", &[], &schemas["V1Queue"]),
        ("actions", &[], &schemas["V1Action"]),
        ("connections", &[], &schemas["V1Connection"]),
        ("workers", &[], &schemas["V1Worker"]),
        ("constraints", &[], constraints),
        ("schedules", &[], &schemas["V1Schedule"]),
    ] {
        let mut fields = BTreeSet::new();
        members(&document, schema, "", &mut fields);
        // Of a job they are in the answers to a put and to a reserve only.
        fields.retain(|field| !["duplicate", "token"].contains(&field.as_str()));
        assert!(fields.len() > 4, "{verb}: the schema was not found");
        let errors = refusal(verb, words, "nonsense");
        let known = errors.trim_end().rsplit("nown are ").next().unwrap();
        let known: BTreeSet<&str> = known.split(", ").collect();
        let missing: Vec<&String> =
            fields.iter().filter(|field| !known.contains(field.as_str())).collect();
        assert!(missing.is_empty(), "{verb}: no columns: {missing:?}");
        let is_field = |name: &&&str| {
            let top = name.split('.').next().unwrap();
            fields.contains(**name) || (name.contains('.') && fields.contains(top))
        };
        let more: Vec<&&str> = known.iter().filter(|name| !is_field(name)).collect();
        // The headers of columns are names, too; `next_run` is the first of `next_runs`.
        let is_header = |name: &&&str| !name.contains('_') || **name == "next_run";
        assert!(more.iter().all(is_header), "{verb}: no fields: {more:?}");
    }
}
