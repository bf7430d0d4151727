//! Adding, removing and changing a `[[target]]` block of a `volume.toml`, leaving every other line and comment as it is.

use super::config::{Config, TargetConfig};
use super::problem::{Problem, Problems, Result};
use super::template;
use object::host::rename_durably;
use policy::stripe::device::Measured;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;

/// Appends a block, unless there is one of that name.
pub fn append_target(file: &Path, name: &str, path: &str, tier: &str) -> Result<()> {
    let by_hand = format!("Add the `[[target]]` block \"{name}\" by hand");
    let append = |text: &str| {
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        Some(format!("{text}{newline}{}", template::block(name, path, tier)))
    };
    change(file, name, by_hand, append, |target| target.is_some())
}

/// Removes the block of that name, if there is one.
pub fn remove_target(file: &Path, name: &str) -> Result<()> {
    let by_hand = format!("Remove the `[[target]]` block \"{name}\" by hand");
    let remove = |text: &str| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (from, last) = block(&lines, name)?.into_inner();
        Some(lines[..from].concat() + &lines[last + 1..].concat())
    };
    change(file, name, by_hand, remove, |target| target.is_none())
}

/// Writes `device = "..."` into the block of a target.
pub fn set_device(file: &Path, name: &str, device: &Measured) -> Result<()> {
    let by_hand = format!("Write device = \"{device}\" into the `[[target]]` block \"{name}\" by hand");
    let is_device = |line: &str| line.split('=').next().is_some_and(|key| key.trim() == "device");
    let set = |text: &str| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (from, last) = block(&lines, name)?.into_inner();
        let mut edited: String = lines[..from].concat();
        edited.extend(lines[from..=last].iter().filter(|line| !is_device(line)).copied());
        if !edited.ends_with('\n') {
            edited.push('\n');
        }
        Some(edited + &format!("device = \"{device}\"\n{}", lines[last + 1..].concat()))
    };
    let is_set = |target: Option<&TargetConfig>| {
        let there = target.and_then(|target| target.device);
        there.is_some_and(|there| there.to_string() == device.to_string())
    };
    change(file, name, by_hand, set, is_set)
}

/// Lines of a target's block, without comments and blank lines at its end, which belong to the next block.
fn block(lines: &[&str], name: &str) -> Option<RangeInclusive<usize>> {
    let headers: Vec<usize> = (0..lines.len()).filter(|&i| lines[i].trim_start().starts_with('[')).collect();
    let (from, end) = headers.iter().enumerate().find_map(|(i, &from)| {
        let end = headers.get(i + 1).copied().unwrap_or(lines.len());
        (names(&lines[from..end].concat()).as_deref() == Some(name)).then_some((from, end))
    })?;
    let last = (from..end).rev().find(|&i| !matches!(lines[i].trim_start().chars().next(), None | Some('#')))?;
    Some(from..=last)
}

/// The name of the one target that a piece of text describes.
fn names(block: &str) -> Option<String> {
    let table: toml::Table = block.parse().ok()?;
    let [target] = table.get("target")?.as_array()?.as_slice() else { return None };
    target.get("name")?.as_str().map(str::to_owned)
}

/// Edits the text of the file in one step, unless the target is as it should be already. Checks that the edit makes it
/// so and leaves the other targets.
fn change(
    file: &Path,
    name: &str,
    by_hand: String,
    edit: impl FnOnce(&str) -> Option<String>,
    is_right: impl Fn(Option<&TargetConfig>) -> bool,
) -> Result<()> {
    let still = format!("{} still has the old block", file.display());
    let failed = |cause: String| Problems::one(Problem::new(cause, &*still, &*by_hand));
    let parse = |text: &str| Config::parse(file, text).map_err(|problems| failed(problems.to_string()));
    let is_done = |config: &Config| is_right(config.targets.iter().find(|target| target.name == name));
    let others = |config: Config| {
        let names = config.targets.into_iter().map(|target| target.name);
        names.filter(|other| other != name).collect::<Vec<_>>()
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let before = parse(&text)?;
    if is_done(&before) {
        return Ok(());
    }
    let edited = edit(&text).ok_or_else(|| failed("the block was not found in a form that can be edited".into()))?;
    let after = parse(&edited)?;
    if !is_done(&after) || others(before) != others(after) {
        return Err(failed("the file is written in a form that cannot be edited".into()));
    }
    replace(file, &edited).map_err(|error| failed(error.to_string()))
}

fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let new = file.with_extension("toml.new");
    let mut written = std::fs::File::create(&new)?;
    written.set_permissions(std::fs::metadata(file)?.permissions())?;
    written.write_all(text.as_bytes())?;
    written.sync_all()?;
    rename_durably(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_and_go_and_comments_stay() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("volume.toml");
        let text = "# mine\nnamespace = \"n\"\nstate = \"s\"\n\n[[target]] # first\nname = \"a\"\npath = \"a\"\n\n\
                    # about the layout\n[layout]\nstripe_count = 2 # two";
        std::fs::write(&file, text).unwrap();
        append_target(&file, "b \"x", "c", "default").expect_err("no such name passes the check");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

        append_target(&file, "b", "/x \"y\"", "default").unwrap();
        let config = Config::load_text(&file);
        assert_eq!(config.targets[1].directory(), Some(Path::new("/x \"y\"")));
        remove_target(&file, "a").unwrap();
        let left = std::fs::read_to_string(&file).unwrap();
        assert!(
            left.starts_with("# mine\nnamespace = \"n\"\nstate = \"s\"\n\n\n# about the layout\n[layout]"),
            "{left}"
        );
        assert_eq!(Config::load_text(&file).targets.len(), 1);
        remove_target(&file, "a").expect("gone is gone");
    }

    #[test]
    fn a_form_that_cannot_be_edited_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("volume.toml");
        let text =
            "namespace = \"n\"\nstate = \"s\"\ntarget = [{name = \"a\", path = \"a\"}, {name = \"b\", path = \"b\"}]\n";
        std::fs::write(&file, text).unwrap();
        let error = remove_target(&file, "a").unwrap_err().to_string();
        assert!(error.contains("by hand"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn a_measured_device_is_written_into_its_block_once() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("volume.toml");
        let text = "namespace = \"n\"\nstate = \"s\"\n\n[[target]]\nname = \"a\"\npath = \"a\"\n\n# the second\n\
                    [[target]]\nname = \"b\" # here\npath = \"b\"\n\n# about the layout\n[layout]\nstripe_count = 2";
        std::fs::write(&file, text).unwrap();
        for (name, device) in [
            ("a", "disk:seek=1ms,revolution=1ms,read=1MB/s"),
            ("b", "flash:latency=1ms,channels=2"),
            ("a", "flash:latency=3ms"),
        ] {
            let device: Measured = device.parse().unwrap();
            set_device(&file, name, &device).unwrap();
            let set = Config::load_text(&file).targets.into_iter().find(|target| target.name == name).unwrap();
            assert_eq!(set.device.unwrap().to_string(), device.to_string());
        }
        let edited = std::fs::read_to_string(&file).unwrap();
        assert!(
            edited.contains("# the second\n[[target]]\nname = \"b\" # here\n")
                && edited.matches("device = ").count() == 2,
            "{edited}"
        );
        set_device(&file, "c", &Measured::default()).unwrap_err();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), edited);
    }

    impl Config {
        fn load_text(file: &Path) -> Config {
            Config::parse(file, &std::fs::read_to_string(file).unwrap()).unwrap()
        }
    }
}
