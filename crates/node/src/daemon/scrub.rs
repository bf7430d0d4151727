//! Scrubs: one pass over all files at a time, run by the leader at a rate of its own. Findings and progress survive
//! the node.

use super::led::Led;
use super::{Core, now_ns};
use crate::calls::Answer;
use crate::control::answers::{self, Pass};
use crate::control::{Caller, Problem, Responder, Scrub as Asked};
use crate::{Error, Result};
use engine::events::Kind;
use engine::recovery::{Outcome, Scrubbed, ScrubbedFile};
use engine::stage::Stop;
use engine::stats::{Metric, Stats};
use meta::records;
use parking_lot::Mutex;
use policy::Time;
use policy::maintenance::Task;
use policy::protect::scrub::{self, From, Last, Next};
use policy::throttle::Throttle;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Kind and key of the record of the last pass.
const KIND: &str = "scrub";
const KEY: &str = "volume";
/// Requests to the leader.
static SCRUB: Led<Asked, answers::Scrub> =
    Led { name: "scrub", is_ready: |_| true, serve: |core, _, asked, out| core.scrubs.serve(core, &asked, out) };
/// Bytes that may be read at once before the throttle takes effect. A guess: a stripe.
const BURST_BYTES: u64 = 1 << 20;
/// Interval at which a waiting pass checks whether to end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval of saves: the part of a pass that may be repeated after a crash.
const REMEMBER_EVERY: Duration = Duration::from_secs(10);
/// Maximum of saved findings; the others are only counted.
const FINDINGS_MAX: usize = 1000;
/// Maximum of files saved with the reason why they could not be compared.
const LEFT_MAX: usize = 16;

impl Pass {
    fn last(&self) -> Last {
        Last { began: Time(self.began_ms.saturating_mul(1_000_000)), is_over: self.ended_ms.is_some() }
    }

    fn take(&mut self, scrubbed: Scrubbed<'_>, stats: &Stats) -> bool {
        let (path, ScrubbedFile { findings, mended_bytes, left }) = match scrubbed {
            Scrubbed::Bytes(bytes) => {
                self.bytes += bytes;
                stats.add(Metric::ScrubBytes, bytes);
                return false;
            }
            Scrubbed::File(path, file) => (path, file),
        };
        self.files += 1;
        path.clone_into(&mut self.after);
        let found = findings.len() as u64;
        let mended = findings.iter().filter(|f| f.outcome == Outcome::Repaired).count() as u64;
        (self.found, self.mended) = (self.found + found, self.mended + mended);
        self.mended_bytes += mended_bytes;
        stats.add(Metric::ScrubFound, found);
        stats.add(Metric::ScrubMended, mended);
        if let Some(why) = left {
            self.left += 1;
            stats.add(Metric::ScrubLeft, 1);
            if self.left_files.len() < LEFT_MAX {
                self.left_files.push(format!("{path}: {why}"));
            }
        }
        self.findings.extend(findings);
        self.findings.sort_by_key(|f| f.outcome == Outcome::Repaired);
        self.findings.truncate(FINDINGS_MAX);
        found > 0
    }

    /// Summary in one line.
    fn shown(&self) -> String {
        let Pass { files, bytes, found, mended, .. } = self;
        format!("{files} files and {bytes} bytes compared, {found} objects wrong, {mended} rebuilt")
    }
}

/// The passes of this node.
#[derive(Default)]
pub struct Scrubs {
    /// The pass under way on this node.
    now: Mutex<Option<Pass>>,
}

/// Parameters of a pass.
struct Goes<'a> {
    core: &'a Core,
    rate: u64,
    stop: &'a Stop,
}

impl Scrubs {
    /// Requests automatic passes, if `volume.toml` has any, and serves other nodes.
    pub(super) fn start(core: &Arc<Core>) {
        SCRUB.register(core);
        if !core.volume.config().scrub.every.is_zero() {
            core.maintenance.want(Task::Scrub);
        }
    }

    /// Runs a pass, if one is due. After a stop, the next pass continues there.
    pub(super) fn run(&self, core: &Core) {
        let every = Some(Time(core.volume.config().scrub.every.as_nanos() as u64));
        let due = remembered(core).map(|last| scrub::next(every, last.as_ref().map(Pass::last), Time(now_ns())));
        let begins = match due {
            Ok(Next::Begin(from)) => from,
            Ok(Next::Wait(_) | Next::Nothing) => return,
            Err(error) => return tracing::debug!("the time of the next scrub is unknown: {error}"),
        };
        let stop = Stop::default();
        let goes = Goes { core, rate: core.volume.config().scrub.rate, stop: &stop };
        match self.pass(&goes, begins, &mut |_| ()) {
            Ok(pass) if pass.ended_ms.is_some() => {
                core.background.news(Kind::Scrub, format!("scrub: {}", pass.shown()))
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("the scrub stopped and is tried again: {error}"),
        }
    }

    /// Runs a pass, or the rest of an interrupted one. `told` receives the progress.
    fn pass(&self, goes: &Goes<'_>, begins: From, told: &mut dyn FnMut(&Pass)) -> Result<Pass> {
        let Goes { core, stop, .. } = *goes;
        let last = remembered(core)?;
        let mut pass = match (begins, last) {
            (From::Here, Some(last)) => last,
            _ => Pass { began_ms: now_ns() / 1_000_000, ..Pass::default() },
        };
        {
            let mut now = self.now.lock();
            if now.is_some() {
                return Err(Error::Busy("a scrub is under way".into()));
            }
            *now = Some(pass.clone());
        }
        let after = Some(pass.after.clone()).filter(|path| !path.is_empty());
        let began = Instant::now();
        let now = || Time(began.elapsed().as_nanos() as u64);
        let throttle = Mutex::new(Throttle::new((goes.rate > 0).then_some(goes.rate), BURST_BYTES, Time::ZERO));
        let paced = |bytes| {
            let at = throttle.lock().take(now(), bytes);
            loop {
                if core.maintenance.stop_flag().is_set() || !core.acts() {
                    stop.set();
                }
                if stop.is_set() {
                    return Err(Error::Busy("the scrub was stopped".into()));
                }
                let rest = Duration::from_nanos(at.since(now()).0);
                if rest.is_zero() {
                    return Ok(());
                }
                std::thread::sleep(rest.min(LOOK_EVERY));
            }
        };
        let mut saved = Instant::now();
        let mut take = |scrubbed: Scrubbed<'_>| {
            let found = pass.take(scrubbed, core.volume.stats());
            *self.now.lock() = Some(pass.clone());
            if found || saved.elapsed() >= REMEMBER_EVERY {
                saved = Instant::now();
                if let Err(error) = remember(core, &pass) {
                    tracing::warn!("the progress of the scrub cannot be saved: {error}");
                }
            }
            told(&pass);
        };
        let done = core.checker.scrub(after.as_deref(), &paced, &mut take, stop);
        if let Ok(true) = done {
            pass.ended_ms = Some(now_ns() / 1_000_000);
            core.volume.stats().add(Metric::ScrubPasses, 1);
        }
        // A former leader must not overwrite the record of the new one.
        let kept = if core.acts() { remember(core, &pass) } else { Ok(()) };
        *self.now.lock() = None;
        done.and(kept).map(|()| pass)
    }

    /// Serves a request on this node.
    fn serve(&self, core: &Core, asked: &Asked, out: &mut Responder<'_>) -> Answer<answers::Scrub> {
        if asked.status {
            let now = self.now.lock().clone();
            let (is_under_way, pass) = (now.is_some(), now.map_or_else(|| remembered(core), |now| Ok(Some(now)))?);
            return Ok(answer(pass.unwrap_or_default(), is_under_way));
        }
        if self.now.lock().is_some() {
            return Err(Problem::busy("a scrub is under way")
                .try_this("see how far it is with `entrepot scrub --status`, and try again when it has ended"));
        }
        let begins = scrub::asked(remembered(core)?.as_ref().map(Pass::last), asked.anew);
        let stop: Stop = (**out.stop()).clone();
        let goes = Goes { core, rate: asked.rate.unwrap_or(core.volume.config().scrub.rate), stop: &stop };
        let mut said: Option<Instant> = None;
        let mut told = |pass: &Pass| {
            if said.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
                said = Some(Instant::now());
                out.progress(&format!("{}, at {}", pass.shown(), pass.after));
            }
        };
        Ok(answer(self.pass(&goes, begins, &mut told)?, false))
    }
}

fn answer(pass: Pass, under_way: bool) -> answers::Scrub {
    let healthy = pass.findings.iter().all(|f| f.outcome == Outcome::Repaired);
    answers::Scrub { pass, under_way, healthy }
}

fn remembered(core: &Core) -> Result<Option<Pass>> {
    records::get(&**core.volume.state(), KIND, KEY)
}

fn remember(core: &Core, pass: &Pass) -> Result<()> {
    records::put(&**core.volume.state(), KIND, KEY, pass)
}

/// Requests a scrub from the leader, which may be this node.
pub(super) fn run(core: &Arc<Core>, caller: &Caller, asked: Asked, out: &mut Responder<'_>) -> Answer<answers::Scrub> {
    caller.must_be_operator("scrub the volume")?;
    SCRUB.ask(core, caller, asked, out)
}
