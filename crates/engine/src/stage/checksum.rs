//! Checksums of whole files from the user, such as those that data portals publish.

use super::{Result, StageError};
use md5::Md5;
use policy::named;
use sha1::Sha1;
use sha2::digest::DynDigest;
use sha2::{Sha256, Sha512};

named! {
    /// A checksum algorithm.
    #[derive(serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    Algorithm {
        /// BLAKE3, 256 bits.
        Blake3 = "BLAKE3",
        /// SHA-512, from FIPS 180-4.
        Sha512 = "SHA-512",
        /// SHA-256, from FIPS 180-4.
        Sha256 = "SHA-256",
        /// SHA-1: good against accidents only.
        Sha1 = "SHA-1",
        /// MD5: good against accidents only.
        Md5 = "MD5",
    }
}

impl Algorithm {
    /// Parses the name of an algorithm, in any spelling.
    pub(super) fn named(name: &str) -> Result<Algorithm, String> {
        let plain = |name: &str| name.replace('-', "").to_ascii_uppercase();
        let found = Algorithm::ALL.iter().find(|algorithm| plain(algorithm.name()) == plain(name));
        found.copied().ok_or_else(|| format!("the checksum {name} is unknown; {}", Algorithm::known()))
    }

    /// The accepted names, for messages.
    pub(super) fn known() -> String {
        let names: Vec<_> = Algorithm::ALL.iter().map(|algorithm| algorithm.name()).collect();
        format!("known are {}", names.join(", "))
    }

    pub(super) fn digits(self) -> usize {
        match self {
            Algorithm::Sha512 => 128,
            Algorithm::Blake3 | Algorithm::Sha256 => 64,
            Algorithm::Sha1 => 40,
            Algorithm::Md5 => 32,
        }
    }
}

/// Expected checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Checksum {
    /// Algorithm of the checksum.
    pub algorithm: Algorithm,
    /// Hexadecimal digits of the checksum.
    pub hex: String,
}

impl Checksum {
    /// Checks that the digits fit the algorithm.
    pub fn check(&self) -> Result<()> {
        let (hex, digits) = (self.hex.trim(), self.algorithm.digits());
        if hex.len() == digits && hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(());
        }
        let name = self.algorithm.name();
        Err(StageError::BadChecksum(format!(
            "{:?} is no {name} checksum: {name} has {digits} hexadecimal digits",
            self.hex
        )))
    }
}

enum Hasher {
    Blake3(Box<blake3::Hasher>),
    Other(Box<dyn DynDigest>),
}

/// Computes all expected checksums of a file in one pass.
pub(super) struct Expected<'a>(Vec<(&'a Checksum, Hasher)>);

impl<'a> Expected<'a> {
    pub fn new(checksums: &'a [Checksum]) -> Expected<'a> {
        let hasher = |checksum: &Checksum| match checksum.algorithm {
            Algorithm::Blake3 => Hasher::Blake3(Box::default()),
            Algorithm::Sha512 => Hasher::Other(Box::<Sha512>::default()),
            Algorithm::Sha256 => Hasher::Other(Box::<Sha256>::default()),
            Algorithm::Sha1 => Hasher::Other(Box::<Sha1>::default()),
            Algorithm::Md5 => Hasher::Other(Box::<Md5>::default()),
        };
        Expected(checksums.iter().map(|checksum| (checksum, hasher(checksum))).collect())
    }

    pub fn update(&mut self, bytes: &[u8]) {
        for (_, hasher) in &mut self.0 {
            match hasher {
                Hasher::Blake3(hasher) => drop(hasher.update(bytes)),
                Hasher::Other(hasher) => hasher.update(bytes),
            }
        }
    }

    /// Compares the computed checksums with the expected ones.
    pub fn compare(self) -> Result<()> {
        for (checksum, hasher) in self.0 {
            let found = match hasher {
                Hasher::Blake3(hasher) => hasher.finalize().to_hex().to_string(),
                Hasher::Other(hasher) => hex(&hasher.finalize()),
            };
            if !found.eq_ignore_ascii_case(checksum.hex.trim()) {
                let (name, expected) = (checksum.algorithm.name(), checksum.hex.clone());
                return Err(StageError::Checksum { name, found, expected });
            }
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(algorithm: Algorithm, hex: &str) -> Checksum {
        Checksum { algorithm, hex: hex.into() }
    }

    /// Published values of "abc": RFC 1321, FIPS 180-4, and BLAKE3's test vectors.
    #[test]
    fn published_values() {
        let right = [
            sum(Algorithm::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            sum(Algorithm::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            sum(Algorithm::Sha256, "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
            sum(
                Algorithm::Sha512,
                "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
            ),
            sum(Algorithm::Blake3, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
        ];
        right.iter().for_each(|checksum| checksum.check().expect("good"));
        let of = |checksums: &[Checksum]| {
            let mut expected = Expected::new(checksums);
            [&b"a"[..], b"bc"].iter().for_each(|part| expected.update(part));
            expected.compare()
        };
        of(&right).expect("all of them");
        for wrong in &right {
            let wrong = sum(wrong.algorithm, &wrong.hex.replace('9', "8"));
            assert!(matches!(of(&[right[0].clone(), wrong]), Err(StageError::Checksum { .. })));
        }
    }

    #[test]
    fn what_can_be_no_checksum_is_refused() {
        for (algorithm, hex) in [
            (Algorithm::Blake3, "abc".to_string()),
            (Algorithm::Sha256, "g".repeat(64)),
            (Algorithm::Sha1, "a".repeat(64)),
            (Algorithm::Md5, String::new()),
        ] {
            let said = sum(algorithm, &hex).check().expect_err("refused").to_string();
            assert!(said.contains("hexadecimal digits"), "{said}");
        }
    }
}
