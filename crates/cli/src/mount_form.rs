//! Command line of mount(8) for a line of fstab: `mount.entrepot SOURCE MOUNTPOINT [-sfnv] [-o OPTIONS]`, a link to
//! this program, or the same through `mount.fuse`.
//!
//! A volume that is already mounted there is a success, so that `mount -a` may be repeated.

use crate::command::up_in_background;
use crate::failure::{Failure, Result};
use engine::volume::Config;
use node::control::{Problem, mounts};
use rustix::fs::StatVfsMountFlags;
use rustix::mount::{MountFlags, mount_remount};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Option that changes the flags of an existing mount. Without a mount the volume is mounted.
const REMOUNT: &str = "remount";

/// Request of mount(8).
#[derive(Debug, PartialEq, Eq)]
pub struct MountRequest {
    file: PathBuf,
    at: PathBuf,
    options: Vec<String>,
    /// Whether only the configuration is checked (`-f`).
    only_looks: bool,
    /// Whether unknown options are ignored (`-s`).
    is_sloppy: bool,
}

/// Parses the words after the program's name; `None` for a command of `entrepot`. No command has a `/` or ends in
/// `.toml`.
pub fn read(words: &[OsString]) -> Option<MountRequest> {
    let [file, at, rest @ ..] = words else { return None };
    let (named, place) = (file.to_str()?, at.to_str()?);
    let is_file = !named.starts_with('-') && (named.contains('/') || named.ends_with(".toml"));
    if !is_file || place.starts_with('-') {
        return None;
    }
    let mut asked =
        MountRequest { file: file.into(), at: at.into(), options: Vec::new(), only_looks: false, is_sloppy: false };
    let mut rest = rest.iter().filter_map(|word| word.to_str());
    while let Some(word) = rest.next() {
        match word {
            "-o" => asked.options.extend(rest.next().unwrap_or_default().split(',').map(str::to_string)),
            // The type, and the mount namespace, which mount(8) has entered already.
            "-t" | "-N" => drop(rest.next()),
            _ => {
                let flag = |letter| word.starts_with('-') && word.contains(letter);
                asked.only_looks |= flag('f');
                asked.is_sloppy |= flag('s');
            }
        }
    }
    asked.options.retain(|option| !option.is_empty());
    Some(asked)
}

/// Flags of a mount: the option that sets one, the option that clears it if there is one, and the flag as `statvfs`
/// shows it and as `mount` takes it.
const FLAGS: [(&str, &str, StatVfsMountFlags, MountFlags); 7] = [
    ("ro", "rw", StatVfsMountFlags::RDONLY, MountFlags::RDONLY),
    ("nosuid", "suid", StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
    ("nodev", "dev", StatVfsMountFlags::NODEV, MountFlags::NODEV),
    ("noexec", "exec", StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
    ("noatime", "", StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
    ("nodiratime", "", StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
    ("relatime", "", StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
];

/// Applies the options to the kernel's `flags`. Options of mount(8) and systemd have no effect.
fn flags(mut flags: MountFlags, options: &[String], is_sloppy: bool) -> std::result::Result<MountFlags, &str> {
    for option in options {
        if let Some((.., flag)) = FLAGS.iter().find(|(set, ..)| set == option) {
            flags |= *flag;
        } else if let Some((.., flag)) = FLAGS.iter().find(|(_, cleared, ..)| cleared == option) {
            flags -= *flag;
        } else {
            match option.as_str() {
                REMOUNT | "defaults" | "auto" | "noauto" | "nofail" | "_netdev" | "user" | "users" | "nouser"
                | "owner" | "group" | "async" | "atime" | "diratime" => {}
                other if ["x-", "user=", "comment="].iter().any(|known| other.starts_with(known)) => {}
                _ if is_sloppy => {}
                other => return Err(other),
            }
        }
    }
    Ok(flags)
}

fn flags_of(at: &Path) -> std::io::Result<MountFlags> {
    let has = rustix::fs::statvfs(at)?.f_flag;
    let set = FLAGS.iter().filter(|(_, _, shown, _)| has.contains(*shown)).map(|(.., flag)| *flag);
    Ok(set.fold(MountFlags::empty(), MountFlags::union))
}

impl MountRequest {
    fn flags(&self, before: MountFlags, so: &str) -> Result<MountFlags> {
        Ok(flags(before, &self.options, self.is_sloppy).map_err(|option| {
            Problem::wrong(format!("the mount option `{option}` is not understood"))
                .so(so)
                .try_this("set the behaviour of a volume in its volume.toml, not by mount options")
        })?)
    }

    /// Changes the flags of the existing mount, as `mount -i` does; unnamed flags stay.
    fn remount(&self, at: &Path) -> Result<u8> {
        let failed = |e: std::io::Error| {
            Problem::failed(format!("{} cannot be mounted with {}: {e}", at.display(), self.options.join(",")))
                .so("it stays mounted as it was")
                .try_this("remount it as root; for `ro`, end programs that have files there open for writing")
        };
        let flags = self.flags(flags_of(at).map_err(failed)?, "it stays mounted as it was")?;
        if !self.only_looks {
            mount_remount(at, flags, c"").map_err(|e| failed(e.into()))?;
        }
        Ok(0)
    }

    /// Mounts the volume in the background, or changes an existing mount.
    pub fn run(self) -> Result<u8> {
        let at = self.at.canonicalize().map_err(|e| Failure::of_io(&self.at.display().to_string(), &e))?;
        let here = mounts().into_iter().find(|m| m.mount_point.as_ref() == Some(&at));
        if self.options.iter().any(|option| option == REMOUNT) && here.is_some() {
            return self.remount(&at);
        }
        let flags = self.flags(MountFlags::empty(), "the volume is not mounted")?;
        if let Some(here) = here
            && let Ok(config) = Config::read(&std::path::absolute(&self.file)?)
            && config.state.canonicalize().is_ok_and(|state| state == here.state)
        {
            return Ok(0);
        }
        if self.only_looks {
            Config::load(&self.file)?;
            return Ok(0);
        }
        let code = up_in_background(&self.file, &at)?;
        if !flags.is_empty() {
            mount_remount(&at, flags | MountFlags::BIND, c"").map_err(|e| {
                Problem::failed(format!("{} cannot be mounted with {}: {e}", at.display(), self.options.join(",")))
                    .so("it is mounted without these options")
                    .try_this(format!("`entrepot down {}`, and mount it as root or with fewer options", at.display()))
            })?;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<MountRequest> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        read(&words)
    }

    #[test]
    fn the_words_of_mount_are_told_from_ours() {
        let asked = of("/etc/entrepot/s.toml /scratch -o rw,nofail,_netdev").expect("mount's");
        assert_eq!((asked.file, asked.at), ("/etc/entrepot/s.toml".into(), "/scratch".into()));
        assert_eq!(asked.options, ["rw", "nofail", "_netdev"]);
        assert!(of("s.toml /scratch").is_some());
        let with_flags = of("/s.toml /scratch -v -sn -o ro,,nosuid -t entrepot").expect("mount's");
        assert_eq!((with_flags.options, with_flags.is_sloppy), (vec!["ro".into(), "nosuid".into()], true));
        assert!(of("/s.toml /scratch -f").expect("mount's").only_looks && !with_flags.only_looks);
        for ours in ["status", "up s.toml --at /scratch", "layout /mnt/x", "--volume /s.toml status", "-V"] {
            assert_eq!(of(ours), None, "{ours}");
        }
    }

    #[test]
    fn options_ask_the_kernel_or_are_refused() {
        let of = |list: &str| {
            let options: Vec<String> = list.split(',').map(str::to_string).collect();
            flags(MountFlags::empty(), &options, false).map_err(str::to_string)
        };
        assert_eq!(of("rw,defaults,nofail,x-systemd.automount,user=me"), Ok(MountFlags::empty()));
        assert_eq!(of("nosuid,noexec,exec,ro"), Ok(MountFlags::NOSUID | MountFlags::RDONLY));
        assert_eq!(of("rw,stripes=4"), Err("stripes=4".into()));
        assert_eq!(flags(MountFlags::empty(), &["ro".into(), "stripes=4".into()], true), Ok(MountFlags::RDONLY));
        let before = MountFlags::NODEV | MountFlags::RDONLY;
        assert_eq!(flags(before, &["remount".into(), "rw".into()], false), Ok(MountFlags::NODEV));
    }
}
