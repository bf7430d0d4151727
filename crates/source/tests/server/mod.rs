//! Real servers in temporary directories on free ports of loopback.

pub mod port;

use engine::source::Identity;
use port::free_port;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Bytes that no two seeds share.
pub fn data(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// The user that runs the tests.
pub fn who() -> Identity {
    let uid = rustix::process::geteuid().as_raw();
    Identity { uid, gid: rustix::process::getegid().as_raw(), ..Identity::default() }
}

pub fn installed(program: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin", "/usr/bin"].map(|d| Path::new(d).join(program)).into_iter().find(|p| p.exists());
    if found.is_none() {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// A child that is killed with the test.
pub struct Running(Child);

impl Running {
    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).expect("signal");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server and waits until it answers or ends.
pub fn start(program: &Path, arguments: &[&str], port: u16) -> Running {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(command.spawn().expect("starts"));
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if let Some(status) = running.0.try_wait().expect("wait") {
            panic!("{} ended with {status}", program.display());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    running
}

fn public_dir() -> TempDir {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("dir");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("chmod");
    dir
}

/// nginx: one port with ranges and PUT, one without ranges. Below `/slow/` the same files come slowly, below
/// `/trickle/` slowly enough for a test to see the transfer.
pub struct Nginx {
    dir: TempDir,
    port: u16,
    port_without_ranges: u16,
    running: Option<Running>,
}

impl Nginx {
    pub fn start() -> Option<Nginx> {
        Nginx::start_with("")
    }

    /// The first port speaks https alone.
    pub fn start_encrypted(authority: &Authority) -> Option<Nginx> {
        let (certificate, key) = authority.certificate_and_key();
        Nginx::start_with(&format!(" ssl; ssl_certificate {certificate}; ssl_certificate_key {key}"))
    }

    fn start_with(first: &str) -> Option<Nginx> {
        let program = installed("nginx")?;
        let dir = public_dir();
        let (port, port_without_ranges) = (free_port(), free_port());
        std::fs::create_dir_all(dir.path().join("root/up")).expect("dir");
        let user = if who().uid == 0 { "user root;" } else { "" };
        let path = dir.path().display();
        let text = format!(
            "{user} daemon off; master_process off; pid {path}/pid; error_log {path}/log;\n\
             events {{}}\n\
             http {{ log_format sent '$body_bytes_sent $uri'; access_log {path}/access sent; client_body_temp_path {path}/body; proxy_temp_path {path}/p;\n\
             fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;\n\
             client_max_body_size 0;\n\
             server {{ listen 127.0.0.1:{port}{first}; root {path}/root; location /up/ {{ dav_methods PUT DELETE MOVE; }}\n\
             location /listed/ {{ alias {path}/root/; autoindex on; }}\n\
             location /json/ {{ alias {path}/root/; autoindex on; autoindex_format json; }}\n\
             location /slow/ {{ alias {path}/root/; limit_rate 4m; }}\n\
             location /trickle/ {{ alias {path}/root/; limit_rate 400k; }} }}\n\
             server {{ listen 127.0.0.1:{port_without_ranges}; root {path}/root; max_ranges 0; }} }}\n"
        );
        let conf = dir.path().join("conf");
        std::fs::write(&conf, text).expect("write");
        let conf = conf.display().to_string();
        let mut nginx = Nginx { dir, port, port_without_ranges, running: None };
        nginx.start_again(&program, &conf);
        Some(nginx)
    }

    fn start_again(&mut self, program: &Path, conf: &str) {
        let log = self.dir.path().join("log").display().to_string();
        self.running = Some(start(program, &["-e", &log, "-c", conf], self.port));
    }

    /// Stops the server process: requests get no answer.
    pub fn pause(&self) {
        self.running.as_ref().expect("it runs").signal(rustix::process::Signal::STOP);
    }

    /// Continues a paused server.
    pub fn go_on(&self) {
        self.running.as_ref().expect("it runs").signal(rustix::process::Signal::CONT);
    }

    /// Ends the server: connections are refused.
    pub fn stop(&mut self) {
        self.running = None;
    }

    /// Starts the server again, at the same ports.
    pub fn restart(&mut self) {
        self.start_again(&installed("nginx").expect("it was"), &self.dir.path().join("conf").display().to_string());
    }

    /// Bytes of bodies that were sent by requests that ended.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes_of("")
    }

    /// Bytes sent of the file with this name. Requests of others may be logged late, when the server sees their end.
    pub fn sent_bytes_of(&self, name: &str) -> u64 {
        let log = std::fs::read_to_string(self.dir.path().join("access")).expect("log");
        let lines = log.lines().map(|line| line.split_once(' ').expect("bytes and a name"));
        lines.filter(|(_, uri)| uri.ends_with(name)).map(|(sent, _)| sent.parse::<u64>().expect("a number")).sum()
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub fn uri(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address())
    }

    /// Address and first port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn uri_without_ranges(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port_without_ranges)
    }
}

/// A certificate authority that only its explicit users trust, with its certificate for 127.0.0.1.
pub struct Authority {
    dir: TempDir,
}

impl Authority {
    pub fn new() -> Option<Authority> {
        let openssl = installed("openssl")?;
        let authority = Authority { dir: public_dir() };
        let [ca, ca_key, key, request, certificate] =
            ["ca.pem", "ca.key", "key.pem", "request", "certificate.pem"].map(|name| authority.path(name));
        let extensions = authority.path("extensions");
        std::fs::write(&extensions, "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n").expect("write");
        let run = |words: &[&str], rest: &[&str]| {
            let made = Command::new(&openssl).args(words).args(rest).stderr(Stdio::null()).status();
            assert!(made.expect("openssl").success(), "{words:?}");
        };
        let new_key = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        run(&new_key, &["-x509", "-subj", "/CN=authority", "-days", "2", "-keyout", &ca_key, "-out", &ca]);
        run(&new_key, &["-subj", "/CN=server", "-keyout", &key, "-out", &request]);
        let signed_by = ["x509", "-req", "-CAcreateserial", "-CA", &ca, "-CAkey", &ca_key];
        run(&signed_by, &["-days", "2", "-extfile", &extensions, "-in", &request, "-out", &certificate]);
        Some(authority)
    }

    /// The file that a client trusts.
    pub fn file(&self) -> String {
        self.path("ca.pem")
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn certificate_and_key(&self) -> (String, String) {
        (self.path("certificate.pem"), self.path("key.pem"))
    }
}

/// sshd with keys of its own, for the user that runs the tests.
pub struct Sshd {
    dir: TempDir,
    port: u16,
    _running: Running,
}

impl Sshd {
    pub fn start() -> Option<Sshd> {
        let program = installed("sshd")?;
        installed("ssh")?;
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().display();
        for key in ["host", "user"] {
            let key = dir.path().join(key).display().to_string();
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &key]).status();
            assert!(made.expect("ssh-keygen").success());
        }
        let port = free_port();
        if who().uid == 0 {
            let _ = std::fs::create_dir("/run/sshd"); // where sshd separates its privileges
        }
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {path}/host\nPidFile {path}/pid\nUsePAM no\n\
             AuthorizedKeysFile {path}/user.pub\nStrictModes no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        );
        std::fs::write(dir.path().join("conf"), text).expect("write");
        let host_key = std::fs::read_to_string(dir.path().join("host.pub")).expect("key");
        std::fs::write(dir.path().join("known_hosts"), format!("[127.0.0.1]:{port} {host_key}")).expect("write");
        let conf = dir.path().join("conf").display().to_string();
        let running = start(&program, &["-D", "-e", "-f", &conf], port);
        Some(Sshd { dir, port, _running: running })
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the processes that serve sessions; the server goes on.
    pub fn end_sessions(&self) {
        let pid = std::fs::read_to_string(self.dir.path().join("pid")).expect("its pid");
        let children = Command::new("pgrep").args(["-P", pid.trim()]).output().expect("pgrep").stdout;
        for child in String::from_utf8_lossy(&children).split_whitespace() {
            let child = rustix::process::Pid::from_raw(child.parse().expect("a pid")).expect("a pid");
            let _ = rustix::process::kill_process(child, rustix::process::Signal::KILL);
        }
    }

    pub fn who(&self) -> Identity {
        let word = |name: &str| self.dir.path().join(name).display().to_string();
        let environment = [("ENTREPOT_SFTP_KEY", word("user")), ("ENTREPOT_SFTP_KNOWN_HOSTS", word("known_hosts"))];
        let environment = environment.into_iter().map(|(k, v)| (k.to_string(), v)).collect();
        Identity { environment, ..who() }
    }

    pub fn uri(&self, path: &Path) -> String {
        format!("sftp://127.0.0.1:{}{}", self.port, path.display().to_string().replace(' ', "%20"))
    }
}

/// vsftpd for anonymous readers.
pub struct Ftpd {
    dir: TempDir,
    port: u16,
    _running: Running,
}

impl Ftpd {
    pub fn start() -> Option<Ftpd> {
        Ftpd::start_with("")
    }

    /// Logins and data are encrypted, or refused.
    pub fn start_encrypted(authority: &Authority) -> Option<Ftpd> {
        let (certificate, key) = authority.certificate_and_key();
        Ftpd::start_with(&format!(
            "ssl_enable=YES\nallow_anon_ssl=YES\nforce_anon_logins_ssl=YES\nforce_anon_data_ssl=YES\n\
             require_ssl_reuse=NO\nssl_ciphers=HIGH\nrsa_cert_file={certificate}\nrsa_private_key_file={key}\n"
        ))
    }

    fn start_with(more: &str) -> Option<Ftpd> {
        let program = installed("vsftpd")?;
        if who().uid != 0 {
            eprintln!("skipped: vsftpd serves anonymous users only when root starts it");
            return None;
        }
        let dir = public_dir();
        std::fs::create_dir_all(dir.path().join("root/pub/up")).expect("dir");
        std::fs::create_dir_all(dir.path().join("empty")).expect("dir");
        let everybody: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path().join("root/pub/up"), everybody).expect("chmod");
        let (port, path) = (free_port(), dir.path().display());
        let text = format!(
            "listen=YES\nlisten_port={port}\nlisten_address=127.0.0.1\nbackground=NO\nanonymous_enable=YES\n\
             local_enable=NO\nanon_root={path}/root\nsecure_chroot_dir={path}/empty\nftp_username=daemon\n\
             seccomp_sandbox=NO\nrun_as_launching_user=NO\nxferlog_enable=NO\n\
             write_enable=YES\nanon_upload_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\n{more}"
        );
        std::fs::write(dir.path().join("conf"), text).expect("write");
        let conf = dir.path().join("conf").display().to_string();
        let running = start(&program, &[&conf], port);
        Some(Ftpd { dir, port, _running: running })
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    /// Address and port of the server.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn uri(&self, path: &str) -> String {
        format!("ftp://{}/{path}", self.address())
    }
}
