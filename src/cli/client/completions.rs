//! `jobcentre completions`, and what a shell is answered when it completes a line: verbs and flags,
//! which clap knows, names of queues, which the server is asked for, and names of targets.

use super::connection::ConnectArgs;
use super::failure::{Failure, Outcome};
use super::line_client::LineClient;
use super::local::{NAME, print};
use super::request::Request;
use super::targets::candidates;
use clap::{Args, Parser};
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, Shell};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// By this variable the functions of a shell ask for what may come next.
const VARIABLE: &str = "JOBCENTRE_COMPLETE";

/// How long a key press waits for the server.
const TIMEOUT_MAX: Duration = Duration::from_secs(2);

/// The most names of queues that a shell is offered.
const NAMES_MAX: u64 = 1000;

/// Print the completions of a shell.
///
/// They ask the server for the names of queues: the one of the flags on the line, or of
/// JOBCENTRE_URL, as the verbs do. Names that a shell would take for something else are left out.
#[expect(clippy::doc_markdown, reason = "this is what --help prints")]
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  jobcentre completions bash > jobcentre.bash
  jobcentre completions zsh > _jobcentre")]
pub(in crate::cli) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Bash splits words at `:` and `=`, which stand in addresses, so they are put together again; what
/// is offered is then only what follows the last of them. `$1` is the program as it was typed.
const BASH: &str = r#"_jobcentre() {
    local i word before words=() found
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 1)) && [[ $word == [:=] || $before == [:=] ]]; then
            words[${#words[@]}-1]+=$word
        else
            words+=("$word")
        fi
        before=$word
    done
    local whole=${words[${#words[@]}-1]} program=${1/#\~/$HOME}
    COMPREPLY=()
    while IFS= read -r found; do
        [[ -z $found ]] || COMPREPLY+=("${found#"${whole%"$2"}"}")
    done < <(
        JOBCENTRE_COMPLETE=bash _CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) \
            "$program" -- "${words[@]}" 2>/dev/null
        echo
    )
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -F _jobcentre jobcentre
"#;

/// Zsh runs the file itself at the first use, when it stands in a folder of `fpath`.
const ZSH_AUTOLOAD: &str = r#"
if [ "$funcstack[1]" = "_jobcentre" ]; then
    _clap_dynamic_completer_jobcentre "$@"
fi
"#;

impl Completions {
    pub(super) fn run(&self) -> Outcome {
        if self.shell == Shell::Bash {
            return print(BASH.as_bytes());
        }
        let explain = |error| Failure::failed(format!("cannot write completions: {error}"));
        let name = self.shell.to_string();
        let missing = || Failure::failed(format!("there are no completions for {name}"));
        let shells = Shells::builtins();
        let shell = shells.completer(&name).ok_or_else(missing)?;
        let mut text = Vec::new();
        shell.write_registration(VARIABLE, NAME, NAME, NAME, &mut text).map_err(explain)?;
        if self.shell == Shell::Zsh {
            text.extend_from_slice(ZSH_AUTOLOAD.as_bytes());
        }
        print(&text)
    }
}

/// Whether a shell asks for completions: then it has been answered.
pub(in crate::cli) fn answer(command: impl Fn() -> clap::Command) -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let (words, folder) = (std::env::args_os(), std::env::current_dir().ok());
    let shells = CompleteEnv::with_factory(command).var(VARIABLE);
    // What goes wrong is not for the line that is being typed.
    shells.try_complete(words, folder.as_deref()).unwrap_or(true)
}

/// Offers names of queues.
pub(super) fn queue_names() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let typed = typed.to_str().unwrap_or_default();
        candidates(names_of_queues(typed).unwrap_or_default())
    })
}

/// The names of the server's queues that begin with what was typed.
fn names_of_queues(typed: &str) -> Outcome<Vec<String>> {
    let mut server = connect_args().server()?;
    server.timeout = server.timeout.min(TIMEOUT_MAX);
    let mut client = LineClient::connect(&server)?;
    let request = Request::new("queues").text("match", &format!("{typed}*"));
    let page = client.ask(request.number("limit", NAMES_MAX), "there are no queues")?;
    let names = page.records("items")?.into_iter().filter_map(|queue| queue.text("name"));
    Ok(names.filter(|name| name.starts_with(typed)).collect())
}

/// Flags of the connection on the line that is being completed.
fn connect_args() -> ConnectArgs {
    /// Those flags alone.
    #[derive(Debug, Default, Parser)]
    #[command(ignore_errors = true)]
    struct Line {
        #[command(flatten)]
        connect: ConnectArgs,
    }
    let words = std::env::args_os().skip_while(|word| *word != "--").skip(1);
    Line::try_parse_from(flags_with_values(words.collect())).unwrap_or_default().connect
}

/// The name of the program and, of the words of a line, the flags of a connection.
fn flags_with_values(words: Vec<OsString>) -> Vec<OsString> {
    const FLAGS: [&str; 6] =
        ["--url", "--target", "--token-file", "--tls-ca", "--tls-cert", "--tls-key"];
    let mut found = vec![OsString::from(NAME)];
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else { continue };
        if FLAGS.contains(&text) {
            let value = words.next();
            found.extend(value.map(|value| [word, value]).into_iter().flatten());
        } else if text.split_once('=').is_some_and(|(flag, _)| FLAGS.contains(&flag)) {
            found.push(word);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_connection_are_found_on_a_line() {
        let words =
            ["jobcentre", "put", "--url", "a:1", "--pri", "5", "--tls-ca=x", "m", "--target"];
        let found = flags_with_values(words.map(OsString::from).to_vec());
        assert_eq!(found, ["jobcentre", "--url", "a:1", "--tls-ca=x"]);
    }
}
