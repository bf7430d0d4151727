//! Every problem of the directories, with its line.

use super::*;
use object::target::DirectoryMedium;
use policy::TargetId;
use std::fs;

struct Site(tempfile::TempDir);

impl Site {
    fn new() -> Site {
        let site = Site(tempfile::tempdir().unwrap());
        for dir in ["n", "s", "a"] {
            fs::create_dir(site.path(dir)).unwrap();
        }
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// Problems of targets in these directories, named like them; empty if there are none.
    fn check(&self, namespace: &str, targets: &[&str]) -> String {
        let blocks: String = targets
            .iter()
            .map(|path| format!("[[target]]\nname = \"{}\"\npath = \"{path}\"\n", path.replace('/', "-")))
            .collect();
        let text = format!("namespace = \"{namespace}\"\nstate = \"s\"\n{blocks}");
        let config = Config::parse(&self.path("volume.toml"), &text).unwrap();
        check(&config).err().map_or(String::new(), |problems| problems.to_string())
    }
}

#[test]
fn a_good_site_has_no_problem_and_is_not_touched() {
    let site = Site::new();
    assert_eq!(site.check("n", &["a"]), "");
    for dir in ["n", "s", "a"] {
        assert_eq!(fs::read_dir(site.path(dir)).unwrap().count(), 0, "{dir}");
    }
}

#[test]
fn missing_directories_are_named_all_of_them() {
    let site = Site::new();
    let shown = site.check("nowhere", &["a", "away"]);
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert!(
        lines[0].contains("volume.toml:1:13: ") && lines[0].contains("for the namespace, does not exist"),
        "{shown}"
    );
    assert!(
        lines[1].contains("volume.toml:8:8: ") && lines[1].contains("target \"away\"") && lines[1].contains("mkdir -p"),
        "{shown}"
    );
}

#[test]
fn a_file_is_no_directory() {
    let site = Site::new();
    fs::write(site.path("file"), "").unwrap();
    let shown = site.check("n", &["file"]);
    assert!(shown.contains(":5:8: ") && shown.contains("is no directory; the volume is not opened"), "{shown}");
}

#[test]
fn directories_lie_apart_even_through_links() {
    let site = Site::new();
    fs::create_dir(site.path("n/inside")).unwrap();
    let shown = site.check("n", &["n/inside"]);
    assert!(shown.contains(":5:8: target \"n-inside\"") && shown.contains("lies inside the namespace"), "{shown}");
    std::os::unix::fs::symlink(site.path("a"), site.path("b")).unwrap();
    let shown = site.check("n", &["a", "b"]);
    assert!(shown.contains(":8:8: target \"b\"") && shown.contains("lies inside target \"a\""), "{shown}");
}

#[test]
fn a_target_of_another_volume_is_refused() {
    let site = Site::new();
    let identity = Identity { volume: VolumeId(0xabc), target: TargetId(4), name: "theirs".into() };
    DirectoryMedium::format(&site.path("a"), &identity).unwrap();
    let shown = site.check("n", &["a"]);
    assert!(shown.contains(":5:8: ") && shown.contains("target 4 (\"theirs\") of another volume, 0000"), "{shown}");
}

#[test]
fn a_damaged_identity_is_refused() {
    let site = Site::new();
    fs::write(site.path("a/target.id"), "volume = 5").unwrap();
    fs::write(site.path("n/volume.id"), "what").unwrap();
    let shown = site.check("n", &["a"]);
    assert!(shown.contains(":5:8: ") && shown.contains("target.id is damaged"), "{shown}");
    assert!(shown.contains(":1:13: ") && shown.contains("does not hold the number of a volume"), "{shown}");
}

#[test]
fn a_namespace_without_attributes_is_refused() {
    let site = Site::new();
    // procfs holds no user attributes anywhere, and needs no privilege to look at.
    let shown = site.check("/proc/self/task", &["a"]);
    assert!(shown.contains(":1:13: ") && shown.contains("no user extended attributes"), "{shown}");
}

#[test]
fn a_damaged_state_store_is_one_clear_problem() {
    let site = Site::new();
    fs::write(site.path("s/state.db"), vec![7; 9000]).unwrap();
    let shown = site.check("n", &["a"]);
    assert!(shown.contains(":2:9: ") && shown.contains("state.db cannot be read") && !shown.contains('\n'), "{shown}");
}
