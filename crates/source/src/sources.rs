//! Opens sources by URI, with one session per server and user.

use crate::address::{Address, Scheme};
use crate::credentials::Credentials;
use crate::dal::{self, DalSession, DalSource, DalUpload};
use crate::http::{HttpAccess, HttpSession, HttpSource};
use crate::index;
use crate::local::{self, LocalSource, LocalUpload};
use crate::put::HttpUpload;
use crate::repository::{self, Asked, Bases};
use crate::runtime::Runtime;
use crate::send::SftpUpload;
use crate::sftp::{self, SftpSession, SftpSource};
use engine::source::{Deposited, Entry, Identity, Opener, Result, Source, SourceError, Started, Upload};
use parking_lot::Mutex;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Maximum of kept sessions; the least recently used one is closed first.
const SESSIONS_MAX: usize = 32;

/// Settings of the operator for sources.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Timeout of a call in which a server sends no bytes.
    pub timeout: Duration,
    /// Directories that no `file://` may reach into: namespace, targets, state.
    pub refused: Vec<PathBuf>,
    /// Server for records of Zenodo: `http(s)://HOST[:PORT][/PATH]`.
    pub zenodo: String,
    /// Server that resolves DOIs.
    pub datacite: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            timeout: Duration::from_secs(30),
            refused: Vec::new(),
            zenodo: "https://zenodo.org".into(),
            datacite: "https://api.datacite.org".into(),
        }
    }
}

/// The opener of sources.
pub struct Sources {
    runtime: Arc<Runtime>,
    settings: Settings,
    refused: Arc<Vec<PathBuf>>,
    sessions: Mutex<Vec<(Key, Session)>>,
    temporaries: AtomicU32,
}

/// Key by which sessions are shared.
#[derive(PartialEq, Eq)]
struct Key {
    scheme: Scheme,
    secure: bool,
    authority: String,
    found: Credentials,
    uid: u32,
    gid: u32,
}

#[derive(Clone)]
enum Session {
    Http(Arc<HttpSession>),
    Dal(Arc<DalSession>),
    Sftp(Arc<SftpSession>),
}

/// Longest wait for a directory's real path; after it the configured path is refused as given. A guess.
const REAL_PATHS_PATIENCE: Duration = Duration::from_secs(2);

impl Sources {
    /// Makes the runtime behind the sources, and names the process's library of cryptography unless it has one.
    pub fn new(settings: Settings) -> std::io::Result<Sources> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = Arc::new(Runtime::new(settings.timeout));
        let real = engine::volume::real_paths(&settings.refused, REAL_PATHS_PATIENCE).into_iter();
        let refused = real.zip(&settings.refused).map(|(real, path)| real.unwrap_or_else(|| path.clone()));
        let refused = Arc::new(refused.collect());
        Ok(Sources { runtime, settings, refused, sessions: Mutex::default(), temporaries: AtomicU32::new(0) })
    }

    /// Number of open sessions. For tests and statistics.
    pub fn sessions(&self) -> usize {
        self.sessions.lock().len()
    }

    fn session(&self, address: &Address, who: &Identity) -> Result<Session> {
        let found = Credentials::find(address, who)?;
        let key = Key {
            scheme: address.scheme,
            secure: address.secure,
            authority: address.authority(),
            found,
            uid: who.uid,
            gid: who.gid,
        };
        let mut sessions = self.sessions.lock();
        if let Some(at) = sessions.iter().position(|(k, _)| *k == key) {
            let entry = sessions.remove(at);
            let session = entry.1.clone();
            sessions.push(entry);
            return Ok(session);
        }
        let runtime = self.runtime.clone();
        let session = match address.scheme {
            Scheme::Sftp => Session::Sftp(Arc::new(SftpSession::new(address, &key.found, who, runtime))),
            Scheme::Http | Scheme::Webdav => Session::Http(Arc::new(HttpSession::new(address, &key.found, runtime)?)),
            _ => Session::Dal(Arc::new(DalSession::new(address, &key.found, runtime, "/")?)),
        };
        if sessions.len() == SESSIONS_MAX {
            sessions.remove(0);
        }
        sessions.push((key, session.clone()));
        Ok(session)
    }

    /// A name beside the destination that is not in use.
    fn temporary(&self, address: &Address) -> Result<String> {
        let Some((parent, name)) = address.parent_and_name() else {
            return Err(SourceError::Permanent("the destination ends in /: name a file".into()));
        };
        let turn = self.temporaries.fetch_add(1, Ordering::Relaxed);
        let nanos = object::since_1970().as_nanos();
        let short: String = name.chars().take(40).collect();
        Ok(format!("{}/.{short}.entrepot-{nanos:x}-{turn}", parent.trim_end_matches('/')))
    }
}

fn address_of(uri: &str) -> Result<Address> {
    let address = Address::parse(uri)?;
    if address.query.is_some() {
        let why = "URIs with a query (?...) are not served; name the file by a URI without one";
        return Err(SourceError::Permanent(why.into()));
    }
    Ok(address)
}

/// The URI of another path on the same server.
fn beside(uri: &str, path: &str) -> Result<String> {
    let mut url = url::Url::parse(uri).map_err(|e| SourceError::Permanent(e.to_string()))?;
    url.set_path(&path.replace('%', "%25"));
    Ok(url.into())
}

impl Opener for Sources {
    fn open(&self, uri: &str, who: &Identity) -> Result<Arc<dyn Source>> {
        let address = address_of(uri)?;
        if address.scheme == Scheme::File {
            let runtime = self.runtime.clone();
            return Ok(Arc::new(LocalSource::open(who, &self.refused, &address.path, runtime)?));
        }
        if address.scheme == Scheme::Repository {
            return Err(SourceError::Permanent("it is a record, and no file: bring all of it with --directory".into()));
        }
        Ok(match self.session(&address, who)? {
            Session::Http(session) => Arc::new(HttpSource::new(session, &address.path)),
            Session::Sftp(session) => Arc::new(SftpSource::new(session, &address.path)),
            Session::Dal(session) => Arc::new(DalSource::new(session, &address.path)),
        })
    }

    fn named(&self, uri: &str, name: &str, who: &Identity) -> Result<String> {
        let address = address_of(uri)?;
        let into = uri.ends_with('/') || (address.scheme == Scheme::File && local::is_directory(who, &address.path)?);
        Ok(if into { format!("{}/{name}", uri.trim_end_matches('/')) } else { uri.to_string() })
    }

    fn create(&self, uri: &str, who: &Identity) -> Result<Started> {
        let mut address = address_of(uri)?;
        if address.scheme == Scheme::File {
            address.path = local::destination(who, &address.path)?;
        }
        let temporary = self.temporary(&address)?;
        let beside = beside(uri, &temporary)?;
        let started = |upload: Box<dyn Upload>| Started { upload, at: beside };
        match address.scheme {
            Scheme::File => Ok(started(Box::new(LocalUpload::start(who, &self.refused, &address.path, &temporary)?))),
            Scheme::Repository => {
                Err(SourceError::Permanent("records are only read; choose another destination".into()))
            }
            Scheme::Http | Scheme::Webdav => {
                let found = Credentials::find(&address, who)?;
                let access = HttpAccess::new(&address, &found, self.runtime.timeout)?.without_redirects();
                Ok(started(Box::new(HttpUpload::start(access, self.runtime.clone(), &address.path, temporary)?)))
            }
            Scheme::Ftp => {
                let found = Credentials::find(&address, who)?;
                let (dir, name) = address.path.rsplit_once('/').unwrap_or(("", &address.path));
                let dir = if dir.is_empty() { "/" } else { dir };
                let session = Arc::new(DalSession::new(&address, &found, self.runtime.clone(), dir)?);
                Ok(Started { upload: Box::new(DalUpload::start(session, name)?), at: uri.to_string() })
            }
            Scheme::S3 | Scheme::Sftp => match self.session(&address, who)? {
                Session::Sftp(session) => Ok(started(Box::new(SftpUpload::start(session, &address.path, &temporary)?))),
                Session::Dal(session) => {
                    Ok(Started { upload: Box::new(DalUpload::start(session, &address.path)?), at: uri.to_string() })
                }
                Session::Http(_) => unreachable!("a session is of its address's scheme"),
            },
        }
    }

    fn record(&self, uri: &str, who: &Identity) -> Result<Option<Vec<Deposited>>> {
        let address = address_of(uri)?;
        if address.scheme != Scheme::Repository {
            return Ok(None);
        }
        let asked = Asked::parse(uri.split(':').next().unwrap_or_default(), &address.path)?;
        let session = |at: &str| match self.session(&address_of(at)?, who)? {
            Session::Http(session) => Ok(session),
            _ => Err(SourceError::Permanent(format!("{at} is not over http"))),
        };
        let bases = Bases { zenodo: &self.settings.zenodo, datacite: &self.settings.datacite };
        repository::files(&asked, &bases, &session).map(Some)
    }

    fn list(&self, uri: &str, who: &Identity) -> Result<Vec<Entry>> {
        let address = address_of(uri)?;
        match address.scheme {
            Scheme::File => local::list(who, &self.refused, &address.path),
            Scheme::Repository => Err(SourceError::Permanent("a record is asked for its files".into())),
            Scheme::Webdav => {
                let found = Credentials::find(&address, who)?;
                dal::list(&DalSession::new(&address, &found, self.runtime.clone(), "/")?, &address.path)
            }
            Scheme::Http | Scheme::S3 | Scheme::Ftp | Scheme::Sftp => match self.session(&address, who)? {
                Session::Sftp(session) => sftp::list(&session, &address.path),
                Session::Dal(session) => dal::list(&session, &address.path),
                Session::Http(session) => index::list(&session, &address.path),
            },
        }
    }
}
