//! Devices as TOML files: the built-in ones, and those of users.
//!
//! A file has one of `[disk]` ([`Model`]), `[ssd]` ([`SsdModel`]) and `device = "NAME"` (any other device by its name), and
//! optionally an array of such devices:
//!
//! ```toml
//! device = "plain:read=500MB,latency=80us"
//! array = { raid = 5, disks = 6, stripe_unit = "64KiB" }
//! ```
//! A file is read once in a run, and stays in memory until the end.

use super::Model;
use crate::ssd::SsdModel;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{LazyLock, Mutex};

/// A device, or an array of equal ones.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Array of such devices; `None`: one device.
    pub array: Option<Array>,
    /// A device by its name.
    pub device: Option<String>,
    /// A mechanical disk.
    pub disk: Option<Model>,
    /// A solid-state drive.
    pub ssd: Option<SsdModel>,
}

/// An array of equal devices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// 0 or 5.
    pub raid: u8,
    /// Number of devices.
    pub disks: u32,
    /// Bytes of a stripe unit, such as `64KiB`.
    pub stripe_unit: String,
}

/// The built-in files, by name.
static BUILT_IN: LazyLock<BTreeMap<&str, DeviceFile>> = LazyLock::new(|| {
    let files = [
        ("cheetah9lp", include_str!("../../devices/cheetah9lp.toml")),
        ("atlas10k", include_str!("../../devices/atlas10k.toml")),
        ("ssd-sata", include_str!("../../devices/ssd-sata.toml")),
        ("ssd-nvme", include_str!("../../devices/ssd-nvme.toml")),
    ];
    files.map(|(name, text)| (name, parse(name, text).expect("a built-in file is right"))).into()
});

/// Files of users, by their paths.
static OWN: Mutex<BTreeMap<String, &DeviceFile>> = Mutex::new(BTreeMap::new());

/// The built-in devices, by name.
pub fn built_in() -> impl Iterator<Item = (&'static str, &'static DeviceFile)> {
    BUILT_IN.iter().map(|(name, file)| (*name, file))
}

/// Returns the built-in device of this name, or that of a file whose name ends in `.toml`; `None` for other names.
pub fn find(name: &str) -> Result<Option<&'static DeviceFile>, String> {
    if !name.ends_with(".toml") {
        return Ok(BUILT_IN.get(name));
    }
    let mut own = OWN.lock().expect("no thread panics with it");
    if !own.contains_key(name) {
        let text = std::fs::read_to_string(name).map_err(|error| error.to_string())?;
        let stem = Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        own.insert(name.to_owned(), Box::leak(Box::new(parse(&stem.unwrap_or_default(), &text)?)));
    }
    Ok(own.get(name).copied())
}

fn parse(name: &str, text: &str) -> Result<DeviceFile, String> {
    let mut file: DeviceFile = toml::from_str(text).map_err(|error| error.to_string().replace('\n', " "))?;
    let kinds = [file.device.is_some(), file.disk.is_some(), file.ssd.is_some()];
    if kinds.iter().filter(|is| **is).count() != 1 {
        return Err("it needs one of [disk], [ssd] and device".into());
    }
    if file.device.as_ref().is_some_and(|of| of.ends_with(".toml")) {
        return Err("its device is another file".into());
    }
    if let Some(disk) = &mut file.disk {
        disk.name = name.to_owned();
        disk.check()?;
    }
    if let Some(ssd) = &mut file.ssd {
        ssd.name = name.to_owned();
        ssd.check()?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_files_are_refused_with_a_reason() {
        let disk = include_str!("../../devices/cheetah9lp.toml");
        for (text, part) in [
            ("array = { raid = 5, disks = 3, stripe_unit = \"64KiB\" }".to_owned(), "needs one of"),
            ("device = \"a.toml\"".to_owned(), "another file"),
            ("device = \"none\"\nspeed = 1".to_owned(), "unknown field"),
            (disk.replace("sectors = 17_783_240", "sectors = 18_783_240"), "zones hold"),
            (disk.replace("[848, 1643,", "[840, 1643,"), "zones overlap"),
            (disk.replace("[2, 1003]", "[2, 1003], [1, 5]"), "ascending"),
            (disk.replace("surfaces = 12", "surfaces = 0"), "surfaces"),
            (include_str!("../../devices/ssd-sata.toml").replace("channels = 8", "channels = 0"), "channels"),
        ] {
            let error = parse("x", &text).expect_err(part);
            assert!(error.contains(part), "{error} instead of {part}");
        }
    }

    #[test]
    fn a_users_file_is_the_device_of_its_kind() {
        let at = tempfile::tempdir().unwrap();
        let path = at.path().join("mine.toml").display().to_string();
        assert!(find(&path).is_err() && find("floppy").unwrap().is_none());
        std::fs::write(&path, include_str!("../../devices/ssd-nvme.toml").replace("channels = 32", "channels = 4"))
            .unwrap();
        let ssd = find(&path).unwrap().unwrap().ssd.as_ref().unwrap();
        assert_eq!((ssd.name.as_str(), ssd.channels), ("mine", 4));
        assert_eq!(built_in().count(), 4);
    }
}
