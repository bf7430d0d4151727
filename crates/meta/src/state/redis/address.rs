//! Address and credentials of a Redis server: one server, or Sentinels that name the current one.
//!
//! ```text
//! redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]       rediss:// with TLS;  unix:///PATH
//! redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],HOST[:PORT].../MASTER[/DATABASE]       rediss+sentinel:// with TLS
//! ```
//! The password may be in a file, which is read whenever a connection is made.

use redis::{Client, Connection, ConnectionInfo, IntoConnectionInfo, RedisError, RedisResult, TlsCertificates};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SENTINEL_PORT: &str = "26379";

/// A server, as `volume.toml` names it.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    servers: Servers,
    /// The file that holds the password.
    password_file: Option<PathBuf>,
    /// Certificates that authenticate the server, in place of the machine's.
    ca_file: Option<PathBuf>,
}

#[derive(Clone, PartialEq, Eq)]
enum Servers {
    One(String),
    Sentinels { at: Vec<String>, master: String, scheme: &'static str, login: String, database: String },
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Address {
    /// Parses the address in `volume.toml`.
    ///
    /// # Errors
    /// A description of the problem.
    pub fn parse(url: &str) -> Result<Address, String> {
        if url.contains('#') {
            return Err("an address has no `#`: a server that cannot be trusted is not used".into());
        }
        let sentinels = [("redis+sentinel://", "redis"), ("rediss+sentinel://", "rediss")];
        let named = sentinels.into_iter().find_map(|(start, scheme)| Some((url.strip_prefix(start)?, scheme)));
        let servers = match named {
            Some((rest, scheme)) => Servers::sentinels(rest, scheme)?,
            None => Servers::One(url.into()),
        };
        let address = Address { servers, password_file: None, ca_file: None };
        let example = match &address.servers {
            Servers::One(url) => url.clone(),
            Servers::Sentinels { at, scheme, login, database, .. } => {
                at.iter().try_for_each(|at| open(&format!("{scheme}://{at}")).map(drop))?;
                format!("{scheme}://{login}host/{database}")
            }
        };
        open(&example)?;
        Ok(address)
    }

    /// Adds the file of the password, and the file of certificates that authenticate the server.
    pub fn with_files(self, password_file: Option<PathBuf>, ca_file: Option<PathBuf>) -> Address {
        Address { password_file, ca_file, ..self }
    }

    /// Whether the address itself has a password.
    pub fn has_password(&self) -> bool {
        match &self.servers {
            Servers::One(url) => open(url).is_ok_and(|info| info.redis_settings().password().is_some()),
            Servers::Sentinels { login, .. } => login.contains(':'),
        }
    }

    /// Whether bytes are encrypted on the way.
    pub fn is_encrypted(&self) -> bool {
        match &self.servers {
            Servers::One(url) => url.starts_with("rediss:") || url.starts_with("valkeys:"),
            Servers::Sentinels { scheme, .. } => *scheme == "rediss",
        }
    }

    /// Whether another server may take the place of this one.
    pub fn may_change(&self) -> bool {
        matches!(self.servers, Servers::Sentinels { .. })
    }

    /// Text for people, without a password.
    pub fn shown(&self) -> String {
        match &self.servers {
            Servers::One(url) => open(url).map_or_else(
                |_| "the Redis server".into(),
                |info| format!("the Redis server at {}, database {}", info.addr(), info.redis_settings().db()),
            ),
            Servers::Sentinels { at, master, .. } => {
                format!("the Redis server {master} of the Sentinels at {}", at.join(", "))
            }
        }
    }

    /// Connects to the server, or to the present master.
    pub fn connect(&self, span: Duration) -> RedisResult<Connection> {
        let password = self.password_file.as_deref().map(read_password).transpose()?;
        match &self.servers {
            Servers::One(url) => self.client(url, password.as_deref())?.get_connection_with_timeout(span),
            Servers::Sentinels { at, master, scheme, login, database } => {
                let there = self.master(at, master, scheme, login, password.as_deref(), span)?;
                let client = self.client(&format!("{scheme}://{login}{there}/{database}"), password.as_deref())?;
                let mut connection = client.get_connection_with_timeout(span)?;
                connection.set_read_timeout(Some(span))?;
                let role: Vec<redis::Value> = redis::cmd("ROLE").query(&mut connection)?;
                match role.into_iter().next().map(redis::from_redis_value::<String>).transpose()? {
                    Some(role) if role == "master" => Ok(connection),
                    role => Err(wrong(format!("{there}, which the Sentinels name, is no master yet but {role:?}"))),
                }
            }
        }
    }

    fn client(&self, url: &str, password: Option<&str>) -> RedisResult<Client> {
        let mut info = url.into_connection_info()?;
        if let Some(password) = password {
            let settings = info.redis_settings().clone().set_password(password);
            info = info.set_redis_settings(settings);
        }
        match &self.ca_file {
            Some(file) if self.is_encrypted() => {
                let root_cert =
                    Some(std::fs::read(file).map_err(|error| wrong(format!("{}: {error}", file.display())))?);
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            _ => Client::open(info),
        }
    }

    /// Returns the server named by the first Sentinel that answers. Sentinels may have the server's password, or none.
    fn master(
        &self,
        at: &[String],
        name: &str,
        scheme: &str,
        login: &str,
        password: Option<&str>,
        span: Duration,
    ) -> RedisResult<String> {
        let ask = |login: &str, password: Option<&str>, at: &str| -> RedisResult<Option<(String, u16)>> {
            let mut connection =
                self.client(&format!("{scheme}://{login}{at}"), password)?.get_connection_with_timeout(span)?;
            connection.set_read_timeout(Some(span))?;
            redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).query(&mut connection)
        };
        let mut said = Vec::new();
        for at in at {
            let answer = match ask("", None, at) {
                Err(error) if error.code() == Some("NOAUTH") => ask(login, password, at),
                answer => answer,
            };
            match answer {
                Ok(Some((host, port))) if host.contains(':') => return Ok(format!("[{host}]:{port}")),
                Ok(Some((host, port))) => return Ok(format!("{host}:{port}")),
                Ok(None) => said.push(format!("{at} has no master {name}")),
                Err(error) => said.push(format!("{at}: {error}")),
            }
        }
        Err(wrong(format!("no Sentinel returns its address ({})", said.join("; "))))
    }
}

impl Servers {
    fn sentinels(rest: &str, scheme: &'static str) -> Result<Servers, String> {
        let form = "Sentinels are HOST:PORT,HOST:PORT/MASTER/DATABASE";
        let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
        let (hosts, rest) = rest.split_once('/').ok_or_else(|| format!("the name of the master is missing. {form}"))?;
        let (master, database) = rest.split_once('/').unwrap_or((rest, "0"));
        if master.is_empty() || hosts.split(',').any(str::is_empty) {
            return Err(form.into());
        }
        let with_port = |host: &str| match host.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => host.to_owned(),
            _ => format!("{host}:{SENTINEL_PORT}"),
        };
        Ok(Servers::Sentinels {
            at: hosts.split(',').map(with_port).collect(),
            master: master.into(),
            scheme,
            login: if login.is_empty() { String::new() } else { format!("{login}@") },
            database: database.into(),
        })
    }
}

/// Parses an address without a connection.
fn open(url: &str) -> Result<ConnectionInfo, String> {
    url.into_connection_info().map_err(|error| error.to_string())
}

fn wrong(text: String) -> RedisError {
    std::io::Error::other(text).into()
}

fn read_password(file: &Path) -> RedisResult<String> {
    object::host::read_secret(file).map_err(|why| wrong(format!("the password file {}: {why}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_address_names_a_server_or_sentinels_and_shows_no_password() {
        for (url, shown) in [
            ("redis://me:secret@10.0.0.1/3", "the Redis server at 10.0.0.1:6379, database 3"),
            ("rediss://:secret@h:7/0", "the Redis server at h:7, database 0"),
            ("redis+sentinel://:secret@a,b:7/m/2", "the Redis server m of the Sentinels at a:26379, b:7"),
            ("rediss+sentinel://[::1]:7/m", "the Redis server m of the Sentinels at [::1]:7"),
        ] {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.shown(), shown);
            assert_eq!(format!("{address:?}"), shown);
            assert_eq!(address.has_password(), url.contains("secret"), "{url}");
            assert_eq!(address.is_encrypted(), url.starts_with("rediss"), "{url}");
            assert_eq!(address.may_change(), url.contains("sentinel"), "{url}");
        }
        for bad in [
            "redis://h:port/0",
            "redis://h/many",
            "http://h/",
            "rediss://h/0#insecure",
            "redis+sentinel://h",
            "redis+sentinel://h/",
            "redis+sentinel://a,,b/m",
            "redis+sentinel://a/m/many",
        ] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_a_line_of_a_file_that_is_not_everybodys() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        std::fs::write(&file, "a secret \n").unwrap();
        mode(0o640);
        assert_eq!(read_password(&file).unwrap(), "a secret ");
        mode(0o644);
        assert!(read_password(&file).unwrap_err().to_string().contains("chmod 600"));
        mode(0o600);
        std::fs::write(&file, "\n").unwrap();
        assert!(read_password(&file).unwrap_err().to_string().contains("empty"));
        assert!(read_password(&dir.path().join("none")).is_err());
    }
}
