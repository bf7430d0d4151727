//! Ports of loopback for servers that cannot choose one themselves.

use std::net::TcpStream;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// First port of the range, below the ephemeral ports: no outgoing connection takes a port between the check and the
/// server's start, and no connection to a port can be to itself.
const FROM: u16 = 10_000;
const EACH: u16 = 100;

/// A port without a listener that this process returns only once.
///
/// The check connects. A listener of its own would live on in each child that another thread forks meanwhile, until
/// that child calls `exec`: the caller would reach this listener and believe that the server has started.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = FROM + (std::process::id() % 200) as u16 * EACH;
    loop {
        let port = first + GIVEN.fetch_add(1, Relaxed) % EACH;
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            return port;
        }
    }
}
