//! Files of the volume that a plan's commands name, from the words alone; the volume resolves symbolic links, with the
//! owner's rights.

use crate::limit;
use crate::request::{Command, PartKind, Plan, StageInput};
use engine::source::means_directory;
use std::path::{Component, Path, PathBuf};

/// Arguments of `entrepot stage in`: sources and destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageInWords {
    /// URIs of the sources, in order of preference.
    pub uris: Vec<String>,
    /// Destination, as written.
    pub path: String,
    /// Maximum of bytes per second.
    pub limit: Option<u64>,
}

/// Options of `entrepot stage` that take a value.
const WITH_VALUE: &[&str] = &[
    "--also",
    "--blake3",
    "--sha512",
    "--sha256",
    "--sha1",
    "--md5",
    "--manifest",
    "--include",
    "--exclude",
    "--verify",
    "--limit",
    "--retry",
    "--credentials",
    "--output",
    "--volume",
];

/// Reads the words of a command that is `entrepot stage in URI PATH`.
pub fn stage_in_words(argv: &[String]) -> Option<StageInWords> {
    let [entrepot, stage, r#in, rest @ ..] = argv else { return None };
    if (entrepot.as_str(), stage.as_str(), r#in.as_str()) != ("entrepot", "stage", "in") {
        return None;
    }
    let (mut places, mut also) = (Vec::new(), Vec::new());
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            let value = rest.next();
            also.extend(value.filter(|_| word == "--also").cloned());
        } else if let Some(uri) = word.strip_prefix("--also=") {
            also.push(uri.to_string());
        } else if !word.starts_with('-') {
            places.push(word.clone());
        }
    }
    let [uri, path] = <[String; 2]>::try_from(places).ok()?;
    let limit = limit::among(argv).ok().flatten();
    Some(StageInWords { uris: [vec![uri], also].concat(), path, limit })
}

/// The manifest of a command that is `entrepot stage in --manifest FILE-OR-URI`.
pub fn manifest(argv: &[String]) -> Option<&str> {
    let ours = argv.first().is_some_and(|word| word == "entrepot");
    let mut words = argv.iter().filter(|_| ours);
    while let Some(word) = words.next() {
        if word == "--manifest" {
            return words.next().map(String::as_str);
        }
        if let Some(value) = word.strip_prefix("--manifest=") {
            return Some(value);
        }
    }
    None
}

/// The files and directories that a command creates in the volume.
pub fn brought_by(command: &Command, cwd: &Path, mount: Option<&Path>) -> Vec<PathBuf> {
    let ours = stage_in_words(&command.argv).map(|words| words.path);
    let found = command.sources.iter().map(|found| found.path.clone());
    found.chain(ours).filter_map(|path| in_volume(&path, cwd, mount?)).collect()
}

/// Data that a plan's stage-in commands fetch, with their sources, from the words alone. `None` if a command's data
/// cannot be derived: a manifest, or any other program.
pub fn wanted(plan: &Plan, cwd: &Path, mount: Option<&Path>) -> Option<Vec<StageInput>> {
    let commands = plan.parts.iter().filter(|part| part.kind == PartKind::StageIn).flat_map(|p| &p.commands);
    let mut all = Vec::new();
    for command in commands {
        let is = |word: &str| command.argv.iter().any(|w| w == word);
        let chosen = |word: &String| word.starts_with("--include") || word.starts_with("--exclude");
        if manifest(&command.argv).is_some() || command.argv.iter().any(chosen) {
            return None;
        }
        if let Some(words) = stage_in_words(&command.argv) {
            let path = in_volume(&words.path, cwd, mount?)?;
            let recursive = is("--directory") || is("-r") || words.uris.iter().any(|uri| means_directory(uri));
            all.push(StageInput { uris: words.uris, path, recursive, limit: words.limit, foreign: false });
        } else if command.sources.is_empty() {
            return None;
        } else {
            for found in &command.sources {
                let path = in_volume(&found.path, cwd, mount?)?;
                let (uris, recursive) = (vec![found.uri.clone()], is("-r") || is("-a"));
                all.push(StageInput { uris, path, recursive, limit: None, foreign: true });
            }
        }
    }
    Some(all)
}

/// Paths that a plan's stage-in creates in the volume mounted at `mount`, as seen from the job's directory; sorted,
/// without duplicates.
pub fn staged(plan: &Plan, cwd: &Path, mount: Option<&Path>) -> Vec<PathBuf> {
    let commands = plan.parts.iter().filter(|part| part.kind == PartKind::StageIn).flat_map(|p| &p.commands);
    let mut paths: Vec<PathBuf> = commands.flat_map(|command| brought_by(command, cwd, mount)).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The results that our own client sends: index of the stage-out command, and path.
pub fn results(plan: &Plan, cwd: &Path, mount: Option<&Path>) -> Vec<(usize, PathBuf)> {
    let commands = plan.parts.iter().filter(|part| part.kind == PartKind::StageOut).flat_map(|p| &p.commands);
    let ours = commands.enumerate().filter_map(|(step, command)| match command.argv.as_slice() {
        [entrepot, stage, out, rest @ ..] if entrepot == "entrepot" && stage == "stage" && out == "out" => {
            let mut words = rest.iter();
            while let Some(word) = words.next() {
                if WITH_VALUE.contains(&word.as_str()) {
                    words.next();
                } else if !word.starts_with('-') {
                    return in_volume(word, cwd, mount?).map(|path| (step, path));
                }
            }
            None
        }
        _ => None,
    });
    ours.collect()
}

/// All paths in the volume that a plan names: destinations of its stage-in, and words of its stage-out commands that
/// are paths there.
pub fn needed(plan: &Plan, cwd: &Path, mount: Option<&Path>) -> Vec<PathBuf> {
    let out = plan.parts.iter().filter(|part| part.kind == PartKind::StageOut).flat_map(|p| &p.commands);
    let words = out.flat_map(|command| &command.argv).filter(|word| !word.contains("://"));
    let named = words.filter_map(|word| in_volume(word, cwd, mount?));
    // The root of the mount is not a file's name: a job that merely runs there does not need all of it.
    let named = named.filter(|path| Some(path.as_path()) != mount);
    let own = plan.datawarp.own.iter().filter_map(|own| own.path.clone());
    let kept = plan.datawarp.persistent.iter().filter_map(|one| one.path.clone());
    staged(plan, cwd, mount).into_iter().chain(named).chain(own).chain(kept).collect()
}

/// A path of a directive as an absolute path in the volume, or `None` outside of it.
pub fn in_volume(path: &str, cwd: &Path, mount: &Path) -> Option<PathBuf> {
    let mut absolute = PathBuf::new();
    for component in cwd.join(path).components() {
        match component {
            Component::ParentDir => {
                absolute.pop();
            }
            Component::CurDir => {}
            other => absolute.push(other),
        }
    }
    absolute.starts_with(mount).then_some(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inside(path: &str) -> Option<PathBuf> {
        in_volume(path, Path::new("/mnt/s/u"), Path::new("/mnt/s"))
    }

    /// [S-052]
    #[test]
    fn paths_of_directives_stay_in_the_volume_or_are_left_out() {
        assert_eq!(inside("a/../b"), Some("/mnt/s/u/b".into()));
        assert_eq!(inside("/mnt/s/./x"), Some("/mnt/s/x".into()));
        for outside in ["../../../etc/passwd", "/etc/passwd", "/mnt/s/../sx", "/mnt/sx", "../../../../../.."] {
            assert_eq!(inside(outside), None, "{outside}");
        }
    }

    #[test]
    fn options_and_their_values_are_no_files() {
        let argv = |line: &str| line.split(' ').map(String::from).collect::<Vec<_>>();
        let line = "entrepot stage in --retry 3 --limit 1MiB/s --also http://b/x --keep http://a/x /mnt/s/x";
        let words = stage_in_words(&argv(line));
        let uris = vec!["http://a/x".into(), "http://b/x".into()];
        let expected = StageInWords { uris, path: "/mnt/s/x".into(), limit: Some(1 << 20) };
        assert_eq!(words, Some(expected));
        let listed = argv("entrepot stage in --manifest http://a/SUMS http://a/set /mnt/s/set");
        assert_eq!(manifest(&listed), Some("http://a/SUMS"));
        assert_eq!(stage_in_words(&listed).map(|words| words.path), Some("/mnt/s/set".into()));
        for none in ["entrepot stage in --manifest m", "entrepot stage out /mnt/s/x http://a/x", "cp a b", "entrepot"] {
            assert_eq!(stage_in_words(&argv(none)), None, "{none}");
        }
    }

    proptest! {
        /// [S-052]
        #[test]
        fn no_path_escapes(path in "(/|\\.\\.|\\.|a|mnt|s){0,12}") {
            if let Some(inside) = inside(&path) {
                let clean = inside.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
                prop_assert!(clean && inside.starts_with("/mnt/s"), "{}", inside.display());
            }
        }
    }
}
