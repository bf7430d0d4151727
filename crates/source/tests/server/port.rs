//! Ports of loopback for servers that cannot choose one themselves.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// First port of the range, below the ephemeral ports: no outgoing connection takes a port between the check and the
/// server's start, and no connection to a port can be to itself.
const FROM: u16 = 10_000;
const EACH: u16 = 100;

/// A port without a listener that this process returns only once.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU16 = AtomicU16::new(0);
    let first = FROM + (std::process::id() % 200) as u16 * EACH;
    loop {
        let port = first + GIVEN.fetch_add(1, Relaxed) % EACH;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
