//! What a staged file remembers of its sources: the text behind the attribute `user.entrepot.source`.
//!
//! JSON with a format number, so that a person can read it and a later version can change it. It holds no secret: URIs
//! with a password in them are refused where they come in and again here.

use super::Version;

/// The format that this version writes.
pub const FORMAT: u32 = 1;

/// Bytes of one checksum in `side/ID.sums`: BLAKE3, truncated.
pub const SUM_BYTES: usize = 16;

/// Most sources that one file may have.
pub const SOURCES_MAX: usize = 16;

/// The sources of one file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// The sources, in the order in which they are tried. The first is the one that `version` was taken from.
    pub sources: Vec<Place>,
    /// Bytes that one checksum covers; checksum `k` is of `[k*stripe_bytes, (k+1)*stripe_bytes)` of the file.
    /// 0 when there are no checksums.
    #[serde(default)]
    pub stripe_bytes: u64,
    /// Whether the file was written to since: then it is never recovered from a source.
    #[serde(default)]
    pub modified: bool,
    /// Who staged it: decides where credentials are looked for when it is recovered.
    #[serde(default)]
    pub uid: u32,
    /// The group of the user.
    #[serde(default)]
    pub gid: u32,
    /// The credentials file of the user, by name only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<std::path::PathBuf>,
}

/// One source of a file, and what was there when it was staged in.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Where.
    pub uri: String,
    /// What was there.
    pub version: Version,
    /// Whether ranges are served there. If not, recovery reads from the start and keeps what it needs.
    #[serde(default = "yes")]
    pub ranges: bool,
}

/// Why a record is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Not JSON, or not of the right shape.
    #[error("the source record cannot be read: {0}; set it anew with `entrepot source set`")]
    Shape(String),
    /// Written by a later version.
    #[error("the source record has format {0}, this version knows {FORMAT}; use the newer version of entrepot")]
    Format(u32),
    /// No source, too many, or sources of different sizes.
    #[error("bad source record: {0}")]
    Sources(String),
    /// A URI that must not be stored.
    #[error("{0}")]
    Uri(String),
}

impl Record {
    /// The record of a file that was just staged in.
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

    /// Reads a record from its text.
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

    /// The text of the record.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("a record holds nothing that JSON cannot")
    }

    /// The size of the file that the sources hold, in bytes.
    pub fn size(&self) -> u64 {
        self.sources.first().map_or(0, |s| s.version.size)
    }

    /// On whose behalf the sources are opened when the file is recovered.
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

/// Refuses URIs that must not be stored: not absolute, with control characters, too long, or with a password in them.
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
