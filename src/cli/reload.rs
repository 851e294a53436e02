//! What a running server reads once more, on SIGHUP or for a client: the users of its settings
//! file. A file that cannot be used changes nothing, and the log says why.

use super::settings::config::{Config, Options};
use crate::access::Users;
use crate::reactor::Reload;
use crate::server::Server;
use std::fs;
use std::path::Path;
use tracing::{info, warn};

/// The longest settings file that is read while the server serves.
const SETTINGS_MAX_BYTES: u64 = 1 << 20;

/// Reads the users of a file once more. `config`: the settings with which the server was started.
pub(super) fn reload_users(file: &Path, config: &Config) -> Reload<Server> {
    let (file, mut config) = (file.to_owned(), config.clone());
    Box::new(move |server, now| match read(&file, &mut config) {
        Ok(None) => {
            info!("there are no users, as before");
            Ok(None)
        }
        Ok(Some(users)) => {
            let count = users.len();
            info!(users = count, "the users were read again: they count from now on");
            server.set_users(users, now);
            Ok(Some(count))
        }
        Err(why) => {
            let why = format!("{why}: the former users stay");
            warn!("{why}");
            Err(why)
        }
    })
}

/// The users of the file as it is now. One that cannot be used leaves those of the start.
///
/// # Errors
/// A sentence about those of the start.
pub(super) fn users_of_now(file: &Path, config: &Config) -> Result<Option<Users>, String> {
    let mut now = config.clone();
    read(file, &mut now).or_else(|why| {
        warn!("{why}: the users of the start stay");
        config.compiled_users()
    })
}

/// The users of the file. `config` gets them.
fn read(file: &Path, config: &mut Config) -> Result<Option<Users>, String> {
    let data =
        fs::metadata(file).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
    if !data.is_file() || data.len() > SETTINGS_MAX_BYTES {
        return Err(format!(
            "{} is no file of at most {SETTINGS_MAX_BYTES} bytes: the loop reads nothing else",
            file.display()
        ));
    }
    let found = Options::from_file(file)?.complete().users;
    if found.is_empty() && !config.users.is_empty() {
        return Err(format!(
            "{} has no users any more, and every client could do everything: if that is meant, \
             restart the server",
            file.display()
        ));
    }
    let former = std::mem::replace(&mut config.users, found);
    let users = config.compiled_users();
    if users.is_err() {
        config.users = former;
    }
    users.map_err(|why| format!("{}: {why}", file.display()))
}
