//! An MPI program with ranks on all hosts: they write records of one file by MPI-IO and read what others wrote, while a
//! target is emptied, too.

use crate::hosts::{Host, Hosts, hosts};
use crate::real::err;
use crate::space::Lines;
use crate::volume::{Node, Shared, are_in_order};
use crate::writers::RECORD;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/mpi.c");
const RANKS: usize = 4;
const RECORDS: &str = "20";
/// Wherever it can, ROMIO reads, changes and writes what lies between the records of a rank, under a lock of all nodes.
const ROMIO_HINTS: &str = "romio_ds_write enable\n";
/// When `mpirun` ends all ranks by itself.
const RUN_SECONDS: &str = "100";
/// When it is ended; the ranks end with it.
const RUN: Duration = Duration::from_secs(120);

/// The program, and what `mpirun` starts it with in place of ssh.
struct Mpi<'a> {
    hosts: &'a Hosts,
    dir: tempfile::TempDir,
}

impl Mpi<'_> {
    /// Builds the program; `None` after a message if a tool is missing.
    fn build(hosts: &Hosts) -> Option<Mpi<'_>> {
        for tool in ["mpicc.openmpi", "mpirun.openmpi", "orted"] {
            if !Path::new("/usr/bin").join(tool).exists() {
                eprintln!("skipped: {tool} is not installed (scripts/setup.sh test installs it)");
                return None;
            }
        }
        let mpi = Mpi { hosts, dir: tempfile::tempdir().expect("a directory") };
        let built = Command::new("mpicc.openmpi")
            .args(["-Wall", "-O1", "-o", &mpi.path("mpi"), PROGRAM])
            .output()
            .expect("mpicc");
        assert!(built.status.success(), "{}", err(&built));
        std::fs::write(mpi.path("hints"), ROMIO_HINTS).expect("write");
        let pid = |host: &Host| format!("{}) pid={} ;;\n", host.address(), host.pid());
        let pids: String = hosts.hosts.iter().map(pid).collect();
        let launch = format!(
            "#!/bin/bash\ncase $1 in\n{pids}esac\nshift\nexec nsenter -t \"$pid\" -m -n -u -p -- sh -c \"$*\"\n"
        );
        std::fs::write(mpi.path("launch"), launch).expect("write");
        std::fs::set_permissions(mpi.path("launch"), PermissionsExt::from_mode(0o755)).expect("chmod");
        Some(mpi)
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("UTF-8").into()
    }

    /// Starts it in the network of the server, where no rank is.
    fn start(&self, io: &str, words: &[&str]) -> Run {
        let network = format!("{}/24", self.hosts.server.address());
        let places: Vec<String> = self.hosts.hosts.iter().map(|host| format!("{}:{RANKS}", host.address())).collect();
        let (server, ranks, hints) = (self.hosts.server.pid().to_string(), RANKS.to_string(), self.path("hints"));
        let said = std::fs::File::create(self.path("stderr")).expect("a file");
        let mut command = Command::new("nsenter");
        command.args(["-t", &server, "-n", "--", "mpirun.openmpi", "--allow-run-as-root", "--timeout", RUN_SECONDS]);
        for (name, value) in [
            ("plm_rsh_agent", &*self.path("launch")),
            ("plm_rsh_no_tree_spawn", "1"),
            ("orte_tmpdir_base", &self.path("")),
            ("oob_tcp_if_include", &network),
            ("pml", "ob1"),
            ("btl", "tcp,self"),
            ("btl_tcp_if_include", &network),
            ("mpi_yield_when_idle", "1"),
            ("io", io),
        ] {
            command.args(["--mca", name, value]);
        }
        command.args(["-x", &format!("ROMIO_HINTS={hints}"), "--host", &places.join(","), "-n", &ranks]);
        // The next rank is on the next host.
        command.args(["--map-by", "node", "--bind-to", "none"]);
        command.arg(self.path("mpi")).args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
        let mut process = command.spawn().expect("nsenter");
        let lines = Lines::of(process.stdout.take().expect("piped"));
        Run { process, lines, stderr: self.path("stderr"), ends: Instant::now() + RUN }
    }
}

/// A run, which is ended when it is not over in time.
struct Run {
    process: Child,
    lines: Lines,
    stderr: String,
    ends: Instant,
}

impl Run {
    fn complaints(&self) -> String {
        std::fs::read_to_string(&self.stderr).expect("read")
    }

    /// Next line of output of rank 0.
    #[track_caller]
    fn says(&self) -> String {
        let line = self.lines.next(self.ends.saturating_duration_since(Instant::now()));
        line.unwrap_or_else(|| panic!("it said nothing more: {}", self.complaints()))
    }

    /// Waits for its end; how many rounds there were.
    #[track_caller]
    fn rounds(mut self) -> usize {
        let line = self.says();
        let rounds =
            line.strip_prefix(&format!("{RANKS} ranks, ")).and_then(|line| line.strip_suffix(" rounds, 0 wrong"));
        let rounds =
            rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or_else(|| panic!("{line}\n{}", self.complaints()));
        while Instant::now() < self.ends {
            if let Some(status) = self.process.try_wait().expect("wait") {
                assert!(status.success(), "{status}: {}", self.complaints());
                return rounds;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("all was written, and it does not end: {}", self.complaints());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// A round in each way to write, each a file of its own.
fn rounds(mpi: &Mpi<'_>, nodes: &[Node<'_>], io: &str) {
    for (how, bytes) in [("independent", RECORD), ("collective", RECORD), ("strided", RECORD), ("strided", 1000)] {
        let began = Instant::now();
        let file = format!("{}/{io}-{how}-{bytes}", nodes[0].at);
        assert_eq!(mpi.start(io, &[&file, &bytes.to_string(), RECORDS, how]).rounds(), 1);
        println!("{io}, {how}, {bytes} bytes: {RANKS} ranks on {} hosts in {:.1?}", nodes.len(), began.elapsed());
    }
}

/// Rounds from before a target is emptied until after it.
fn emptied(mpi: &Mpi<'_>, nodes: &[Node<'_>], io: &str, how: &str, target: &str) {
    let (file, stop) = (format!("{}/{io}-emptied", nodes[0].at), nodes[0].local(&format!("mpi-{io}.stop")));
    let run = mpi.start(io, &[&file, &RECORD.to_string(), RECORDS, how, &stop]);
    assert_eq!(run.says(), "round 1");
    let began = Instant::now();
    nodes[1].empties(target);
    let long = began.elapsed();
    std::fs::write(nodes[0].host.path(&stop), "").expect("told");
    let rounds = run.rounds();
    assert!(rounds > 1, "nothing was written while {target} was emptied");
    nodes[2].ok(&["target", "restore", target]);
    println!("{io}, {how}: {rounds} rounds, {target} was empty after {long:.1?}");
}

/// [S-201] [S-203] [S-217]
#[test]
fn ranks_on_all_hosts_write_one_file() {
    let Some(hosts) = hosts() else { return };
    let Some(mpi) = Mpi::build(&hosts) else { return };
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    // The two that Open MPI has.
    for (io, how, target) in [("ompio", "collective", "target1"), ("romio321", "independent", "target2")] {
        rounds(&mpi, &nodes, io);
        emptied(&mpi, &nodes, io, how, target);
    }
    are_in_order(&nodes);
}
