//! Mistakes in settings, explained to whoever made them: in the file, in the environment, on the
//! command line.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use std::ffi::OsString;
use std::fmt::Write as _;
use strsim::jaro_winkler;
use tracing::warn;

/// What the variables of all settings begin with.
const PREFIX: &str = "JOBCENTRE_";

/// So many variables that mean nothing are named.
const NAMED_MAX: usize = 10;

/// Names are taken for one another if they are at least so alike, 1 being the same.
const ALIKE: f64 = 0.85;

/// What readers of values call things, and what people do.
const WORDS: [(&str, &str); 10] = [
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

/// Says what is wrong with a file of settings, and in which line, which is shown.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> String {
    let mut said = what(error.message());
    let Some(span) = error.span() else { return said };
    let before = text.get(..span.start).unwrap_or(text);
    let number = before.matches('\n').count() + 1;
    if let Some(line) = text.lines().nth(number - 1) {
        // A string takes everything.
        let _ = write!(said, "\n    {}", line.trim());
    }
    format!("line {number}: {said}")
}

fn what(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field `")
        && let Some(wrong) = names.next()
    {
        let names: Vec<&str> = names.collect();
        return match nearest(wrong, &names) {
            Some(right) => format!("there is no setting `{wrong}`: did you mean `{right}`?"),
            None => format!("there is no setting `{wrong}`: there are {}", names.join(", ")),
        };
    }
    let mut message = message.trim_end().replace('\n', ", ");
    for (theirs, ours) in WORDS {
        message = message.replace(theirs, ours);
    }
    message
}

/// The name that is so much like a wrong one that it was probably meant.
fn nearest<'a>(wrong: &str, names: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| {
        let name = name.strip_prefix(PREFIX).unwrap_or(name);
        name.replace(['-', '_'], "").to_lowercase()
    };
    let alike = |name: &str| jaro_winkler(&plain(wrong), &plain(name));
    let best = names.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(best) >= ALIKE).then_some(*best)
}

/// Warns of variables that look like settings and are none.
pub(super) fn warn_of_variables() {
    let known = variables(&super::Cli::command());
    let known: Vec<&str> = known.iter().filter_map(|name| name.to_str()).collect();
    let set = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let wrong = |name: &String| name.starts_with(PREFIX) && !known.contains(&&**name);
    for name in set.filter(wrong).take(NAMED_MAX) {
        if let Some(right) = nearest(&name, &known) {
            warn!("the variable {name} is no setting: did you mean {right}?");
        } else {
            warn!("the variable {name} is no setting, and is ignored");
        }
    }
}

/// The variables that a command and those below it take settings from.
fn variables(command: &Command) -> Vec<OsString> {
    let own = command.get_arguments().filter_map(|argument| argument.get_env());
    let mut found: Vec<OsString> = own.map(ToOwned::to_owned).collect();
    found.extend(command.get_subcommands().flat_map(variables));
    found
}

/// The variable from which the value came that an error is about, if nobody typed it.
pub(super) fn variable_behind(error: &clap::Error) -> Option<String> {
    let (ErrorKind::ValueValidation | ErrorKind::InvalidValue) = error.kind() else { return None };
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    // "--max-clients <N>", "--processor[=<true|false>]", or "[WORKLOAD]", which has no variable.
    let flag = shown.split([' ', '[']).next().filter(|flag| flag.starts_with("--"))?;
    let typed = |typed: String| typed == flag || typed.starts_with(&format!("{flag}="));
    if std::env::args_os().any(|given| typed(given.to_string_lossy().into_owned())) {
        return None;
    }
    let variable = format!("{PREFIX}{}", flag[2..].replace('-', "_").to_uppercase());
    let is_set = std::env::var_os(&variable).is_some();
    let is_read = variables(&super::Cli::command()).iter().any(|known| **known == *variable);
    (is_set && is_read).then_some(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_almost_right_is_recognised() {
        let variables = ["JOBCENTRE_LISTEN", "JOBCENTRE_MAX_CLIENTS"];
        assert_eq!(nearest("JOBCENTRE_MAXCLIENT", &variables), Some(variables[1]));
        assert_eq!(nearest("JOBCENTRE_COLOUR", &variables), None);
        let names = ["listen", "max-clients", "max-request", "http"];
        for (wrong, right) in [
            ("max_clients", Some("max-clients")),
            ("maxclients", Some("max-clients")),
            ("max-requests", Some("max-request")),
            ("LISTEN", Some("listen")),
            ("lsiten", Some("listen")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, &names), right, "{wrong}");
        }
    }
}
