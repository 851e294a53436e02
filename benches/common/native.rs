//! The native API through the pure server, without a socket: the cost of the code below the
//! reactor, beside requests of Jobq that do about the same.
//!
//! Medians in nanoseconds, and the ratios that the documents name; the requests that are compared
//! take turns.

use crate::common::Bench;
use jobcentre::model::driver::Protocol;
use std::time::Instant;

/// 60 bytes, as a value of JSON.
const TEXT: &str = "\"0123456789 0123456789 0123456789 0123456789 0123456789 012\"";

/// Measures all of it; `tiny`: at a size that only shows that it works.
pub(crate) fn measure(tiny: bool) {
    let rounds = if tiny { 20 } else { 100_000 };
    let [put, reserve, complete, post, get] = work(rounds);
    println!("put {put} ns, reserve {reserve} ns, complete {complete} ns");
    println!("Jobq: POST job {post} ns, GET job {get} ns");
    let ratio = f64::from(post + get) / f64::from(reserve + complete);
    println!(
        "rate of reserve + complete, of that of POST job + GET job: {ratio:.2}x (0.7 or more)"
    );
    let [plain, keyed] = keyed_puts(rounds);
    let ratio = f64::from(keyed) / f64::from(plain);
    println!("put {plain} ns, with a key {keyed} ns: {ratio:.2}x (1.3 or less)");
    let jobs = if tiny { 1_000 } else { 1_000_000 };
    let page = pages(jobs, if tiny { 5 } else { 2_000 });
    println!("page of 100 jobs from {jobs}: {page} ns (200,000 or less)");
}

fn request(call: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
}

/// Makes a request, and returns what was answered, and the time that it took.
fn timed<'a>(bench: &'a mut Bench, request: &str, status: &str) -> (&'a str, u32) {
    let start = Instant::now();
    let answer = bench.pass(request.as_bytes());
    let spent = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
    let answer = std::str::from_utf8(answer).expect("answers are text");
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
    (answer, spent)
}

/// What stands behind a member's name in an answer.
fn member<'a>(answer: &'a str, name: &str) -> &'a str {
    let rest = answer.split_once(&format!("\"{name}\":")).expect("the member is there").1;
    rest.split([',', '}']).next().expect("a value")
}

/// Medians: another process on the core makes a few requests last very long.
fn medians<const N: usize>(times: [Vec<u32>; N]) -> [u32; N] {
    times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    })
}

/// Put, reserve and complete, and beside them a put and a look of Jobq.
fn work(rounds: usize) -> [u32; 5] {
    let mut times = [const { Vec::new() }; 5];
    let mut native = Bench::new(Protocol::Http);
    let mut jobq = Bench::new(Protocol::Http);
    let put = request("POST /api/v1/queues/q/jobs", &format!("{{\"payload\":{TEXT}}}"));
    let reserve = request("POST /api/v1/reserve", "{\"queues\":[\"q\"]}");
    timed(&mut jobq, &request("POST /api/v0/queue", "{\"id\":\"q\"}"), "20");
    let post = format!("{{\"payload\":{TEXT},\"state\":\"NEW\"}}");
    let post = request("POST /api/v0/queue/q/job", &post);
    for _ in 0..rounds {
        times[0].push(timed(&mut native, &put, "201").1);
        let (answer, spent) = timed(&mut native, &reserve, "200");
        times[1].push(spent);
        let (id, token) = (member(answer, "id").to_owned(), member(answer, "token").to_owned());
        let call = format!("POST /api/v1/jobs/{id}/complete");
        let complete = request(&call, &format!("{{\"token\":{token}}}"));
        times[2].push(timed(&mut native, &complete, "204").1);
        let (answer, spent) = timed(&mut jobq, &post, "20");
        times[3].push(spent);
        let get = request(&format!("GET /api/v0/queue/q/job/{}", member(answer, "id")), "");
        times[4].push(timed(&mut jobq, &get, "200").1);
    }
    medians(times)
}

/// Puts without and with a key, each of a new job.
fn keyed_puts(rounds: usize) -> [u32; 2] {
    let mut times = [const { Vec::new() }; 2];
    let mut plain = Bench::new(Protocol::Http);
    let mut keyed = Bench::new(Protocol::Http);
    for number in 0..rounds {
        let put = request("POST /api/v1/queues/q/jobs", &format!("{{\"payload\":{TEXT}}}"));
        times[0].push(timed(&mut plain, &put, "201").1);
        let body = format!("{{\"payload\":{TEXT},\"key\":\"user-{number}\"}}");
        let put = request("POST /api/v1/queues/q/jobs", &body);
        times[1].push(timed(&mut keyed, &put, "201").1);
    }
    medians(times)
}

/// Pages of a queue, from the first on.
fn pages(jobs: usize, rounds: usize) -> u32 {
    let mut bench = Bench::new(Protocol::Http);
    let body = format!("[{}]", vec![format!("{{\"payload\":{TEXT}}}"); 100].join(","));
    for _ in 0..jobs.div_ceil(100) {
        timed(&mut bench, &request("POST /api/v1/queues/q/jobs", &body), "200");
    }
    let (mut times, mut cursor) = (Vec::new(), String::new());
    for _ in 0..rounds {
        let call = format!("GET /api/v1/queues/q/jobs?limit=100{cursor}");
        let (answer, spent) = timed(&mut bench, &request(&call, ""), "200");
        times.push(spent);
        let next = member(answer, "next_cursor").trim_matches('"');
        cursor = if next == "null" { String::new() } else { format!("&cursor={next}") };
    }
    let [page] = medians([times]);
    page
}
