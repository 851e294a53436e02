//! A small web server that remembers what it was asked, and when.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub struct Answer {
    pub status: u16,
    pub header: &'static str,
    pub body: Vec<u8>,
}

pub struct Asked {
    pub at: Instant,
}

#[derive(Default)]
pub struct Seen {
    pub asked: Vec<Asked>,
    pub most_at_a_time: usize,
    at_a_time: usize,
    counts: HashMap<String, usize>,
}

/// On a free port of the loopback, until the test ends. `answer` has the path, and how often it was
/// asked before; an answer takes `time`.
pub fn start<A>(time: Duration, answer: A) -> (String, Arc<Mutex<Seen>>)
where
    A: Fn(&str, usize) -> Answer + Send + Sync + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (seen2, answer) = (seen.clone(), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (seen, answer) = (seen2.clone(), answer.clone());
            std::thread::spawn(move || serve(&stream, time, &seen, &*answer));
        }
    });
    (url, seen)
}

/// One request of a connection, which is closed then.
fn serve(
    mut stream: &TcpStream,
    time: Duration,
    seen: &Mutex<Seen>,
    answer: &dyn Fn(&str, usize) -> Answer,
) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    lines.take_while(|line| !line.is_empty()).for_each(drop);
    let path = first.split(' ').nth(1).unwrap().to_owned();
    let at = Instant::now();
    let before = {
        let mut seen = seen.lock().unwrap();
        seen.at_a_time += 1;
        seen.most_at_a_time = seen.most_at_a_time.max(seen.at_a_time);
        let count = seen.counts.entry(path.clone()).or_default();
        *count += 1;
        *count - 1
    };
    std::thread::sleep(time);
    let Answer { status, header, body } = answer(&path, before);
    {
        // Before the answer: the next request may come before this thread goes on.
        let mut seen = seen.lock().unwrap();
        seen.at_a_time -= 1;
        seen.asked.push(Asked { at });
    }
    let length = body.len();
    let head = format!("HTTP/1.1 {status} -\r\nContent-Length: {length}\r\n{header}");
    drop(stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()));
    drop(stream.write_all(&body));
}
