//! Adding, removing and changing a `[[target]]` block of a `volume.toml`, leaving every other line and comment as it is.

use super::config::Config;
use super::problem::{Problem, Problems, Result};
use super::template;
use object::host::rename_durably;
use policy::stripe::device::Measured;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::Path;

/// Appends a block.
pub fn append_target(file: &Path, name: &str, path: &str, tier: &str) -> Result<()> {
    change(file, name, true, |text| {
        let newline = if text.ends_with('\n') { "" } else { "\n" };
        Some(format!("{text}{newline}{}", template::block(name, path, tier)))
    })
}

/// Removes the block of that name, if there is one.
pub fn remove_target(file: &Path, name: &str) -> Result<()> {
    change(file, name, false, |text| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let block = block(&lines, name)?;
        Some(lines[..*block.start()].concat() + &lines[block.end() + 1..].concat())
    })
}

/// Writes `device = "..."` into the block of a target.
pub fn set_device(file: &Path, name: &str, device: &Measured) -> Result<()> {
    let failed = |cause: String| {
        let mend = format!("Write device = \"{device}\" into the `[[target]]` block \"{name}\" by hand");
        Problems::one(Problem::new(cause, format!("{} still has the old block", file.display()), mend))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let block =
        block(&lines, name).ok_or_else(|| failed("the block was not found in a form that can be edited".into()))?;
    let is_device = |line: &str| line.split('=').next().is_some_and(|key| key.trim() == "device");
    let kept = |line: &&&str| !is_device(line);
    let (from, last) = block.into_inner();
    let mut edited: String = lines[..from].concat();
    edited.extend(lines[from..=last].iter().filter(kept).copied());
    if !edited.ends_with('\n') {
        edited.push('\n');
    }
    edited += &format!("device = \"{device}\"\n{}", lines[last + 1..].concat());
    let config = Config::parse(file, &edited).map_err(|problems| failed(problems.to_string()))?;
    let set = config.targets.iter().find(|target| target.name == name).and_then(|target| target.device);
    if set.map(|set| set.to_string()) != Some(device.to_string()) {
        return Err(failed("the file is written in a form that cannot be edited".into()));
    }
    replace(file, &edited).map_err(|error| failed(error.to_string()))
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

/// Replaces the file in one step, after a check that only this target was added or removed.
fn change(file: &Path, name: &str, present: bool, edit: impl FnOnce(&str) -> Option<String>) -> Result<()> {
    let failed = |cause: String| {
        Problems::one(Problem::new(
            cause,
            format!("{} still has the old block", file.display()),
            format!("{} the `[[target]]` block \"{name}\" by hand", if present { "Add" } else { "Remove" }),
        ))
    };
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let targets = |text: &str| {
        let config = Config::parse(file, text).map_err(|problems| failed(problems.to_string()))?;
        Ok::<_, Problems>(config.targets.into_iter().map(|target| target.name).collect::<Vec<_>>())
    };
    let mut expected = targets(&text)?;
    if expected.iter().any(|target| target == name) == present {
        return Ok(());
    }
    if present {
        expected.push(name.to_owned());
    } else {
        expected.retain(|target| target != name);
    }
    let edited = edit(&text).ok_or_else(|| failed("the block was not found in a form that can be edited".into()))?;
    if targets(&edited)? != expected {
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
