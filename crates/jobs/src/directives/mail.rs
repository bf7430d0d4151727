//! When a job's owner gets mail, in Slurm's words: `--mail-type` and `--mail-user`.

use super::words::{Refusal, Result};
use crate::request::Mail;

/// The longest address that mail supports.
const ADDRESS_BYTES_MAX: usize = 254;

/// Parses the value of `--mail-type`. Returns the types that are not sent here.
pub fn types(value: &str, mail: &mut Mail) -> Vec<String> {
    let mut others = Vec::new();
    for word in value.split(',').filter(|word| !word.is_empty()) {
        match word.to_ascii_uppercase().as_str() {
            "NONE" => (mail.end, mail.fail, mail.stage_out) = (false, false, false),
            "ALL" => (mail.end, mail.fail, mail.stage_out) = (true, true, true),
            "END" => mail.end = true,
            "FAIL" => mail.fail = true,
            "STAGE_OUT" => mail.stage_out = true,
            _ => others.push(format!("--mail-type={word}")),
        }
    }
    others
}

/// Checks an address: the mail program must not take it for an option, a file, a program or a further line.
pub fn address(value: &str) -> Result<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._%+-=@".contains(c);
    if value.is_empty() || value.len() > ADDRESS_BYTES_MAX || value.starts_with('-') || !value.chars().all(good) {
        let cause = format!("--mail-user is {:?}, which is no address", value.escape_debug().to_string());
        return Err(Refusal::new(cause, "write NAME@HOST, or the name of a user of this machine"));
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-314]
    #[test]
    fn an_address_is_nothing_else() {
        for good in ["ann", "ann.b+c@data.example.org", "x_1%y=z@h"] {
            assert_eq!(address(good).ok().as_deref(), Some(good));
        }
        let long = "a".repeat(255);
        for bad in
            ["", "-f", "--", "a b", "a\nBcc: b", "|sh", "/etc/passwd", "a;b", "$(id)", "a,b", "<a>", "\u{e4}", &long]
        {
            assert!(address(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn types_are_slurms_and_what_is_not_sent_here_is_given_back() {
        let mut mail = Mail::default();
        assert_eq!(
            types("end,STAGE_OUT,BEGIN,TIME_LIMIT_90", &mut mail),
            ["--mail-type=BEGIN", "--mail-type=TIME_LIMIT_90"]
        );
        assert_eq!((mail.end, mail.fail, mail.stage_out), (true, false, true));
        types("NONE", &mut mail);
        assert!(mail.is_none());
    }
}
