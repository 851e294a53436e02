//! Listeners with TLS: certificates of the server and of clients, and how connections end.

use crate::support::{Program, Server, TIMEOUT, TempDir, get, plain_command, put, until};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;

/// An authority with a name.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(super) pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(super) struct Certificate {
    pub(super) chain: String,
    pub(super) key: String,
    serial: u64,
}

impl Authority {
    pub(super) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for `name`, sound until the end of that year.
    pub(super) fn certificate(&self, name: &str, year: i32, serial: u64) -> Certificate {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(year, 12, 31);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem();
        Certificate { chain, key: key.serialize_pem(), serial }
    }

    /// A list of revoked certificates.
    fn revoke(&self, certificate: &Certificate) -> String {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(certificate.serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2200, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// What a client uses that trusts this authority and has this certificate.
    pub(super) fn client(&self, own: Option<&Certificate>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::from_pem_slice(own.chain.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![chain], key).unwrap()
            }
        })
    }
}

/// A connection with TLS.
pub(super) type Secure = StreamOwned<ClientConnection, TcpStream>;

pub(super) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Secure {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::clone(config), name).unwrap(), stream)
}

/// Sends bytes and receives a line.
pub(super) fn ask(stream: &mut Secure, request: &str) -> io::Result<String> {
    stream.write_all(request.as_bytes())?;
    let mut line = Vec::new();
    let mut byte = [0];
    while line.last() != Some(&b'\n') {
        if stream.read(&mut byte)? == 0 {
            break;
        }
        line.push(byte[0]);
    }
    Ok(String::from_utf8(line).unwrap())
}

/// The files of a server, and their authority.
pub(super) struct Setup {
    dir: TempDir,
    pub(super) authority: Authority,
}

impl Setup {
    pub(super) fn new() -> Self {
        let (dir, authority) = (TempDir::new(), Authority::new("ours"));
        fs::create_dir(dir.path()).unwrap();
        let setup = Self { dir, authority };
        setup.install(&setup.authority.certificate("localhost", 2100, 1));
        setup.write("ca.pem", &setup.authority.pem);
        setup
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn install(&self, certificate: &Certificate) {
        self.write("cert.pem", &certificate.chain);
        self.write("key.pem", &certificate.key);
    }

    /// A server whose protocols all have TLS.
    fn serve(&self, flags: &[&str]) -> Server {
        let mut command = plain_command(Program::PATH);
        command.args(["serve", "--log-format", "json", "--listen", "tls::0", "--http", "tls::0"]);
        command.args(["--beanstalkd", "tls::0", "--pinpriq", "tls::0"]);
        command.arg("--tls-cert").arg(self.path("cert.pem"));
        command.arg("--tls-key").arg(self.path("key.pem"));
        for flag in flags {
            if flag.starts_with("--") || ["optional", "required"].contains(flag) {
                command.arg(flag);
            } else {
                command.arg(self.path(flag));
            }
        }
        Server::spawn(command)
    }
}

#[test]
fn every_protocol_is_served_over_tls() {
    let setup = Setup::new();
    let (mut server, config) = (setup.serve(&[]), setup.authority.client(None));
    let mut lines = connect(server.address, &config);
    assert_eq!(
        ask(&mut lines, &format!("{}\n", put("q", 1, "{}"))).unwrap(),
        "{\"status\":\"ok\",\"id\":1}\n"
    );
    let mut beanstalkd = connect(server.address_of("beanstalkd"), &config);
    assert_eq!(ask(&mut beanstalkd, "watch q\r\n").unwrap(), "WATCHING 2\r\n");
    assert_eq!(ask(&mut beanstalkd, "reserve\r\n").unwrap(), "RESERVED 1 2\r\n");
    assert_eq!(ask(&mut beanstalkd, "").unwrap(), "{}\r\n");
    let mut packets = connect(server.address_of("pinpriq"), &config);
    packets.write_all(b"?").unwrap();
    let mut http = connect(server.address_of("http"), &config);
    let answer = ask(&mut http, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(answer, "HTTP/1.1 200 OK\r\n");
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn load_generator_checks_the_certificate_and_measures() {
    let setup = Setup::new();
    let server = setup.serve(&[]);
    let bench = |protocol: &str, authority: Option<&str>| {
        let mut command = plain_command(Program::PATH);
        let port = server.address_of(if protocol == "jobq" { "http" } else { protocol }).port();
        command.args(["bench", "put", "-c", "2", "-d", "16", "--requests", "2000", "--json", "-"]);
        command.args(["--protocol", protocol, "--address", &format!("tls:localhost:{port}")]);
        authority.map(|file| command.arg("--tls-ca").arg(setup.path(file)));
        command.output().unwrap()
    };
    for protocol in ["job-centre", "beanstalkd", "pinpriq", "jobq"] {
        let output = bench(protocol, Some("ca.pem"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{protocol}: {errors}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["requests"], 2000, "{protocol}: {json}");
    }
    let errors = String::from_utf8_lossy(&bench("job-centre", None).stderr).into_owned();
    assert!(errors.contains("its issuer is not among the trusted CAs"), "{errors}");
}

#[test]
fn client_verbs_check_the_certificate_and_show_their_own() {
    let setup = Setup::new();
    let own = setup.authority.certificate("web-1", 2100, 2);
    setup.write("own.pem", &own.chain);
    setup.write("own.key", &own.key);
    let server = setup.serve(&["--tls-client-ca", "ca.pem"]);
    let url = format!("jobcentres://localhost:{}", server.address.port());
    let run = |verb: &str, files: &[(&str, &str)]| {
        let mut command = plain_command("bash");
        command.args(["-c", verb, Program::PATH]).env("JOBCENTRE_URL", &url);
        let flags =
            files.iter().map(|(flag, name)| format!("{flag} {}", setup.path(name).display()));
        command.env("FLAGS", flags.collect::<Vec<_>>().join(" "));
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let identity = [("--tls-ca", "ca.pem"), ("--tls-cert", "own.pem"), ("--tls-key", "own.key")];
    let lines = "seq 3000 | \"$0\" put mail --lines -q $FLAGS && \"$0\" export $FLAGS | wc -l";
    assert_eq!(run(lines, &identity), (0, "3000\n".to_owned()));
    // The server's tickets are no answers, and a stdin that is silent waits for none.
    let slow = "(sleep 2; seq 3) | \"$0\" put slow --lines --timeout 1s $FLAGS | wc -l";
    assert_eq!(run(slow, &identity), (0, "3\n".to_owned()));
    let ping = "\"$0\" ping $FLAGS";
    let (status, text) = run(ping, &[]);
    assert!(status == 5 && text.contains("not among the trusted CAs"), "{status}: {text}");
    assert_eq!(run(ping, &identity[..1]).0, 5, "a client without a certificate");
    let wrong = [identity[0], identity[1], ("--tls-key", "key.pem")];
    let (status, text) = run(ping, &wrong);
    assert!(status == 2 && text.contains("the key is that of another certificate"), "{text}");
}

#[test]
fn large_requests_and_answers_are_cut_into_records_and_nothing_is_lost() {
    let setup = Setup::new();
    let (server, config) = (setup.serve(&[]), setup.authority.client(None));
    let mut client = connect(server.address, &config);
    let text = "x".repeat(3_000);
    let mut sent = String::new();
    for number in 0..1_000 {
        sent.push_str(&put("q", 5, &format!("{{\"n\":{number},\"t\":\"{text}\"}}")));
        sent.push('\n');
    }
    sent.push_str("{\"request\":\"get\",\"queues\":[\"q\"],\"limit\":1000}\n");
    // Both directions block unless the two are used at the same time: the server reads less than
    // this before its answers are taken.
    client.write_all(sent.as_bytes()).unwrap();
    let mut received = BufReader::new(client);
    let mut line = String::new();
    for id in 1..=1_000 {
        line.clear();
        received.read_line(&mut line).unwrap();
        assert_eq!(line, format!("{{\"status\":\"ok\",\"id\":{id}}}\n"));
    }
    line.clear();
    received.read_line(&mut line).unwrap();
    let taken = line.matches("\"n\":").count();
    assert!(line.len() > 1 << 20 && taken > 340, "{taken} jobs in {} bytes", line.len());
}

#[test]
fn client_that_ends_its_side_gets_its_answers_and_one_that_is_cut_gives_its_job_back() {
    let setup = Setup::new();
    let (server, config) = (setup.serve(&[]), setup.authority.client(None));
    let mut client = connect(server.address, &config);
    let both = format!("{}\n{}\n", put("q", 1, "{}"), put("q", 1, "{}"));
    client.write_all(both.as_bytes()).unwrap();
    client.conn.send_close_notify();
    client.conn.complete_io(&mut client.sock).unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).expect("the server ends its side as TLS asks for");
    assert_eq!(answers, "{\"status\":\"ok\",\"id\":1}\n{\"status\":\"ok\",\"id\":2}\n");
    let mut holder = connect(server.address, &config);
    assert!(ask(&mut holder, &format!("{}\n", get("q"))).unwrap().contains("\"id\":1"));
    // Without the end that TLS has.
    drop(holder.sock);
    let mut other = connect(server.address, &config);
    until("job 1 to come back", || {
        ask(&mut other, &format!("{}\n", get("q"))).unwrap().contains("\"id\":1")
    });
}

#[test]
fn clients_without_a_sound_certificate_are_refused_where_one_is_required() {
    let setup = Setup::new();
    let (ours, other) = (&setup.authority, Authority::new("another"));
    let [sound, revoked] = [2_u64, 3].map(|serial| ours.certificate("web-1", 2100, serial));
    let expired = ours.certificate("web-1", 2020, 4);
    let foreign = other.certificate("web-1", 2100, 5);
    setup.write("crl.pem", &ours.revoke(&revoked));
    let flags = ["--tls-client-ca", "ca.pem", "--tls-client-crl", "crl.pem"];
    let server = setup.serve(&flags);
    let tried = |own: Option<&Certificate>| {
        let request = format!("{}\n", get("none"));
        ask(&mut connect(server.address, &ours.client(own)), &request)
    };
    assert_eq!(tried(Some(&sound)).unwrap(), "{\"status\":\"no-job\"}\n");
    for (what, own) in [
        ("none", None),
        ("revoked", Some(&revoked)),
        ("expired", Some(&expired)),
        ("foreign", Some(&foreign)),
    ] {
        let answer = tried(own);
        assert!(answer.is_err(), "{what}: {answer:?}");
    }
    server.wait_for_log("clients have failed to begin TLS");
    let lenient = setup.serve(&["--tls-client-ca", "ca.pem", "--tls-client-auth", "optional"]);
    let tried =
        |own| ask(&mut connect(lenient.address, &ours.client(own)), &format!("{}\n", get("none")));
    assert!(tried(None).is_ok() && tried(Some(&sound)).is_ok());
    assert!(tried(Some(&foreign)).is_err(), "a wrong one is not as good as none");
}

#[test]
fn certificate_is_read_again_on_sighup_and_files_of_no_use_change_nothing() {
    let setup = Setup::new();
    let server = setup.serve(&[]);
    let config = setup.authority.client(None);
    let next = Authority::new("next");
    let mut old = connect(server.address, &config);
    assert!(ask(&mut old, &format!("{}\n", get("none"))).is_ok());
    setup.install(&next.certificate("localhost", 2090, 7));
    server.signal("HUP");
    server.wait_for_log("the certificate was read again");
    let with = |config: &Arc<ClientConfig>| {
        ask(&mut connect(server.address, config), &format!("{}\n", get("none")))
    };
    assert!(with(&config).is_err(), "the former certificate is still shown");
    assert!(with(&next.client(None)).is_ok());
    assert!(ask(&mut old, &format!("{}\n", get("none"))).is_ok(), "a connection was cut");
    let mut http = connect(server.address_of("http"), &next.client(None));
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    http.write_all(request.as_bytes()).unwrap();
    let mut metrics = String::new();
    http.read_to_string(&mut metrics).unwrap();
    // The last day of 2090.
    assert!(metrics.contains("jobcentre_tls_certificate_expiry_seconds 3818361600"), "{metrics}");
    setup.write("key.pem", &next.certificate("localhost", 2090, 8).key);
    server.signal("HUP");
    server.wait_for_log("the former certificate stays in use");
    assert!(with(&next.client(None)).is_ok());
}

#[test]
fn silent_clients_do_not_keep_others_out() {
    let setup = Setup::new();
    let (server, config) = (setup.serve(&[]), setup.authority.client(None));
    // More than may be under way.
    let silent: Vec<TcpStream> =
        (0..1_100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    let mut client = connect(server.address, &config);
    assert_eq!(
        ask(&mut client, &format!("{}\n", get("none"))).unwrap(),
        "{\"status\":\"no-job\"}\n"
    );
    server.wait_for_log("others waited for its place");
    drop(silent);
}

#[test]
fn plain_client_of_a_tls_listener_is_closed_and_the_log_says_why() {
    let setup = Setup::new();
    let server = setup.serve(&[]);
    let mut plain = TcpStream::connect(server.address).unwrap();
    plain.set_read_timeout(Some(TIMEOUT)).unwrap();
    plain.write_all(format!("{}\n", get("none")).as_bytes()).unwrap();
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).unwrap();
    assert!(!String::from_utf8_lossy(&answer).contains("status"), "{answer:?}");
    server.wait_for_log("it does not speak TLS");
}

#[test]
fn settings_that_do_not_fit_together_are_refused_at_the_start() {
    let refused = |flags: &[&str]| {
        let arguments: Vec<&str> = ["serve"].iter().chain(flags).copied().collect();
        let output = Program::output(&arguments, &[("JOBCENTRE_LISTEN", "off")]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = refused(&["--http", "tls::0"]);
    assert!(code == Some(2) && said.contains("needs --tls-cert"), "{said}");
    let (code, said) = refused(&["--http", ":0", "--tls-cert", "c", "--tls-key", "k"]);
    assert!(code == Some(2) && said.contains("no listener has TLS"), "{said}");
    let (code, said) = refused(&["--http", "tls::0", "--tls-cert", "/none", "--tls-key", "k"]);
    assert!(code == Some(1) && said.contains("--tls-cert /none cannot be read"), "{said}");
}

#[test]
fn files_of_no_use_are_refused_at_the_start_with_a_reason() {
    let setup = Setup::new();
    let path = |name: &str| setup.path(name).to_str().unwrap().to_owned();
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
    let refused = |more: &[&str]| {
        let tls = ["serve", "--http", "tls::0", "--tls-cert", &cert, "--tls-key", &key];
        let output = Program::output(&[&tls[..], more].concat(), &[("JOBCENTRE_LISTEN", "off")]);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    // A list that revokes nothing is a mistake.
    let said = refused(&["--tls-client-ca", &ca, "--tls-client-crl", &ca]);
    assert!(said.contains("holds no list"), "{said}");
    let said = refused(&["--tls-client-ca", "/dev/zero"]);
    assert!(said.contains("--tls-client-ca /dev/zero is no file"), "{said}");
    for (text, why) in [
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----\n".to_owned(), "is encrypted"),
        ("x".repeat(1 << 21), "is longer than 1048576 bytes"),
        (String::new(), "holds no private key"),
    ] {
        setup.write("key.pem", &text);
        let said = refused(&[]);
        assert!(said.contains(why), "{said}");
    }
}
