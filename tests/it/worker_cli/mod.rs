//! `jobcentre work` as a process, against a server of the tests.

mod commands;
mod guard;
mod logs;
mod server_client;
mod shutdown;

use crate::support::{Program, Server};
use jobcentre::base::strings::StringList;
use jobcentre::model::id::JobId;
use jobcentre::protocol::http::lightjq::messages::{Done, read_worker};
use server_client::{FakeServer, Worker};
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};

#[test]
fn worker_registers_itself() {
    let server = FakeServer::start();
    let worker = server.worker(&["--max-jobs", "3", "--job", "a", "--job", "b"], "true");
    let received = server.receive("POST /worker");
    let mut names = StringList::default();
    let registered = read_worker(&received.body, &mut names).unwrap();
    assert_eq!((registered.name, registered.max_jobs), ("w", 3));
    assert_eq!(registered.url, format!("http://{}", worker.process.address));
    let queues = registered.queues.unwrap();
    assert!(queues.into_iter().eq([b"a", b"b"]));

    let _other = server.worker(&["--advertise", "http://worker:1/here"], "true");
    let received = server.receive("POST /worker");
    let registered = read_worker(&received.body, &mut names).unwrap();
    assert_eq!(registered.url, "http://worker:1/here");
    assert!(registered.queues.is_none());
    assert!(registered.max_jobs >= 1);
}

#[test]
fn invalid_delivery_is_rejected() {
    let server = FakeServer::start();
    let worker = server.worker(&["--job", "a", "--advertise", "http://w/here"], "true");
    server.receive("POST /worker");
    let mut caller = worker.connect();
    let refused = |(status, why): (u16, String), wanted, text| {
        assert_eq!(status, wanted, "{why}");
        assert!(why.contains(text), "{why}");
    };
    refused(caller.hand(1, "b", "1", None), 404, "takes no jobs \"b\"");
    refused(caller.ask("POST /worker-job", b"\xc1"), 400, "");
    refused(caller.ask("POST /worker-job", b""), 400, "");
    refused(caller.ask("POST /worker-job", b"\x81\xa2id\xa11"), 400, "'name'");
    refused(caller.ask("POST /worker-job", b"\xdd\xff\xff\xff\xff"), 400, "");
    refused(caller.ask("POST /other", b""), 404, "/other");
    refused(caller.ask("GET /worker-job", b""), 405, "POST");
    // None of this has hurt the connection, or the worker; and a proxy may leave the path on.
    assert_eq!(caller.hand(1, "a", "1", None).0, 202);
    assert!(server.report().failure.is_none());
    let mut path = worker.connect();
    refused(path.ask("POST /here/worker-job", b"\xc1"), 400, "");
    refused(worker.connect().ask("(no) HTTP", b""), 400, "");
}

#[test]
fn request_of_a_foreign_origin_runs_no_command() {
    let server = FakeServer::start();
    let worker = server.worker(&[], "cat");
    server.receive("POST /worker");
    let mut caller = worker.connect();
    for field in ["Origin: http://localhost:1\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        caller.fields = field;
        let (status, why) = caller.hand(1, "shout", "1", None);
        assert_eq!((status, &*why), (403, "a web page has made a browser send this"));
    }
    caller.fields = "";
    assert_eq!(caller.hand(2, "shout", "2", None).0, 202);
    assert_eq!(server.report().job, 2, "only what the server has sent was begun");
}

#[test]
fn worker_waits_until_the_server_runs() {
    // The process that has the port does not listen yet.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let worker = Worker::start(address, &[], &["cat"]);
    worker.process.wait_for_log("not registered: trying again");
    socket.listen(16).unwrap();
    let server = FakeServer::on(socket.into());
    server.answer("POST /worker", 503);
    server.receive("POST /worker");
    server.receive("POST /worker");
    worker.process.wait_for_log("\"registered\"");
    worker.begin(1, "[1]");
    assert_eq!(server.report().value, serde_json::json!([1]));
}

#[test]
fn worker_rejected_by_the_server_exits() {
    let server = FakeServer::start();
    server.answer("POST /worker", 400);
    let mut worker = server.worker(&[], "true");
    assert_eq!(worker.process.wait().code(), Some(1));
    worker.process.wait_for_log("does not take this worker: 400: because");
    worker.process.wait_for_log("it makes no sense to try again");
}

#[test]
fn worker_given_the_job_centre_port_names_the_http_one() {
    let server = Server::start(&[]);
    let mut worker = Worker::start(server.address, &[], &["true"]);
    assert_eq!(worker.process.wait().code(), Some(1));
    worker.process.wait_for_log("--url wants the one for HTTP");
}

#[test]
fn worker_registers_again_with_a_server_that_lost_it() {
    let server = FakeServer::start();
    let worker = server.worker(&[], "true");
    server.receive("POST /worker");
    server.answer("POST /done", 404);
    server.explain("POST /done", 404, "field 'worker-id': there is no such worker");
    worker.begin(1, "1");
    assert_eq!(server.receive("POST /done").worker, Some(1));
    // What is asked is about no job.
    let question = server.receive("POST /done");
    assert_eq!(question.worker, Some(1));
    assert_eq!(Done::read(&question.body).unwrap().job_id, JobId(0));
    server.receive("POST /worker");
    worker.process.wait_for_log("\"worker\":2");
    worker.begin(2, "1");
    assert_eq!(server.receive("POST /done").worker, Some(2));

    // One that cannot say whether it knows a worker.
    server.answer("POST /done", 404);
    server.answer("POST /done", 404);
    worker.begin(3, "1");
    assert_eq!(server.receive("POST /done").worker, Some(2));
    server.receive("POST /done");
    server.receive("POST /worker");
    worker.process.wait_for_log("\"worker\":3");

    // One that knows it, and only the job was another one's.
    server.answer("POST /done", 404);
    server.explain("POST /done", 404, "field 'job_id': the worker does not hold this job");
    worker.begin(4, "1");
    assert_eq!(server.receive("POST /done").worker, Some(3));
    server.receive("POST /done");
    worker.begin(5, "1");
    assert_eq!(server.report().job, 5, "it does not register again");

    // One behind another connection may be another one.
    server.hang_up();
    server.answer("POST /done", 404);
    worker.begin(6, "1");
    assert_eq!(server.receive("POST /done").worker, Some(3));
    server.receive("POST /worker");
    worker.process.wait_for_log("\"worker\":4");
}

#[test]
fn usage_error_is_explained() {
    let wrong = |flags: &[&str], text: &str| {
        let output = Program::output(&[&["work"], flags].concat(), &[]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(text), "{said}");
    };
    let url = ["--url", "http://127.0.0.1:1", "--name", "w"];
    let with = |more: &[&'static str]| [&url, more].concat();
    wrong(&url, "COMMAND");
    wrong(&["--url", "https://m", "--name", "w", "--", "true"], "does not speak https");
    wrong(&["--url", "m:1", "--name", "w", "--", "true"], "http://HOST:PORT");
    wrong(&with(&["--", "no-such-program"]), "there is no program no-such-program");
    wrong(&with(&["--listen", "0.0.0.0:0", "--", "true"]), "--advertise");
    wrong(&with(&["--listen", "off", "--", "true"]), "HOST:PORT");
    for (text, why) in [("0", "give at least 1"), ("x", "give a whole number"), ("", "whole")] {
        wrong(&with(&["--max-jobs", text, "--", "true"]), "--max-jobs");
        wrong(&with(&["--max-jobs", text, "--", "true"]), why);
    }
    wrong(&with(&["--patience", "5", "--", "true"]), "5 of what? A unit is missing");
    wrong(&with(&["--timeout", "soon", "--", "true"]), "this is no time: give a time such as");
    wrong(&with(&["--timeout", "0s", "--", "true"]), "no time at all");
    wrong(&with(&["--advertise", "worker:1", "--", "true"]), "http://");
}
