//! `entrepot up`: mounts a volume and serves it.

use crate::accounts_on_volume;
use crate::command::job::recognise;
use crate::connect::Context;
use crate::connections_in_numbers;
use crate::copies_on_volume;
use crate::dashboard::Dashboard;
use crate::failure::{Failure, Result};
use crate::inputs_on_volume;
use crate::jobs_in_numbers;
use crate::jobs_on_volume::JobsOnVolume;
use crate::promises_on_volume;
use crate::{log, served};
use ::connect::Servers;
use clap::Args;
use endpoint::{Endpoint, Listening};
use engine::volume::{self, Config};
use jobs::arrivals::Arrivals;
use jobs::known::KnownJobs;
use node::control::{ENVIRONMENT, Problem, socket_of};
use node::daemon::{Core, Daemon, Ending, Starting};
use policy::schedule::just_in_time;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terminal::signals;

/// Mount a volume and serve it
///
/// An empty namespace and empty targets are formatted. A bad configuration is refused before anything is changed.
/// Without `--detach` the daemon stays in the foreground and ends with Ctrl-C. A daemon of root serves all users, with
/// the permissions of the files; that of another user serves this user alone.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot up scratch/volume.toml --at /mnt/scratch
  entrepot up scratch/volume.toml --at /mnt/scratch --detach
  systemctl start entrepot@scratch     with /etc/entrepot/scratch.toml

ENVIRONMENT:
  ENTREPOT_LOG   levels, such as `info` or `engine=debug`; log in the background: STATE/daemon.log
  ENTREPOT_LOG_FORMAT   `text`, `json` (an object a line) or `journal` (priorities for systemd)")]
pub struct Up {
    /// `volume.toml` of the volume; default: that of `--volume` or ENTREPOT_VOLUME, else the one in the working
    /// directory.
    file: Option<PathBuf>,
    /// Mount point: an existing directory.
    #[arg(long, value_name = "MOUNTPOINT")]
    at: PathBuf,
    /// Continue in the background once it is mounted.
    #[arg(long)]
    detach: bool,
    /// This is the process in the background: its first line of output reports the start.
    #[arg(long, hide = true)]
    in_background: bool,
}

impl Up {
    pub fn run(self, context: &Context) -> Result<u8> {
        let file = self.file.clone().unwrap_or_else(|| context.file());
        if self.detach {
            return detach(&file, &self.at);
        }
        if !self.in_background {
            log::to_stderr()?;
        }
        let started = start(&file, &self.at, self.in_background);
        if self.in_background && started.is_ok() {
            // Called only after the mount: until then an automounter admits only its own process group to the mount
            // point. It fails only for a session leader, which needs no new session.
            let _ = rustix::process::setsid();
        }
        let running = served::announce(started, |running| running.daemon.mount_point(), self.in_background)?;
        if !self.in_background {
            tell_systemd("READY=1");
        }
        running.serve()
    }
}

/// Reports progress to systemd, if it started us and requested reports (sd_notify(3)).
fn tell_systemd(word: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&socket),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(word.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!("systemd was not notified of {word}: {error}");
    }
}

/// Starts the same program in the background, and waits for its report.
pub fn detach(file: &Path, at: &Path) -> Result<u8> {
    // Errors of the configuration are printed by this process, before a child is started.
    Config::load(file)?;
    let (file, at) = (std::path::absolute(file)?, std::path::absolute(at)?);
    let words = ["up".as_ref(), file.as_os_str(), "--at".as_ref(), at.as_os_str(), "--in-background".as_ref()];
    served::detached(words, "the volume", "see STATE/daemon.log, or run it without --detach to see its log here")
}

/// A volume that is mounted, with its jobs.
struct Running {
    daemon: Daemon,
    endpoint: Option<Endpoint>,
    jobs: Jobs,
    servers: Servers,
}

/// Servers of the jobs of a volume.
struct Jobs {
    runner: Arc<jobs::runner::Runner>,
    slurm: Arc<jobs::slurm::Slurm>,
    replication: Arc<jobs::replication::Replication>,
    availability: jobs::availability::Guard,
    arrivals: Arc<Arrivals>,
}

fn start(file: &Path, at: &Path, background: bool) -> Result<Running> {
    let config = Config::load(file)?;
    config.make_state_dir().map_err(|e| Failure::of_io(&config.state.display().to_string(), &e))?;
    if background {
        log::to_file(&config.state.join("daemon.log"))?;
    }
    let own = [config.namespace.clone(), config.state.clone()];
    let refused =
        own.into_iter().chain(config.targets.iter().filter_map(|t| t.directory().map(Path::to_path_buf))).collect();
    let timeout = config.recovery.source_patience;
    let (zenodo, datacite) = (config.stage.zenodo.clone(), config.stage.datacite.clone());
    let opener = Arc::new(source::Sources::new(source::Settings { refused, timeout, zenodo, datacite })?);
    let job_settings = config.jobs.clone();
    let servers = Servers::default();
    let mut starting = Starting::new(config, at, opener, &servers)?;
    // The start fails as a whole: an error at the first submission would come too late.
    let jobs = jobs_of(starting.core(), &job_settings).map_err(|problem| problem.so("the volume was unmounted again"));
    let begun = jobs.and_then(|jobs| Ok((jobs, Listening::at(&starting.core().volume.config().endpoint)?)));
    let (jobs, endpoint) = match begun {
        Ok(begun) => begun,
        Err(problem) => {
            starting.give_up();
            return Err(problem.into());
        }
    };
    let calls = starting.core().calls.clone();
    let (runner, slurm) = (jobs.runner.handler(calls.as_ref()), jobs.slurm.handler(calls.as_ref()));
    starting.register(jobs::runner::PREFIX, runner.clone());
    starting.register(jobs::slurm::PREFIX, slurm.clone());
    let daemon = starting.serve()?;
    tracing::info!(mount_point = %daemon.mount_point().display(), "mounted");
    let watched = || Arc::new(Dashboard { core: daemon.core().clone(), runner, slurm });
    let endpoint = endpoint.map(|endpoint| endpoint.serve(watched())).transpose()?;
    Ok(Running { daemon, endpoint, jobs, servers })
}

fn jobs_of(core: &Arc<Core>, settings: &volume::Jobs) -> std::result::Result<Jobs, Problem> {
    let failed = |e: &dyn std::fmt::Display| Problem::failed(format!("the job runner cannot start: {e}"));
    let state_dir = core.volume.state_dir();
    let toml = std::path::absolute(&core.volume.config().file).map_err(|e| failed(&e))?;
    let mut config = jobs::Config::new(state_dir.join("jobs")).map_err(|e| failed(&e))?;
    if settings.cores > 0 {
        config.cores = settings.cores as u32;
    }
    config.offload_on_close = settings.offload == volume::Offload::OnClose;
    config.n_transfers_max = settings.dataxfer_concurrent.max(1) as u32;
    config.environment = vec![(ENVIRONMENT.into(), toml.display().to_string())];
    let volume = Arc::new(JobsOnVolume::new(core.clone(), settings.check_before_job));
    let state = || core.volume.state().clone();
    let recogniser = Arc::new(recognise);
    let peers = promises_on_volume::peers(core);
    let threads = jobs::threads(settings.dataxfer_concurrent as u32);
    let arrivals = Arrivals::start(arrivals_of(settings), volume.clone(), state(), peers, &threads);
    let arrivals = Arc::new(arrivals.map_err(|e| failed(&e))?);
    let notices = jobs::notice::Settings {
        on_end: settings.on_end.clone(),
        sendmail: settings.sendmail.clone(),
        program: config.program.clone(),
        supervisor_args: config.supervisor_args.clone(),
        dir: state_dir.join("jobs").join("notices"),
    };
    let known = core.calls.as_ref().map(|calls| Arc::new(KnownJobs::new(state(), calls.own(), &object::host::name())));
    config.arrivals = Some(arrivals.clone());
    config.known = known.clone();
    config.notices = Some(Arc::new(jobs::notice::Notices::new(notices, volume.clone(), threads.clone())));
    config.threads = threads.clone();
    let runner = jobs::runner::Runner::open(config.clone(), state(), volume.clone(), recogniser.clone());
    let slurm = jobs::slurm::Slurm::open(config, &settings.slurm_user, state(), volume.clone(), recogniser);
    let (runner, slurm) = (Arc::new(runner.map_err(|e| failed(&e))?), Arc::new(slurm.map_err(|e| failed(&e))?));
    arrivals.taken_up();
    slurm.set_runner(&runner);
    core.add_gauges(jobs_in_numbers::gauges(&runner, &slurm, &arrivals));
    core.add_gauges(connections_in_numbers::gauges(&core.volume));
    let replication = &core.volume.config().replication;
    let replication = copies_on_volume::start(core, &runner, &slurm, known.as_ref(), replication, &threads);
    let no_replication = |e| Problem::failed(format!("replication cannot start: {e}"));
    let availability = inputs_on_volume::start(core, &runner, &slurm, settings, &threads);
    let availability = availability.map_err(|e| failed(&e))?;
    core.accounts.set_owners_of(accounts_on_volume::owners_of(&runner, &slurm, known.clone()));
    let jobs =
        Jobs { availability, replication: Arc::new(replication.map_err(no_replication)?), runner, slurm, arrivals };
    volume.set_replication(jobs.replication.clone());
    let (runner, slurm) = (Arc::downgrade(&jobs.runner), Arc::downgrade(&jobs.slurm));
    core.add_needs(Arc::new(move || {
        let (runner, slurm) =
            (runner.upgrade().ok_or("the runner is gone")?, slurm.upgrade().ok_or("the runner is gone")?);
        let elsewhere = known.as_ref().map_or(Ok(Vec::new()), |known| known.needed_elsewhere());
        Ok([runner.needed_paths(), slurm.needed_paths(), elsewhere.map_err(|e| e.to_string())?].concat())
    }));
    Ok(jobs)
}

fn arrivals_of(settings: &volume::Jobs) -> jobs::arrivals::Settings {
    let time = |span: std::time::Duration| policy::Time(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    jobs::arrivals::Settings {
        machine: just_in_time::Config {
            margin_min: time(settings.stage_in_margin),
            early_max: time(settings.stage_in_early),
            rate_unknown: settings.source_rate,
            ..just_in_time::Config::default()
        },
        by_queue: settings.just_in_time,
        when_full: if settings.fail_when_full { just_in_time::WhenFull::Fail } else { just_in_time::WhenFull::Wait },
        keep_free: settings.keep_free,
        poll: settings.queue_poll,
    }
}

impl Running {
    /// Serves until the unmount or a request to end.
    fn serve(self) -> Result<u8> {
        let Running { daemon, endpoint, jobs, servers } = self;
        end_on_signal(daemon.ending().clone())?;
        let socket = socket_of(daemon.core().volume.state_dir());
        daemon.run(move || {
            drop(endpoint);
            jobs.arrivals.stop();
            jobs.replication.stop();
            jobs.availability.stop();
            jobs.slurm.shut_down();
            jobs.runner.shut_down();
        });
        tell_systemd("STOPPING=1");
        drop(std::fs::remove_file(socket));
        servers.end();
        // A return from `main` could wait for threads that hang in a target.
        std::process::exit(0);
    }
}

/// Handles signals: SIGTERM ends the volume in any case, the first Ctrl-C only if no process uses the mount, the second
/// always.
fn end_on_signal(ending: Arc<Ending>) -> Result<()> {
    signals::on(signals::ENDS, move |insists| match ending.unmount(false) {
        Ok(()) => true,
        Err(problem) if insists => {
            tracing::warn!("{problem}; ending all the same, calls of these processes end with errors");
            if let Err(problem) = ending.unmount(true) {
                tracing::error!("{problem}");
            }
            true
        }
        Err(problem) => {
            tracing::error!("{}; press Ctrl-C again to end it all the same", problem.cause);
            false
        }
    })?;
    Ok(())
}
