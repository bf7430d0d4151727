//! A `[[target]]` block, the file servers that it may lie on, and `[tier.NAME]`.

use super::super::keys::{Directory, SECOND, count, directory, optional, parsed, section, size, span, text, texts};
use super::super::section::{Given, Section};
use policy::connections::{BytesOver, CONNECTIONS_MAX, Policy};
use policy::stripe::device::Measured;
use policy::tier::cost::DeviceCost;
use std::time::Duration;

/// The largest request of the kernel's: less than that holds nothing back for longer than it takes to send it.
const WRITE_BEHIND_MIN: u64 = 1 << 20;
const WRITE_BEHIND_MAX: u64 = 1 << 40;

section! {
    /// `[tier.NAME]`
    TierKeys {
        /// Speed of one of its devices, in megabytes (10^6) per second reading/writing; measured at the first start if it is
        /// absent.
        speed: Option<DeviceCost> = optional(parsed(speed)), "200/40" else None;
        /// Latency of each access.
        latency: Duration = span(Duration::ZERO..=60 * SECOND), "0s";
    }
}

impl TierKeys {
    /// `speed` and `latency` of one device, as the simulator's `--fast-speed` and `--fast-latency` have them.
    pub fn cost(&self) -> Option<DeviceCost> {
        let latency_ns = self.latency.as_nanos() as f64;
        self.speed.map(|speed| DeviceCost { read_latency_ns: latency_ns, write_latency_ns: latency_ns, ..speed })
    }
}

fn speed(text: &str) -> Result<DeviceCost, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    let numbers = text.split_once('/').and_then(|(read, write)| Some((number(read)?, number(write)?)));
    let (read, write) = numbers.ok_or("Give megabytes (10^6) per second, reading/writing, such as \"200/40\"")?;
    let (read_ns_per_byte, write_ns_per_byte) = (1e3 / read, 1e3 / write);
    Ok(DeviceCost { read_latency_ns: 0.0, write_latency_ns: 0.0, read_ns_per_byte, write_ns_per_byte })
}

section! {
    /// A `[[target]]` block.
    TargetKeys {
        /// Its name, for people and commands.
        name: String = text, "fast0" or missing;
        /// The directory of its objects.
        path: Option<Directory> = optional(directory), "targets/fast0" else None;
        /// Its tier; the default is the first that is declared.
        tier: Option<String> = optional(text), "fast" else None;
        /// Hosts that reach the target, if not all nodes of the volume do; the others do not use it.
        only_on: Option<Vec<String>> = optional(texts), ["n1"] else None;
        /// Hosts near the target, for `prefer` of the layout.
        near: Option<Vec<String>> = optional(texts), ["n1", "n2"] else None;
        /// Speed of its device, as `entrepot-lab bench device` measures and writes it.
        device: Option<Measured> = optional(parsed(str::parse)), "disk:seek=8ms,revolution=8ms,read=150MB/s" else None;
    }
}

section! {
    /// `connections = N` of a target, with what belongs to it: it lies on file servers then, and `path` means nothing.
    ConnectionsConfig {
        /// How many connections to a file server `entrepot up` makes for the target itself (docs/guide/connections.md).
        count in "connections": u16 = count(1..=u64::from(CONNECTIONS_MAX)), 4 else 1;
        /// Type of the file system.
        kind in "type": String = text, "glusterfs" or missing;
        /// Addresses of its servers, separated by commas; all of them show the same directory.
        servers: String = text, "bb1:/scratch,bb2:/scratch" or missing;
        /// More options for its mount command, separated by commas.
        options: String = text, "" else String::new();
        /// Policy that chooses the connection of an operation.
        policy: Policy = parsed(str::parse), "load";
        /// Path of the bytes to the server.
        bytes_over: BytesOver = parsed(str::parse), "auto";
        /// Bytes that are acknowledged before the server has them, of all files together; a daemon that is killed loses them.
        write_behind: u64 = write_behind, 0;
    }
}

fn write_behind(given: &Given<'_>) -> Result<u64, String> {
    let what = "0 for none, or a size from 1MiB to 1TiB, such as \"64MiB\"";
    let bytes = size(0..=WRITE_BEHIND_MAX, what)(given)?;
    if bytes > 0 && bytes < WRITE_BEHIND_MIN { Err(format!("Give {what}")) } else { Ok(bytes) }
}

/// Reads the connections of the block; `None` if it has none.
pub fn connections(section: &Section<'_, '_, '_>) -> Option<ConnectionsConfig> {
    if section.get("connections").is_some() {
        return Some(ConnectionsConfig::read(section));
    }
    let given: Vec<_> = ConnectionsConfig::KEYS.iter().filter(|key| section.get(key.name).is_some()).collect();
    if let Some(key) = given.first() {
        let cause = format!("`{}` is given without `connections`", key.name);
        section.problem(key.name, cause, "Add `connections = 4`, or remove it");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::Config;
    use std::path::Path;

    fn parse(lines: &str) -> Result<Config, String> {
        let text = format!(
            "name = \"v\"\nnamespace = \"n\"\nstate = \"s\"\n[[target]]\nname = \"bb\"\npath = \"bb\"\n{lines}\n"
        );
        Config::parse(Path::new("/v/volume.toml"), &text).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_target_may_have_connections() {
        let config =
            parse("connections = 4\ntype = \"glusterfs\"\nservers = \"a:/x,b:/x\"\npolicy = \"multiple\"").unwrap();
        let connections = config.targets[0].connections().unwrap();
        assert_eq!((connections.count, connections.servers.as_str()), (4, "a:/x,b:/x"));
        assert_eq!(connections.policy.to_string(), "multiple");
        assert_eq!((connections.bytes_over, connections.write_behind), (BytesOver::Auto, 0));
        assert_eq!(config.targets[0].directory(), None, "`path` means nothing beside them");
        assert_eq!(parse("").unwrap().targets[0].connections(), None);
    }

    #[test]
    fn it_says_which_way_bytes_go_and_how_many_are_acknowledged_early() {
        let of = |lines: &str| {
            parse(&format!("connections = 2\ntype = \"bind\"\nservers = \"/x\"\n{lines}")).map(|config| {
                let connections = config.targets[0].connections().unwrap();
                (connections.bytes_over, connections.write_behind)
            })
        };
        assert_eq!(of("bytes_over = \"mount\"\nwrite_behind = 0"), Ok((BytesOver::Mount, 0)));
        assert_eq!(of("bytes_over = \"library\"\nwrite_behind = \"8MiB\""), Ok((BytesOver::Library, 8 << 20)));
        assert!(of("bytes_over = \"wire\"").unwrap_err().contains("choose one of auto, mount, library"));
        assert!(of("write_behind = \"4KiB\"").unwrap_err().contains("from 1MiB to 1TiB"));
        assert!(of("write_behind = \"much\"").unwrap_err().contains("`write_behind` is \"much\""));
        assert!(parse("write_behind = 0").unwrap_err().contains("`write_behind` is given without `connections`"));
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        assert!(parse("servers = \"a:/x\"").unwrap_err().contains("without `connections`"));
        assert!(parse("connections = 4").unwrap_err().contains("`servers` is missing"));
        assert!(parse("connections = 900\ntype = \"nfs\"\nservers = \"a:/x\"").is_err());
        assert!(
            parse("connections = 2\ntype = \"nfs\"\nservers = \"a:/x\"\npolicy = \"fast\"")
                .unwrap_err()
                .contains("automatic")
        );
    }
}
