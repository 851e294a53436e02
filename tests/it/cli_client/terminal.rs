//! `top` on a terminal: the alternate screen, keys, and everything as it was before.

use crate::support::{Program, Server, plain_command};
use std::process::Stdio;

/// Runs a program on a terminal of 80 columns and 24 lines. Each argument is a text that is waited
/// for, `=>`, and the keys that are sent then. Prints what was shown, and whether the terminal has
/// its former settings at the end.
const SCRIPT: &str = r"
import fcntl, os, pty, select, struct, subprocess, sys, termios, time
own, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
former = termios.tcgetattr(slave)
child = subprocess.Popen([sys.argv[1], 'top', '-d', '100ms'], stdin=slave, stdout=slave)
output, end, seen = b'', time.monotonic() + 60, 0
steps = [step.split('=>') for step in sys.argv[2:]]
while time.monotonic() < end and child.poll() is None:
    if select.select([own], [], [], 0.05)[0]:
        output += os.read(own, 65536)
    if steps and steps[0][0].encode() in output[seen:]:
        seen = len(output)
        os.write(own, steps.pop(0)[1].encode())
status = child.poll()
while select.select([own], [], [], 0.2)[0]:
    output += os.read(own, 65536)
child.kill()
child.wait()
sys.stdout.buffer.write(output)
print('status', status, 'steps', len(steps), 'same', termios.tcgetattr(slave) == former)
";

#[test]
fn top_takes_keys_and_leaves_the_terminal_as_it_was() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for queue in ["mail", "letters"] {
        client
            .send(&format!("{{\"request\":\"put\",\"queue\":\"{queue}\",\"job\":{{}},\"pri\":1}}"));
        client.receive();
    }
    let mut python = plain_command("python3");
    python.args(["-c", SCRIPT, Program::PATH, "letters=>?", "PageUp=>?", "mail=>/ett\r"]);
    // The filter has hidden the other queue once there is one.
    python.args([" 1/1 =>q"]);
    python.env("JOBCENTRE_URL", server.address.to_string()).env("TERM", "xterm");
    python.env_remove("NO_COLOR").env_remove("COLUMNS").env_remove("LINES");
    let Ok(output) = python.stdin(Stdio::null()).output() else {
        eprintln!("skipped: there is no python3 to make a terminal");
        return;
    };
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.ends_with("status 0 steps 0 same True\n"), "{shown:?}");
    assert!(shown.starts_with("\u{1b}[?1049h\u{1b}[?25l"), "{shown:?}");
    assert!(shown.contains("\u{1b}[?25h\u{1b}[?1049l"), "{shown:?}");
    assert!(shown.contains("\u{1b}[30;42m"), "the header has its colour: {shown:?}");
}
