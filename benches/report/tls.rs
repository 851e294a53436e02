//! What TLS costs: the same load on a listener with it and on one without.

use crate::chapters::Chapter;
use crate::scenarios::{Entry, Scenario, Sizes, Task, cycle, plain, words};
use crate::targets::Target::{self, JobCentre, Tls};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::path::Path;

const PAYLOAD: usize = 100;

const TARGETS: [Target; 2] = [JobCentre, Tls];

/// The files of the listener, in the folder where servers run.
pub(crate) const CERTIFICATE: &str = "tls-cert.pem";
pub(crate) const KEY: &str = "tls-key.pem";
/// The authority that the generator trusts.
pub(crate) const AUTHORITY: &str = "tls-ca.pem";

/// All of them.
pub(crate) fn all(sizes: &Sizes) -> Vec<Scenario> {
    [1, 16].map(|depth| cycles(depth, sizes)).into()
}

fn cycles(depth: usize, sizes: &Sizes) -> Scenario {
    let line = cycle(64, depth, PAYLOAD, sizes.seconds);
    let entry = |target: Target| Entry {
        label: target.name().to_owned(),
        target,
        task: Task::Load(words(&line)),
    };
    let title = format!("put, get, delete: 64 connections, depth {depth}");
    plain(format!("tls-{depth}"), Chapter::Tls, title, TARGETS.map(entry).to_vec())
}

/// Makes an authority and a certificate of ECDSA for 127.0.0.1.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write_certificate(folder: &Path) -> Result<(), String> {
    let explain = |error: rcgen::Error| format!("no certificate: {error}");
    let mut authority = CertificateParams::new(Vec::new()).map_err(explain)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().map_err(explain)?;
    let authority_pem = authority.self_signed(&authority_key).map_err(explain)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().map_err(explain)?;
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).map_err(explain)?;
    let pem = certificate.signed_by(&key, &issuer).map_err(explain)?.pem();
    let files = [(CERTIFICATE, pem), (KEY, key.serialize_pem()), (AUTHORITY, authority_pem)];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
