//! `connections = N` in a `[[target]]` block: the file system that is shown in the target's directory.

use super::super::config::ConnectionsConfig;
use super::super::section::{Reading, Section};
use policy::connections::{CONNECTIONS_MAX, Policy};

/// What the block says of connections; nothing if it does not have them.
pub fn connections(reading: &Reading<'_>, section: &Section<'_, '_, '_>) -> Option<ConnectionsConfig> {
    let wanted = section.get("connections").is_some();
    let others: Vec<_> =
        ["servers", "type", "options", "policy"].into_iter().filter_map(|key| Some((key, section.get(key)?))).collect();
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
    let policy = section.string("policy").map_or(Policy::default(), |(word, span)| {
        word.parse().unwrap_or_else(|cause: String| {
            reading.problem(span, cause, format!("Give one of {}", Policy::WORDS));
            Policy::default()
        })
    });
    Some(ConnectionsConfig { count, kind, servers, options: text("options"), policy })
}

#[cfg(test)]
mod tests {
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
        assert_eq!(parse("").unwrap().targets[0].connections, None);
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
