//! The storage of a setup.

use super::{Setup, SetupError, duration, size_bytes};
use crate::block::{Anticipatory, Deadline, Merging, Scheduler};
use crate::disk::Disk;
use crate::disk::devices::{self, DeviceFile};
use crate::ssd::Ssd;
use crate::storage::{Array, Cost, Device, Service, Storage};
use policy::precedence::Precedence;
use policy::time::Time;

/// Most disks of an array: each has a queue and a map of its own. A guess.
const DISKS_MAX: u32 = 1024;

pub(super) fn build(setup: &Setup) -> Result<Storage, SetupError> {
    let (scheduler, precedence) = match setup.scheduler.split_once(':') {
        Some((scheduler, "awaited")) => (scheduler, true),
        _ => (setup.scheduler.as_str(), false),
    };
    let scheduler = match scheduler {
        "noop" => Scheduler::Noop,
        "deadline" => Scheduler::Deadline(Deadline::default()),
        "anticipatory" => Scheduler::Anticipatory(Anticipatory::default()),
        _ => {
            let why =
                "choose noop, deadline or anticipatory, each also with `:awaited` for awaited reads before prefetches";
            return Err(SetupError::new("scheduler", &setup.scheduler, why));
        }
    };
    let unreadable = |why: String| SetupError::new("disk", &setup.disk, why);
    let file = devices::find(&setup.disk).map_err(unreadable)?;
    let of_file = file.and_then(|file| file.array.as_ref());
    if of_file.is_some() && (setup.disks, setup.raid) != (1, None) {
        return Err(unreadable("it is an array: leave --disks and --raid out".into()));
    }
    let (raid, disks) = of_file.map_or((setup.raid, setup.disks), |array| (Some(array.raid), array.disks));
    let unit = of_file.map_or(&setup.stripe_unit, |array| &array.stripe_unit);
    let unit_sectors = size_bytes("stripe-unit", unit)? / 512;
    if unit_sectors == 0 {
        return Err(SetupError::new("stripe-unit", unit, "a stripe unit has at least 512 bytes"));
    }
    let wrong = |why: &str| Err(SetupError::new("disks", disks.to_string(), why));
    if disks > DISKS_MAX {
        return wrong("an array has at most 1024 disks");
    }
    let array = match (raid, disks) {
        (None, 1) => Array::Single,
        (None, _) => return wrong("several disks need raid 0 or 5, one disk is 1"),
        (Some(0), 2..) => Array::Raid0 { unit_sectors },
        (Some(5), 3..) => Array::Raid5 { unit_sectors },
        (Some(0), _) => return wrong("raid 0 needs at least 2 disks"),
        (Some(5), _) => return wrong("raid 5 needs at least 3 disks"),
        (Some(other), _) => return Err(SetupError::new("raid", other.to_string(), "choose 0 or 5")),
    };
    let devices = (0..disks).map(|_| device(setup, file)).collect::<Result<_, _>>()?;
    let storage = Storage::new(devices, array, scheduler, Merging::default());
    Ok(if precedence { storage.with_precedence(Precedence::default()) } else { storage })
}

fn device(setup: &Setup, file: Option<&'static DeviceFile>) -> Result<Device, SetupError> {
    if let Some(model) = file.and_then(|file| file.disk.as_ref()) {
        let disk = Disk::new(model);
        return Ok(Device::Disk(Box::new(match setup.disk_bus_mb_s {
            None => disk,
            Some(mb_s) if mb_s.is_finite() && mb_s > 0.0 => disk.with_bus((512.0 * 1e3 / mb_s).round() as u64),
            Some(mb_s) => {
                return Err(SetupError::new("disk-bus", mb_s.to_string(), "a bus moves more than 0 MB/s"));
            }
        })));
    }
    if let Some(model) = file.and_then(|file| file.ssd.as_ref()) {
        return Ok(Device::Ssd(Ssd::new(model)));
    }
    let name = match file.and_then(|file| file.device.as_deref()) {
        Some(name) if devices::built_in().any(|(of, _)| of == name) => {
            return device(setup, devices::find(name).expect("no file is read"));
        }
        other => other.unwrap_or(&setup.disk),
    };
    if let Some(time) = name.strip_prefix("constant:") {
        return Ok(Device::Constant(Service::new(duration("disk", time)?, Time::ZERO)));
    }
    if let Some(words) = name.strip_prefix("plain:") {
        return Ok(Device::Constant(plain(words)?));
    }
    let names: Vec<_> = devices::built_in().map(|(name, _)| name).collect();
    let why = format!("choose none, {}, constant:TIME, plain:KEY=VALUE,... or a file NAME.toml", names.join(", "));
    Err(SetupError::new("disk", name, why))
}

/// Parses a device with a given bandwidth: `read=71.2MB,write=60MB,latency=1ms,capacity=10GB`, each of them optional.
fn plain(words: &str) -> Result<Service, SetupError> {
    let mut service = Service::new(Time::ZERO, Time::ZERO);
    let sector_ps = |rate: u64| (512e12 / rate as f64).round() as u64;
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let wrong = || SetupError::new("disk", word, "known are read=RATE, write=RATE, latency=TIME, capacity=SIZE");
        let (key, value) = word.split_once('=').ok_or_else(wrong)?;
        match key {
            "read" => service.read.sector_ps = sector_ps(size_bytes("read", value)?),
            "write" => service.write.sector_ps = sector_ps(size_bytes("write", value)?),
            "latency" => {
                let request = duration("latency", value)?;
                service.read = Cost { request, ..service.read };
                service.write = Cost { request, ..service.write };
            }
            "capacity" => service.sectors = (size_bytes("capacity", value)? / 512).max(1),
            _ => return Err(wrong()),
        }
    }
    Ok(service)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_the_capacity_of_their_members() {
        let one = Setup::default().storage().unwrap().sectors();
        assert_eq!(one, 17_783_240);
        let five = Setup { disks: 5, raid: Some(5), ..Setup::default() }.storage().unwrap().sectors();
        assert_eq!(five, one / 128 * 128 * 4);
        let wrong = Setup { disks: 2, ..Setup::default() }.storage().unwrap_err();
        assert!(wrong.why.contains("raid"));
        assert!(Setup { disk: "floppy".into(), ..Setup::default() }.storage().unwrap_err().why.contains("cheetah9lp"));
    }

    #[test]
    fn a_file_of_an_array_is_the_same_as_its_words() {
        let at = tempfile::tempdir().unwrap();
        let disk = at.path().join("array.toml").display().to_string();
        let array = "array = { raid = 5, disks = 5, stripe_unit = \"64KiB\" }";
        let words = Setup { disks: 5, raid: Some(5), ..Setup::default() }.storage().unwrap().sectors();
        std::fs::write(&disk, format!("device = \"cheetah9lp\"\n{array}")).unwrap();
        let setup = Setup { disk, ..Setup::default() };
        assert_eq!(setup.storage().unwrap().sectors(), words);
        assert!(Setup { disks: 2, raid: Some(0), ..setup }.storage().unwrap_err().why.contains("array"));
        let disk = at.path().join("plain.toml").display().to_string();
        std::fs::write(&disk, "device = \"plain:capacity=1GB\"").unwrap();
        assert_eq!(Setup { disk, ..Setup::default() }.storage().unwrap().sectors(), 1_953_125);
    }

    #[test]
    fn a_plain_device_takes_its_latency_and_its_bytes_at_its_rates() {
        let mut device = device(
            &Setup { disk: "plain:read=64MB,write=32MB,latency=1ms,capacity=1GB".into(), ..Setup::default() },
            None,
        )
        .unwrap();
        let io = |write| crate::block::Io {
            sector: 0,
            count: 125,
            write,
            owner: 0,
            class: policy::precedence::Class::Awaited,
        };
        assert_eq!(device.serve(Time::ZERO, &io(false)), Time(2_000_000));
        assert_eq!(device.serve(Time::ZERO, &io(true)), Time(3_000_000));
        assert_eq!(device.sectors(), 1_953_125);
        for wrong in ["plain:speed=1", "plain:read", "plain:read=fast"] {
            assert!(Setup { disk: wrong.into(), ..Setup::default() }.storage().is_err(), "{wrong}");
        }
    }
}
