//! Detection of HTTP requests on listeners of other protocols, to which web pages can make browsers
//! connect.

use super::terms::is_token;

/// Whether a line, without its end, is the first line of an HTTP request: a method, a blank, and
/// `HTTP/1.1` or the like behind the last blank. O(line).
#[must_use]
pub fn is_request_line(line: &[u8]) -> bool {
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(method), Some(version)) = (words.next(), words.next_back()) else { return false };
    let is_version = match version.strip_prefix(b"HTTP/") {
        Some([major, b'.', minor]) => major.is_ascii_digit() && minor.is_ascii_digit(),
        _ => false,
    };
    !method.is_empty() && method.iter().all(|&byte| is_token(byte)) && is_version
}

/// Whether `bytes` may be the beginning of an HTTP request: of a method, or of a method and the
/// path behind it. O(method).
#[must_use]
pub fn may_begin_request(bytes: &[u8]) -> bool {
    let method = bytes.iter().take_while(|&&byte| is_token(byte)).count();
    method > 0 && matches!(bytes[method..], [] | [b' '] | [b' ', b'/', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_of_requests_are_recognised() {
        for line in [
            "GET / HTTP/1.1",
            "POST /x?y HTTP/1.0",
            "OPTIONS * HTTP/1.1",
            "x http://a/ HTTP/2.0",
            "GET /a b HTTP/1.1",
        ] {
            assert!(is_request_line(line.as_bytes()), "{line}");
            assert!(!is_request_line(&line.as_bytes()[..line.len() - 1]), "{line}");
        }
        for line in ["", " ", "GET", "GET /", "HTTP/1.1", " / HTTP/1.1", "{} / HTTP/1.1"] {
            assert!(!is_request_line(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn beginnings_of_requests_are_recognised() {
        for bytes in ["P", "POST", "POST ", "POST /", "POST /x HTTP/1.1\r\n", "p!'x /"] {
            assert!(may_begin_request(bytes.as_bytes()), "{bytes}");
        }
        for bytes in ["", " ", "P\0", "P x", "P\0\u{1}q", "POST\t/", "P\u{e9} /"] {
            assert!(!may_begin_request(bytes.as_bytes()), "{bytes}");
        }
    }
}
