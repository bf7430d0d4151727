//! Access control of the endpoint: by token, or open to all if there is none.

use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};
use node::control::Problem;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Minimum length of a token, against guessing.
const TOKEN_BYTES_MIN: usize = 16;

/// Hash of the token that grants access; `None` grants access to all.
pub struct Access(Option<blake3::Hash>);

impl Access {
    /// Reads the token file; without one, access is open to all.
    pub fn of(file: Option<&Path>) -> Result<Access, Problem> {
        let Some(file) = file else { return Ok(Access(None)) };
        let wrong = |why: String, mend: &str| {
            Problem::wrong(format!("`token_file`, {}: {why}", file.display()))
                .so("the volume is not mounted")
                .try_this(mend.to_owned())
        };
        let text = object::host::read_secret(file).map_err(|why| wrong(why, "mend that, or name another file"))?;
        let token = text.trim();
        if token.len() < TOKEN_BYTES_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let form = format!("it is no token: at least {TOKEN_BYTES_MIN} letters, digits and signs in one line are");
            return Err(wrong(form, "`openssl rand -hex 32` writes one"));
        }
        Ok(Access(Some(blake3::hash(token.as_bytes()))))
    }

    /// Whether there is a token: only then does the endpoint send names of files, users and jobs.
    pub fn has_token(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the `Host` header names this endpoint. Any web page can point its own name to this machine and then read
    /// answers in a user's browser, but only under that name. With a token this check is not needed.
    pub fn is_meant(&self, headers: &HeaderMap) -> bool {
        self.has_token() || headers.get_all(HOST).iter().all(|host| host.to_str().is_ok_and(is_here))
    }

    /// Whether the request carries the token. The comparison's duration reveals nothing about the token.
    pub fn is_granted(&self, headers: &HeaderMap) -> bool {
        let Some(wanted) = self.0 else { return true };
        let sent = headers.get(AUTHORIZATION).and_then(|value| {
            let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| blake3::hash(token.trim().as_bytes()))
        });
        sent.is_some_and(|sent| sent == wanted)
    }
}

/// An address or `localhost`, with or without a port: no name that a stranger can give to this machine.
fn is_here(host: &str) -> bool {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _)| name);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    name.eq_ignore_ascii_case("localhost") || host.parse::<SocketAddr>().is_ok() || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_a_stranger_can_give_is_not_here() {
        for host in ["127.0.0.1", "127.0.0.1:9469", "[::1]", "[::1]:9469", "localhost", "LocalHost:9469", "10.0.0.5:1"]
        {
            assert!(is_here(host), "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:9469", "localhost.evil.example", "127.0.0.1.evil.example:9469", "x:"]
        {
            assert!(!is_here(host), "{host}");
        }
    }
}
