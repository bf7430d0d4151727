//! Formats of checksum manifests from data portals: `sha256sum`, `md5sum`, `b3sum`, BSD, and BagIt.
//!
//! ```text
//!   HEX  FILE            sha256sum, md5sum, sha1sum, sha512sum, b3sum; `HEX *FILE` too
//!   \HEX  FI\\LE         the same, where the name has a backslash or a line's end in it
//!   SHA256 (FILE) = HEX  BSD, and `--tag` of those
//!   HEX FI%25LE          BagIt's manifest-ALGORITHM.txt
//! ```

use crate::stage::{Algorithm, Checksum};

/// Returns the file of a line and its expected checksum. `name` is the name of the manifest, which decides between
/// algorithms with equally many digits.
pub(super) fn parse_line(line: &str, name: &str) -> Result<(String, Checksum), String> {
    let (escaped, line) = line.strip_prefix('\\').map_or((false, line), |rest| (true, rest));
    let (file, checksum) = match tagged(line) {
        Some((tag, file, hex)) => (file, Checksum { algorithm: Algorithm::named(tag)?, hex: hex.to_string() }),
        None => {
            let digits = line.bytes().take_while(u8::is_ascii_hexdigit).count();
            let (hex, rest) = line.split_at(digits);
            let gap = rest.strip_prefix("  ").or(rest.strip_prefix(" *"));
            let file = gap.unwrap_or_else(|| rest.trim_start_matches([' ', '\t']));
            if hex.is_empty() || file.len() == rest.len() || file.is_empty() {
                return Err("a checksum and a file are expected, as sha256sum, md5sum or BSD's tools write them".into());
            }
            (file, Checksum { algorithm: by_digits(digits, name)?, hex: hex.to_string() })
        }
    };
    checksum.check().map_err(|e| e.to_string())?;
    let file = match () {
        () if escaped => unescaped(file),
        () if is_bagit(name) => file.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%"),
        () => file.to_string(),
    };
    Ok((file, checksum))
}

/// Whether a line begins with a checksum: detects a checksum manifest that is given as a list of URIs.
pub(super) fn looks_like_one(line: &str) -> bool {
    let digits = line.trim_start_matches('\\').bytes().take_while(u8::is_ascii_hexdigit).count();
    tagged(line).is_some() || Algorithm::ALL.iter().any(|algorithm| algorithm.digits() == digits)
}

/// Parses `TAG (FILE) = HEX`.
fn tagged(line: &str) -> Option<(&str, &str, &str)> {
    let (tag, rest) = line.split_once(" (")?;
    let (file, hex) = rest.rsplit_once(") = ")?;
    (!tag.contains([' ', '\t'])).then_some((tag, file, hex))
}

fn by_digits(digits: usize, name: &str) -> Result<Algorithm, String> {
    let name = name.to_ascii_lowercase();
    let says = |word: &str| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| part.starts_with(word));
    if let Some(other) = ["b2", "blake2", "sha3"].into_iter().find(|word| says(word)) {
        return Err(format!("the name of the manifest means {other}; {}", Algorithm::known()));
    }
    let fits = Algorithm::ALL.iter().copied().filter(|algorithm| algorithm.digits() == digits);
    let is_blake3 = says("b3") || says("blake3");
    let mut fits = fits.filter(|algorithm| digits != 64 || is_blake3 == (*algorithm == Algorithm::Blake3));
    fits.next().ok_or_else(|| format!("no supported checksum has {digits} digits; {}", Algorithm::known()))
}

fn is_bagit(name: &str) -> bool {
    let stem = name.strip_suffix(".txt");
    stem.is_some_and(|stem| stem.starts_with("manifest-") || stem.starts_with("tagmanifest-"))
}

fn unescaped(file: &str) -> String {
    let mut chars = file.chars();
    let mut plain = String::new();
    while let Some(c) = chars.next() {
        plain.push(match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some(other) => other,
                None => c,
            },
            _ => c,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC_MD5: &str = "900150983cd24fb0d6963f7d28e17f72";
    const ABC_SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// [S-265]
    #[test]
    fn the_forms_that_tools_write() {
        let sha512 = "d".repeat(128);
        for (line, name, file, algorithm) in [
            (format!("{ABC_SHA256}  a b"), "SHA256SUMS", "a b", Algorithm::Sha256),
            (format!("{ABC_SHA256} *./d/a"), "x", "./d/a", Algorithm::Sha256),
            (format!("{ABC_MD5}   leading"), "x", " leading", Algorithm::Md5),
            (format!("{ABC_MD5}\ta"), "x", "a", Algorithm::Md5),
            (format!("\\{ABC_MD5}  a\\\\b\\nc"), "x", "a\\b\nc", Algorithm::Md5),
            (format!("SHA256 (a (1) = b) = {ABC_SHA256}"), "x", "a (1) = b", Algorithm::Sha256),
            (format!("BLAKE3 (a) = {ABC_SHA256}"), "x", "a", Algorithm::Blake3),
            (format!("{ABC_SHA256}  a"), "b3sums.txt", "a", Algorithm::Blake3),
            (format!("{ABC_SHA256}  a"), "web3-sha256.txt", "a", Algorithm::Sha256),
            (format!("{ABC_SHA256} data/50%25"), "manifest-sha256.txt", "data/50%", Algorithm::Sha256),
            (format!("{ABC_SHA256}  50%25"), "SHA256SUMS", "50%25", Algorithm::Sha256),
            (format!("{sha512}  a"), "manifest-sha512.txt", "a", Algorithm::Sha512),
        ] {
            let (found, checksum) = parse_line(&line, name).unwrap_or_else(|why| panic!("{line}: {why}"));
            assert_eq!((found.as_str(), checksum.algorithm), (file, algorithm), "{line}");
        }
    }

    #[test]
    fn what_is_no_such_line_is_refused_by_name() {
        for (line, name, why) in [
            ("http://h/a a".to_string(), "x", "a checksum and a file"),
            (ABC_MD5.to_string(), "x", "a checksum and a file"),
            (format!("{ABC_MD5}  "), "x", "a checksum and a file"),
            (format!("{ABC_MD5}0  a"), "x", "has 33 digits; known are"),
            (format!("SHA256 (a) = {ABC_MD5}"), "x", "64 hexadecimal digits"),
            (format!("WHIRLPOOL (a) = {ABC_MD5}"), "x", "WHIRLPOOL is unknown; known are"),
            (format!("{}  a", "0".repeat(128)), "b2sums", "manifest means b2; known are"),
        ] {
            let said = parse_line(&line, name).expect_err(&line);
            assert!(said.contains(why), "{line}: {said}");
        }
    }
}
