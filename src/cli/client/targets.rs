//! Servers by name: `[target.NAME]` in `jobcentre/client.toml` below `$XDG_CONFIG_HOME`, which is
//! `~/.config` if it is not set.

use super::address::{Address, ServerUrl};
use crate::cli::client_token::ClientToken;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A server in the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TargetTable {
    url: String,
    http_url: Option<String>,
    pub(super) token_file: Option<PathBuf>,
    pub(super) tls_ca: Option<PathBuf>,
    pub(super) tls_cert: Option<PathBuf>,
    pub(super) tls_key: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFile {
    #[serde(default)]
    target: BTreeMap<String, TargetTable>,
}

impl TargetTable {
    pub(super) fn url(&self) -> Result<ServerUrl, String> {
        ServerUrl::parse(&self.url)
    }

    pub(super) fn http_address(&self) -> Result<Option<Address>, String> {
        self.http_url.as_deref().map(ServerUrl::parse_http).transpose()
    }

    /// The token of the file that is named, whose path may begin with `~/`.
    pub(super) fn token(&self) -> Result<Option<ClientToken>, String> {
        self.token_file.as_deref().map(|file| ClientToken::of_file(&expanded(file))).transpose()
    }
}

/// A path with the home directory in place of `~`.
fn expanded(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    }
}

/// The file with the targets.
pub(super) fn file() -> Option<PathBuf> {
    let configured = std::env::var_os("XDG_CONFIG_HOME").filter(|text| !text.is_empty());
    let folder = configured
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")))?;
    Some(folder.join("jobcentre/client.toml"))
}

/// The target of this name.
///
/// # Errors
/// A sentence: there is no such file or target, or the file cannot be used.
pub(super) fn find(name: &str) -> Result<TargetTable, String> {
    let path = file().ok_or("there is no home directory, where the file with targets would be")?;
    let shown = path.display();
    let text =
        std::fs::read_to_string(&path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    of_text(&text, name).map_err(|why| format!("{shown}: {why}"))
}

/// The names of all targets; none if there is no such file.
///
/// # Errors
/// A sentence: the file cannot be used.
fn names() -> Result<Vec<String>, String> {
    let Some(text) = file().and_then(|path| std::fs::read_to_string(path).ok()) else {
        return Ok(Vec::new());
    };
    let file: TargetFile = toml::from_str(&text).map_err(|error| error.to_string())?;
    Ok(file.target.into_keys().collect())
}

fn of_text(text: &str, name: &str) -> Result<TargetTable, String> {
    let mut file: TargetFile =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    file.target.remove(name).ok_or_else(|| {
        let known: Vec<&str> = file.target.keys().map(String::as_str).collect();
        match &*known {
            [] => format!("there is no target '{name}': add a table [target.{name}] with a url"),
            known => format!("there is no target '{name}': it has {}", known.join(", ")),
        }
    })
}

/// Offers names of targets.
pub(super) fn target_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(names().unwrap_or_default()))
}

/// Names that a shell is offered.
pub(super) fn candidates(names: Vec<String>) -> Vec<CompletionCandidate> {
    names.into_iter().filter(|name| is_plain(name)).map(CompletionCandidate::new).collect()
}

/// Whether a name stands for itself in every shell. Others are not offered: a shell might expand
/// what a client has put into them.
fn is_plain(name: &str) -> bool {
    let is_plain = |it: char| it.is_alphanumeric() || "-_.,:/@%+".contains(it);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_found_by_its_name() {
        let text = "[target.prod]\nurl = 'jobcentres://a:1'\nhttp-url = 'tls:a:2'\n";
        let found = of_text(text, "prod").unwrap();
        assert_eq!(found.url().unwrap().address.to_string(), "tls:a:1");
        assert_eq!(found.http_address().unwrap().unwrap().to_string(), "tls:a:2");
        assert!(of_text(text, "test").unwrap_err().contains("it has prod"));
        assert!(of_text("", "test").unwrap_err().contains("[target.test]"));
        let wrong = of_text("[target.prod]\nurl = 'a:1'\ntokn = 'x'\n", "prod").unwrap_err();
        assert!(wrong.contains("tokn"), "{wrong}");
    }

    #[test]
    fn names_that_a_shell_expands_are_not_offered() {
        for plain in ["mail", "a-b_c.d", "x:1/2", "naïve", "日本"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in ["", "-x", "a b", "$(id)", "`id`", "a;b", "*", "~", "a\nb", "a'b", "x\\", "!1"]
        {
            assert!(!is_plain(other), "{other}");
        }
    }
}
