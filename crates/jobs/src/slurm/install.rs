//! The files that connect Slurm to the daemon, written without replacing files of other programs.

use node::control::Problem;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const SCRIPT: &str = include_str!("burst_buffer.lua");
const CONF: &str = include_str!("burst_buffer.conf");
const SUBMIT: &str = include_str!("job_submit.lua");
const SUBMIT_OWN: &str = include_str!("job_submit_own.lua");

/// The queue of data jobs. It costs nothing, so it is narrow: a data job is one process that waits for a network, and
/// no transfer takes longer than a day; four on a node keep its network busy. Guesses, which the administrator may
/// widen.
const DATA_QUEUE: &str = "PartitionName=dataxfer Nodes=ALL MaxNodes=1 MaxCPUsPerNode=4 MaxTime=1-00:00:00 TRESBillingWeights=\"CPU=0,Mem=0\"";

/// Mark in the first line of every file of ours, of any version.
const SIGN: &str = "ntrepot";

/// Changes that an installation would make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Files, with their new contents.
    pub files: Vec<Planned>,
    /// Lines for `slurm.conf`, which the administrator edits.
    pub lines: Vec<String>,
    /// Calls that the administrator's `job_submit.lua` lacks.
    pub job_submit: Vec<String>,
}

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Path of the file.
    pub path: PathBuf,
    /// Text to be written.
    pub text: String,
    /// Content found at that path.
    pub now: Now,
}

/// Content of a file before the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    /// No such file.
    Nothing,
    /// The same content.
    Same,
    /// A script of Entrepot, of another version or for another volume.
    Ours,
}

/// Plans an installation into `conf_dir` for one volume, without any change.
///
/// # Errors
/// A file of that name that is not ours. With `keep_job_submit`, an existing `job_submit.lua` is left alone, and the
/// part that it needs is put beside it under the name `entrepot_submit.lua`.
pub fn plan(conf_dir: &Path, program: &Path, volume: &Path, keep_job_submit: bool) -> Result<Installation, Problem> {
    let (program, volume) = (in_lua(program)?, in_lua(volume)?);
    let ours = |text: &str| text.replace("@ENTREPOT@", &program).replace("@VOLUME@", &volume);
    let script = ours(SCRIPT);
    let name = if keep_job_submit { "entrepot_submit.lua" } else { "job_submit.lua" };
    let submit_file = conf_dir.join(name);
    let mut submit = ours(SUBMIT).replace("@FILE@", &in_lua(&submit_file)?);
    if !keep_job_submit {
        submit.push_str(SUBMIT_OWN);
    }
    let wanted = [
        (conf_dir.join("burst_buffer.lua"), script),
        (conf_dir.join("burst_buffer.conf"), CONF.to_string()),
        (submit_file.clone(), submit),
    ];
    let mut files = Vec::new();
    for (path, text) in wanted {
        files.push(Planned { now: look(&path, &text)?, path, text });
    }
    let lines = ["BurstBufferType=burst_buffer/lua", "JobSubmitPlugins=lua", DATA_QUEUE].map(str::to_owned).into();
    let job_submit = if keep_job_submit { missing_calls(conf_dir, &submit_file)? } else { Vec::new() };
    Ok(Installation { files, lines, job_submit })
}

/// Calls that the administrator's `job_submit.lua` lacks. A file that contains our functions, or calls them, lacks
/// nothing.
fn missing_calls(conf_dir: &Path, submit_file: &Path) -> Result<Vec<String>, Problem> {
    let path = conf_dir.join("job_submit.lua");
    let theirs = match std::fs::read_to_string(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&path, &error)),
        found => found.unwrap_or_default(),
    };
    let calls = theirs.lines().filter(|line| !line.trim_start().starts_with("--"));
    let calls: String = calls.filter(|line| !line.contains("function entrepot_")).collect();
    let mut missing = Vec::new();
    if !calls.contains("dofile") && !theirs.contains("function entrepot_submit") {
        missing.push(format!("at the top: dofile(\"{}\")", submit_file.display()));
    }
    for (function, call) in [
        ("slurm_job_submit", "entrepot_submit(job_desc, submit_uid)"),
        ("slurm_job_modify", "entrepot_modify(job_desc, modify_uid)"),
    ] {
        if !calls.contains(&call[..16]) {
            missing.push(format!("in {function}: return {call} unless it is slurm.SUCCESS"));
        }
    }
    Ok(missing)
}

impl Installation {
    /// Writes the files that are missing or different.
    pub fn carry_out(&self) -> Result<(), Problem> {
        for file in self.files.iter().filter(|file| file.now != Now::Same) {
            write(&file.path, &file.text).map_err(|error| failed(&file.path, &error))?;
        }
        Ok(())
    }
}

/// Replaces the file atomically: slurmctld reads the script before each call.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o644).open(&new)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

fn look(path: &Path, text: &str) -> Result<Now, Problem> {
    match std::fs::read_to_string(path) {
        Ok(there) if there == text => Ok(Now::Same),
        Ok(there) if there.lines().next().is_some_and(|line| line.contains(SIGN)) => Ok(Now::Ours),
        Ok(_) => Err(foreign(path)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Now::Nothing),
        Err(error) => Err(failed(path, &error)),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Problem {
    Problem::failed(format!("{}: {error}", path.display())).try_this("run it as root, or check --conf-dir")
}

/// A file of another program is in the place of one of ours.
fn foreign(path: &Path) -> Problem {
    let next = if path.ends_with("job_submit.lua") {
        "give --keep-job-submit, and add the two lines that it prints to yours"
    } else {
        "Slurm calls one such script: move yours away, or merge the two by hand from --dry-run"
    };
    Problem::wrong(format!("{} is there already and is not Entrepot's", path.display())).try_this(next)
}

fn in_lua(path: &Path) -> Result<String, Problem> {
    let bad = |why| {
        Problem::wrong(format!("{path:?} cannot be written into a script: {why}")).try_this("use a plain absolute path")
    };
    let text = path.to_str().ok_or_else(|| bad("it is no UTF-8"))?;
    if !path.is_absolute() {
        return Err(bad("it is not absolute"));
    }
    // The scripts put it between single quotes for a shell.
    if text.chars().any(|c| c.is_control() || matches!(c, '"' | '\'' | '\\' | '@')) {
        return Err(bad("it holds a quote, a backslash, an @ or a control character"));
    }
    Ok(text.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-065]
    #[test]
    fn the_queue_that_costs_nothing_is_narrow() {
        let dir = tempfile::tempdir().unwrap();
        let planned = plan(dir.path(), Path::new("/usr/bin/entrepot"), Path::new("/v"), false).unwrap();
        let queue = planned.lines.iter().find(|line| line.starts_with("PartitionName=dataxfer ")).unwrap();
        for limit in ["MaxNodes=1 ", "MaxCPUsPerNode=4 ", "MaxTime=1-00:00:00 "] {
            assert!(queue.contains(limit), "{queue}");
        }
    }

    /// With a lazy match, the time grows with the square of the blanks in a user's script, while slurmctld waits.
    #[test]
    fn scripts_read_the_answer_of_a_hook_in_linear_time() {
        for script in [SCRIPT, SUBMIT] {
            assert!(script.contains("said:find(\"status=(%d+)%s*$\")") && !script.contains("(.-)"), "{script}");
        }
    }

    #[test]
    fn a_job_submit_script_that_does_what_is_needed_is_asked_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let missing = |text: &str| {
            std::fs::write(dir.path().join("job_submit.lua"), text).unwrap();
            plan(dir.path(), Path::new("/usr/bin/entrepot"), Path::new("/v"), true).unwrap().job_submit
        };
        // Complete, as in the package's example; and as a call inside the administrator's own script.
        assert_eq!(missing(&format!("{SUBMIT}{SUBMIT_OWN}")), [""; 0]);
        let calls = "dofile(\"/etc/slurm/entrepot_submit.lua\")\nfunction slurm_job_submit(j, p, uid)\n  \
                     return entrepot_submit(j, uid)\nend\n";
        let modify = missing(calls);
        assert!(matches!(&modify[..], [one] if one.starts_with("in slurm_job_modify: ")), "{modify:?}");
        assert_eq!(
            missing(&format!("{calls}function slurm_job_modify(j, r, p, u) return entrepot_modify(j, u) end")),
            [""; 0]
        );
        assert_eq!(missing("-- entrepot_submit(j, u), entrepot_modify(j, u), dofile are in a comment alone").len(), 3);
    }

    /// [S-086]
    #[test]
    fn what_is_ours_is_renewed_and_what_is_not_stays() {
        let dir = tempfile::tempdir().unwrap();
        let plan_for = |volume: &str| plan(dir.path(), Path::new("/usr/bin/entrepot"), Path::new(volume), false);
        let first = plan_for("/etc/entrepot/a.toml").unwrap();
        assert!(first.files.iter().all(|file| file.now == Now::Nothing));
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "a plan writes nothing");
        first.carry_out().unwrap();
        let script = std::fs::read_to_string(dir.path().join("burst_buffer.lua")).unwrap();
        assert!(script.contains("local VOLUME = \"/etc/entrepot/a.toml\"") && !script.contains('@'), "{script}");
        assert!(plan_for("/etc/entrepot/a.toml").unwrap().files.iter().all(|file| file.now == Now::Same));
        let other = plan_for("/etc/entrepot/b.toml").unwrap();
        assert_eq!(other.files.iter().map(|file| file.now).collect::<Vec<_>>(), [Now::Ours, Now::Same, Now::Ours]);

        let theirs = dir.path().join("job_submit.lua");
        std::fs::write(&theirs, "-- ours since 2011\nfunction slurm_job_submit() end\n").unwrap();
        let refused = plan_for("/v").unwrap_err().cause;
        assert_eq!(refused, format!("{} is there already and is not Entrepot's", theirs.display()));
        let beside = plan(dir.path(), Path::new("/usr/bin/entrepot"), Path::new("/v"), true).unwrap();
        let wanted = beside.job_submit.join("\n");
        assert!(wanted.starts_with("at the top: dofile(") && wanted.contains("in slurm_job_modify: "), "{wanted}");
        assert!(beside.lines.contains(&"JobSubmitPlugins=lua".to_owned()));
        beside.carry_out().unwrap();
        assert!(std::fs::read_to_string(&theirs).unwrap().starts_with("-- ours since 2011"));
        assert!(
            !std::fs::read_to_string(dir.path().join("entrepot_submit.lua"))
                .unwrap()
                .contains("function slurm_job_modify")
        );
        for bad in ["relative", "/a\"b", "/a\\b", "/a'b"] {
            assert!(plan_for(bad).unwrap_err().cause.contains("cannot be written into a script"), "{bad}");
        }
    }
}
