//! What a connection says first where a token holds for the whole connection.

use super::BenchProtocol;
use crate::cli::bench::job_tracker::quote;
use crate::cli::client_token::ClientToken;

/// The request with a token. Empty: the protocol has none, or says it in each request.
pub(super) fn request(protocol: BenchProtocol, token: &ClientToken) -> Vec<u8> {
    match protocol {
        BenchProtocol::JobCentre => token.auth_line(),
        BenchProtocol::Beanstalkd => token.auth_command(),
        _ => Vec::new(),
    }
}

/// Checks the answer, a line.
pub(super) fn check(answer: &[u8]) -> Result<(), String> {
    let line = answer.trim_ascii();
    if line == b"OK" || line.starts_with(b"{\"status\":\"ok\"") {
        return Ok(());
    }
    Err(format!(
        "the server does not take the token (--token-file, JOBCENTRE_TOKEN): it answered {}",
        quote(line)
    ))
}
