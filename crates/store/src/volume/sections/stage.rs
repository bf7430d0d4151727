//! The section about where data come from: `[stage]`.

use super::super::keys::{parsed, section};

section! {
    /// `[stage]`
    Stage {
        /// Where records of `zenodo:RECORD` are asked for: Zenodo, or a repository that runs its software (InvenioRDM).
        zenodo: String = parsed(base), "https://zenodo.org";
        /// Where it is asked what a DOI (`doi:10...`) leads to.
        datacite: String = parsed(base), "https://api.datacite.org";
    }
}

fn base(text: &str) -> Result<String, &'static str> {
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let plain = url.filter(|url| url.query().is_none() && url.username().is_empty() && url.password().is_none());
    let mend = "Give http://HOST or https://HOST, with a port or path where need be";
    plain.map(|url| url.as_str().trim_end_matches('/').to_string()).ok_or(mend)
}
