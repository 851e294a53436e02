//! Registrations of workers (`POST /worker`).

use super::fields::{Field, FieldError, FieldKind, Map, Message, integer, text};
use crate::base::strings::StringList;
use crate::model::worker::Worker;
use crate::wire::msgpack::{push_array, push_integer, push_map, push_text};
use crate::wire::url::{self, UrlError};

const PLACES: FieldKind = FieldKind::Integer { min: 1, max: u32::MAX as i64, strict: false };

/// The fields of `POST /worker`.
pub static WORKER: [Field; 4] = [
    Field::must("name", FieldKind::Text, "A name for people."),
    Field::must("max_jobs", PLACES, "How many jobs it takes at a time."),
    Field::must("url", FieldKind::Url, "Where it listens; '/worker-job' is put behind it."),
    Field::may("jobs", FieldKind::Texts, "The names of the jobs that it takes; absent: all."),
];

/// Reads a body in JSON; `packed` receives its translation. O(text).
///
/// # Errors
/// What is wrong with it.
pub fn read_worker_json<'a>(
    text: &'a [u8],
    packed: &'a mut Vec<u8>,
    names: &'a mut StringList,
) -> Result<Worker<'a>, FieldError> {
    worker_of(Message::json(text, packed)?, names)
}

/// Reads a body. The job names go into `names`. O(bytes).
///
/// # Errors
/// What is wrong with it.
pub fn read_worker<'a>(
    bytes: &'a [u8],
    names: &'a mut StringList,
) -> Result<Worker<'a>, FieldError> {
    worker_of(Message::packed(bytes), names)
}

fn worker_of<'a>(
    message: Message<'a>,
    names: &'a mut StringList,
) -> Result<Worker<'a>, FieldError> {
    let map = Map::of(message, &WORKER)?.known_only()?;
    let name = map.must("name", text)?;
    let max_jobs = map.must("max_jobs", integer)?;
    let url = map.must("url", text)?;
    check_url(url).map_err(|what| FieldError::Not { field: "url".into(), what: what.into() })?;
    names.clear();
    let mut queues = None;
    if let Some(jobs) = map.get("jobs") {
        for job in jobs.elements() {
            let Some(job) = job.text() else { return Err(map.wrong("jobs")) };
            names.push(job.as_bytes());
        }
        if names.is_empty() {
            return Err(map.wrong("jobs"));
        }
        queues = Some(&*names);
    }
    Ok(Worker { name, url, max_jobs, queues })
}

/// The longest URL, in bytes.
const URL_MAX: usize = 2_048;

/// Checks that the server can call a worker at this URL.
///
/// # Errors
/// The error: a sentence that continues the field's name.
fn check_url(text: &str) -> Result<(), &'static str> {
    if text.len() > URL_MAX {
        return Err("is longer than 2048 bytes");
    }
    match url::parse(text) {
        // Elsewhere a colon without a port means the default port; here it is rejected as a
        // mistake.
        Ok(_) if text.split('/').nth(2).is_some_and(|host| host.ends_with(':')) => Err(NO_PORT),
        Ok(_) => Ok(()),
        Err(UrlError::Malformed) => {
            Err("is no URL, or holds blanks or what is not ASCII: write them as %20 and the like")
        }
        Err(UrlError::Scheme) => Err("must begin with 'http://' or 'https://'"),
        Err(UrlError::User) => Err("must hold no user's name"),
        Err(UrlError::Tail) => Err("must have neither '?' nor '#': a path is put behind it"),
        Err(UrlError::Host) => Err("names no host, or not as 'host:port'"),
        Err(UrlError::Port) => Err(NO_PORT),
    }
}

const NO_PORT: &str = "must have a port from 1 to 65535";

/// Writes a body. Queue names that are not UTF-8 cannot be written and are left out. O(bytes).
pub fn write_worker(worker: &Worker<'_>, out: &mut Vec<u8>) {
    push_map(out, 3 + u32::from(worker.queues.is_some()));
    push_text(out, "name");
    push_text(out, worker.name);
    push_text(out, "max_jobs");
    push_integer(out, worker.max_jobs);
    push_text(out, "url");
    push_text(out, worker.url);
    if let Some(queues) = worker.queues {
        let names = || queues.into_iter().filter_map(|name| std::str::from_utf8(name).ok());
        push_text(out, "jobs");
        push_array(out, u32::try_from(names().count()).expect("a list's places are of 32 bits"));
        for name in names() {
            push_text(out, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_without_a_server_is_rejected() {
        let long = format!("http://{}", "x".repeat(3_000));
        for text in [
            "",
            "a",
            "a:80",
            "//a",
            "ftp://a",
            "http://",
            "http:///x",
            "http://a b",
            "http://ä",
            "http://a?x",
            "http://a/#x",
            "http://u:p@a",
            "http://a:",
            "http://a:0",
            "http://a:+1",
            "http://a:65536",
            "http://a:1:2",
            "http://::1",
            "http://[::1",
            "http://[a]",
            "http://[::1]x",
            "http://a,b",
            "http://a\r\nx: y",
            &long,
        ] {
            assert!(check_url(text).is_err(), "{text}");
        }
        assert_eq!(check_url("http://a:1/x"), Ok(()));
    }
}
