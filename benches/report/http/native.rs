//! The native API over HTTP, by a client of its own: one connection with sixteen requests in
//! flight. What counts is the CPU time of the server, of which the rate at full load follows.

use super::client::Client;
use crate::chapters::Chapter;
use crate::metric::{Metric, Sample};
use crate::process::Moment;
use crate::scenarios::{Entry, Scenario, Sizes, Task, plain, short};
use crate::stats::float;
use crate::targets::{Programs, Target};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Instant;

const CREATED: u16 = 201;
const DEPTH: u64 = 16;
const BATCH: u64 = 1_000;
const JOBS: &str = "/api/v1/queues/q/jobs";
/// The jobs of a page.
const PAGE: usize = 100;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Cell {
    /// A job of Jobq is put, and shown.
    PostAndGet,
    /// A job is reserved under a token, and completed.
    ReserveAndComplete,
    Put,
    /// Each key is new.
    PutWithKey,
    /// Pages of a queue, one after the other.
    Pages,
}

impl Cell {
    /// Its line in the tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::PostAndGet => "POST job, GET job (Jobq)",
            Self::ReserveAndComplete => "reserve, complete",
            Self::Put => "put",
            Self::PutWithKey => "put with a key",
            Self::Pages => "pages",
        }
    }
}

/// All of them.
pub(super) fn all(sizes: &Sizes) -> [Scenario; 3] {
    use Cell::{Pages, PostAndGet, Put, PutWithKey, ReserveAndComplete};
    let count = sizes.cycles as u64;
    let scenario = |id: &str, title: String, cells: &[Cell], count| {
        let entry = |&cell: &Cell| Entry {
            label: cell.label().to_owned(),
            target: Target::Jobq,
            task: Task::Native { cell, count },
        };
        let entries = cells.iter().map(entry).collect();
        let mut scenario = plain(id.to_owned(), Chapter::Http, title, entries);
        scenario.columns = vec![Metric::CycleCpu, Metric::Throughput, Metric::Share];
        scenario.compared = vec![Metric::CycleCpu];
        scenario.note = Some(
            "one connection, depth 16, a client in the report; a cycle is what the line names, and \
             the rate at full load is the inverse of its CPU time",
        );
        scenario
    };
    let pages = format!("pages of {PAGE} ready jobs from a queue of {}", short(sizes.jobs));
    [
        scenario(
            "native-work",
            "the native API: work under tokens".to_owned(),
            &[PostAndGet, ReserveAndComplete],
            count,
        ),
        scenario(
            "native-key",
            "the native API: puts of jobs of 100 B".to_owned(),
            &[Put, PutWithKey],
            count,
        ),
        scenario("native-page", format!("the native API: {pages}"), &[Pages], sizes.jobs),
    ]
}

fn payload(number: u64) -> String {
    format!("{{\"number\":\"{number:012}\",\"text\":\"{}\"}}", "x".repeat(70))
}

/// Puts `count` jobs.
fn fill(client: &mut Client, count: u64) -> Result<(), String> {
    let numbers: Vec<u64> = (0..count).collect();
    for batch in numbers.chunks(usize::try_from(BATCH).unwrap_or(1)) {
        let put = |number: &u64| format!("{{\"payload\":{}}}", payload(*number));
        let body = format!("[{}]", batch.iter().map(put).collect::<Vec<_>>().join(","));
        let (status, answer) = client.post(JOBS, &body)?;
        if status != 200 || answer.contains("\"error\"") {
            return Err(format!("puts were answered by {status}: {answer:.200}"));
        }
    }
    Ok(())
}

/// Sends requests together, and takes their answers, which must have this status.
fn all_of(
    client: &mut Client,
    requests: impl Iterator<Item = (&'static str, String, String)>,
    wanted: u16,
) -> Result<Vec<String>, String> {
    let (mut text, mut count) = (String::new(), 0);
    for (method, path, body) in requests {
        text.push_str(&Client::request(method, &path, &body));
        count += 1;
    }
    client.send(&text)?;
    let mut answers = Vec::with_capacity(count);
    for _ in 0..count {
        let (status, answer) = client.answer()?;
        if status != wanted {
            return Err(format!("a request was answered by {status}: {answer:.200}"));
        }
        answers.push(answer);
    }
    Ok(answers)
}

fn member(answer: &str, name: &str) -> Result<String, String> {
    let start = format!("\"{name}\":");
    let (_, rest) = answer.split_once(&start).ok_or_else(|| format!("no {name}: {answer:.200}"))?;
    let value = rest.trim_start_matches('"').split(['"', ',', '}']).next();
    value.map(str::to_owned).ok_or_else(|| format!("no {name}: {answer:.200}"))
}

/// Some cycles together.
fn turn(client: &mut Client, cell: Cell, from: u64, count: u64) -> Result<(), String> {
    let numbers = from..from + count;
    let native = |number: u64, key: String| {
        ("POST", JOBS.to_owned(), format!("{{\"payload\":{}{key}}}", payload(number)))
    };
    match cell {
        Cell::PostAndGet => {
            let path = "/api/v0/queue/jobq/job";
            let post =
                |number| ("POST", path.to_owned(), format!("{{\"payload\":{}}}", payload(number)));
            let put = all_of(client, numbers.map(post), 200)?;
            let ids =
                put.iter().map(|answer| member(answer, "id")).collect::<Result<Vec<_>, _>>()?;
            let get = |id: &String| ("GET", format!("{path}/{id}"), String::new());
            all_of(client, ids.iter().map(get), 200)?;
        }
        Cell::ReserveAndComplete => {
            let body = "{\"queues\":[\"q\"]}".to_owned();
            let reserve = |_| ("POST", "/api/v1/reserve".to_owned(), body.clone());
            let reserved = all_of(client, numbers.map(reserve), 200)?;
            let mut done = Vec::new();
            for answer in &reserved {
                let (id, token) = (member(answer, "id")?, member(answer, "token")?);
                let path = format!("/api/v1/jobs/{id}/complete");
                done.push(("POST", path, format!("{{\"token\":\"{token}\"}}")));
            }
            all_of(client, done.into_iter(), 204)?;
        }
        Cell::Put => drop(all_of(client, numbers.map(|it| native(it, String::new())), 201)?),
        Cell::PutWithKey => {
            let keyed = |number| native(number, format!(",\"key\":\"order-{number:012}\""));
            all_of(client, numbers.map(keyed), 201)?;
        }
        Cell::Pages => return Err("pages are no cycles".to_owned()),
    }
    Ok(())
}

/// Reads pages until all jobs were shown, and gives their number.
fn pages(client: &mut Client, jobs: u64, most: u64) -> Result<u64, String> {
    let first = format!("{JOBS}?state=ready&limit={PAGE}");
    let (mut path, mut count) = (first.clone(), 0);
    while count < most {
        client.send(&Client::request("GET", &path, ""))?;
        let (status, answer) = client.answer()?;
        let page: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
        let shown = page["items"].as_array().map_or(0, Vec::len);
        if status != 200 || shown != PAGE {
            return Err(format!("a page of {jobs} jobs was {status} with {shown}: {answer:.200}"));
        }
        count += 1;
        path = match page["next_cursor"].as_str() {
            Some(next) => format!("{first}&cursor={next}"),
            None => first.clone(),
        };
    }
    Ok(count)
}

/// Measures one of them.
pub(crate) fn measure(programs: &Programs, cell: Cell, count: u64) -> Result<Sample, String> {
    let server = programs.start(Target::Jobq)?;
    let mut client = Client::connect(server.address)?;
    let count = count.div_ceil(DEPTH) * DEPTH;
    if matches!(cell, Cell::ReserveAndComplete | Cell::Pages) {
        fill(&mut client, count.next_multiple_of(BATCH))?;
    }
    if cell == Cell::PostAndGet {
        let (status, answer) = client.post("/api/v0/queue", "{\"id\":\"jobq\"}")?;
        if status != CREATED {
            return Err(format!("a queue was not made: {answer:.200}"));
        }
    }
    let (start, before) = (Instant::now(), Moment::now(server.pid())?);
    let cycles = if cell == Cell::Pages {
        // Those of the most urgent jobs come first, then those by id.
        pages(&mut client, count, (count / PAGE as u64).min(2_000))?
    } else {
        for from in (0..count).step_by(usize::try_from(DEPTH).unwrap_or(1)) {
            turn(&mut client, cell, from, DEPTH)?;
        }
        count
    };
    let (after, elapsed) = (Moment::now(server.pid())?, start.elapsed().as_secs_f64());
    let requests = match cell {
        Cell::PostAndGet | Cell::ReserveAndComplete => 2 * cycles,
        _ => cycles,
    };
    let nanos = after.server - before.server;
    let raw = json!({ "cycles": cycles, "seconds": elapsed, "server_cpu_nanos": nanos });
    let values = [
        (Metric::CycleCpu, float(nanos) / 1e3 / float(cycles)),
        (Metric::Throughput, float(requests) / elapsed),
        (Metric::Share, before.share_until(&after)),
    ];
    Ok(Sample { values: values.into(), others: before.others_until(&after), raw })
}
