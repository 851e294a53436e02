//! Generated streams of clients that are no users, for [`play`].

use crate::rng::TestRng;
use crate::seeds::{Plan, Seen};
use crate::unauthenticated::{PROTOCOLS, play};
use jobcentre::model::driver::Protocol;

const LINES: &[&str] = &[
    "{\"request\":\"put\",\"queue\":\"Xq7\",\"job\":{},\"pri\":1}\n",
    "{\"request\":\"put\",\"queue\":\"q\",\"job\":{},\"pri\":1}\r\n",
    "{\"request\":\"get\",\"queues\":[\"q\"],\"wait\":true}\n",
    "{\"request\":\"delete\",\"id\":1}\n",
    "{\"request\":\"abort\",\"id\":1}\n",
    "{\"request\":\"touch\",\"id\":1}\n",
    "{\"request\":\"show\",\"id\":1}\n",
    "{\"request\":\"queues\"}\n",
    "{\"request\":\"drain\",\"on\":true}\n",
    "{\"request\":\"clients\"}\n",
    "{\"request\":\"auth\",\"token\":\"jc_0\"}\n",
    "{\"request\":\"auth\",\"request\":\"queues\",\"token\":\"jc_0\"}\n",
    "{\"request\":\"auth\",\"token\":7}\n",
    "{\"request\":\"auth\"}\n",
    "{\n",
    "\n",
    "GET / HTTP/1.1\r\n",
];

const COMMANDS: &[&str] = &[
    "put 1 0 10 2\r\nab\r\n",
    "put 1 0 10 4294967295\r\nstats\r\n",
    "reserve\r\n",
    "reserve-with-timeout 0\r\n",
    "peek 1\r\n",
    "peek-ready\r\n",
    "delete 1\r\n",
    "use q\r\n",
    "watch q\r\n",
    "kick 9\r\n",
    "stats\r\n",
    "stats-job 1\r\n",
    "list-tubes\r\n",
    "list-tubes-watched\r\n",
    "pause-tube q 1\r\n",
    "auth jc_0\r\n",
    "auth \r\n",
    "auth\r\n",
    "quit\r\n",
    "\r\n",
];

const TARGETS: &[&str] = &[
    "GET /",
    "GET /health",
    "GET /metrics",
    "GET /openapi.json",
    "GET /jobs",
    "GET /queues",
    "POST /queues/q",
    "GET /processor/q",
    "GET /api/v1/queues",
    "GET /api/v1/server",
    "GET /api/v1/jobs/1",
    "GET /api/v1/export",
    "GET /api/v1/stream?topics=overview",
    "POST /api/v1/backup",
    "POST /api/v1/import",
    "POST /api/v1/reserve",
    "POST /api/v1/queues/q/jobs",
    "POST /api/v1/server/drain",
    "DELETE /api/v1/jobs/1",
    "PUT /constraint",
    "POST /push",
    "POST /workers",
    "POST /done",
    "GET /nowhere",
];

const FIELDS: &[&str] = &[
    "",
    "Authorization: Bearer jc_0\r\n",
    "Authorization: Basic amNfMDo=\r\n",
    "Authorization: Digest x\r\n",
    "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
    "Content-Type: application/json\r\n",
    "Content-Length: 2\r\n",
    "Expect: 100-continue\r\nContent-Length: 2\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Worker-Id: 1\r\n",
];

fn request(rng: &mut TestRng, protocol: Protocol) -> Vec<u8> {
    match protocol {
        Protocol::JobCentre => rng.word(LINES).into(),
        Protocol::Beanstalkd => rng.word(COMMANDS).into(),
        Protocol::Http => {
            let version = rng.word(&["1.1", "1.0"]);
            let (target, field, other) = (rng.word(TARGETS), rng.word(FIELDS), rng.word(FIELDS));
            let body = rng.word(&["", "{}", "2\r\n{}\r\n0\r\n\r\n"]);
            let head = format!("{target} HTTP/{version}\r\nHost: localhost\r\n{field}{other}");
            format!("{head}\r\n{body}").into()
        }
        _ => (0..rng.below(40)).map(|_| u8::try_from(rng.below(256)).unwrap()).collect(),
    }
}

#[test]
fn nothing_of_a_client_that_is_no_user_reaches_the_store() {
    const EVENTS: [&str; 3] = ["authenticate first", "UNAUTHORIZED", " 401 "];
    Plan::new(100, &[]).run(&EVENTS, 3, |seed| {
        let mut rng = TestRng::new(seed);
        let protocol = *rng.pick(&PROTOCOLS);
        let mut stream = Vec::new();
        for _ in 0..rng.between(1, 12) {
            // A line may also be one of another protocol.
            let of = if rng.percent(95) { protocol } else { *rng.pick(&PROTOCOLS) };
            stream.extend(request(&mut rng, of));
        }
        for _ in 0..rng.below(3) {
            if let Some(at) = (!stream.is_empty()).then(|| rng.below(stream.len())) {
                stream[at] = u8::try_from(rng.below(256)).unwrap();
            }
        }
        let length = stream.len();
        let piece = *rng.pick(&[1, 7, 100, length]);
        let answers = play(protocol, &stream, piece);
        let answers = String::from_utf8_lossy(&answers);
        Seen::from(EVENTS.map(|event| (event, u64::from(answers.contains(event)))))
    });
}
