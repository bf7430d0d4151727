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
pub use watched::{Gauges, Health};

use crate::adapt::burst::Burst;
use crate::adapt::{self, Adapt};
use crate::admission::Admission;
use crate::cache::BlockCache;
use crate::calls::{self, Calls};
use crate::control::{Binding, Caller, Handler, Server, ServerOptions, device_of, socket_of};
use crate::durable_names::DurableNames;
use crate::events::Events;
use crate::file::{Cluster, File, FileTable, Garbage, Pool, SAID_EVERY};
use crate::host;
use crate::mount::{Mount, MountError, Openers, Options, Parts};
use crate::mover::Mover;
use crate::namespace::Namespace;
use crate::nodes::Nodes;
use crate::places::Places;
use crate::recovery::{Checker, Repair, Tally, Together};
use crate::source::Opener;
use crate::stage::Stager;
use crate::state::State;
use crate::volume::{Config, FileServers, Problem, Problems, Volume};
use background::Background;
use maintenance::Maintenance;
use parking_lot::Mutex;
use policy::maintenance::Task;
use policy::protect::recovery;
use policy::volume::StripesConfig;
use policy::{ObjectId, TargetId, Time};
use rustix::fs::{Mode, OFlags, openat};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Maximum of concurrent checks of ordinary users; one user may have half of them. Each check may hold the names of
/// all objects.
const CHECKS_MAX: u64 = 6;

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
    /// Requests that nodes serve for each other, where there may be several.
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
    started: Instant,
    rates: dashboard::History,
    clock: clock::Clock,
    /// Accounts of users and jobs.
    pub accounts: Accounts,
    quotas: Arc<quotas::Keeper>,
}

impl Core {
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

/// A daemon that serves its mount, but no command yet: requests wait until [`Starting::serve`].
pub struct Starting {
    daemon: Daemon<Binding>,
}

/// A running daemon, with its control socket.
pub struct Daemon<S = Server> {
    core: Arc<Core>,
    mount: Arc<Mount>,
    control: S,
    ending: Arc<Ending>,
}

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
        let stripes = adapt::striping(&config)?;
        let volume = Arc::new(Volume::open(config, servers)?);
        let events = Arc::new(Events::default());
        events.know_owners(volume.tree().try_clone_to_owned().map_err(|e| problem(&e))?);
        let maintenance = Maintenance::new(volume.config().purge.every);
        let background = Background::new(volume.stats().clone(), events.clone(), maintenance.clone());
        let pool = pool(&volume, background.clone(), events).map_err(|e| problem(&e))?;
        start_cache(&volume, &pool)?;
        let nodes = nodes(&volume, &pool, mount_point).map_err(|e| problem(&e))?;
        let files = FileTable::new(pool.clone(), volume.config().namespace.clone());
        let places = places(&volume, &maintenance).map_err(|e| problem(&e))?;
        drop(pool.places.set(places.clone()));
        let repair = repair(&volume, &pool, opener.clone()).map_err(|e| problem(&e))?;
        drop(pool.recovery.set(repair.clone()));
        let set = &volume.config().mover;
        let mover = Mover::new(pool.clone(), volume.state().clone(), (set.rate > 0).then_some(set.rate));
        let mover = Arc::new(mover.with_stats(volume.stats().clone()));
        let adapt = adapt(&volume, stripes, &files, &mover).map_err(|e| problem(&e))?;
        background.tell_of_replicas(adapt.replicas());
        let names =
            Arc::new(DurableNames::open(volume.state().clone(), pool.clone(), &host::boot()).map_err(|e| problem(&e))?);
        let alone = nodes.as_ref().is_none_or(|nodes| nodes.is_alone());
        let unclean = unclean::Unclean::begin(volume.state_dir());
        if crash::settle(&volume, &files, &mover, alone).map_err(|e| problem(&e))? > 0 {
            unclean.search();
            nodes.iter().for_each(|nodes| nodes.search_for_orphans_again());
        }
        if let Some(nodes) = &nodes {
            nodes.listen(&files);
        }
        let stager = Arc::new(Stager::new(volume.clone(), files.clone(), opener));
        let checker = Checker {
            volume: volume.clone(),
            files: files.clone(),
            repair: repair.clone(),
            mover: mover.clone(),
            starts: Arc::default(),
            behalf: None,
        };
        let together = nodes.as_ref().map(|nodes| together(nodes, &checker));
        let calls = nodes.as_ref().map(calls);
        if let Some(burst) = adapt.burst() {
            match nodes.as_ref().zip(calls.as_ref()) {
                Some((nodes, calls)) => share(burst, nodes, calls),
                None => burst.load(&adapt).map_err(|e| problem(&e))?,
            }
        }
        drop(pool.advisers.set(adapt.advisers()));
        let keeper = quotas(&volume, &pool).map_err(|e| problem(&e))?;
        // Directly before the new mount: in between, the mount point is an empty directory of the file system below.
        end::clear_dead_mount(mount_point);
        let mount = Arc::new(mount(&volume, &pool, &files, &stager, adapt.replicas().openers(), mount_point)?);
        let node = calls.as_ref().map_or("-", |calls| calls.own());
        let accounts = Accounts::new(node, volume.config().accounting.keep);
        let core = Arc::new(Core {
            accounts,
            quotas: keeper,
            mount_point: mount.path().to_path_buf(),
            nodes,
            calls,
            background: background.clone(),
            maintenance: maintenance.clone(),
            balancing: balance::Balancing::default(),
            started: Instant::now(),
            rates: dashboard::History::default(),
            clock: clock::Clock::new(),
            volume,
            pool,
            names,
            files,
            mover,
            repair,
            checker,
            together,
            checks: Admission::new(CHECKS_MAX, 0),
            stager,
            adapt,
            under_way: under_way::UnderWay::default(),
            needs: Mutex::default(),
            scrubs: Scrubs::default(),
            unclean,
            gauges: Mutex::default(),
        });
        background.start(&core);
        Scrubs::start(&core);
        balance::BALANCE.register(&core);
        requests::TIERING.register(&core);
        sums::start(&core);
        core.unclean.start(&core);
        Accounts::start(&core);
        quotas::Keeper::start(&core);
        if let Some(calls) = &core.calls {
            purge::InUse { files: core.files.clone(), stager: core.stager.clone() }.serve(calls);
        }
        if let Some(nodes) = &core.nodes {
            shutting_down::watch(nodes, &core);
            let pool = core.pool.clone();
            nodes.every(SAID_EVERY, "node-sizes", move |_| File::say_sizes(&pool));
            core.calls.iter().for_each(|calls| helping::help_each_other(nodes, calls, &core.stager));
            maintenance.want(Task::Left);
        }
        let tasks = Arc::downgrade(&core);
        maintenance.start(tasks);
        let (volume, files) = (core.volume.clone(), core.files.clone());
        core.adapt.start(&core.pool, move |look| walk::each_file(walk::walk(&volume, &files), look));
        let ending = Ending::new(mount.clone()).map_err(|e| problem(&e))?;
        match bind(&core, &ending) {
            Ok(control) => Ok(Starting { daemon: Daemon { core, mount, control, ending } }),
            Err(error) => {
                // Without a socket no command could end the daemon.
                drop(mount.abort());
                Err(no_socket(&error))
            }
        }
    }

    /// Parts of the daemon, for handlers that are registered from outside.
    pub fn core(&self) -> &Arc<Core> {
        &self.daemon.core
    }

    /// Registers further commands of the control socket.
    pub fn register(&mut self, prefix: &str, handler: Arc<dyn Handler>) {
        self.daemon.control.register(prefix, handler);
    }

    /// Serves the control socket, once all commands are registered.
    pub fn serve(self) -> Result<Daemon, Problems> {
        let Daemon { core, mount, control, ending } = self.daemon;
        match control.serve() {
            Ok(control) => Ok(Daemon { core, mount, control, ending }),
            Err(error) => {
                drop(mount.abort());
                Err(no_socket(&error))
            }
        }
    }

    /// Unmounts and ends everything in order.
    pub fn give_up(self) {
        drop(self.daemon.ending.unmount(true));
        end::finish(self.daemon, || ());
    }
}

impl Daemon {
    /// Parts of the daemon.
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

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

fn no_socket(error: &std::io::Error) -> Problems {
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

/// Records garbage in the state store.
struct InState(Arc<dyn State>);

impl Garbage for InState {
    fn remember(&self, target: TargetId, object: ObjectId) -> crate::Result<()> {
        self.0.garbage_add(&[(target, object)])
    }
}

fn pool(volume: &Arc<Volume>, background: Arc<Background>, events: Arc<Events>) -> crate::Result<Arc<Pool>> {
    let config = volume.config();
    let ids = volume.clone();
    // Object numbers come from memory; the state store is needed once in 2^32 numbers, and without it there is no
    // volume.
    let next_id = move || ids.next_id().expect("the state store gives a new epoch");
    Ok(Arc::new(Pool {
        mirror_writes: config.layout.mirror_writes,
        inline_bytes_max: config.layout.inline_max,
        inline_bytes_before: volume.inline_bytes_ever(),
        clock: Box::new(|| Time(now_ns())),
        garbage: Arc::new(InState(volume.state().clone())),
        lost: Arc::new(crate::losses::remembered(volume.state())?),
        observer: background,
        events,
        ..Pool::new(volume.targets().clone(), next_id, volume.placement())
    }))
}

/// Joins the other nodes, where there may be several.
fn nodes(volume: &Arc<Volume>, pool: &Pool, mount_point: &Path) -> crate::Result<Option<Arc<Nodes>>> {
    if !volume.config().is_shared() {
        return Ok(None);
    }
    let nodes = Nodes::join(volume, mount_point, pool.events.clone())?;
    drop(pool.cluster.set(nodes.clone()));
    nodes.share_looks(volume.targets());
    Ok(Some(nodes))
}

/// Sends requests to other nodes, and serves theirs.
fn calls(nodes: &Arc<Nodes>) -> Arc<Calls> {
    let calls = Calls::new(nodes.clone());
    let reader = Arc::downgrade(&calls);
    nodes.read_letters(calls::WORD, move |text| reader.upgrade().into_iter().for_each(|calls| calls.hear(text)));
    calls
}

/// Shares the burst buffer with all nodes.
fn share(burst: &Arc<Burst>, nodes: &Arc<Nodes>, calls: &Arc<Calls>) {
    burst.share(nodes.clone(), calls.clone());
    let burst = Arc::downgrade(burst);
    nodes.read_letters(adapt::burst::WORD, move |text| burst.upgrade().into_iter().for_each(|burst| burst.hear(text)));
}

/// Runs checks by all nodes, and takes part in those of other nodes.
fn together(nodes: &Arc<Nodes>, checker: &Checker) -> Arc<Together> {
    let together = Together::new(checker.clone(), nodes.clone());
    let reader = Arc::downgrade(&together);
    nodes.read_letters(crate::recovery::WORD, move |letter| {
        reader.upgrade().into_iter().for_each(|together| together.hear(letter))
    });
    together
}

/// Index from file numbers to paths of stubs.
fn places(volume: &Volume, maintenance: &Arc<Maintenance>) -> crate::Result<Arc<Places>> {
    let places = Places::open(&volume.state_dir().join("files.db"), &volume.config().namespace)?;
    let maintenance = maintenance.clone();
    places.write_on(Box::new(move |many| match many {
        true => maintenance.due(Task::Places, Duration::ZERO),
        false => maintenance.want(Task::Places),
    }));
    Ok(places)
}

/// Opens the quotas of the volume.
fn quotas(volume: &Volume, pool: &Pool) -> crate::Result<Arc<quotas::Keeper>> {
    let tree = std::fs::read_link(host::descriptor_path(volume.tree())).map_err(|_| rustix::io::Errno::NOENT)?;
    let records = volume.state().records(quotas::KIND)?;
    // Among several nodes, the leader decides.
    let alone = !volume.config().is_shared();
    Ok(quotas::Keeper::open(&pool.quotas, &records, &tree, ((pool.clock)(), alone)))
}

/// Starts the block cache, if `volume.toml` requests one.
fn start_cache(volume: &Volume, pool: &Pool) -> Result<(), Problems> {
    let config = volume.config();
    if let Some(level) = &config.cache.level {
        let cache = BlockCache::new(level.clone(), config.health.deadline)
            .map_err(|e| Problems::refused(e, "Correct `[cache]`"))?;
        volume.stats().attach_cache(&cache);
        drop(pool.cache.set(cache));
    }
    Ok(())
}

/// The mechanisms that adapt files to their load, as configured in `volume.toml`.
fn adapt(
    volume: &Arc<Volume>,
    stripes: StripesConfig,
    files: &Arc<FileTable>,
    mover: &Arc<Mover>,
) -> crate::Result<Arc<Adapt>> {
    let config = volume.config();
    let settings = adapt::Settings {
        tiering: config.tiering.clone(),
        stripes: config.stripes.sensors.then(|| config.stripes.clone()),
        replicas: config.replication.machine(0),
        devices: adapt::Devices::of(config),
        segment_bytes: config.layout.segment,
        concurrent: config.mover.concurrent,
    };
    let (state, stats) = (volume.state().clone(), volume.stats().clone());
    let burst = config.burst.fast.map(|_| volume.clone());
    let parts = adapt::Parts { files: files.clone(), mover: mover.clone(), state, stats, burst };
    let began = Instant::now();
    let clock = Box::new(move || Time(began.elapsed().as_nanos() as u64));
    Adapt::new(settings, config.stripes.sensors.then_some(stripes), parts, clock)
}

/// Nanoseconds since 1970.
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn repair(volume: &Volume, pool: &Arc<Pool>, opener: Arc<dyn Opener>) -> std::io::Result<Arc<Repair>> {
    let config = &volume.config().recovery;
    let config = recovery::Config {
        rows_per_key_max: config.concurrent.max(1),
        retries: config.retries,
        ..recovery::Config::default()
    };
    let side = volume.side().try_clone_to_owned()?;
    Ok(Repair::start(config, pool.clone(), opener, side, volume.stats().clone()))
}

fn mount(
    volume: &Arc<Volume>,
    pool: &Arc<Pool>,
    files: &Arc<FileTable>,
    stager: &Arc<Stager>,
    openers: Arc<dyn Openers>,
    mount_point: &Path,
) -> Result<Mount, Problems> {
    let config = volume.config();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let tree = openat(volume.tree(), c".", flags, Mode::empty()).map_err(|e| problem(&e))?;
    let mut namespace = Namespace::new(tree).map_err(|e| problem(&e))?.counting(pool.quotas.clone());
    if let Some(places) = pool.places.get() {
        namespace = namespace.telling(places.clone());
    }
    if config.is_shared() {
        namespace = namespace.shared();
    }
    let parts = Parts {
        namespace: Arc::new(namespace),
        files: files.clone(),
        pool: pool.clone(),
        targets: volume.targets().clone(),
        stats: volume.stats().clone(),
        tiers: config.tiers.clone(),
        sources: Arc::new(source_attribute::SourceAttribute { stager: stager.clone() }),
        openers: Some(openers),
    };
    let state = volume.state_dir().canonicalize().unwrap_or_else(|_| volume.state_dir().to_path_buf());
    // Changes of names and attributes by other nodes must be visible at once.
    let remembered = |span| if config.is_shared() { Duration::ZERO } else { span };
    let options = Options {
        threads: config.mount.threads,
        entry_timeout: remembered(config.mount.entry_timeout),
        attr_timeout: remembered(config.mount.attr_timeout),
        allow_other: config.mount.allow_other,
        passthrough: config.mount.passthrough,
        io: config.mount.io,
        name: device_of(&config.name, &state),
        descriptors_max: crate::descriptors::raise(),
        ..Options::default()
    };
    Mount::start(parts, options, mount_point).map_err(|e| {
        let rebuild = match e {
            MountError::Mountpoint { .. } => "Give an empty directory of yours with --at",
            _ => "Look whether /dev/fuse is there and fusermount3 is installed, and who may mount",
        };
        Problems::one(Problem::new(e.to_string(), "the volume is not mounted", rebuild))
    })
}
