//! The parts of a daemon: how each follows from `volume.toml`, and the order in which they are made.

use super::Accounts;
use super::background::Background;
use super::checking;
use super::maintenance::Maintenance;
use super::unclean::Unclean;
use super::{Core, Scrubs, balance, clock, crash, dashboard, end, now_ns, problem, quotas, under_way};
use crate::adapt::{self, Adapt, Uses};
use crate::calls::{Calls, SILENT};
use crate::control::device_of;
use crate::mount::{Mount, MountError, Options, Parts};
use crate::nodes::Nodes;
use engine::cache::BlockCache;
use engine::durable_names::DurableNames;
use engine::events::Events;
use engine::file::{FileTable, Lost, Pool};
use engine::mover::Mover;
use engine::recovery::{Checker, Repair};
use engine::source::Opener;
use engine::stage::Stager;
use engine::volume::{Config, FileServers, Names, Problem, Problems, Volume};
use meta::namespace::Namespace;
use meta::places::Places;
use object::admission::Admission;
use object::host;
use parking_lot::Mutex;
use policy::Time;
use policy::maintenance::Task;
use policy::protect::recovery;
use policy::volume::StripesConfig;
use rustix::fs::{Mode, OFlags, openat};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum of concurrent checks of ordinary users; at most half of it is for one user. Each check may hold the names of
/// all objects.
const CHECKS_MAX: u64 = 6;

/// Opens the volume, settles the leftovers of a crash and mounts it.
pub(super) fn assemble(
    config: Config,
    mount_point: &Path,
    opener: Arc<dyn Opener>,
    servers: &dyn FileServers,
) -> Result<(Arc<Core>, Arc<Mount>), Problems> {
    let stripes = adapt::striping(&config)?;
    let volume = Arc::new(Volume::open(config, servers)?);
    let events = events(&volume).map_err(|e| problem(&e))?;
    let maintenance = Maintenance::new(volume.config().purge.every);
    let background = Background::new(volume.stats().clone(), events.clone(), maintenance.clone());
    let pool = pool(&volume, background.clone(), events).map_err(|e| problem(&e))?;
    start_cache(&volume, &pool)?;
    let nodes = nodes(&volume, &pool, mount_point).map_err(|e| problem(&e))?;
    let files = FileTable::new(pool.clone(), volume.config().namespace.clone());
    drop(pool.places.set(places(&volume, &maintenance).map_err(|e| problem(&e))?));
    let repair = repair(&volume, &pool, opener.clone()).map_err(|e| problem(&e))?;
    drop(pool.recovery.set(repair.clone()));
    let mover = mover(&volume, &pool);
    let adapt = adapt(&volume, stripes, &files, &mover).map_err(|e| problem(&e))?;
    background.tell_of_replicas(adapt.replicas());
    let names =
        Arc::new(DurableNames::open(volume.state().clone(), pool.clone(), &host::boot()).map_err(|e| problem(&e))?);
    let unclean = settle(&volume, &files, &mover, nodes.as_ref()).map_err(|e| problem(&e))?;
    nodes.iter().for_each(|nodes| nodes.listen());
    let stager = Arc::new(Stager::new(volume.clone(), files.clone(), opener));
    let checker = Checker {
        volume: volume.clone(),
        files: files.clone(),
        repair: repair.clone(),
        mover: mover.clone(),
        starts: Arc::default(),
        behalf: None,
    };
    let calls = nodes.as_ref().map(calls).transpose().map_err(|e| problem(&e))?;
    let together = calls.as_ref().map(|calls| checking::together(&checker, calls, SILENT));
    share(&adapt, calls.as_ref()).map_err(|e| problem(&e))?;
    drop(pool.advisers.set(adapt.advisers()));
    let keeper = quotas(&volume, &pool).map_err(|e| problem(&e))?;
    // The dead mount is removed directly before the new mount, since the mount point is an empty directory in between.
    end::clear_dead_mount(mount_point);
    let mount = Arc::new(mount(&volume, &pool, &files, &stager, adapt.replicas().uses(), mount_point)?);
    let node = calls.as_ref().map_or("-", |calls| calls.own());
    let accounts = Accounts::new(node, volume.config().accounting.keep);
    let core = Arc::new(Core {
        accounts,
        quotas: keeper,
        mount_point: mount.path().to_path_buf(),
        nodes,
        calls,
        background,
        maintenance,
        balancing: balance::Balancing::default(),
        shutting_down: Mutex::default(),
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
    Ok((core, mount))
}

fn events(volume: &Volume) -> std::io::Result<Arc<Events>> {
    let events = Events::default();
    events.know_owners(volume.tree().try_clone_to_owned()?);
    Ok(Arc::new(events))
}

/// Settles the leftovers of a crash, and determines whether orphans must be searched.
fn settle(
    volume: &Volume,
    files: &Arc<FileTable>,
    mover: &Mover,
    nodes: Option<&Arc<Nodes>>,
) -> crate::Result<Unclean> {
    let unclean = Unclean::begin(volume.state_dir());
    if crash::settle(volume, files, mover, nodes.is_none_or(|nodes| nodes.is_alone()))? > 0 {
        unclean.search();
        files.pool().making.leave_behind();
    }
    Ok(unclean)
}

fn mover(volume: &Volume, pool: &Arc<Pool>) -> Arc<Mover> {
    let rate = volume.config().mover.rate;
    let mover = Mover::new(pool.clone(), volume.state().clone(), (rate > 0).then_some(rate));
    Arc::new(mover.with_stats(volume.stats().clone()))
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
        garbage: Some(volume.state().clone()),
        lost: Arc::new(Lost::remembered(volume.state())?),
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
    nodes.start_holds(pool)?;
    nodes.share_looks(volume.targets());
    Ok(Some(nodes))
}

/// Sends requests to other nodes, and serves theirs.
fn calls(nodes: &Arc<Nodes>) -> crate::Result<Arc<Calls>> {
    let calls = Calls::new(nodes.clone());
    let receiver = Arc::downgrade(&calls);
    nodes.connect(calls.threads(), move |from, packet| {
        if let Some(calls) = receiver.upgrade() {
            calls.handle(from, packet);
        }
    })?;
    Ok(calls)
}

/// Shares what adapts the volume with all nodes.
fn share(adapt: &Arc<Adapt>, calls: Option<&Arc<Calls>>) -> crate::Result<()> {
    calls.into_iter().for_each(|calls| adapt.share(calls));
    match (adapt.burst(), calls) {
        (Some(burst), Some(calls)) => burst.share(calls.clone()),
        (Some(burst), None) => burst.load(adapt)?,
        (None, _) => {}
    }
    Ok(())
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
    // Among several nodes, the leader decides.
    let alone = !volume.config().is_shared();
    quotas::Keeper::open(&pool.quotas, &**volume.state(), &tree, ((pool.clock)(), alone))
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
    uses: Uses,
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
        stats: volume.stats().clone(),
        tiers: config.tiers.clone(),
        sources: stager.clone(),
        uses: Some(uses),
    };
    let state = volume.state_dir().canonicalize().unwrap_or_else(|_| volume.state_dir().to_path_buf());
    // Changes of names and attributes by other nodes must be visible at once, but for names of directories if chosen.
    let remembered = |span| if config.is_shared() { Duration::ZERO } else { span };
    let caches = config.is_shared() && config.mount.names == Names::Cached;
    let options = Options {
        threads: config.mount.threads,
        entry_timeout: remembered(config.mount.entry_timeout),
        attr_timeout: remembered(config.mount.attr_timeout),
        directory_timeout: caches.then_some(config.mount.entry_timeout),
        allow_other: config.mount.allow_other,
        passthrough: config.mount.passthrough,
        io: config.mount.io,
        name: device_of(&config.name, &state),
        descriptors_max: object::descriptors::raise(),
        ..Options::default()
    };
    Mount::start(parts, options, mount_point).map_err(|e| {
        let rebuild = match e {
            MountError::Mountpoint { .. } => "Give an empty directory of yours with --at",
            _ => "Check that /dev/fuse exists, that fusermount3 is installed, and that you may mount",
        };
        Problems::one(Problem::new(e.to_string(), "the volume is not mounted", rebuild))
    })
}
