//! The commented `volume.toml` that a new volume starts with.

use super::keys::Key;
use super::problem::{Problem, Problems, Result};
use super::sections;
use object::volume_id::unique;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Targets of a new volume: name and tier.
const TARGETS: &[(&str, &str)] = &[
    ("fast0", "fast"),
    ("fast1", "fast"),
    ("fast2", "fast"),
    ("capacity0", "capacity"),
    ("capacity1", "capacity"),
    ("capacity2", "capacity"),
];

const TARGETS_HEAD: &str = "
# Targets: directories on the devices that hold the data. Move these to your disks and mounts before the first
# `entrepot up`; afterwards use `entrepot target add|drain|remove`. Optional keys of a target:
";

/// File of the token beside `volume.toml`, if the volume has an endpoint.
const TOKEN_FILE: &str = "endpoint.token";

const HEAD: &str = r#"# An Entrepot volume: one scratch file system of directories on devices that are already there.
# `entrepot up` reads this file. Paths are relative to it. Sizes: "64KiB", "1MiB", "2GB" or bytes. Spans: "500ms", "5s",
# "2min" or seconds. A line that starts with `#` shows a default; remove the `#` to change it.
"#;

/// Text of a `volume.toml` with every key, its default and its purpose, named after the directory.
pub fn template(dir: &Path) -> String {
    let usable = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String =
        dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().chars().filter(usable).collect());
    let mut text = HEAD.to_owned();
    for (header, keys) in sections::SECTIONS {
        match header {
            "Top level" => keys.iter().for_each(|key| {
                text += &shown(
                    key,
                    match key.name {
                        "state_store" => "# ",
                        beside if beside.starts_with("state_") => "#   ",
                        _ => "",
                    },
                )
            }),
            "[tier.NAME]" => {
                text += "\n# Tiers, fastest first. Every tier needs a target. Optional keys of a tier:\n";
                keys.iter().for_each(|key| text += &shown(key, "#   "));
                text += "[tier.fast]\n[tier.capacity]\n";
            }
            "[[target]]" => {
                text += TARGETS_HEAD;
                keys[3..].iter().for_each(|key| text += &shown(key, "#   "));
            }
            "[[target]] with connections" => {
                keys.iter().for_each(|key| text += &shown(key, "#   "));
                TARGETS.iter().for_each(|(name, tier)| text += &block(name, &format!("targets/{name}"), tier));
            }
            "[[purge.rule]]" => {
                text += &format!(
                    "\n# Rules, as many as you like. `entrepot purge --dry-run` shows what they would take.\n# {header}\n"
                );
                keys.iter().for_each(|key| text += &shown(key, "#   "));
            }
            _ => {
                text += &format!("\n{header}\n");
                keys.iter().for_each(|key| text += &shown(key, "# "));
            }
        }
    }
    match name.as_str() {
        "" => text,
        name => text.replacen("name = \"scratch\"", &format!("name = \"{name}\""), 1),
    }
}

fn shown(key: &Key, sign: &str) -> String {
    let help = key.help.iter().map(|line| format!("#{}{line}\n", &sign.get(2..).unwrap_or_default()));
    help.collect::<String>() + &format!("{sign}{} = {}\n", key.name, key.value)
}

/// A `[[target]]` block.
pub(super) fn block(name: &str, path: &str, tier: &str) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    format!("\n[[target]]\nname = {}\npath = {}\ntier = {}\n", quoted(name), quoted(path), quoted(tier))
}

/// Creates the directory around it. If root does, other users reach the control socket but cannot list the directory.
fn make_outer(dir: &Path) -> std::io::Result<()> {
    if let Some(parent) = dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
    match std::fs::DirBuilder::new().mode(mode).create(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        done => done,
    }
}

/// Returns the text with an endpoint that requires the token.
fn watched(text: &str, listen: SocketAddr) -> String {
    let set = |text: &str, key: &str, value: &str| {
        let lines = text.lines().map(|line| match line.starts_with(&format!("# {key} = ")) {
            true => format!("{key} = \"{value}\"\n"),
            false => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    let Some(at) = text.find("\n[endpoint]\n") else { return text.to_owned() };
    let endpoint = set(&text[at..], "listen", &listen.to_string());
    text[..at].to_owned() + &set(&endpoint, "token_file", TOKEN_FILE)
}

/// Writes a `volume.toml` and creates its directories below `dir`; returns the file's path. Refuses to overwrite.
/// `listen` adds an endpoint at that address, with a new token.
pub fn init(dir: &Path, listen: Option<SocketAddr>) -> Result<PathBuf> {
    let file = dir.join("volume.toml");
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let failed = |path: &Path, error: &std::io::Error| {
        let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
        let mend = if exists {
            "Use it as it is (`entrepot up`), or choose another directory"
        } else {
            "Choose another directory"
        };
        let why = if exists { "it is there already".to_string() } else { error.to_string() };
        let problem = Problem::new(format!("{} cannot be made: {why}", path.display()), "no volume was made", mend);
        Problems::one(problem.of_io(error))
    };
    let token = listen.map(|_| dir.join(TOKEN_FILE));
    if let Some(there) = [&file].into_iter().chain(&token).find(|there| there.exists()) {
        return Err(failed(there, &std::io::ErrorKind::AlreadyExists.into()));
    }
    let make = |path: &Path| {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| failed(path, &error))
    };
    make_outer(&dir).map_err(|error| failed(&dir, &error))?;
    for name in ["namespace", "state"] {
        make(&dir.join(name))?;
    }
    for (name, _) in TARGETS {
        make(&dir.join("targets").join(name))?;
    }
    let write = |path: &Path, mode, text: &str| {
        let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
        let written = opened.and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()));
        written.map_err(|error| failed(path, &error))
    };
    if let Some(token) = &token {
        let secret = unique().map_err(|errno| failed(token, &errno.into()))?;
        write(token, 0o600, &format!("{secret}\n"))?;
    }
    let text = template(&dir);
    write(&file, 0o644, &listen.map_or_else(|| text.clone(), |listen| watched(&text, listen)))?;
    Ok(file)
}
