//! `entrepot-lab sim connections`: several connections to one server, as a closed network of queues.

use super::words::{rate, size, span};
use crate::failure::Result;
use crate::table::{self, Answer, Output, column};
use clap::Args;
use node::control::Problem;
use policy::connections::{CONNECTIONS_MAX, Direction, Policy};
use policy::time::Time;
use serde_json::json;
use sim::connections::{Figures, Load, Path, Server, run};
use sim::grid::side_by_side;

/// Threads that write or read over several connections to one server, by the policies of `entrepot connect`
///
/// A closed network of queues: client processes, sockets, the network, server daemons, locks of inodes and devices. The
/// defaults are the first environment of Sung's thesis.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab sim connections
  entrepot-lab sim connections --read --depth 16 --connections 1,2,4,8 --daemons 2
  entrepot-lab sim connections --path server --socket 600 --device 600 --devices 5")]
pub struct Connections {
    /// Policies: single, multiple, automatic, load.
    #[arg(long, value_delimiter = ',', default_value = "single,multiple,load")]
    policies: Vec<Policy>,
    /// Numbers of connections.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_name = "N")]
    connections: Vec<u16>,
    /// Server daemons, to which connections are spread.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    daemons: u32,
    /// Threads, each with a file of its own.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: u32,
    /// Requests of a thread under way at once: 1 is synchronous.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    depth: u32,
    /// Size of a request.
    #[arg(long, default_value = "128KiB", value_name = "SIZE", value_parser = size)]
    size: u64,
    /// Read instead of writing.
    #[arg(long)]
    read: bool,
    /// Point at which requests turn back: local (the device, without a network), client (the client process), socket
    /// (the sockets, without processes), server (the server daemon), full (the device behind the server).
    #[arg(long, default_value = "full")]
    path: Path,
    /// MB/s of a client process.
    #[arg(long, default_value_t = 3200.0, value_name = "MB/S", value_parser = rate)]
    client: f64,
    /// MB/s of a socket's thread.
    #[arg(long, default_value_t = 1800.0, value_name = "MB/S", value_parser = rate)]
    socket: f64,
    /// MB/s of the network.
    #[arg(long, default_value_t = 12_500.0, value_name = "MB/S", value_parser = rate)]
    link: f64,
    /// MB/s of a server daemon.
    #[arg(long, default_value_t = 6000.0, value_name = "MB/S", value_parser = rate)]
    daemon: f64,
    /// MB/s of a device.
    #[arg(long, default_value_t = 1700.0, value_name = "MB/S", value_parser = rate)]
    device: f64,
    /// Number of devices.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    devices: u32,
    /// Delay of an exchange in which no part is busy.
    #[arg(long, default_value = "120us", value_name = "TIME", value_parser = span)]
    turn: Time,
    /// Time to take a free lock of an inode.
    #[arg(long, default_value = "10us", value_name = "TIME", value_parser = span)]
    lock: Time,
    /// Additional time to take it, for each worker of the server that waits for any lock.
    #[arg(long, default_value = "3.5us", value_name = "TIME", value_parser = span)]
    handover: Time,
    /// The server's sockets share one core.
    #[arg(long)]
    shared_core: bool,
    /// Requests of all threads.
    #[arg(long, default_value_t = 20_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    requests: u64,
    /// Seed of the service times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Figures of a policy over some connections.
struct Row {
    policy: Policy,
    connections: u16,
    got: Figures,
}

impl Connections {
    pub fn answer(&self) -> Result<Answer> {
        if let Some(n) = self.connections.iter().find(|n| !(1..=CONNECTIONS_MAX).contains(*n)) {
            let problem = Problem::wrong(format!("{n} connections are not from 1 to {CONNECTIONS_MAX}"));
            return Err(problem.so("nothing was simulated").try_this("give other --connections").into());
        }
        let (server, load) = (self.server(), self.load());
        let cells: Vec<(Policy, u16)> =
            self.policies.iter().flat_map(|policy| self.connections.iter().map(|n| (*policy, *n))).collect();
        let done = side_by_side(&cells, None, |&(policy, n)| run(&server, &load, policy, n, self.daemons as usize));
        let row = |(&(policy, connections), got): (&(Policy, u16), Figures)| Row { policy, connections, got };
        let rows: Vec<Row> = cells.iter().zip(done).map(row).collect();
        let columns = [
            column("policy", |of: &Row| of.policy.to_string()).shown("policy", 0),
            column("connections", |of: &Row| u32::from(of.connections)).shown("connections", 0),
            column("mb_s", |of: &Row| of.got.mb_s).digits(1).shown("MB/s", 0),
            column("lock_us", |of: &Row| of.got.lock_us).digits(2).shown("lock us", 1),
        ];
        let json = || json!({ "cells": table::json(&columns, &rows) });
        Ok(table::answer(self.output, &columns, &rows, || table::text(&columns, &rows), json))
    }

    fn server(&self) -> Server {
        Server {
            client: self.client * 1e6,
            socket: self.socket * 1e6,
            link: self.link * 1e6,
            daemon: self.daemon * 1e6,
            device: self.device * 1e6,
            devices: self.devices as usize,
            turn: self.turn,
            lock: self.lock,
            handover: self.handover,
            shared_core: self.shared_core,
        }
    }

    fn load(&self) -> Load {
        Load {
            threads: self.threads as usize,
            depth: self.depth as usize,
            bytes: self.size,
            direction: if self.read { Direction::Read } else { Direction::Write },
            requests: self.requests,
            path: self.path,
            seed: self.seed,
        }
    }
}
