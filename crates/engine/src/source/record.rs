//! Source record of a staged file: the text of the attribute `user.entrepot.source`.
//!
//! JSON with a format number: people can read it, and a later version can change it. It holds no secret: URIs with a
//! password are refused at the interface and again here.

use super::Version;

/// Format number that this version writes.
pub const FORMAT: u32 = 1;

/// Bytes of one checksum in `side/ID.sums`: BLAKE3, truncated.
pub const SUM_BYTES: usize = 16;

/// Maximum number of sources of one file.
pub const SOURCES_MAX: usize = 16;

/// The sources of one file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Always [`FORMAT`] after parsing.
    pub format: u32,
    /// Sources in the order of use. `version` was taken from the first.
    pub sources: Vec<Place>,
    /// Bytes that one checksum covers; checksum `k` is of `[k*stripe_bytes, (k+1)*stripe_bytes)` of the file.
    /// 0 when there are no checksums.
    #[serde(default)]
    pub stripe_bytes: u64,
    /// Whether the file was written to after staging: then it is never recovered from a source.
    #[serde(default)]
    pub modified: bool,
    /// User who staged the file: decides where credentials are searched at recovery.
    #[serde(default)]
    pub uid: u32,
    /// Numeric group id of the user.
    #[serde(default)]
    pub gid: u32,
    /// Path of the user's credentials file; its content is never stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<std::path::PathBuf>,
}

/// One source of a file, and its version at stage-in.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// URI without secrets.
    pub uri: String,
    /// Version at stage-in.
    pub version: Version,
    /// Whether the source serves ranges. If not, recovery reads from the start and keeps the bytes that it needs.
    #[serde(default = "yes")]
    pub ranges: bool,
}

/// Failure to parse a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The text is not JSON, or JSON of another shape.
    #[error("the source record cannot be read: {0}; set it again with `entrepot source set`")]
    Shape(String),
    /// Written by a later version.
    #[error("the source record has format {0}, this version reads {FORMAT}; use the newer version of entrepot")]
    Format(u32),
    /// No source, too many, or sources of different sizes.
    #[error("bad source record: {0}")]
    Sources(String),
    /// A URI that must not be stored.
    #[error("{0}")]
    Uri(String),
}

impl Record {
    /// Creates the record of a file that was just staged in.
    pub fn new(sources: Vec<Place>, stripe_bytes: u64, who: &super::Identity) -> Record {
        Record {
            format: FORMAT,
            sources,
            stripe_bytes,
            modified: false,
            uid: who.uid,
            gid: who.gid,
            credentials_file: who.credentials_file.clone(),
        }
    }

    /// Parses and checks a record.
    pub fn parse(text: &str) -> Result<Record, RecordError> {
        #[derive(serde::Deserialize)]
        struct Head {
            format: u32,
        }
        let shape = |e: serde_json::Error| RecordError::Shape(e.to_string());
        let head: Head = serde_json::from_str(text).map_err(shape)?;
        if head.format != FORMAT {
            return Err(RecordError::Format(head.format));
        }
        let record: Record = serde_json::from_str(text).map_err(shape)?;
        record.check()?;
        Ok(record)
    }

    /// Serializes the record.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a record holds nothing that JSON cannot")
    }

    /// Size in bytes of the file at the sources.
    pub fn size(&self) -> u64 {
        self.sources.first().map_or(0, |s| s.version.size)
    }

    /// The user for whom the sources are opened at recovery.
    pub fn identity(&self) -> super::Identity {
        super::Identity {
            uid: self.uid,
            gid: self.gid,
            credentials_file: self.credentials_file.clone(),
            ..super::Identity::default()
        }
    }

    fn check(&self) -> Result<(), RecordError> {
        let bad = |why: &str| Err(RecordError::Sources(why.to_string()));
        if self.sources.is_empty() || self.sources.len() > SOURCES_MAX {
            return bad("it names no source or more than 16");
        }
        if self.sources.iter().any(|s| s.version.size != self.size()) {
            return bad("its sources have different sizes, so they cannot be copies of one file");
        }
        self.sources.iter().try_for_each(|s| check_uri(&s.uri))
    }
}

/// Refuses URIs that must not be stored: not absolute, with control characters, too long, or with a secret.
pub fn check_uri(uri: &str) -> Result<(), RecordError> {
    let refuse = |why: &str| Err(RecordError::Uri(why.to_string()));
    if uri.len() > 4096 {
        return refuse("the URI is longer than 4096 bytes");
    }
    if uri.chars().any(char::is_control) {
        return refuse("the URI has a control character in it");
    }
    let Ok(parsed) = url::Url::parse(uri) else {
        return refuse("not a URI; write SCHEME://HOST/PATH, for a local file file:///PATH");
    };
    if parsed.password().is_some() {
        return refuse(
            "the URI has a password in it, which would end up in attributes and logs; put it into the environment \
             or a credentials file of mode 0600 and name the URI without it",
        );
    }
    let secret = |key: &str| {
        let key = key.to_ascii_lowercase();
        ["x-amz-signature", "x-amz-security-token", "password", "access_token", "sig", "secret_access_key"]
            .contains(&key.as_str())
    };
    if parsed.query_pairs().any(|(key, _)| secret(&key)) {
        return refuse(
            "the URI has a signature or token in its query, which would end up in attributes and logs; use a \
             credentials file of mode 0600 instead",
        );
    }
    Ok(())
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let version = Version { size: 7, etag: Some("\"x\"".into()), modified_ns: None };
        let place = Place { uri: "https://host/a".into(), version, ranges: true };
        let who = super::super::Identity {
            uid: 5,
            environment: [("AWS_SECRET_ACCESS_KEY".to_string(), "hush".to_string())].into(),
            ..Default::default()
        };
        Record::new(vec![place], 1 << 20, &who)
    }

    #[test]
    fn text_and_back() {
        let r = record();
        assert_eq!(Record::parse(&r.to_text()), Ok(r.clone()));
        assert!(!r.to_text().contains("hush"));
    }

    #[test]
    fn later_formats_and_nonsense_are_refused() {
        let later = record().to_text().replace("\"format\":1", "\"format\":2");
        assert_eq!(Record::parse(&later), Err(RecordError::Format(2)));
        assert!(matches!(Record::parse("{}"), Err(RecordError::Shape(_))));
        let mut two = record();
        two.sources.push(Place { version: Version { size: 8, ..Default::default() }, ..two.sources[0].clone() });
        assert!(matches!(Record::parse(&two.to_text()), Err(RecordError::Sources(_))));
        two.sources.clear();
        assert!(matches!(Record::parse(&two.to_text()), Err(RecordError::Sources(_))));
    }

    /// [S-047]
    #[test]
    fn secrets_in_uris_are_refused_without_repeating_them() {
        for uri in ["ftp://me:hush@host/x", "https://h/x?X-Amz-Signature=hush", "https://h/x?access_token=hush"] {
            let error = check_uri(uri).expect_err(uri).to_string();
            assert!(!error.contains("hush"), "{error}");
        }
        for uri in ["x", "/etc/passwd", "http://h/\n", ""] {
            assert!(check_uri(uri).is_err(), "{uri}");
        }
        assert_eq!(check_uri("sftp://me@host:2222/~/x"), Ok(()));
    }
}
