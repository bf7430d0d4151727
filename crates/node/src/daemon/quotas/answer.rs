//! `entrepot quota`: sets, removes and shows limits.

use super::record::{self, Record};
use super::{Book, Keeper, LIMITS_MAX, not_remembered, words};
use crate::control::answers::{Quota, Quotas, Text, Usage, UsageState, write};
use crate::control::{Caller, NewLimit, Problem, QuotaOf, Request, Responder, Result, SetQuota};
use crate::daemon::Core;
use crate::daemon::led::Led;
use crate::daemon::resolve::open_below;
use object::users::groups_of;
use policy::Time;
use policy::quota::{Both, Limit, Limits, Resource, Standing, Subject};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Longest grace period: ten years.
const GRACE_S_MAX: u64 = 10 * 366 * 86_400;

/// Requests to the leader.
pub static COMMANDS: Led<Request, Value> = Led {
    name: "quota.command",
    is_ready: |core| core.quotas.book.lock().decides,
    serve: |core, caller, request, _| serve(core, caller, request),
};

/// Serves a command: on this node, or on the leader.
pub fn run(core: &Arc<Core>, caller: &Caller, request: Request, out: &mut Responder<'_>) -> Result<Value> {
    COMMANDS.ask(core, caller, request, out)
}

/// Serves a command on this node.
fn serve(core: &Core, caller: &Caller, request: Request) -> Result<Value> {
    Ok(match request {
        Request::ShowQuota { of } => write(&show(core, caller, of)?),
        Request::Quotas {} => write(&list(core, caller)?),
        Request::SetQuota(asked) => write(&set(core, caller, asked)?),
        Request::RemoveQuota { of } => write(&remove(core, caller, &of)?),
        _ => return Err(Problem::wrong("the request of another node is not about quotas")),
    })
}

/// The limits of the caller, or, for the operator, those of any subject.
fn show(core: &Core, caller: &Caller, of: Option<QuotaOf>) -> Result<Quotas> {
    let keeper = &core.quotas;
    if let Some(of) = of {
        may_know(core, caller, &of)?;
        let row = keeper.book.lock().row(&of);
        let none = || {
            Problem::not_found(format!("{} has no quota", words::name(&of)))
                .so("nothing limits it by itself")
                .try_this("`entrepot quota` shows what limits you")
        };
        return Ok(Quotas { rows: vec![row.ok_or_else(none)?], looking: keeper.is_looking() });
    }
    let mut named = keeper.names();
    let path = |of: &QuotaOf| if let QuotaOf::Directory(path) = of { Some(path.clone()) } else { None };
    let (groups, seen) =
        (groups_of(caller.uid, caller.gid), core.reachable(caller, named.iter().filter_map(path).collect()));
    named.retain(|of| match of {
        QuotaOf::User(uid) => *uid == caller.uid,
        QuotaOf::Group(gid) => groups.contains(gid),
        QuotaOf::Directory(path) => path.is_empty() || seen.contains(path),
    });
    Ok(keeper.rows(&named))
}

/// All quotas, for the operator.
fn list(core: &Core, caller: &Caller) -> Result<Quotas> {
    caller.must_be_operator("see the quotas of all users")?;
    Ok(core.quotas.rows(&core.quotas.names()))
}

/// Sets limits of a subject.
fn set(core: &Core, caller: &Caller, asked: SetQuota) -> Result<Quotas> {
    caller.must_be_operator("set quotas")?;
    let asked = SetQuota { of: real(core, asked.of.clone())?, ..asked };
    let keeper = &core.quotas;
    let _alone = keeper.changes.lock();
    let book = keeper.book.lock();
    let known = book.find(&asked.of).map(|(subject, entry)| (subject, entry.account.used()));
    if known.is_none() && book.entries.len() >= LIMITS_MAX {
        return Err(Problem::wrong(format!("there are {LIMITS_MAX} quotas, which is the most"))
            .try_this("remove some with `entrepot quota remove`; a directory may stand for many users"));
    }
    let before = known.and_then(|(subject, _)| book.machine.limits(subject)).unwrap_or_default();
    let limits = changed(before, &asked)?;
    let standing = known.map_or_else(Both::default, |(subject, _)| book.machine.standing(subject));
    let record = Record::new(limits, standing, known.and_then(|(_, used)| used));
    drop(book);
    record::put(&**core.volume.state(), &asked.of, &record).map_err(|error| not_remembered(&error))?;
    let new = keeper.book.lock().limit((core.pool.clock)(), asked.of.clone(), &record);
    if let Some(new) = new {
        core.pool.quotas.add([new]);
        keeper.looks.lock().again = true;
    }
    keeper.tell_others(core);
    Keeper::wake(core);
    let row = keeper.book.lock().row(&asked.of);
    Ok(Quotas { rows: row.into_iter().collect(), looking: true })
}

/// Removes limits of a subject.
fn remove(core: &Core, caller: &Caller, of: &QuotaOf) -> Result<Text> {
    caller.must_be_operator("remove quotas")?;
    let keeper = &core.quotas;
    // A directory may be gone by now; then its path is used as given.
    let of = real(core, of.clone()).unwrap_or_else(|_| of.clone());
    let _alone = keeper.changes.lock();
    if keeper.book.lock().find(&of).is_none() {
        return Err(Problem::not_found(format!("{} has no quota", words::name(&of)))
            .try_this("`entrepot quota list` shows what has one"));
    }
    record::remove(&**core.volume.state(), &of).map_err(|error| not_remembered(&error))?;
    let subject = keeper.book.lock().unlimit(&of);
    subject.into_iter().for_each(|subject| core.pool.quotas.remove(subject));
    keeper.tell_others(core);
    Ok(Text { text: format!("{} has no quota any more", words::name(&of)) })
}

/// Refuses a caller without permission to see a quota.
fn may_know(core: &Core, caller: &Caller, of: &QuotaOf) -> Result<()> {
    let own = match of {
        _ if caller.is_operator() => true,
        QuotaOf::User(uid) => *uid == caller.uid,
        QuotaOf::Group(gid) => groups_of(caller.uid, caller.gid).contains(gid),
        QuotaOf::Directory(path) => return core.may_see(caller, path),
    };
    if own {
        return Ok(());
    }
    Err(Problem::denied(format!("only the operator of the volume may see the quota of {}", words::name(of)))
        .try_this("`entrepot quota` shows your own"))
}

/// The same subject; the path of a directory is resolved, without links.
fn real(core: &Core, of: QuotaOf) -> Result<QuotaOf> {
    let QuotaOf::Directory(path) = of else { return Ok(of) };
    let path = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect::<Vec<_>>().join("/");
    match open_below(core.volume.tree(), Path::new(&path), OFlags::PATH | OFlags::DIRECTORY) {
        Ok(_) => Ok(QuotaOf::Directory(path)),
        Err(Errno::NOTDIR) => Err(Problem::wrong(format!("{path} is no directory"))
            .try_this("a quota is of a directory; for one user's files use --user")),
        Err(Errno::LOOP) => {
            Err(Problem::wrong(format!("a symbolic link leads to {path}")).try_this("name the directory itself"))
        }
        Err(Errno::NOENT) => Err(Problem::not_found(format!("there is no directory {path} in the volume"))
            .try_this("make it first, then set its quota")),
        Err(error) => Err(Problem::failed(format!("{path}: {error}"))),
    }
}

fn changed(before: Limits, asked: &SetQuota) -> Result<Limits> {
    let new = |before: Option<u64>, asked: Option<NewLimit>| match asked {
        None => before,
        Some(NewLimit::At(limit)) => Some(limit),
        Some(NewLimit::Off) => None,
    };
    let Both { bytes, files } = before.of;
    let bytes = Limit { soft: new(bytes.soft, asked.soft), hard: new(bytes.hard, asked.hard) };
    let files = Limit { soft: new(files.soft, asked.files_soft), hard: new(files.hard, asked.files_hard) };
    let grace = asked.grace_s.map_or(before.grace, |grace_s| Time::from_secs(grace_s.min(GRACE_S_MAX)));
    let limits = Limits { of: Both { bytes, files }, grace };
    if let Err(resource) = limits.check() {
        return Err(Problem::wrong(format!(
            "the soft limit of {resource} is above the hard one, and would never be passed"
        ))
        .try_this("give both: a soft limit below the hard one"));
    }
    if !limits.is_any() {
        return Err(
            Problem::wrong("no limit is left").try_this("name one, or take all away with `entrepot quota remove`")
        );
    }
    Ok(limits)
}

impl Keeper {
    fn names(&self) -> Vec<QuotaOf> {
        self.book.lock().entries.values().map(|entry| entry.of.clone()).collect()
    }

    fn rows(&self, named: &[QuotaOf]) -> Quotas {
        let book = self.book.lock();
        let rows = named.iter().filter_map(|of| book.row(of)).collect();
        drop(book);
        Quotas { rows, looking: self.is_looking() }
    }
}

impl Book {
    fn row(&self, of: &QuotaOf) -> Option<Quota> {
        let (subject, entry) = self.find(of)?;
        let limits = self.machine.limits(subject)?;
        let used = entry.account.used().filter(|_| self.machine.is_known(subject));
        let one = |resource| self.one(subject, limits, used, resource);
        let kind = match of {
            QuotaOf::User(_) => "user",
            QuotaOf::Group(_) => "group",
            QuotaOf::Directory(_) => "directory",
        };
        Some(Quota {
            of: kind.into(),
            subject: of.clone(),
            name: None,
            grace_s: limits.grace.0 / 1_000_000_000,
            bytes: one(Resource::Bytes),
            files: one(Resource::Files),
        })
    }

    fn one(&self, subject: Subject, limits: Limits, used: Option<Both<u64>>, resource: Resource) -> Usage {
        let (limit, used) = (limits.of.of(resource), used.map(|used| *used.of(resource)));
        let standing = *self.machine.standing(subject).of(resource);
        let is_full = used.zip(limit.hard).is_some_and(|(used, hard)| used >= hard);
        let state = match standing {
            _ if used.is_none() => UsageState::Unknown,
            Standing::Expired { .. } => UsageState::Expired,
            _ if is_full => UsageState::Full,
            Standing::Over { .. } => UsageState::Over,
            Standing::Within => UsageState::Within,
        };
        let may_grow_until_ms =
            if let Standing::Over { until, .. } = standing { Some(until.0 / 1_000_000) } else { None };
        let over_since_ms = standing.since().map(|since| since.0 / 1_000_000);
        Usage { used, soft: limit.soft, hard: limit.hard, state, over_since_ms, may_grow_until_ms }
    }
}
