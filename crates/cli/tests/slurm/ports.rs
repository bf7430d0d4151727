//! Ports that no other test takes: below the ephemeral ports of the kernel. A name that only one process can have
//! reserves each row of them for as long as it is in use.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// The first port, and how many rows of how many ports there are. The kernel hands out ports from 32768 on.
const FIRST: u16 = 21_000;
const N_ROWS: u16 = 200;
const ROW: u16 = 10;

/// A row of ports. Given back when dropped.
pub struct Ports {
    ports: Vec<u16>,
    /// Holds the row: an abstract name goes with its socket, whatever ends the process.
    _held: UnixListener,
}

impl Ports {
    /// Takes a row of which at least so many are free.
    pub fn take(n: usize) -> Ports {
        for row in 0..N_ROWS {
            let name = SocketAddr::from_abstract_name(format!("entrepot-test-ports-{row}")).expect("a name");
            let Ok(held) = UnixListener::bind_addr(&name) else { continue };
            let first = FIRST + row * ROW;
            let free = |port: &u16| TcpListener::bind(("0.0.0.0", *port)).is_ok();
            let ports: Vec<u16> = (first..first + ROW).filter(free).take(n).collect();
            if ports.len() == n {
                return Ports { ports, _held: held };
            }
        }
        panic!("no row of {n} free ports from {FIRST} on")
    }

    /// All ports of the row.
    pub fn all(&self) -> &[u16] {
        &self.ports
    }
}
