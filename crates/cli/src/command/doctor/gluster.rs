//! Client of GlusterFS below a volume of several nodes. It shows its options in `.meta` at its mount point.

use super::finding::Finding;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Options of the command line, with the words for their value. Without one of them nodes see old names or bytes.
const OPTIONS: [(&str, &[&str]); 3] = [
    ("--entry-timeout", &["0"]),
    ("--direct-io-mode", &["enable", "on", "yes"]),
    ("--fopen-keep-cache", &["off", "no"]),
];
/// Parts of the client that must be off, with their options. They keep sizes, bytes, and acknowledged writes.
const PARTS: [(&str, &str); 3] = [
    ("performance/md-cache", "performance.stat-prefetch"),
    ("performance/quick-read", "performance.quick-read"),
    ("performance/write-behind", "performance.write-behind"),
];
const ABOUT: &str = ".meta/cmdline";

#[derive(Deserialize)]
struct About {
    #[serde(rename = "Cmdlinestr")]
    command: String,
}

/// Checks the clients of these directories, as far as they are below GlusterFS.
pub fn look(directories: &[PathBuf]) -> Vec<Finding> {
    let mount_point = |path: &PathBuf| Some(path.ancestors().find(|at| at.join(ABOUT).is_file())?.to_path_buf());
    let mount_points: BTreeSet<PathBuf> = directories.iter().filter_map(mount_point).collect();
    mount_points.iter().map(|at| finding(at)).collect()
}

fn finding(mount_point: &Path) -> Finding {
    let subject = format!("GlusterFS at {}", mount_point.display());
    let wrong = match wrong_options(mount_point) {
        Ok(wrong) if wrong.is_empty() => return Finding::ok(&subject, "its client keeps nothing from other nodes"),
        Ok(wrong) => wrong,
        Err(error) => return Finding::warning(&subject, format!("the options of its client cannot be read: {error}")),
    };
    Finding::failure(&subject, format!("its client needs {}", wrong.join(", ")))
        .so("nodes see old names, sizes or bytes of each other, or lose acknowledged bytes with a brick")
        .next("set and mount it as docs/guide/operate/cluster.md does")
}

/// Options that differ from what several nodes need, with the right values.
fn wrong_options(mount_point: &Path) -> std::io::Result<Vec<String>> {
    let about: About = serde_json::from_slice(&std::fs::read(mount_point.join(ABOUT))?)?;
    let words: Vec<&str> = about.command.split([' ', '=']).collect();
    let given: BTreeMap<&str, &str> = words.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let is_wrong = |(option, values): &(&str, &[&str])| !given.get(option).is_some_and(|value| values.contains(value));
    let mut wrong: Vec<String> =
        OPTIONS.into_iter().filter(is_wrong).map(|(option, values)| format!("{option}={}", values[0])).collect();
    let mut timeouts = Vec::new();
    for part in std::fs::read_dir(mount_point.join(".meta/graphs/active"))? {
        let part = part?.path();
        let kind = std::fs::read_to_string(part.join("type")).unwrap_or_default();
        let option = PARTS.iter().find(|(of, _)| *of == kind.trim()).map(|(_, option)| format!("{option} off"));
        wrong.extend(option);
        timeouts.extend(std::fs::read_to_string(part.join("options/transport.tcp-user-timeout")));
    }
    // 0 stands for the default of the kernel.
    if timeouts.iter().any(|timeout| !matches!(timeout.trim().parse(), Ok(1..=3))) {
        wrong.push("client.tcp-user-timeout 3".into());
    }
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Weight;
    use super::*;

    /// Files of a client at its mount point.
    fn client(at: &Path, options: &str, parts: &[&str], timeout: &str) {
        let active = at.join(".meta/graphs/active");
        for kind in parts {
            let part = active.join(format!("gv0-{}", kind.replace('/', "-")));
            std::fs::create_dir_all(part.join("options")).unwrap();
            std::fs::write(part.join("type"), format!("{kind}\n")).unwrap();
        }
        std::fs::write(active.join("gv0-protocol-client/options/transport.tcp-user-timeout"), timeout).unwrap();
        let about = format!(r#"{{ "Cmdlinestr": "glusterfs --volfile-id=gv0 {options} /mnt" }}"#);
        std::fs::write(at.join(ABOUT), about).unwrap();
    }

    #[test]
    fn options_of_a_client_that_keeps_something_from_other_nodes_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let directories = [dir.path().join("names/tree"), dir.path().join("t0")];
        assert_eq!(look(&directories), [], "it is no GlusterFS");
        let right = "--entry-timeout=0 --direct-io-mode=enable --fopen-keep-cache=off";
        client(dir.path(), right, &["protocol/client", "performance/utime"], "3\n");
        let found = look(&directories);
        assert_eq!(found.iter().map(|finding| finding.state).collect::<Vec<_>>(), [Weight::Ok], "{found:?}");
        client(dir.path(), "--entry-timeout 1 --fopen-keep-cache=off", &["performance/write-behind"], "0\n");
        let [found] = &look(&directories)[..] else { panic!("one mount point") };
        assert_eq!(found.state, Weight::Failure);
        for wrong in ["--entry-timeout=0", "--direct-io-mode=enable", "write-behind off", "tcp-user-timeout 3"] {
            assert!(found.what.contains(wrong), "{wrong}: {}", found.what);
        }
        assert!(!found.what.contains("keep-cache"), "{}", found.what);
    }
}
