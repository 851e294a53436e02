//! Who holds a file locked, as far as the system tells.

use std::fs::{self, File};

/// What is known of those that hold `file`, whose name is `name`, locked: a phrase, with what shows
/// more of them.
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
    let place = format!("{:02x}:{:02x}:{}", major(is.dev()), minor(is.dev()), is.ino());
    fs::read_to_string("/proc/locks").map_or_else(|_| Vec::new(), |table| holders(&table, &place))
}

#[cfg(not(target_os = "linux"))]
fn of(_: &File) -> Vec<u32> {
    Vec::new()
}

/// The processes that have locked the file at this place (`major:minor:inode`), as the table of the
/// system's locks has them. Those that wait for a lock are none, nor is one without a number here.
#[cfg(target_os = "linux")]
fn holders(table: &str, place: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for line in table.lines() {
        // "1: FLOCK  ADVISORY  WRITE 13769 fe:00:5693442 0 EOF"; who waits has "->" for the kind.
        let mut words = line.split_whitespace().skip(1);
        let (kind, pid, at) = (words.next(), words.nth(2), words.next());
        if kind == Some("FLOCK")
            && at == Some(place)
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
    fn holders_are_those_that_have_locked_this_very_file() {
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
    fn the_holder_of_a_lock_is_named() {
        let path = crate::reactor::disk::testing::place("holder").join("file");
        let file = File::create(&path).unwrap();
        let words = describe(&file, "a/lock");
        assert!(words.contains("fuser -v a/lock"), "{words}");
        file.try_lock().unwrap();
        let words = describe(&file, "a/lock");
        // Some file systems have other numbers in the table than they tell.
        let pid = rustix::process::getpid().as_raw_nonzero();
        assert!(words.contains(&format!("{pid} (")) || words.contains("fuser"), "{words}");
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
