//! What systemd is told.

use super::unix_sockets::socket_path;
use crate::support::{Program, Server, TIMEOUT, plain_command};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

/// A service manager's socket, with the next messages on it.
fn manager(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket
}

fn next(socket: &UnixDatagram) -> String {
    let mut message = [0; 512];
    let length = socket.recv(&mut message).unwrap();
    str::from_utf8(&message[..length]).unwrap().to_owned()
}

/// The next message that is no heartbeat.
fn next_other(socket: &UnixDatagram) -> String {
    std::iter::repeat_with(|| next(socket)).find(|message| message != "WATCHDOG=1").unwrap()
}

#[test]
fn service_manager_hears_of_start_reload_heartbeats_and_stop() {
    let (_dir, path) = socket_path();
    let socket = manager(&path);
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", ":0", "--log-format", "json"]);
    // Heartbeats every 10 ms.
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "20000");
    let mut server = Server::spawn(command);
    assert_eq!(next(&socket), "READY=1\nSTATUS=serving");
    for _ in 0..3 {
        assert_eq!(next(&socket), "WATCHDOG=1", "an idle loop sends heartbeats");
    }
    server.signal("HUP");
    let reloading = next_other(&socket);
    let moment = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(moment.parse::<u64>().unwrap() > 0);
    assert_eq!(next_other(&socket), "READY=1\nSTATUS=serving");
    server.signal("TERM");
    assert!(next_other(&socket).starts_with("STOPPING=1\n"));
    assert!(server.wait().success());
}

#[test]
fn watchdog_of_another_process_is_not_served_and_a_missing_manager_stops_nothing() {
    let (_dir, path) = socket_path();
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", ":0", "--log-format", "json"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "20000").env("WATCHDOG_PID", "1");
    let mut without_manager = Server::spawn(command);
    without_manager.wait_for_log("NOTIFY_SOCKET cannot be reached");
    without_manager.signal("TERM");
    assert!(without_manager.wait().success());
    let socket = manager(&path);
    let mut command = plain_command(Program::PATH);
    command.args(["serve", "--listen", ":0", "--log-format", "json"]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "20000").env("WATCHDOG_PID", "1");
    let mut server = Server::spawn(command);
    assert_eq!(next(&socket), "READY=1\nSTATUS=serving");
    server.signal("TERM");
    assert!(next(&socket).starts_with("STOPPING=1\n"));
    assert!(server.wait().success());
}
