//! From where an application restarts: its newest complete version whose files are all where they were written.

use super::{Burst, record};
use crate::control::{Caller, Problem};
use crate::stub::real::number_at;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::Path;

impl Burst {
    /// The version to restart from, and the directory that its files lie in. It is looked for without a lock: there may be a file for each
    /// of thousands of ranks.
    ///
    /// # Errors
    /// There is none that the caller may see.
    pub(crate) fn restart(&self, caller: &Caller, app: &str) -> Result<Value, Problem> {
        let (mut versions, on_its_way) = {
            let table = self.table.lock();
            if !self.may_see(&table, caller, app) {
                return Err(nothing(app, None));
            }
            let versions: Vec<_> = table.complete.values().filter(|v| v.app == app).cloned().collect();
            let on_its_way =
                table.current.values().find(|current| current.app == app).map(|current| current.label.clone());
            (versions, on_its_way)
        };
        versions.sort_by_key(|version| std::cmp::Reverse(version.number));
        let version = versions.into_iter().find(|version| self.is_in_place(version));
        let Some(version) = version else { return Err(nothing(app, on_its_way)) };
        Ok(json!({"app": app, "label": version.label, "number": version.number, "directory": directory(&version),
            "bytes": version.bytes(), "files": version.parts.len(), "at_ms": version.at_ms}))
    }

    /// One whose files were renamed or removed is none to restart from.
    fn is_in_place(&self, version: &record::Version) -> bool {
        let is_there = |part: &record::Part| {
            let number = number_at(self.volume.tree(), OsStr::new(&part.path));
            let is_it = number.is_ok_and(|number| number.map_or(0, |id| id.0) == part.file);
            is_it && self.volume.stub_at(&part.path).is_some()
        };
        version.parts.iter().all(is_there)
    }
}

fn nothing(app: &str, on_its_way: Option<String>) -> Problem {
    let begun =
        on_its_way.map_or(String::new(), |label| format!("; version \"{label}\" was begun and is not complete"));
    Problem::not_found(format!("{app} has no complete version of a checkpoint in its place{begun}"))
        .so("there is nothing to restart from")
        .try_this(format!("start it from the beginning; `entrepot checkpoint list {app}` shows what there is"))
}

/// The directory that was announced for it, else the innermost one that all its files lie in; relative to the mount's root.
fn directory(version: &record::Version) -> String {
    let mut all = version.parts.iter().map(|part| Path::new(&part.path));
    let announced = version.announced.as_deref().map(Path::new);
    if let Some(dir) = announced.filter(|dir| all.clone().all(|path| path != *dir && path.starts_with(dir))) {
        return shown(dir);
    }
    let above = |path: &'_ Path| path.parent().unwrap_or(Path::new("")).to_path_buf();
    let Some(mut dir) = all.next().map(above) else { return String::new() };
    for path in all {
        while !path.starts_with(&dir) && dir.pop() {}
    }
    shown(&dir)
}

fn shown(dir: &Path) -> String {
    dir.to_str().unwrap_or_default().trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir_of(announced: Option<&str>, paths: &[&str]) -> String {
        let part = |path: &&str| record::Part { path: path.to_string(), file: 1, bytes: 1 };
        directory(&record::Version {
            app: "wave".into(),
            number: 1,
            label: "7".into(),
            parts: paths.iter().map(part).collect(),
            at_ms: 1,
            announced: announced.map(Into::into),
        })
    }

    #[test]
    fn it_is_the_directory_that_was_announced_else_the_innermost_above_all_files() {
        assert_eq!(dir_of(Some("run/state"), &["run/state/rank-0/data"]), "run/state");
        assert_eq!(dir_of(Some("run/state/"), &["run/state/a"]), "run/state");
        assert_eq!(dir_of(None, &["run/state/rank-0/data"]), "run/state/rank-0");
        assert_eq!(dir_of(None, &["run/state/r0/d", "run/state/r1/d"]), "run/state");
        assert_eq!(dir_of(None, &["run/step-1/d", "run/step-10/d"]), "run", "names are not cut");
        assert_eq!(dir_of(Some("run/state"), &["run/state"]), "run", "a file was announced");
        assert_eq!(dir_of(Some("run/state"), &["other/a", "run/state/b"]), "", "the volume itself");
        assert_eq!(dir_of(Some(""), &["a/b"]), "");
    }
}
