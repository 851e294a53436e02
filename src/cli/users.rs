//! `jobcentre token` and `jobcentre user`: users of a settings file, without a running server.

use super::print_error;
use super::settings::check_user_name as check_name;
use super::settings::config::Options;
use crate::access::{Digest, Permission, TOKEN_PREFIX, UserSpec};
use clap::{Args, Subcommand};
use ring::rand::{SecureRandom, SystemRandom};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Random bytes of a token.
const TOKEN_BYTES: usize = 20;

/// How a table of a user begins.
const TABLE: &str = "[[user]]";

#[derive(Debug, Subcommand)]
pub(super) enum TokenCommand {
    /// Print a new token, once, and the line for the settings file, which holds its digest only.
    New,
}

#[derive(Debug, Subcommand)]
pub(super) enum UserCommand {
    /// Add a user to a settings file, and print its token, which is shown once.
    Add(Add),

    /// List the users of a settings file.
    List {
        #[command(flatten)]
        file: SettingsFile,
    },

    /// Remove a user from a settings file.
    Remove {
        /// Its name.
        name: String,

        #[command(flatten)]
        file: SettingsFile,
    },
}

#[derive(Args, Debug)]
pub(super) struct SettingsFile {
    /// The settings file of the server.
    #[arg(long, value_name = "FILE", env = "JOBCENTRE_CONFIG")]
    config: PathBuf,
}

#[derive(Args, Debug)]
pub(super) struct Add {
    /// Its name, unique.
    name: String,

    /// What it may do: put:QUEUES, take:QUEUES, peek:QUEUES, manage:QUEUES, observe or admin, where
    /// * in QUEUES is any text; with commas between them, or once for each.
    #[arg(long, value_name = "RIGHT", value_delimiter = ',', required = true)]
    allow: Vec<String>,

    /// A name in certificates that are this user: CN=NAME, DNS:NAME or URI:NAME; then it gets no
    /// token.
    #[arg(long, value_name = "NAME")]
    certificate: Vec<String>,

    /// A user of the system who is this user over sockets that are files; then it gets no token.
    #[arg(long, value_name = "UID")]
    uid: Vec<u32>,

    #[command(flatten)]
    file: SettingsFile,
}

/// A new token.
fn new_token() -> Result<String, String> {
    let mut bytes = [0; TOKEN_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "the system has no random numbers".to_owned())?;
    let mut token = TOKEN_PREFIX.to_owned();
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(token, "{byte:02x}");
    }
    Ok(token)
}

/// Prints lines. A closed stdout is ignored: `println` would panic.
fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

fn finish(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            print_error(why);
            ExitCode::FAILURE
        }
    }
}

impl TokenCommand {
    pub(super) fn run(&self) -> ExitCode {
        let Self::New = self;
        finish(new_token().map(|token| {
            let digest = Digest::of(token.as_bytes());
            print(&token);
            print(&format!("tokens = [\"{digest}\"]"));
        }))
    }
}

impl UserCommand {
    pub(super) fn run(&self) -> ExitCode {
        finish(match self {
            Self::Add(add) => add.run(),
            Self::List { file } => list(&file.config),
            Self::Remove { name, file } => remove(name, &file.config),
        })
    }
}

/// Keeps other commands of this kind out until it is closed: two that read the same text would lose
/// what the first one writes. It is the directory that is locked, since the file is replaced.
fn lock(file: &Path) -> Result<fs::File, String> {
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new("."));
    let opened = fs::File::open(folder).and_then(|opened| opened.lock().map(|()| opened));
    opened.map_err(|error| format!("cannot lock {}: {error}", folder.display()))
}

fn read(file: &Path) -> Result<String, String> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("cannot read {}: {error}", file.display())),
    }
}

/// The users of the text of a settings file.
fn parse(file: &Path, text: &str) -> Result<Vec<UserSpec>, String> {
    Options::from_text(file, text).map(|options| options.complete().users)
}

/// Puts a text in place of a file, whole or not at all, with the owner and the mode of the former
/// file.
fn replace(file: &Path, text: &str) -> Result<(), String> {
    let explain = |error: io::Error| format!("cannot write {}: {error}", file.display());
    let target = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut name = target.as_os_str().to_owned();
    name.push(".new");
    let fresh = PathBuf::from(name);
    let former = fs::metadata(&target).ok();
    let mode = former.as_ref().map_or(0o600, |data| data.permissions().mode());
    let mut out = fs::File::create(&fresh).map_err(explain)?;
    if let Some(former) = former {
        let owner = (former.uid(), former.gid());
        let own = out.metadata().map_err(explain)?;
        if owner != (own.uid(), own.gid()) {
            fchown(&out, Some(owner.0), Some(owner.1)).map_err(explain)?;
        }
    }
    out.set_permissions(fs::Permissions::from_mode(mode)).map_err(explain)?;
    out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).map_err(explain)?;
    fs::rename(&fresh, &target).map_err(explain)
}

fn quoted<T: AsRef<str>>(texts: &[T]) -> String {
    let quoted = texts.iter().map(|text| toml_text(text.as_ref()));
    quoted.collect::<Vec<_>>().join(", ")
}

/// A text of TOML. Its strings are nearly those of JSON.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

impl Add {
    fn run(&self) -> Result<(), String> {
        let file = &self.file.config;
        check_name(&self.name)?;
        let _lock = lock(file)?;
        let text = read(file)?;
        if parse(file, &text)?.iter().any(|user| *user.name == *self.name) {
            let why = "remove it first, or choose another name";
            return Err(format!("{} has a user '{}' already: {why}", file.display(), self.name));
        }
        for permission in &self.allow {
            Permission::parse(permission)?;
        }
        let needs_token = self.certificate.is_empty() && self.uid.is_empty();
        let token = if needs_token { Some(new_token()?) } else { None };
        let mut table = format!("{TABLE}\nname = {}\n", toml_text(&self.name));
        // Writing to a string does not fail.
        if let Some(token) = &token {
            let _ = writeln!(table, "tokens = [\"{}\"]", Digest::of(token.as_bytes()));
        }
        if !self.certificate.is_empty() {
            let _ = writeln!(table, "certificates = [{}]", quoted(&self.certificate));
        }
        if !self.uid.is_empty() {
            let _ = writeln!(table, "uids = {:?}", self.uid);
        }
        let _ = writeln!(table, "allow = [{}]", quoted(&self.allow));
        let gap = if text.is_empty() { "" } else { "\n" };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let text = format!("{text}{end}{gap}{table}");
        parse(file, &text)?;
        replace(file, &text)?;
        if let Some(token) = token {
            print(&token);
        }
        Ok(())
    }
}

fn list(file: &Path) -> Result<(), String> {
    for user in parse(file, &read(file)?)? {
        let mut ways = Vec::new();
        if !user.tokens.is_empty() {
            ways.push(format!("tokens: {}", user.tokens.len()));
        }
        ways.extend(user.certificates.iter().map(ToString::to_string));
        ways.extend(user.uids.iter().map(|uid| format!("uid {uid}")));
        let allow: Vec<String> = user.allow.iter().map(ToString::to_string).collect();
        print(&format!("{}\t{}\t{}", user.name, ways.join(", "), allow.join(" ")));
    }
    Ok(())
}

fn remove(name: &str, file: &Path) -> Result<(), String> {
    let _lock = lock(file)?;
    let text = read(file)?;
    let users = parse(file, &text)?;
    let names = |users: &[UserSpec]| -> Vec<Box<str>> {
        users.iter().map(|user| user.name.clone()).collect()
    };
    let mut wanted = names(&users);
    let Some(place) = wanted.iter().position(|known| &**known == name) else {
        return Err(format!("{} has no user '{name}'", file.display()));
    };
    wanted.remove(place);
    let rest = without_table(&text, place);
    let rest = rest.filter(|rest| parse(file, rest).is_ok_and(|users| names(&users) == wanted));
    let Some(rest) = rest else {
        return Err(format!(
            "{} is written in a way that this command cannot change: remove the table of \
             '{name}' by hand",
            file.display()
        ));
    };
    replace(file, &rest)
}

/// A text without its table of users with this number: from its head up to the next head of a
/// table. The caller checks what comes of it.
fn without_table(text: &str, number: usize) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_head = |line: &str| line.trim_start().starts_with('[') && line.contains(']');
    let heads = (0..lines.len()).filter(|&at| lines[at].trim().starts_with(TABLE));
    let begin = heads.into_iter().nth(number)?;
    let end = (begin + 1..lines.len()).find(|&at| is_head(lines[at])).unwrap_or(lines.len());
    Some([lines[..begin].concat(), lines[end..].concat()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (new_token().unwrap(), new_token().unwrap());
        assert_ne!(one, other);
        let digits = one.strip_prefix(TOKEN_PREFIX).unwrap();
        assert_eq!(digits.len(), 2 * TOKEN_BYTES);
        assert!(digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn table_is_cut_out_up_to_the_next_head() {
        let text =
            "a = 1\n[[user]]\nname = 'x'\nallow = [\n  'observe',\n]\n\n[[user]]\nname = 'y'\n";
        let (begin, x) = text.split_at(6);
        let (x, y) = x.split_at(x.rfind("[[user]]").unwrap());
        assert_eq!(without_table(text, 0), Some([begin, y].concat()));
        assert_eq!(without_table(text, 1), Some([begin, x].concat()));
        assert_eq!(without_table(text, 2), None);
    }
}
