//! Who may watch: whoever sends the token, or everybody where there is none.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use std::path::Path;
use store::control::Problem;

/// A token is no shorter: it must not be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// Who may watch.
pub struct Access(Option<blake3::Hash>);

impl Access {
    /// Whoever has the token of that file; everybody without one.
    pub fn of(file: Option<&Path>) -> Result<Access, Problem> {
        let Some(file) = file else { return Ok(Access(None)) };
        let wrong = |why: String, mend: &str| {
            Problem::wrong(format!("`token_file`, {}: {why}", file.display()))
                .so("the volume is not mounted")
                .try_this(mend.to_owned())
        };
        let text = store::host::read_secret(file).map_err(|why| wrong(why, "mend that, or name another file"))?;
        let token = text.trim();
        if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let form = format!("it is no token: at least {TOKEN_BYTES_MIN} letters, digits and signs in one line are");
            return Err(wrong(form, "`openssl rand -hex 32` writes one"));
        }
        Ok(Access(Some(blake3::hash(token.as_bytes()))))
    }

    /// Whether there is a token: only then is anybody shown names of files, users and jobs.
    pub fn has_token(&self) -> bool {
        self.0.is_some()
    }

    /// Whether a request is of one who may. How long this takes tells nothing of the token.
    pub fn is_granted(&self, headers: &HeaderMap) -> bool {
        let Some(wanted) = self.0 else { return true };
        let sent = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| blake3::hash(token.trim().as_bytes()))
        });
        sent.is_some_and(|sent| sent == wanted)
    }
}
