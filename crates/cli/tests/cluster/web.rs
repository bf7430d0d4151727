//! A web server on the hosts' server that notes which bytes of its files were asked for.

use crate::hosts::Host;
use crate::real::until;
use std::ops::Range;
use std::path::Path;

const DIRECTORY: &str = "/run/web";
const PORT: u16 = 8080;

/// nginx; it ends with this.
pub struct Web<'a>(&'a Host);

impl Web<'_> {
    /// Starts the server; `None` after a message if it is not installed.
    pub fn start(server: &Host) -> Option<Web<'_>> {
        if !Path::new("/usr/sbin/nginx").exists() {
            eprintln!("skipped: nginx is not installed (scripts/setup.sh test installs it)");
            return None;
        }
        server.must("mkdir", &["-p", &format!("{DIRECTORY}/root")]);
        let places: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|of| format!("{of}_temp_path {DIRECTORY}/{of};\n"))
            .concat();
        let text = format!(
            "user root; pid {DIRECTORY}/pid; error_log {DIRECTORY}/log;\nevents {{}}\nhttp {{\n{places}\
             log_format asked '$remote_addr $request_method $http_range'; access_log {DIRECTORY}/access asked;\n\
             server {{ listen {}:{PORT}; root {DIRECTORY}/root; location /slow/ {{ alias {DIRECTORY}/root/; limit_rate 1m; }} }} }}\n",
            server.address()
        );
        std::fs::write(server.path(&format!("{DIRECTORY}/conf")), text).expect("write");
        server.daemon("/usr/sbin/nginx", &["-e", &format!("{DIRECTORY}/log"), "-c", &format!("{DIRECTORY}/conf")]);
        let web = Web(server);
        until("nginx runs", || server.path(&format!("{DIRECTORY}/pid")).exists());
        Some(web)
    }

    /// Publishes a file on the server.
    pub fn put(&self, name: &str, data: &[u8]) {
        std::fs::write(self.0.path(&format!("{DIRECTORY}/root/{name}")), data).expect("write");
    }

    pub fn uri(&self, name: &str) -> String {
        format!("http://{}:{PORT}/{name}", self.0.address())
    }

    /// Forgets what was asked for.
    pub fn forget(&self) {
        std::fs::write(self.0.path(&format!("{DIRECTORY}/access")), "").expect("write");
    }

    /// The ranges that answers were sent for, whole files not, and the addresses that asked.
    pub fn asked_by(&self) -> Vec<(Range<usize>, String)> {
        let log = std::fs::read_to_string(self.0.path(&format!("{DIRECTORY}/access"))).expect("log");
        let range = |line: &str| {
            let (address, asked) = line.split_once(' ')?;
            let (from, to) = asked.strip_prefix("GET bytes=")?.split_once('-')?;
            Some((from.parse().ok()?..to.parse::<usize>().ok()? + 1, address.to_owned()))
        };
        log.lines().filter_map(range).collect()
    }

    /// The ranges alone.
    pub fn asked(&self) -> Vec<Range<usize>> {
        self.asked_by().into_iter().map(|(range, _)| range).collect()
    }
}

impl Drop for Web<'_> {
    fn drop(&mut self) {
        drop(self.0.run("sh", &["-c", &format!("kill $(cat {DIRECTORY}/pid)")]));
    }
}
