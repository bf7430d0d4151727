//! Ports of loopback for servers that can't be told to choose one themselves.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// Below those that systems give to whoever connects: nobody's connection takes one between this look and the server's start,
/// and a connection to one can't be to itself.
const FROM: u16 = 10_000;
const EACH: u16 = 100;

/// A port that nobody listens at and that this process gives to nobody else.
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
