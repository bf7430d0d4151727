//! `connections = N` in a `[[target]]` block: the file system that is shown in the target's directory.

use super::super::config::ConnectionsConfig;
use super::super::section::{Reading, Section};
use policy::connections::{BytesOver, CONNECTIONS_MAX, Policy, WRITE_BEHIND_BYTES};

/// The largest request of the kernel's: less than that holds nothing back for longer than it takes to send it.
const WRITE_BEHIND_MIN: u64 = 1 << 20;
const WRITE_BEHIND_MAX: u64 = 1 << 40;

/// What the block says of connections; nothing if it does not have them.
pub fn connections(reading: &Reading<'_>, section: &Section<'_, '_, '_>) -> Option<ConnectionsConfig> {
    let wanted = section.get("connections").is_some();
    let keys = ["servers", "type", "options", "policy", "bytes_over", "write_behind"];
    let others: Vec<_> = keys.into_iter().filter_map(|key| Some((key, section.get(key)?))).collect();
    if !wanted {
        if let Some((key, value)) = others.first() {
            reading.problem(
                value.span(),
                format!("`{key}` is given without `connections`"),
                "Add `connections = 4`, or remove it",
            );
        }
        return None;
    }
    let count = section.count("connections", 1, 1..=u64::from(CONNECTIONS_MAX)) as u16;
    let text = |key| section.string(key).map_or(String::new(), |(text, _)| text);
    let (servers, _) = section.required("servers", "server:/volume");
    let (kind, _) = section.required("type", "glusterfs");
    let policy = section.words("policy", Policy::default(), str::parse);
    let bytes_over = section.words("bytes_over", BytesOver::default(), str::parse);
    let what = "0 for none, or a size from 1MiB to 1TiB, such as \"64MiB\"";
    let write_behind = section.size("write_behind", WRITE_BEHIND_BYTES, 0..=WRITE_BEHIND_MAX, what);
    if write_behind > 0 && write_behind < WRITE_BEHIND_MIN {
        let span = section.get("write_behind").map_or(0..0, |value| value.span());
        reading.problem(span, "`write_behind` is smaller than one request", format!("Give {what}"));
    }
    Some(ConnectionsConfig { count, kind, servers, options: text("options"), policy, bytes_over, write_behind })
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
        let connections = config.targets[0].connections.clone().unwrap();
        assert_eq!((connections.count, connections.servers.as_str()), (4, "a:/x,b:/x"));
        assert_eq!(connections.policy.to_string(), "multiple");
        assert_eq!((connections.bytes_over, connections.write_behind), (BytesOver::Auto, 64 << 20));
        assert_eq!(parse("").unwrap().targets[0].connections, None);
    }

    #[test]
    fn it_says_which_way_bytes_go_and_how_many_are_acknowledged_early() {
        let of = |lines: &str| {
            parse(&format!("connections = 2\ntype = \"bind\"\nservers = \"/x\"\n{lines}")).map(|config| {
                let connections = config.targets[0].connections.clone().unwrap();
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
