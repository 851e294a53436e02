//! Messages about wrong settings: in the file, in the environment, on the command line.

use crate::cli::client::{HTTP_URL_VARIABLE, TARGET_VARIABLE, URL_VARIABLE};
use crate::cli::client_token::TOKEN_VARIABLE;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use std::ffi::OsString;
use std::fmt::Write as _;
use strsim::jaro_winkler;
use tracing::warn;

/// The prefix of the variables of all settings.
const PREFIX: &str = "JOBCENTRE_";

/// Variables of client programs, which may share the environment.
const CLIENT_VARIABLES: [&str; 4] =
    [TOKEN_VARIABLE, URL_VARIABLE, TARGET_VARIABLE, HTTP_URL_VARIABLE];

/// Unknown variables that are reported.
const WARNINGS_MAX: usize = 10;

/// Jaro-Winkler similarity from which on a known name is suggested for an unknown one.
const SIMILARITY_MIN: f64 = 0.85;

/// Phrases of the parsers, and what replaces them in messages.
const REPHRASINGS: [(&str, &str); 10] = [
    ("expected path string", "expected a path in quotation marks"),
    ("expected a string", "expected a text in quotation marks"),
    ("expected a boolean", "expected true or false"),
    ("expected i64", "expected a whole number, without quotation marks"),
    ("expected usize", "expected a whole number, without quotation marks"),
    ("unknown variant", "unknown value"),
    ("invalid type: ", "this is of the wrong kind: "),
    (" boolean `", " `"),
    (" integer `", " `"),
    (" floating point `", " `"),
];

/// A message for an error in the settings file, with the number and the text of the line.
pub(in crate::cli) fn explain_toml_error(text: &str, error: &toml::de::Error) -> String {
    let (place, message) = split_located(error.message());
    let mut explanation = rephrase(message);
    let Some(start) = place.or_else(|| Some(error.span()?.start)) else { return explanation };
    let before = text.get(..start).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    if let Some(line) = text.lines().nth(number - 1) {
        // Writing to a string does not fail.
        let _ = write!(explanation, "\n    {}", line.trim());
    }
    format!("line {number}: {explanation}")
}

const LOCATED: &str = "at byte ";

/// An error about what begins at this byte of the text. An error of serde has no place for that, so
/// it stands in the message until [`explain_toml_error`] takes it out.
pub(in crate::cli::settings) fn located(start: usize, message: &str) -> String {
    format!("{LOCATED}{start}: {message}")
}

fn split_located(message: &str) -> (Option<usize>, &str) {
    let split = || {
        let (start, rest) = message.strip_prefix(LOCATED)?.split_once(": ")?;
        Some((start.parse().ok()?, rest))
    };
    split().map_or((None, message), |(start, rest)| (Some(start), rest))
}

fn rephrase(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field `")
        && let Some(unknown) = names.next()
    {
        let names: Vec<&str> = names.collect();
        return match nearest(unknown, &names) {
            Some(known_name) => {
                format!("there is no setting `{unknown}`: did you mean `{known_name}`?")
            }
            None => format!("there is no setting `{unknown}`: there are {}", names.join(", ")),
        };
    }
    let mut message = message.trim_end().replace('\n', ", ");
    for (original, replacement) in REPHRASINGS {
        message = message.replace(original, replacement);
    }
    message
}

/// The known name that is most similar to an unknown one, if it is similar enough. O(names).
fn nearest<'a>(unknown: &str, names: &[&'a str]) -> Option<&'a str> {
    let normalized = |name: &str| {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        name.replace(['-', '_'], "").to_lowercase()
    };
    let similarity = |name: &str| jaro_winkler(&normalized(unknown), &normalized(name));
    let best = names.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
    (similarity(best) >= SIMILARITY_MIN).then_some(*best)
}

/// Warns of variables with the prefix of settings that no setting reads.
pub(in crate::cli) fn warn_of_unknown_variables() {
    let mut known = variables(&crate::cli::Cli::command());
    known.extend(CLIENT_VARIABLES.map(Into::into));
    known.push(super::engine_url::PASSWORD_VARIABLE.into());
    known.push(super::engine_url::SENTINEL_PASSWORD_VARIABLE.into());
    let known: Vec<&str> = known.iter().filter_map(|name| name.to_str()).collect();
    let set = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let unknown = |name: &String| name.starts_with(PREFIX) && !known.contains(&&**name);
    for name in set.filter(unknown).take(WARNINGS_MAX) {
        if let Some(known_name) = nearest(&name, &known) {
            warn!("the variable {name} is no setting: did you mean {known_name}?");
        } else {
            warn!("the variable {name} is no setting, and is ignored");
        }
    }
}

/// The variables that a command and its subcommands read.
fn variables(command: &Command) -> Vec<OsString> {
    let own = command.get_arguments().filter_map(|argument| argument.get_env());
    let mut names: Vec<OsString> = own.map(ToOwned::to_owned).collect();
    names.extend(command.get_subcommands().flat_map(variables));
    names
}

/// The variable from which the wrong value of an error came. `None`: it was given as an argument.
pub(in crate::cli) fn source_variable(error: &clap::Error) -> Option<String> {
    let (ErrorKind::ValueValidation | ErrorKind::InvalidValue) = error.kind() else { return None };
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    // "--max-clients <N>", "--processor[=<true|false>]", or "[WORKLOAD]", which has no variable.
    let flag = shown.split([' ', '[']).next().filter(|flag| flag.starts_with("--"))?;
    let is_flag = |argument: &str| argument == flag || argument.starts_with(&format!("{flag}="));
    if std::env::args_os().any(|argument| is_flag(&argument.to_string_lossy())) {
        return None;
    }
    let variable = format!("{PREFIX}{}", flag[2..].replace('-', "_").to_uppercase());
    let is_set = std::env::var_os(&variable).is_some();
    let is_read = variables(&crate::cli::Cli::command()).iter().any(|known| **known == *variable);
    (is_set && is_read).then_some(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_name_is_suggested() {
        let variables = ["JOBCENTRE_LISTEN", "JOBCENTRE_MAX_CLIENTS"];
        assert_eq!(nearest("JOBCENTRE_MAXCLIENT", &variables), Some(variables[1]));
        assert_eq!(nearest("JOBCENTRE_COLOUR", &variables), None);
        let names = ["listen", "max-clients", "max-request", "http"];
        for (unknown, known_name) in [
            ("max_clients", Some("max-clients")),
            ("maxclients", Some("max-clients")),
            ("max-requests", Some("max-request")),
            ("LISTEN", Some("listen")),
            ("lsiten", Some("listen")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(unknown, &names), known_name, "{unknown}");
        }
    }
}
