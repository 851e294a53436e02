//! Lists in which what is wanted stands behind many jobs of other queues.

use super::real::answer;
use crate::support::{Client, Server};
use jobcentre::base::api_limits::LISTED_JOBS_PER_STEP;

#[test]
fn job_behind_many_others_is_in_the_first_page_and_is_peeked_at() {
    let server = Server::start(&["--http", ":0"]);
    let mut client = server.connect();
    let put = "{\"request\":\"put\",\"queue\":\"many\",\"job\":{},\"pri\":1}\n";
    let count = 3 * LISTED_JOBS_PER_STEP + 7;
    for _ in 0..count / 1000 {
        client.exchange(put.repeat(1000).as_bytes(), 1000);
    }
    client.exchange(put.repeat(count % 1000).as_bytes(), count % 1000);
    client.ask(r#"{"request":"put","queue":"one","job":{},"pri":1}"#);
    let id = count + 1;
    client.ask(&format!("{{\"request\":\"bury\",\"id\":{id}}}"));
    let mut http = Client::connect(server.address_of("http"));
    for (state, is_there) in [("buried", true), ("completed", false)] {
        // What is sent behind it waits for its answer.
        let peek = format!("{{\"request\":\"peek\",\"queue\":\"one\",\"state\":\"{state}\"}}\n");
        let next = "{\"request\":\"get\",\"queues\":[\"none\"]}\n";
        let answers = client.exchange(format!("{peek}{next}").as_bytes(), 2);
        let found = answers[0].contains(&format!("\"id\":{id},"));
        assert_eq!(found, is_there, "{state}: {}", answers[0]);
        assert_eq!(answers[1], "{\"status\":\"no-job\"}");
        http.send_bytes(
            format!(
                "GET /api/v1/queues/one/jobs?state={state} HTTP/1.1\r\nHost: localhost\r\n\r\n"
            )
            .as_bytes(),
        );
        let (status, body) = answer(&mut http);
        assert!(status.contains("200"), "{status}");
        assert_eq!(body.contains(&format!("\"id\":{id},")), is_there, "{state}: {body}");
    }
}
