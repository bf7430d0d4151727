//! Notices of the end of a job and its staging: the operator's command, and mail to its owner. The live driver of
//! `policy::schedule::notices`.
//!
//! ```text
//!   runner, Slurm's hooks ── over ──> [ a line for each user ] ── 4 at a time ──────> supervisor ──> command, as operator
//!                                                                                        └──> sendmail, as the job's owner
//! ```
//! Each runs under a supervisor, like a part of a job: without a shell, as its user, for a minute at most. No process
//! remains. A notice that fails is an event of the volume, and changes nothing for the job. It is sent at most once;
//! lost if the daemon stops first.

use crate::exec::{Spec, User, outside};
use crate::job::Job;
use crate::request::{Caller, JobId, JobState, Mail, PartKind};
use crate::volume::Volume;
use object::now_ms;
use object::workers::Pool;
use parking_lot::Mutex;
use policy::schedule::notices::{self, NoticeId};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Maxima of running notices and of waiting notices of a user, and their time limit: guesses.
const PLACES: usize = 4;
const WAITING_MAX: usize = 1000;
const SECONDS_MAX: u64 = 60;
/// Maximum of results that a mail lists.
const RESULTS_MAX: usize = 50;

/// Settings of the notices.
pub struct Settings {
    /// The operator's command as words; `None` without one.
    pub on_end: Vec<String>,
    /// Path of the program that sends mail.
    pub sendmail: PathBuf,
    /// The supervisor program.
    pub program: PathBuf,
    /// Arguments of the supervisor before `--spec`.
    pub supervisor_args: Vec<OsString>,
    /// Directory for the files of running notices.
    pub dir: PathBuf,
}

pub(crate) struct Over {
    of: &'static str,
    id: JobId,
    owner: Caller,
    user: String,
    name: String,
    state: JobState,
    why: Option<String>,
    results: Vec<PathBuf>,
    mount: Option<PathBuf>,
    mail: Option<Mail>,
}

impl Over {
    /// Collects the notices of a job. `scheduled`: a scheduler reads its `#SBATCH` lines itself, with their mail
    /// options.
    pub fn new<X>(of: &'static str, job: &Job<X>, why: Option<String>, scheduled: bool) -> Over {
        let mail = job.plan.mail.clone().filter(|mail| !(scheduled && mail.theirs));
        Over {
            of,
            id: job.id,
            owner: job.owner,
            user: job.user.clone(),
            name: job.plan.name.clone(),
            state: job.state,
            why,
            results: job.results().into_iter().map(|(_, path)| path).collect(),
            mount: job.mount.clone(),
            mail: mail.filter(|mail| mail.is_for(job.state, job.plan.part(PartKind::StageOut).is_some())),
        }
    }

    /// Text of a mail, with its header.
    fn text(&self, mail: &Mail) -> String {
        let (id, name, of) = (self.id, &self.name, if self.of == "slurm" { "Slurm's job" } else { "job" });
        let to = mail.to.as_deref().unwrap_or(&self.user);
        let ascii = |text: &str| text.replace(|c: char| !c.is_ascii_graphic() && c != ' ', "?");
        let outcome = match self.state {
            JobState::Completed if self.results.is_empty() => "completed".to_string(),
            JobState::Completed => "completed, its results are at home".into(),
            state => state.to_string(),
        };
        let mut text = format!("To: {to}\nSubject: {of} {id} ({}): {outcome}\n", ascii(name));
        text += "MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nAuto-Submitted: auto-generated\n\n";
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{of} {id} ({name}) {}.", self.state);
        if let Some(why) = &self.why {
            let _ = writeln!(text, "{why}");
        }
        if !self.results.is_empty() {
            let at_home = self.state == JobState::Completed;
            text += if at_home { "Taken home from:\n" } else { "Its results, as far as it wrote any, are kept at:\n" };
            for path in self.results.iter().take(RESULTS_MAX) {
                let _ = writeln!(text, "  {}", path.display());
            }
            if self.results.len() > RESULTS_MAX {
                let _ = writeln!(text, "  and {} more", self.results.len() - RESULTS_MAX);
            }
        }
        if self.state == JobState::Failed {
            let again = if self.of == "slurm" { "entrepot slurm retry" } else { "entrepot job retry" };
            let _ = writeln!(text, "Once the cause is gone: {again} {id}");
        }
        text
    }

    fn environment(&self) -> BTreeMap<String, String> {
        let shown = |path: &PathBuf| path.to_string_lossy().into_owned();
        let results: Vec<_> = self.results.iter().map(shown).collect();
        let set = [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_string()),
            ("ENTREPOT_JOB_ID", self.id.to_string()),
            ("ENTREPOT_JOB_OF", self.of.to_string()),
            ("ENTREPOT_JOB_NAME", self.name.clone()),
            ("ENTREPOT_JOB_USER", self.user.clone()),
            ("ENTREPOT_JOB_UID", self.owner.uid.to_string()),
            ("ENTREPOT_JOB_STATE", self.state.to_string()),
            ("ENTREPOT_JOB_WHY", self.why.clone().unwrap_or_default()),
            ("ENTREPOT_JOB_RESULTS", results.join("\n")),
            ("ENTREPOT_MOUNT", self.mount.as_ref().map(shown).unwrap_or_default()),
        ];
        set.into_iter().map(|(name, value)| (name.to_string(), value.replace('\0', ""))).collect()
    }
}

/// One command to run.
struct Notice {
    over: Arc<Over>,
    /// Name of the action in the message of its failure.
    what: &'static str,
    argv: Vec<String>,
    /// Whether it runs as the job's owner.
    as_owner: bool,
    input: Option<String>,
}

#[derive(Default)]
struct Line {
    all: BTreeMap<NoticeId, Notice>,
    next: u64,
    stopped: bool,
}

struct Shared {
    settings: Settings,
    volume: Arc<dyn Volume>,
    line: Mutex<(notices::Notices, Line)>,
    threads: Pool,
}

/// The queue of notices. After its drop no further notice is sent.
pub struct Notices {
    shared: Arc<Shared>,
}

impl Notices {
    /// Creates the notices.
    pub fn new(settings: Settings, volume: Arc<dyn Volume>, threads: Pool) -> Notices {
        // Leftovers of an earlier daemon.
        let _ = std::fs::remove_dir_all(&settings.dir);
        let line = Mutex::new((notices::Notices::new(PLACES, WAITING_MAX), Line::default()));
        Notices { shared: Arc::new(Shared { settings, volume, line, threads }) }
    }

    /// Reason and remedy if this machine cannot send mail; nothing if it can.
    pub fn no_mail(&self) -> Option<String> {
        let sendmail = &self.shared.settings.sendmail;
        let why = || {
            let sendmail = sendmail.display();
            format!(
                "no mail will be sent: there is no {sendmail}, which `[jobs] sendmail` names; the job runs all the same"
            )
        };
        (!sendmail.is_file()).then(why)
    }

    /// Queues the notices of a job that is over. Quick: locks may be held.
    pub(crate) fn over(&self, over: Over) {
        let over = Arc::new(over);
        let settings = &self.shared.settings;
        if !settings.on_end.is_empty() {
            let (argv, what) = (settings.on_end.clone(), "the command at the end of jobs ([jobs] on_end) failed");
            self.ask(Notice { over: over.clone(), what, argv, as_owner: false, input: None });
        }
        if let Some(mail) = &over.mail {
            let to = mail.to.clone().unwrap_or_else(|| over.user.clone());
            let argv = vec![settings.sendmail.to_string_lossy().into_owned(), "-i".into(), "--".into(), to];
            let input = Some(over.text(mail));
            self.ask(Notice { over: over.clone(), what: "its owner got no mail", argv, as_owner: true, input });
        }
    }

    fn ask(&self, notice: Notice) {
        let mut line = self.shared.line.lock();
        let id = NoticeId(line.1.next);
        line.1.next += 1;
        if !line.0.ask(notice.over.owner.uid, id) {
            drop(line);
            return self.shared.failed(&notice, &format!("{WAITING_MAX} notices of that user wait already"));
        }
        line.1.all.insert(id, notice);
        drop(line);
        let own = self.shared.clone();
        // If no thread starts, the failure is logged, and the thread of the next notice sends this one as well.
        drop(self.shared.threads.push(move || work(&own)));
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.shared.line.lock().1.stopped = true;
    }
}

/// Sends queued notices until the policy permits no further one.
fn work(shared: &Shared) {
    let next = || {
        let mut line = shared.line.lock();
        let (user, id) = if line.1.stopped { None } else { line.0.begin() }?;
        Some((user, line.1.all.remove(&id)?))
    };
    while let Some((user, notice)) = next() {
        if let Err(cause) = shared.run(&notice) {
            shared.failed(&notice, &cause);
        }
        shared.line.lock().0.ended(user);
    }
}

impl Shared {
    fn run(&self, notice: &Notice) -> Result<(), String> {
        let over = &notice.over;
        let user = User { name: over.user.clone(), uid: over.owner.uid, gid: over.owner.gid };
        let kind = if notice.as_owner { "mail" } else { "command" };
        let dir = self.settings.dir.join(format!("{}-{}-{}-{kind}", over.of, over.id, now_ms()));
        let environment = over.environment();
        let spec = Spec {
            kind: PartKind::StageOut,
            steps: vec![notice.argv.clone()],
            retries: 0,
            retry_pause_ms: 0,
            user: Some(user).filter(|_| notice.as_owner && rustix::process::geteuid().is_root()),
            cwd: "/".into(),
            umask: 0o077,
            environment,
            walltime_s: SECONDS_MAX,
            grace_ms: 2000,
            log_bytes_max: 64 << 10,
            announce: false,
            input: notice.input.clone(),
            dir: PathBuf::new(),
        };
        let ended = outside::run_to_end(&self.settings.program, &self.settings.supervisor_args, spec, &dir);
        let _ = std::fs::remove_dir_all(&dir);
        ended
    }

    fn failed(&self, notice: &Notice, cause: &str) {
        let over = &notice.over;
        tracing::warn!("{} {}: {}: {cause}", over.of, over.id, notice.what);
        self.volume.job_not_told(over.of, over.id, over.owner, notice.what, cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::NoVolume;

    #[test]
    fn threads_come_with_the_first_notices() {
        let dir = tempfile::tempdir().expect("temp dir");
        let notices = |on_end: &[&str]| {
            let settings = Settings {
                on_end: on_end.iter().map(|word| (*word).to_owned()).collect(),
                sendmail: "/nonexistent/sendmail".into(),
                program: "/nonexistent/supervisor".into(),
                supervisor_args: Vec::new(),
                dir: dir.path().join("notices"),
            };
            Notices::new(settings, Arc::new(NoVolume), Pool::new("notice", PLACES))
        };
        let over = |id| Over {
            of: "runner",
            id: JobId(id),
            owner: Caller { uid: 7, gid: 7 },
            user: "ann".into(),
            name: "job".into(),
            state: JobState::Completed,
            why: None,
            results: Vec::new(),
            mount: None,
            mail: None,
        };
        let threads = |notices: &Notices| notices.shared.threads.threads();
        let quiet = notices(&[]);
        quiet.over(over(1));
        assert_eq!(threads(&quiet), 0, "nobody is told anything");
        let told = notices(&["/nonexistent/command"]);
        assert_eq!(threads(&told), 0);
        for id in 1..10 {
            told.over(over(id));
            assert!((1..=PLACES).contains(&threads(&told)));
        }
    }
}
