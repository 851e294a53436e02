//! The processor's identity in its messages. It comes from environment variables, as that of the
//! other services on the bus.

use crate::cli::entropy;
use crate::protocol::processor::Settings;
use rustix::system::uname;
use std::env::VarError;
use std::time::Duration;

/// The settings from the variables that `get` reads, with defaults for the rest. An empty variable
/// counts as unset, as in env files.
///
/// # Errors
/// Names the variable that is not UTF-8.
pub(in crate::cli) fn settings(
    tick: Duration,
    get: impl Fn(&str) -> Result<String, VarError>,
) -> Result<Settings, String> {
    let read = |name: &str| match get(name) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(format!("the variable {name} is not UTF-8")),
    };
    let or_default = |name: &str, default: &str| {
        read(name).map(|text| text.unwrap_or_else(|| default.to_owned()))
    };
    Ok(Settings {
        listener: or_default("NAMESPACE_LISTENER", "default")?,
        publisher: or_default("NAMESPACE_PUBLISHER", "default")?,
        name: or_default("SERVICE_NAME", "job_queue")?,
        uuid: read("SERVICE_UUID")?.unwrap_or_else(random_uuid),
        host: read("SERVICE_HOST")?.unwrap_or_else(host),
        tick,
        seed: entropy::random_u64(),
    })
}

fn random_uuid() -> String {
    uuid_v4(entropy::random_u64(), entropy::random_u64())
}

/// A UUID of version 4 (RFC 9562) from these bits, six of which are overwritten by version and
/// variant.
fn uuid_v4(high: u64, low: u64) -> String {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// The name of this host.
pub(in crate::cli) fn host() -> String {
    uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn unset_variables_have_defaults() {
        let settings = settings(Duration::from_secs(1), |_| Err(VarError::NotPresent)).unwrap();
        assert_eq!(
            (settings.listener.as_str(), settings.publisher.as_str()),
            ("default", "default")
        );
        assert_eq!(settings.name, "job_queue");
        assert_eq!(settings.host, host());
        assert!(!settings.host.is_empty());
        assert_eq!(settings.uuid.len(), 36);
        assert_ne!(settings.uuid, random_uuid());
        assert_eq!(settings.tick, Duration::from_secs(1));
    }

    #[test]
    fn empty_variable_counts_as_unset() {
        let get = |name: &str| match name {
            "SERVICE_NAME" => Ok(String::new()),
            name => Ok(name.to_lowercase()),
        };
        let settings = settings(Duration::from_secs(3), get).unwrap();
        assert_eq!(settings.listener, "namespace_listener");
        assert_eq!(settings.publisher, "namespace_publisher");
        assert_eq!(settings.name, "job_queue");
        assert_eq!(
            (settings.uuid.as_str(), settings.host.as_str()),
            ("service_uuid", "service_host")
        );
    }

    #[test]
    fn error_names_the_variable_that_is_not_utf8() {
        let get = |name: &str| match name {
            "SERVICE_HOST" => Err(VarError::NotUnicode(OsString::new())),
            _ => Err(VarError::NotPresent),
        };
        let error = settings(Duration::from_secs(3), get).unwrap_err();
        assert!(error.contains("SERVICE_HOST"), "{error}");
    }

    #[test]
    fn random_uuid_has_version_4() {
        assert_eq!(uuid_v4(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid_v4(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let bits = (0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        assert_eq!(uuid_v4(bits.0, bits.1), "01234567-89ab-4def-bedc-ba9876543210");
    }
}
