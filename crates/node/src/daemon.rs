//! The daemon: one volume, opened, mounted and served, from its start to its clean end.
//!
//! ```text
//! start:  open volume | settle what a crash left | repair, mover, staging | mount | control socket | jobs | serve the socket
//! end:    unmount (refused while in use) | jobs | control socket | repair, mover | settle files | targets, state
//! ```
//!
//! No step of the end waits without bound: a step that hangs is abandoned and ends with the process.

mod accounting;
mod background;
mod balance;
pub(crate) mod checking;
mod clock;
mod crash;
mod dashboard;
mod end;
mod forget;
mod helping;
mod led;
mod left;
mod maintenance;
mod memory;
mod parts;
mod purge;
mod quotas;
mod rebuild;
mod requests;
mod resolve;
mod scrub;
mod shutting_down;
mod source_attribute;
mod space;
mod sums;
mod unclean;
mod under_way;
mod users;
mod walk;
mod watched;

pub use accounting::{Accounts, JobFacts, JobNow, OwnersOf};
pub use end::Ending;
pub use purge::{Needs, PurgeReport, Purged, RuleSum};
pub use scrub::Scrubs;
pub use space::Users;
pub use watched::{Gauges, Health};

use crate::adapt::Adapt;
use crate::calls::Calls;
use crate::control::{Binding, Caller, Handler, Server, ServerOptions, socket_of};
use crate::mount::Mount;
use crate::nodes::Nodes;
use background::Background;
use engine::durable_names::DurableNames;
use engine::file::{Cluster, FileTable, Pool};
use engine::mover::Mover;
use engine::recovery::{Checker, Repair, Tally, Together};
use engine::source::Opener;
use engine::stage::Stager;
use engine::volume::{Config, FileServers, Problem, Problems, Volume};
use maintenance::Maintenance;
use object::admission::Admission;
use parking_lot::Mutex;
use policy::maintenance::Task;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The parts of a running volume, shared by all request handlers.
pub struct Core {
    /// The volume, opened.
    pub volume: Arc<Volume>,
    /// State that all files share.
    pub pool: Arc<Pool>,
    /// Record of the objects whose names are durable.
    pub names: Arc<DurableNames>,
    /// The files in use.
    pub files: Arc<FileTable>,
    /// The part that moves bytes.
    pub mover: Arc<Mover>,
    /// Recovery of lost bytes.
    pub repair: Arc<Repair>,
    /// Checks for lost data.
    pub checker: Checker,
    /// Checks by all nodes, where there may be several.
    pub together: Option<Arc<Together>>,
    /// Admission of checks for ordinary users.
    checks: Arc<Admission>,
    /// Staging in and out.
    pub stager: Arc<Stager>,
    /// Adapts files to their load: burst buffer, tiers, stripes and replicas.
    pub adapt: Arc<Adapt>,
    /// Progress of running stagings.
    pub under_way: under_way::UnderWay,
    /// Mount point of the volume.
    pub mount_point: PathBuf,
    /// The nodes of the volume, where there may be several.
    pub nodes: Option<Arc<Nodes>>,
    /// Calls between nodes, where there may be several.
    pub calls: Option<Arc<Calls>>,
    /// Sources of the files that jobs need.
    needs: Mutex<Vec<Needs>>,
    scrubs: Scrubs,
    unclean: unclean::Unclean,
    /// Sources of further metrics.
    gauges: Mutex<Vec<Gauges>>,
    background: Arc<Background>,
    maintenance: Arc<Maintenance>,
    balancing: balance::Balancing,
    shutting_down: Mutex<shutting_down::Progress>,
    started: Instant,
    rates: dashboard::History,
    clock: clock::Clock,
    /// Accounts of users and jobs.
    pub accounts: Accounts,
    quotas: Arc<quotas::Keeper>,
}

impl Core {
    /// Starts the background work, and serves other nodes.
    fn start(self: &Arc<Core>) {
        self.background.start(self);
        Scrubs::start(self);
        balance::BALANCE.register(self);
        requests::TIERING.register(self);
        sums::start(self);
        self.unclean.start(self);
        Accounts::start(self);
        quotas::Keeper::start(self);
        if let Some(calls) = &self.calls {
            purge::serve(calls, self.files.clone(), self.stager.clone());
        }
        if let Some(nodes) = &self.nodes {
            self.calls.iter().for_each(|calls| helping::help_each_other(nodes, calls, &self.stager));
            for task in [Task::Left, Task::Sizes, Task::Locks, Task::Shutdown] {
                self.maintenance.want(task);
            }
        }
        let tasks = Arc::downgrade(self);
        self.maintenance.start(tasks);
        let (volume, files) = (self.volume.clone(), self.files.clone());
        self.adapt.start(move |look| walk::each_file(walk::walk(&volume, &files), look));
    }

    /// Whether this node runs background work (the leader does).
    pub fn acts(&self) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.leads())
    }

    /// Recoveries that began in that span (milliseconds since 1970), as far as recorded, of files at or below `paths`
    /// that the caller may reach. Each has the file's path.
    pub fn recoveries(&self, caller: &Caller, paths: &[String], from_ms: u64, to_ms: u64) -> Vec<(String, Arc<Tally>)> {
        let mut tallies = self.repair.tallies();
        tallies.retain(|t| (from_ms..=to_ms).contains(&(t.began_ns / 1_000_000)));
        if tallies.is_empty() {
            return Vec::new();
        }
        let files = paths.iter().flat_map(|path| self.checker.files_below(path)).collect::<BTreeMap<_, _>>();
        let of = |tally: Arc<Tally>| {
            let path = files.get(&tally.key.file)?;
            self.may_see(caller, path).is_ok().then(|| (path.clone(), tally))
        };
        tallies.into_iter().filter_map(of).collect()
    }
}

/// A running daemon, with its control socket.
pub struct Daemon<S = Server> {
    core: Arc<Core>,
    mount: Arc<Mount>,
    control: S,
    ending: Arc<Ending>,
}

/// A daemon that serves its mount, but no command yet: requests wait until [`Starting::serve`].
pub type Starting = Daemon<Binding>;

impl Starting {
    /// Opens the volume, settles the leftovers of a crash, mounts it and binds the control socket. The configuration
    /// and the mount point are checked before anything is changed.
    pub fn new(
        config: Config,
        mount_point: &Path,
        opener: Arc<dyn Opener>,
        servers: &dyn FileServers,
    ) -> Result<Starting, Problems> {
        end::check_mount_point(mount_point, &config)?;
        let (core, mount) = parts::assemble(config, mount_point, opener, servers)?;
        core.start();
        let ending = Ending::new(mount.clone()).map_err(|e| problem(&e))?;
        let control = bind(&core, &ending).map_err(|error| no_socket(&mount, &error))?;
        Ok(Daemon { core, mount, control, ending })
    }

    /// Registers further commands of the control socket.
    pub fn register(&mut self, prefix: &str, handler: Arc<dyn Handler>) {
        self.control.register(prefix, handler);
    }

    /// Serves the control socket, once all commands are registered.
    pub fn serve(self) -> Result<Daemon, Problems> {
        let Daemon { core, mount, control, ending } = self;
        let control = control.serve().map_err(|error| no_socket(&mount, &error))?;
        Ok(Daemon { core, mount, control, ending })
    }

    /// Unmounts and ends everything in order.
    pub fn give_up(self) {
        drop(self.ending.unmount(true));
        end::finish(self, || ());
    }
}

impl<S> Daemon<S> {
    /// Parts of the daemon, for handlers that are registered from outside.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Daemon {
    /// Mount point of the volume.
    pub fn mount_point(&self) -> &Path {
        self.mount.path()
    }

    /// Handle that ends the daemon.
    pub fn ending(&self) -> &Arc<Ending> {
        &self.ending
    }

    /// Waits until the volume is unmounted by any means; then calls `stop_jobs` and ends everything in order.
    pub fn run(self, stop_jobs: impl FnOnce() + Send + 'static) {
        self.ending.wait();
        end::finish(self, stop_jobs);
    }
}

fn problem(cause: &impl ToString) -> Problems {
    let problem = Problem::new(cause.to_string(), "the volume is not mounted", "Mend that and start it again");
    Problems::one(problem.failed())
}

/// Without a socket no command could end the daemon, so its mount ends.
fn no_socket(mount: &Mount, error: &std::io::Error) -> Problems {
    drop(mount.abort());
    problem(&format!("the control socket cannot be made: {error}"))
}

fn bind(core: &Arc<Core>, ending: &Arc<Ending>) -> std::io::Result<Binding> {
    let everybody = core.volume.config().mount.allow_other.unwrap_or(rustix::process::geteuid().is_root());
    if everybody {
        // Other users must reach the socket; the other files here are protected by their own modes.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(core.volume.state_dir(), mode)?;
    }
    let socket = socket_of(core.volume.state_dir());
    let mut binding = Binding::new(&socket, ServerOptions { everybody, ..ServerOptions::default() })?;
    requests::register(&mut binding, core, ending);
    Ok(binding)
}

/// Nanoseconds since 1970.
fn now_ns() -> u64 {
    object::since_1970().as_nanos() as u64
}
