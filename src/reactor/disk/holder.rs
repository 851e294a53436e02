//! Which processes hold a lock of a file, as far as the system shows them.

use std::fs::{self, File};

/// A phrase that names the processes that hold a lock of `file`, and a command that shows more.
/// `name`: the path of the file.
pub(super) fn describe(file: &File, name: &str) -> String {
    let holders = of(file);
    let Some(first) = holders.first() else {
        return format!(
            "`fuser -v {name}` shows it, unless it is hidden from here, as one in another \
             container is"
        );
    };
    let named: Vec<String> = holders
        .iter()
        .map(|pid| match fs::read_to_string(format!("/proc/{pid}/comm")) {
            Ok(program) => format!("{pid} ({})", program.trim_end().escape_default()),
            Err(_) => pid.to_string(),
        })
        .collect();
    format!("process {}. `ps -fp {first}` shows more of it", named.join(", "))
}

#[cfg(target_os = "linux")]
fn of(file: &File) -> Vec<u32> {
    use rustix::fs::{major, minor};
    use std::os::unix::fs::MetadataExt;

    let Ok(is) = file.metadata() else { return Vec::new() };
    let device_inode = format!("{:02x}:{:02x}:{}", major(is.dev()), minor(is.dev()), is.ino());
    fs::read_to_string("/proc/locks")
        .map_or_else(|_| Vec::new(), |table| holders(&table, &device_inode))
}

#[cfg(not(target_os = "linux"))]
fn of(_: &File) -> Vec<u32> {
    Vec::new()
}

/// Ids of the processes that hold a `flock` of the file `device_inode` (`major:minor:inode`), from
/// the text of `/proc/locks`. Without waiting processes, and without holders in another pid
/// namespace.
#[cfg(target_os = "linux")]
fn holders(table: &str, device_inode: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for line in table.lines() {
        // "1: FLOCK  ADVISORY  WRITE 13769 fe:00:5693442 0 EOF"; a waiting process has "->" in
        // place of the kind.
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid, at) = (words.next(), words.nth(2), words.next());
        if kind == Some("FLOCK")
            && at == Some(device_inode)
            && let Some(pid) = pid.and_then(|pid| pid.parse().ok()).filter(|&pid| pid > 0)
        {
            found.push(pid);
        }
    }
    found
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn holders_are_the_lock_owners_of_this_file() {
        let table = "1: FLOCK  ADVISORY  WRITE 13769 fe:00:5693442 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 5 fe:00:5693442 0 EOF\n\
                     2: FLOCK  ADVISORY  READ 9 fe:01:5693442 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 10 fe:00:5693442 0 EOF\n\
                     4: FLOCK  ADVISORY  READ 0 fe:00:5693442 0 EOF\n\
                     5: FLOCK  ADVISORY  READ 77 fe:00:5693442 0 EOF\nnonsense\n\n";
        assert_eq!(holders(table, "fe:00:5693442"), [13769, 77]);
        assert_eq!(holders(table, "fe:00:1"), [0_u32; 0]);
    }

    #[test]
    fn description_names_the_lock_holder() {
        let path = crate::reactor::disk::testing::new_dir("holder").join("file");
        let file = File::create(&path).unwrap();
        let words = describe(&file, "a/lock");
        assert!(words.contains("fuser -v a/lock"), "{words}");
        file.try_lock().unwrap();
        let words = describe(&file, "a/lock");
        // Some file systems have other device numbers in /proc/locks than in stat.
        let pid = rustix::process::getpid().as_raw_nonzero();
        assert!(words.contains(&format!("{pid} (")) || words.contains("fuser"), "{words}");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
