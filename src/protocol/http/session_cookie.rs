//! The cookie of a browser that has signed in.

use super::response::ExtraField;
use crate::access::{Digest, SESSION_TIME};
use crate::protocol::operations::Cookie;

/// Browsers set cookies whose names begin so over TLS only, and only for this host.
const HOST_PREFIX: &str = "__Host-";

/// Cookies of a request that are looked at.
const COOKIES_MAX: usize = 64;

/// The id of the session in a `Cookie` field, if it has one of this name.
pub(super) fn find(field: Option<&[u8]>, name: &str) -> Option<Digest> {
    let pairs = field?.split(|&byte| byte == b';').take(COOKIES_MAX);
    pairs.map(<[u8]>::trim_ascii).find_map(|pair| {
        let pair = pair.strip_prefix(HOST_PREFIX.as_bytes()).unwrap_or(pair);
        let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(Digest::of(value))
    })
}

/// The field that gives a browser its cookie, or takes it away.
pub(super) fn field(name: &str, cookie: &Cookie, is_secure: bool) -> ExtraField {
    let (prefix, secure) = if is_secure { (HOST_PREFIX, "; Secure") } else { ("", "") };
    let (id, seconds) = match cookie {
        Cookie::Set(id) => (&**id, SESSION_TIME.as_secs()),
        Cookie::Remove => ("", 0),
    };
    let text = format!(
        "{prefix}{name}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    ("Set-Cookie", text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_is_found_among_others() {
        let is = |field: &str| {
            let found = find(Some(field.as_bytes()), "jobcentre-1");
            found.map(|id| id.to_string() == Digest::of(b"x").to_string())
        };
        for field in
            ["jobcentre-1=x", "a=b; jobcentre-1=x", "__Host-jobcentre-1=x;b=", " ;;jobcentre-1=x"]
        {
            assert_eq!(is(field), Some(true), "{field}");
        }
        assert_eq!(is("jobcentre-1=y"), Some(false));
        for field in ["", "jobcentre-1", "jobcentre-2=x", "xjobcentre-1=x", "jobcentre-11=x"] {
            assert_eq!(is(field), None, "{field}");
        }
    }

    #[test]
    fn cookie_is_of_this_site_and_hidden_from_scripts() {
        let id = Cookie::Set("id".to_owned());
        let plain = "jobcentre-1=id; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict";
        assert_eq!(field("jobcentre-1", &id, false).1, plain);
        let secure = format!("__Host-{plain}; Secure");
        assert_eq!(field("jobcentre-1", &id, true).1, secure);
        let gone = "jobcentre-1=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict";
        assert_eq!(field("jobcentre-1", &Cookie::Remove, false).1, gone);
    }
}
