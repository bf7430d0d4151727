//! `entrepot slurm install`: writes Entrepot's files into Slurm's configuration, and prints the lines that the
//! administrator adds.

use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown;
use clap::Args;
use engine::volume::Config;
use jobs::slurm::install::{Now, plan};
use node::control::Problem;
use std::path::{Path, PathBuf};

/// Put Entrepot's scripts into Slurm's configuration
///
/// Writes burst_buffer.lua, burst_buffer.conf and job_submit.lua beside slurm.conf, and prints the lines that
/// slurm.conf needs. A file that is not Entrepot's is never overwritten. Restart slurmctld afterwards.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot --volume /etc/entrepot/scratch.toml slurm install --dry-run
  entrepot --volume /etc/entrepot/scratch.toml slurm install
  entrepot --volume scratch.toml slurm install --conf-dir /opt/slurm/etc --keep-job-submit")]
pub struct Install {
    /// Print what would change and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Directory of slurm.conf; default: that of SLURM_CONF, else /etc/slurm.
    #[arg(long, value_name = "DIR")]
    conf_dir: Option<PathBuf>,
    /// Keep your job_submit.lua; functions for it to call are written to entrepot_submit.lua beside it.
    #[arg(long)]
    keep_job_submit: bool,
    /// Binary that Slurm calls; default: this one.
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

impl Install {
    pub fn run(self, context: &Context) -> Result<u8> {
        let beside = std::env::var_os("SLURM_CONF").and_then(|conf| Some(PathBuf::from(conf).parent()?.to_path_buf()));
        let conf_dir = self.conf_dir.or(beside).unwrap_or_else(|| "/etc/slurm".into());
        let refuse = |p: Problem| -> Failure { p.so("nothing was installed").into() };
        let conf_dir = conf_dir.canonicalize().map_err(|e| {
            refuse(
                Problem::not_found(format!("{}: {e}", conf_dir.display()))
                    .try_this("name the directory of slurm.conf: --conf-dir DIR"),
            )
        })?;
        let Some(toml) = context.named() else {
            return Err(refuse(
                Problem::wrong("the volume that jobs stage into is not given").try_this("give --volume VOLUME.TOML"),
            ));
        };
        // The given path is used, not the resolved one: the administrator may point the link at another file.
        let toml = toml.canonicalize().and_then(|_| std::path::absolute(&toml)).map_err(|e| {
            refuse(Problem::not_found(format!("{}: {e}", toml.display())).try_this("give --volume VOLUME.TOML"))
        })?;
        let program = self.program.map_or_else(std::env::current_exe, |p| p.canonicalize())?;
        let installation = plan(&conf_dir, &program, &toml, self.keep_job_submit).map_err(refuse)?;
        for file in &installation.files {
            let what = match file.now {
                Now::Nothing => "new",
                Now::Ours => "changed",
                Now::Same => "as it should be",
            };
            shown::text(&format!("{}: {what}\n", file.path.display()))?;
            if self.dry_run && file.now != Now::Same {
                let text: String = file.text.lines().map(|line| format!("    {line}\n")).collect();
                shown::text(&text)?;
            }
        }
        let conf = std::fs::read_to_string(conf_dir.join("slurm.conf")).unwrap_or_default();
        let set = |line: &str| {
            let key = line.split([' ', '\t']).next().unwrap_or(line);
            conf.lines().any(|there| there.trim().starts_with(key))
        };
        let missing = installation.lines.iter().filter(|line| !set(line));
        wanted_of(&conf_dir.join("slurm.conf"), missing)?;
        wanted_of(&conf_dir.join("job_submit.lua"), installation.job_submit.iter())?;
        wanted_of(&toml, hook_user(&conf, &toml).iter())?;
        if self.dry_run {
            shown::text("nothing was changed; without --dry-run the files are written\n")?;
            return Ok(0);
        }
        installation.carry_out()?;
        shown::text("now restart slurmctld; jobs that run go on\n")?;
        Ok(0)
    }
}

/// The setting that admits slurmctld's user to the hooks, where that is not root. A volume named by its mount point is
/// not checked.
fn hook_user(conf: &str, volume: &Path) -> Option<String> {
    let mut set = conf.lines().filter_map(|line| line.trim().split_once('='));
    let user = set.rfind(|(key, _)| key.eq_ignore_ascii_case("SlurmUser"))?.1.split([' ', '\t', '#']).next()?;
    let config = Config::read(volume).ok()?;
    (user != "root" && config.jobs.slurm_user != user).then(|| {
        format!("in [jobs]: slurm_user = \"{user}\", since slurmctld runs as that user; then `entrepot down` and `up`")
    })
}

/// Prints the lines that the administrator adds to a file.
fn wanted_of<'a>(file: &Path, lines: impl Iterator<Item = &'a String>) -> Result<()> {
    let lines: String = lines.map(|line| format!("    {line}\n")).collect();
    if !lines.is_empty() {
        shown::text(&format!("{} needs besides:\n{lines}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn install_warns_of_a_volume_that_refuses_slurmctld() {
        let dir = tempfile::tempdir().expect("dir");
        let file = engine::volume::init(&dir.path().join("v"), None).expect("a volume");
        let line = hook_user("ClusterName=a\n SlurmUser=slurm # as Debian has it\n", &file).expect("it would not");
        assert!(line.starts_with("in [jobs]: slurm_user = \"slurm\""), "{line}");
        for well in ["", "SlurmUser=root\n", "#SlurmUser=slurm\n"] {
            assert_eq!(hook_user(well, &file), None, "{well}");
        }
        let text = std::fs::read_to_string(&file).expect("read");
        std::fs::write(&file, text.replace("# slurm_user = ", "slurm_user = ")).expect("write");
        assert_eq!(hook_user("slurmuser=slurm\n", &file), None);
    }
}
