//! The names in certificates of clients.

use crate::model::peer::CertificateName;
use x509_cert::Certificate;
use x509_cert::der::oid::{AssociatedOid, ObjectIdentifier};
use x509_cert::der::{Any, Decode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The most names of a certificate that count.
const NAMES_MAX: usize = 64;

/// The names in a certificate (DER) that was checked already: common names of its subject, and its
/// alternative names of DNS and URI. O(bytes).
pub(super) fn names(certificate: &[u8]) -> Box<[CertificateName]> {
    let Ok(certificate) = Certificate::from_der(certificate) else { return Box::default() };
    let body = certificate.tbs_certificate();
    let mut names = Vec::new();
    for attribute in body.subject().iter() {
        if attribute.oid == COMMON_NAME
            && let Some(text) = text_of(&attribute.value)
        {
            names.push(CertificateName::Common(text.into()));
        }
    }
    let extensions = body.extensions().into_iter().flatten();
    let alternative = extensions.filter(|extension| extension.extn_id == SubjectAltName::OID);
    for extension in alternative {
        let Ok(found) = SubjectAltName::from_der(extension.extn_value.as_bytes()) else { continue };
        names.extend(found.0.iter().filter_map(|name| match name {
            GeneralName::DnsName(name) => {
                Some(CertificateName::Dns(name.as_str().to_ascii_lowercase().into()))
            }
            GeneralName::UniformResourceIdentifier(uri) => {
                Some(CertificateName::Uri(uri.as_str().into()))
            }
            _ => None,
        }));
    }
    names.truncate(NAMES_MAX);
    names.into()
}

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The text of an attribute, if it is UTF-8.
fn text_of(value: &Any) -> Option<&str> {
    std::str::from_utf8(value.value()).ok().filter(|text| !text.is_empty())
}
