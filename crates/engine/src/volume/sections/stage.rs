//! The section about where data come from: `[stage]`.

use super::super::keys::{Read, parsed, rate, section};
use super::super::section::Given;

section! {
    /// `[stage]`
    Stage {
        /// Server of the records `zenodo:RECORD`: Zenodo, or a repository that runs its software (InvenioRDM).
        zenodo: String = parsed(base), "https://zenodo.org";
        /// The service that resolves a DOI (`doi:10...`).
        datacite: String = parsed(base), "https://api.datacite.org";
        /// Bytes per second of all stagings of the volume together, in both directions; 0 is no limit. Users share it
        /// equally, and so do nodes. `entrepot stage --limit` limits one staging further.
        limit: u64 = limit, 0;
    }
}

/// A lower limit delays many users until their sources end the connections (a guess).
const LIMIT_MIN: u64 = 1 << 20;

fn limit(given: &Given<'_>) -> Read<u64> {
    let limit = rate(given)?;
    if limit == 0 || limit >= LIMIT_MIN { Ok(limit) } else { Err("Give at least \"1MiB\", or 0 for no limit".into()) }
}

fn base(text: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let plain = url.filter(|url| url.query().is_none() && url.username().is_empty() && url.password().is_none());
    let mend = "Give http://HOST or https://HOST, with a port or path where need be";
    plain.map(|url| url.as_str().trim_end_matches('/').to_string()).ok_or(mend)
}
