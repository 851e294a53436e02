//! Settings that are given without the one that they are about.

use super::Options;

impl Options {
    /// A setting of the engine that servers share, if there is none.
    pub(super) fn stray_engine_setting(&self) -> Option<&'static str> {
        let given = [
            (self.engine_password_file.is_some(), "--engine-password-file"),
            (self.engine_sentinel_user.is_some(), "--engine-sentinel-user"),
            (self.engine_sentinel_password_file.is_some(), "--engine-sentinel-password-file"),
            (self.engine_ca.is_some(), "--engine-ca"),
            (self.engine_cert.is_some(), "--engine-cert"),
            (self.engine_key.is_some(), "--engine-key"),
            (self.engine_lease.is_some(), "--engine-lease"),
            (self.engine_patience.is_some(), "--engine-patience"),
            (self.engine_hand_over.is_some(), "--engine-hand-over"),
            (self.engine_wait.is_some(), "--engine-wait"),
            (self.engine_prefix.is_some(), "--engine-prefix"),
            (self.engine_forward.is_some(), "--engine-forward"),
            (self.advertise.is_some(), "--advertise"),
        ];
        given.iter().find(|(is_given, _)| *is_given && self.engine.is_none()).map(|(_, flag)| *flag)
    }
}
