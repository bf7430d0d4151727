//! Users of the mount: processes with a working directory or an open file in it.

use std::path::Path;

/// Maximum of processes named in a message.
const NAMED_MAX: usize = 10;

/// Lists the processes that use files below `mount_point`, like `bash (4711)`. Reads only the kernel's own tables,
/// never the mount.
pub fn users_of(mount_point: &Path) -> Vec<String> {
    let mut users = Vec::new();
    let Ok(processes) = std::fs::read_dir("/proc") else { return users };
    for process in processes.flatten() {
        let dir = process.path();
        let Some(pid) = process.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() || !uses(&dir, mount_point) {
            continue;
        }
        if users.len() == NAMED_MAX {
            users.push("and others".into());
            break;
        }
        let name = std::fs::read_to_string(dir.join("comm")).unwrap_or_default();
        users.push(format!("{} ({pid})", name.trim_end()));
    }
    users
}

fn uses(process: &Path, mount_point: &Path) -> bool {
    let inside = |link: &Path| std::fs::read_link(link).is_ok_and(|to| to.starts_with(mount_point));
    if inside(&process.join("cwd")) || inside(&process.join("root")) || inside(&process.join("exe")) {
        return true;
    }
    let Ok(descriptors) = std::fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|d| inside(&d.path()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_stands_in_a_directory_uses_it() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        let mut child = Command::new("cat").current_dir(&at).stdin(Stdio::piped()).spawn().unwrap();
        let users = users_of(&at);
        assert!(users.iter().any(|u| u.contains(&child.id().to_string())), "{users:?}");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(users_of(&at), Vec::<String>::new());
    }
}
