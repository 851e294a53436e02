//! Certificates, users and a proxy that loses answers, for the servers of tests.
#![allow(dead_code, reason = "each test program uses a part")]

pub mod takeover;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;

/// A certificate for 127.0.0.1 that is its own authority: its file and that of its key.
pub fn write_certificate(folder: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    let (certificate, key) = (folder.join("server.pem"), folder.join("server.key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&key, private).unwrap();
    (certificate, key)
}

/// An authority for clients, and a certificate of it: its file, that of the certificate, and
/// that of its key.
pub fn write_client_certificate(folder: &Path) -> [PathBuf; 3] {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let trusted = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["web-1".into()]).unwrap();
    let own = params.signed_by(&key, &issuer).unwrap().pem();
    let files = [("clients.pem", trusted), ("web-1.pem", own), ("web-1.key", key.serialize_pem())];
    files.map(|(name, text)| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    })
}

/// A settings file with users: `name`, `token`, `allow`.
pub fn write_users(folder: &Path, users: &[Value]) -> PathBuf {
    let mut text = String::new();
    for user in users {
        let token = user["token"].as_str().unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let hex = digest.as_ref().iter().fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        });
        let (name, allow) = (&user["name"], &user["allow"]);
        writeln!(text, "[[user]]\nname = {name}\ntokens = [\"sha256:{hex}\"]\nallow = {allow}")
            .unwrap();
    }
    let path = folder.join("jobs.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Stands between a client and a server, and can cut a connection in place of passing an answer on.
pub struct LossyProxy {
    pub address: String,
    lose: Arc<AtomicBool>,
}

impl LossyProxy {
    pub fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let lose = Arc::new(AtomicBool::new(false));
        let flag = lose.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&target) else { continue };
                let (client2, server2) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let flag = flag.clone();
                std::thread::spawn(move || pass(client2, server2, None));
                std::thread::spawn(move || pass(server, client, Some(&flag)));
            }
        });
        Self { address, lose }
    }

    pub fn lose_answer(&self) {
        self.lose.store(true, Ordering::SeqCst);
    }

    pub fn has_lost(&self) -> bool {
        !self.lose.load(Ordering::SeqCst)
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, lose: Option<&AtomicBool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let is_lost = lose.is_some_and(|lose| lose.swap(false, Ordering::SeqCst));
        if is_lost || to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    drop(from.shutdown(Shutdown::Both));
    drop(to.shutdown(Shutdown::Both));
}
