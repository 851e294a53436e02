//! Users and groups of this machine, by name: those in `/etc/passwd` and `/etc/group`, and those
//! that `getent` knows from a directory (LDAP, systemd).

use std::fs;
use std::process::Command;

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SystemUser {
    /// The id.
    pub(super) uid: u32,
    /// The id of the user's own group.
    pub(super) gid: u32,
}

/// The fields of the line of `name` in a table.
fn line<'a>(table: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let mut lines = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields[0] == name && !name.is_empty())
}

fn find_user(table: &str, name: &str) -> Option<SystemUser> {
    let fields = line(table, name)?;
    let number = |at: usize| fields.get(at)?.parse().ok();
    Some(SystemUser { uid: number(2)?, gid: number(3)? })
}

fn read(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
}

/// What `getent` prints of a name in a table, if it is there and knows the name.
fn ask_getent(table: &str, name: &str) -> String {
    if name.is_empty() || name.starts_with('-') {
        return String::new();
    }
    let printed = Command::new("getent").args([table, name]).output();
    printed.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default()
}

/// The user of this name.
///
/// # Errors
/// A sentence: there is none.
pub(super) fn user(name: &str) -> Result<SystemUser, String> {
    find_user(&read("/etc/passwd")?, name)
        .or_else(|| find_user(&ask_getent("passwd", name), name))
        .ok_or_else(|| format!("there is no user '{name}' in /etc/passwd, nor for getent"))
}

/// The id of the group of this name, which may be a number.
///
/// # Errors
/// A sentence: there is none.
pub(super) fn group_id(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    find_group(&read("/etc/group")?, name)
        .or_else(|| find_group(&ask_getent("group", name), name))
        .ok_or_else(|| {
            format!(
                "there is no group '{name}' in /etc/group, nor for getent: give one of them, or \
                 its number"
            )
        })
}

fn find_group(table: &str, name: &str) -> Option<u32> {
    line(table, name)?.get(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_tables() {
        let table = "root:x:0:0:root:/root:/bin/sh\nmail:x:8:12:::\nodd\n:x:1:1:::\nbad:x:y:1\n";
        assert_eq!(find_user(table, "mail"), Some(SystemUser { uid: 8, gid: 12 }));
        for unknown in ["", "mai", "odd", "bad", "x"] {
            assert_eq!(find_user(table, unknown), None, "{unknown}");
        }
        assert_eq!(group_id("123"), Ok(123));
        assert_eq!(group_id("root"), Ok(0));
        assert!(group_id("no such group").unwrap_err().contains("no such group"));
    }
}
