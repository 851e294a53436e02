//! TLS to Redis: who is trusted, and what is said when it is not.

use super::Redis;
use super::redis::{Setup, Tls};
use crate::process::tls::{Authority, Certificate};
use crate::support::{Program, Server, TempDir, delete, get, number, put};

/// The files of a test: what Redis and the servers are given.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        let dir = TempDir::new();
        std::fs::create_dir_all(dir.path()).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A Redis with this certificate.
    fn redis(
        &self,
        authority: &Authority,
        certificate: &Certificate,
        asks_clients: bool,
    ) -> Option<Redis> {
        let files = [
            self.write("redis.pem", &certificate.chain),
            self.write("redis.key", &certificate.key),
            self.write("authority.pem", &authority.pem),
        ];
        let tls = Some(Tls { files, asks_clients });
        Redis::start_with(&Setup { tls, ..Setup::default() })
    }
}

/// What `serve` and `engine status` say before they end.
fn refused(flags: &[&str], why: &str) {
    for words in
        [&["serve", "--listen", ":0", "--engine-patience", "100ms"][..], &["engine", "status"]]
    {
        let output = Program::output(&[words, flags].concat(), &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains(why), "{words:?}: {text}");
    }
}

#[test]
fn engine_over_tls_keeps_jobs_and_is_connected_again() {
    let (files, authority) = (Files::new(), Authority::new("authority of engines"));
    let certificate = authority.certificate("127.0.0.1", 2099, 1);
    let Some(mut redis) = files.redis(&authority, &certificate, true) else { return };
    let own = authority.certificate("a server", 2099, 2);
    let (url, ca) = (redis.tls_url("127.0.0.1"), files.write("ca.pem", &authority.pem));
    let (cert, key) = (files.write("own.pem", &own.chain), files.write("own.key", &own.key));
    let flags =
        ["--engine", &url, "--engine-ca", &ca, "--engine-cert", &cert, "--engine-key", &key];
    let server = Server::start(&[&flags[..], &["--server-name", "only"]].concat());
    let mut client = server.connect();
    // Longer than a record of TLS, and than a read.
    let long = "x".repeat(300_000);
    assert_eq!(
        client.ask(&put("q", 1, &format!("{{\"x\":\"{long}\"}}"))),
        r#"{"status":"ok","id":1}"#
    );
    redis.kill();
    redis.restart();
    for id in 2..100 {
        assert_eq!(client.ask(&put("q", 1, "{}")), format!(r#"{{"status":"ok","id":{id}}}"#));
    }
    assert_eq!(client.ask(&delete(2)), r#"{"status":"ok"}"#);
    let status = Program::output(&[&["engine", "status"], &flags[..]].concat(), &[]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("leader: only ") && status.contains("\nrecords: 98\n"), "{status}");
    drop(server);
    // All records come in one answer.
    let again = Server::start(&[&flags[..], &["--engine-lease", "500ms"]].concat());
    let answer = again.connect().ask(&get("q"));
    assert!(number(&answer, "id") == 1 && answer.contains(&long));
    refused(&flags[..4], "it wants a certificate of its clients (--engine-cert");
}

#[test]
fn engine_that_is_another_than_named_is_refused_with_a_sentence() {
    let (files, authority) = (Files::new(), Authority::new("authority of engines"));
    let certificate = authority.certificate("redis.example", 2099, 1);
    let Some(redis) = files.redis(&authority, &certificate, false) else { return };
    let (url, ca) = (redis.tls_url("127.0.0.1"), files.write("ca.pem", &authority.pem));
    refused(&["--engine", &url, "--engine-ca", &ca], "its certificate is for another name");
    let other = files.write("other.pem", &Authority::new("another authority").pem);
    let issuer = "its issuer is not among the trusted CAs";
    refused(&["--engine", &url, "--engine-ca", &other], issuer);
    refused(&["--engine", &url], issuer);
    // TLS where there is none, and none where there is.
    let plain = redis.url().replace("redis://", "rediss://");
    refused(&["--engine", &plain, "--engine-ca", &ca], "its port for TLS?");
    let tls = url.replace("rediss://", "redis://");
    refused(&["--engine", &tls], "has to begin with rediss://");
    drop(redis);
    let expired = authority.certificate("127.0.0.1", 2020, 3);
    let Some(redis) = files.redis(&authority, &expired, false) else { return };
    let url = redis.tls_url("127.0.0.1");
    refused(&["--engine", &url, "--engine-ca", &ca], "its certificate is out of date");
}

#[test]
fn files_of_tls_that_have_no_use_or_cannot_be_used_are_refused() {
    let refused = |flags: &[&str], code: i32, why: &str| {
        let output = Program::output(&[&["serve", "--listen", ":0"], flags].concat(), &[]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(why), "{text}");
    };
    refused(&["--engine", "redis://a", "--engine-ca", "f"], 2, "has no use without TLS");
    refused(&["--engine", "rediss://a", "--engine-key", "f"], 2, "given together");
    refused(
        &["--engine", "rediss://a", "--engine-ca", "/nowhere"],
        1,
        "--engine-ca /nowhere: it cannot",
    );
    let files = Files::new();
    let empty = files.write("empty.pem", "words");
    refused(&["--engine", "rediss://a", "--engine-ca", &empty], 1, "it holds no certificate");
    let own = Authority::new("any").certificate("a", 2099, 1);
    let (cert, key) = (files.write("own.pem", &own.chain), files.write("own.key", "words"));
    let flags = ["--engine", "rediss://a", "--engine-cert", &cert, "--engine-key", &key];
    refused(&flags, 1, "the key is no PEM");
}
