//! An MPI program with ranks on all hosts writes records of one file by MPI-IO, and reads what others wrote.

use crate::hosts::{Host, Hosts, hosts};
use crate::real::{err, out};
use crate::volume::{Shared, are_in_order};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const RECORDS: &str = "20";
const RANKS: usize = 4;
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/mpi.c");
/// Without this an independent write with gaps reads, changes and writes what lies between, under a lock that holds on one node only.
const HINTS: &str = "romio_ds_write disable\n";

/// The program, and what `mpirun` starts it with in place of ssh.
struct Mpi<'a> {
    hosts: &'a Hosts,
    dir: tempfile::TempDir,
}

impl Mpi<'_> {
    /// Builds it, or says why not.
    fn build(hosts: &Hosts) -> Option<Mpi<'_>> {
        for tool in ["mpicc.mpich", "mpirun.mpich"] {
            if !Path::new("/usr/bin").join(tool).exists() {
                eprintln!("skipped: {tool} is not installed (scripts/setup.sh test installs it)");
                return None;
            }
        }
        let mpi = Mpi { hosts, dir: tempfile::tempdir().expect("a directory") };
        let built = Command::new("mpicc.mpich").args(["-O1", "-o", &mpi.path("mpi"), PROGRAM]).output().expect("mpicc");
        assert!(built.status.success(), "{}", err(&built));
        std::fs::write(mpi.path("hints"), HINTS).expect("write");
        let pid = |host: &Host| format!("{}) pid={} ;;\n", host.address(), host.pid());
        let pids: String = hosts.hosts.iter().map(pid).collect();
        // They poll without a pause, and would take the processors from daemons.
        let launch = format!(
            "#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\ncase $1 in\n{pids}esac\nshift\n\
             exec nsenter -t \"$pid\" -m -n -u -p -- nice -n 19 sh -c \"$*\"\n"
        );
        std::fs::write(mpi.path("launch"), launch).expect("write");
        std::fs::set_permissions(mpi.path("launch"), PermissionsExt::from_mode(0o755)).expect("chmod");
        Some(mpi)
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").into()
    }

    /// Runs it, from the server: `mpirun` starts what is on its own host without a launcher.
    fn run(&self, words: &[&str]) -> Output {
        let hosts: Vec<String> = self.hosts.hosts.iter().map(Host::address).collect();
        let (server, ranks) = (self.hosts.server.pid().to_string(), RANKS.to_string());
        let mut command = Command::new("nsenter");
        command.args(["-t", &server, "-n", "--", "timeout", "-s", "KILL", "120", "mpirun.mpich", "-iface", "eth0"]);
        command.args(["-launcher", "ssh", "-launcher-exec", &self.path("launch"), "-hosts", &hosts.join(",")]);
        command.args(["-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"]);
        command.args(["-genv", "ROMIO_HINTS", &self.path("hints"), "-n", &ranks, &self.path("mpi")]);
        command.args(words).stdin(Stdio::null()).output().expect("nsenter")
    }
}

/// [S-201]
#[test]
fn ranks_on_all_hosts_write_one_file() {
    let Some(hosts) = hosts() else { return };
    let Some(mpi) = Mpi::build(&hosts) else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    for how in ["independent", "collective", "strided"] {
        let began = std::time::Instant::now();
        let done = mpi.run(&[&format!("{}/mpi-{how}", nodes[0].at), RECORDS, how]);
        assert!(done.status.success(), "{how}: {:?}: {}{}", done.status, out(&done), err(&done));
        assert_eq!(out(&done), format!("{RANKS} ranks, 0 wrong\n"), "{how}");
        println!("{how}: {RANKS} ranks on {} hosts in {:.1?}", nodes.len(), began.elapsed());
    }
    are_in_order(&nodes);
}
