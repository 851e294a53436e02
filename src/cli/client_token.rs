//! The token by which clients (`bench`, `work`, `put`, ...) say which user of the server they are.
//!
//! It comes from a file or from a variable, never from an argument: other programs of the machine
//! can read arguments. Invariant: neither `Debug` nor an error shows it.

use clap::Args;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The variable with the token itself.
pub(super) const TOKEN_VARIABLE: &str = "JOBCENTRE_TOKEN";

/// The longest token: the server reads lines of 4 KiB of clients that are not authenticated.
const TOKEN_MAX_BYTES: usize = 1024;

/// Where the token comes from.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct TokenSource {
    /// The file with the token of a user of the server, such as `jobcentre user add` prints
    /// [default: the token in the variable JOBCENTRE_TOKEN, if it is set].
    #[expect(clippy::doc_markdown, reason = "this is what --help prints")]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct ClientToken(Box<str>);

impl fmt::Debug for ClientToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientToken(..)")
    }
}

impl TokenSource {
    /// The file that is named.
    pub(super) fn file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    /// Whether a file is named.
    pub(super) fn has_file(&self) -> bool {
        self.token_file.is_some()
    }

    /// The token of the file, or else that of the variable with the value `variable`.
    ///
    /// # Errors
    /// A sentence about the file or the variable.
    pub(super) fn token(&self, variable: Option<OsString>) -> Result<Option<ClientToken>, String> {
        if let Some(file) = &self.token_file {
            return ClientToken::of_file(file).map(Some);
        }
        let Some(value) = variable else { return Ok(None) };
        parse(value.as_encoded_bytes()).map(Some).map_err(|why| format!("{TOKEN_VARIABLE}: {why}"))
    }
}

/// Reads a file, which may be a pipe, up to more than a token has.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let opened = File::open(file).map_err(|error| format!("it cannot be read: {error}"))?;
    opened
        .take(2 * TOKEN_MAX_BYTES as u64)
        .read_to_end(&mut text)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    Ok(text)
}

fn parse(text: &[u8]) -> Result<ClientToken, String> {
    let text = text.trim_ascii();
    let is_token =
        (1..=TOKEN_MAX_BYTES).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
    let text = std::str::from_utf8(text).ok().filter(|_| is_token).ok_or_else(|| {
        format!(
            "this is no token: give one line of 1 to {TOKEN_MAX_BYTES} printable ASCII characters \
             without blanks, such as 'jobcentre user add' prints"
        )
    })?;
    Ok(ClientToken(text.into()))
}

impl ClientToken {
    /// The token of a file.
    ///
    /// # Errors
    /// A sentence about the file.
    pub(super) fn of_file(file: &Path) -> Result<Self, String> {
        let explain = |why: String| format!("--token-file {}: {why}", file.display());
        read(file).and_then(|text| parse(&text)).map_err(explain)
    }

    /// The token that a text is.
    ///
    /// # Errors
    /// A sentence, which does not show the text.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        parse(text.as_bytes())
    }

    /// The value of the field `Authorization` of HTTP.
    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// The line of the Job Centre protocol, with its line end.
    pub(super) fn auth_line(&self) -> Vec<u8> {
        let token = serde_json::Value::from(&*self.0);
        format!("{{\"request\":\"auth\",\"token\":{token}}}\n").into_bytes()
    }

    /// The command for a server of beanstalkd's protocol, with its line end.
    pub(super) fn auth_command(&self) -> Vec<u8> {
        format!("auth {}\r\n", self.0).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_variable(value: &str) -> Result<Option<ClientToken>, String> {
        TokenSource::default().token(Some(value.into()))
    }

    #[test]
    fn token_is_written_for_each_protocol() {
        let token = of_variable("jc_0\"a\\\n").unwrap().unwrap();
        assert_eq!(token.bearer(), "Bearer jc_0\"a\\");
        let line = "{\"request\":\"auth\",\"token\":\"jc_0\\\"a\\\\\"}\n";
        assert_eq!(token.auth_line(), line.as_bytes());
        assert_eq!(token.auth_command(), b"auth jc_0\"a\\\r\n");
        assert_eq!(TokenSource::default().token(None), Ok(None));
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_shown() {
        let long = "x".repeat(TOKEN_MAX_BYTES + 1);
        for wrong in ["", " \n", "secret\r\nX-Field: 1", "secret two", "sécret", &long] {
            let error = of_variable(wrong).unwrap_err();
            assert!(error.starts_with("JOBCENTRE_TOKEN: this is no token"), "{error}");
            assert!(!error.contains("cret") && !error.contains("xxx"), "{error}");
        }
        assert_eq!(format!("{:?}", of_variable("secret")), "Ok(Some(ClientToken(..)))");
    }
}
