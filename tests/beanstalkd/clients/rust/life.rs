//! The life of jobs by beanstalkc. Arguments: the server's host and port.

use beanstalkc::Beanstalkc;
use std::env::args;
use std::time::Duration;

const NOW: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);
const TTR: Duration = Duration::from_secs(30);

fn main() {
    let [host, port] = [1, 2].map(|number| args().nth(number).expect("host and port"));
    let client = Beanstalkc::new().host(&host).port(port.parse().expect("a port"));
    let mut client = client.connect().expect("it connects");
    assert_eq!(client.use_tube("mails").unwrap(), "mails");
    assert_eq!(client.using().unwrap(), "mails");
    assert_eq!(client.watch("mails").unwrap(), 2);
    assert_eq!(client.ignore("default").unwrap(), 1);
    assert_eq!(client.watching().unwrap(), ["mails"]);
    let first = client.put(b"first", 7, NOW, TTR).unwrap();
    let second = client.put(b"\0\r\n\xff", 9, NOW, TTR).unwrap();
    {
        let mut job = client.reserve().unwrap();
        assert_eq!((job.id(), job.body()), (first, &b"first"[..]));
        let stats = job.stats().unwrap();
        let known = ["state", "pri", "ttr", "tube"].map(|key| stats[key].as_str());
        assert_eq!(known, ["reserved", "7", "30", "mails"]);
        job.touch().unwrap();
        job.bury(5).unwrap();
    }
    assert_eq!(client.peek_buried().unwrap().id(), first);
    assert_eq!(client.kick(10).unwrap(), 1);
    {
        let mut job = client.reserve_with_timeout(NOW).unwrap();
        assert_eq!(job.id(), first);
        job.release(3, SECOND).unwrap();
    }
    assert_eq!(client.peek_delayed().unwrap().id(), first);
    client.kick_job(first).unwrap();
    assert_eq!(client.peek_ready().unwrap().id(), first);
    client.delete(first).unwrap();
    assert!(client.peek(first).is_err(), "it is deleted");
    assert_eq!(client.peek(second).unwrap().body(), b"\0\r\n\xff");
    client.pause_tube("mails", SECOND).unwrap();
    assert!(client.reserve_with_timeout(NOW).is_err(), "the tube is paused");
    {
        let mut job = client.reserve().unwrap();
        assert_eq!(job.body(), b"\0\r\n\xff");
        job.delete().unwrap();
    }
    assert!(client.put(&[b'x'; 65_536], 1, NOW, TTR).is_err(), "it is too long");
    assert_eq!(client.stats_tube("mails").unwrap()["name"], "mails");
    assert_eq!(client.stats().unwrap()["current-connections"], "1");
    assert_eq!(client.tubes().unwrap(), ["default", "mails"]);
}
