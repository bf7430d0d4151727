//! Recognises the source that an ordinary copy command reads: `scp`, `sftp`, `rsync`, `curl`, `wget`, `cp`.
//!
//! Works on words, never on a shell line. If unsure it returns nothing: a file without a source is only not recovered,
//! but a file with a wrong one would be refused later.

use engine::source::encoded;

/// Source and destination of a copy command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// The source as a URI.
    pub uri: String,
    /// The local path as the command has it: a file, or a directory that the file goes into.
    pub destination: String,
}

/// Options of each program that take a value in the next word.
const SCP_VALUES: &[&str] = &["-c", "-D", "-F", "-i", "-J", "-l", "-o", "-P", "-S", "-X"];
const SFTP_VALUES: &[&str] = &["-B", "-b", "-c", "-D", "-F", "-i", "-J", "-l", "-o", "-P", "-R", "-S", "-s", "-X"];
const RSYNC_VALUES: &[&str] = &["-e", "--rsh", "--exclude", "--include", "--bwlimit", "--timeout", "-T", "--temp-dir"];
const CP_VALUES: &[&str] = &["-S", "--suffix", "-t", "--target-directory"];
const CURL_VALUES: &[&str] = &[
    "-o",
    "--output",
    "-H",
    "--header",
    "-u",
    "--user",
    "-A",
    "--user-agent",
    "--retry",
    "--retry-delay",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--limit-rate",
    "--cacert",
    "--cert",
    "--key",
    "-x",
    "--proxy",
    "-b",
    "--cookie",
    "-e",
    "--referer",
    "--output-dir",
    "--url",
];
const WGET_VALUES: &[&str] = &[
    "-O",
    "--output-document",
    "-P",
    "--directory-prefix",
    "-o",
    "-a",
    "-t",
    "--tries",
    "-T",
    "--timeout",
    "--user",
    "--password",
    "--header",
    "-U",
    "-w",
];
/// Options that change the request, so that a plain read of the URI would return other data.
const CURL_OTHER: &[&str] =
    &["-d", "--data", "-X", "--request", "-F", "--form", "-T", "--upload-file", "-r", "--range", "-C"];

/// The words of a command: its options and its other arguments.
struct CommandWords {
    options: Vec<(String, Option<String>)>,
    operands: Vec<String>,
}

impl CommandWords {
    fn sort(argv: &[String], with_value: &[&str]) -> CommandWords {
        let mut words = CommandWords { options: Vec::new(), operands: Vec::new() };
        let mut rest = argv.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                words.operands.extend(rest.by_ref().cloned());
            } else if !word.starts_with('-') || word == "-" {
                words.operands.push(word.clone());
            } else if with_value.contains(&word.as_str()) {
                words.options.push((word.clone(), rest.next().cloned()));
            } else if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--")) {
                words.options.push((name.to_string(), Some(value.to_string())));
            } else if let Some(name) = glued(word, with_value) {
                words.options.push((name.to_string(), Some(word[2..].to_string())));
            } else {
                words.split_cluster(word, with_value, &mut rest);
            }
        }
        words
    }

    /// `-sSLo file`: the last letter of a cluster may take the next word.
    fn split_cluster(&mut self, word: &str, with_value: &[&str], rest: &mut std::slice::Iter<'_, String>) {
        let last = word.chars().last().map(|c| format!("-{c}")).unwrap_or_default();
        if !word.starts_with("--") && word.len() > 2 && with_value.contains(&last.as_str()) {
            self.options.push((last, rest.next().cloned()));
        } else {
            self.options.push((word.to_string(), None));
        }
    }

    fn value(&self, names: &[&str]) -> Option<&str> {
        let found = self.options.iter().rev().find(|(name, _)| names.contains(&name.as_str()));
        found.and_then(|(_, value)| value.as_deref())
    }

    fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, _)| names.contains(&name.as_str()))
    }

    /// Source and destination, if there is exactly one of each.
    fn pair(&self) -> Option<(&str, &str)> {
        match self.operands.as_slice() {
            [from, to] => Some((from, to)),
            _ => None,
        }
    }
}

/// `-P2222`: a short option with its value in the same word.
fn glued<'a>(word: &'a str, with_value: &[&str]) -> Option<&'a str> {
    let name = word.get(..2).filter(|_| word.len() > 2 && !word.starts_with("--"))?;
    with_value.contains(&name).then_some(name)
}

/// The source and destination of a command, if it copies a single file and names both.
pub fn recognise(argv: &[String]) -> Option<Recognised> {
    let (program, rest) = argv.split_first()?;
    let found = match program.rsplit('/').next()? {
        program @ ("scp" | "sftp") => {
            let words = CommandWords::sort(rest, if program == "scp" { SCP_VALUES } else { SFTP_VALUES });
            let (from, to) = words.pair().filter(|_| !recursive(&words))?;
            recognised(ssh_uri(from, words.value(&["-P"]))?, to)
        }
        "rsync" => {
            let words = CommandWords::sort(rest, RSYNC_VALUES);
            let (from, to) = words.pair()?;
            // A trailing slash copies a directory; `host::module` and `rsync://` are another protocol.
            if from.ends_with('/') || from.contains("::") || from.starts_with("rsync://") || words.has(&["-e", "--rsh"])
            {
                return None;
            }
            recognised(ssh_uri(from, None).or_else(|| file_uri(from))?, to)
        }
        "cp" => {
            let words = CommandWords::sort(rest, CP_VALUES);
            if recursive(&words) || words.has(&["-a", "--archive"]) {
                return None;
            }
            match (words.value(&["-t", "--target-directory"]), words.operands.as_slice()) {
                (Some(to), [from]) => recognised(file_uri(from)?, to),
                (None, [from, to]) => recognised(file_uri(from)?, to),
                _ => None,
            }
        }
        "curl" => curl(&CommandWords::sort(rest, CURL_VALUES)),
        "wget" => wget(&CommandWords::sort(rest, WGET_VALUES)),
        _ => None,
    }?;
    // A URI that may not be stored (with a password in it, say) is no source.
    let storable = engine::source::check_uri(&found.uri).is_ok();
    (storable && !found.destination.is_empty()).then_some(found)
}

fn recognised(uri: String, destination: &str) -> Option<Recognised> {
    Some(Recognised { uri, destination: destination.to_string() })
}

fn recursive(words: &CommandWords) -> bool {
    let is_recursive = |name: &str| name == "--recursive" || (!name.starts_with("--") && name.contains(['r', 'R']));
    words.options.iter().any(|(name, _)| is_recursive(name))
}

/// `[user@]host:path`, `scp://...` or `sftp://...` as an sftp URI; `None` for a local path.
fn ssh_uri(word: &str, port: Option<&str>) -> Option<String> {
    if let Some(rest) = word.strip_prefix("sftp://").or_else(|| word.strip_prefix("scp://")) {
        return Some(format!("sftp://{rest}"));
    }
    let (server, path) = word.split_once(':')?;
    if server.contains('/') || server.is_empty() || path.is_empty() || path.contains(['*', '?', '[']) {
        return None;
    }
    let port = match port {
        Some(port) => format!(":{}", port.parse::<u16>().ok()?),
        None => String::new(),
    };
    let path = match path.strip_prefix("~/").or(Some(path).filter(|p| !p.starts_with('/'))) {
        Some(in_home) => format!("~/{in_home}"),
        None => path.trim_start_matches('/').to_string(),
    };
    Some(format!("sftp://{server}{port}/{}", encoded(&path)))
}

/// An absolute local path as a URI; the base of a relative one is unknown here.
fn file_uri(path: &str) -> Option<String> {
    (path.starts_with('/') && !path.contains(['*', '?', '['])).then(|| format!("file://{}", encoded(path)))
}

fn curl(words: &CommandWords) -> Option<Recognised> {
    if words.has(CURL_OTHER) {
        return None;
    }
    let uri = match (words.value(&["--url"]), words.operands.as_slice()) {
        (Some(uri), []) => uri,
        (None, [uri]) => uri,
        _ => return None,
    };
    let uri = with_scheme(uri)?;
    let name = words.value(&["-o", "--output"]).map(str::to_string).or_else(|| {
        let remote_name =
            words.options.iter().any(|(o, _)| o == "--remote-name" || (!o.starts_with("--") && o.contains('O')));
        remote_name.then(|| last_name(&uri)).flatten()
    })?;
    let destination = match words.value(&["--output-dir"]) {
        Some(dir) => format!("{}/{name}", dir.trim_end_matches('/')),
        None => name,
    };
    recognised(uri, &destination).filter(|r| r.destination != "-")
}

fn wget(words: &CommandWords) -> Option<Recognised> {
    if words.has(&["--post-data", "--post-file", "-r", "--recursive", "-i", "-m", "--mirror", "-c", "--continue"]) {
        return None;
    }
    let [uri] = words.operands.as_slice() else { return None };
    let uri = with_scheme(uri)?;
    let destination = match words.value(&["-O", "--output-document"]) {
        Some("-") => return None,
        Some(file) => file.to_string(),
        None => {
            let dir = words.value(&["-P", "--directory-prefix"]).unwrap_or(".");
            format!("{}/{}", dir.trim_end_matches('/'), last_name(&uri)?)
        }
    };
    recognised(uri, &destination)
}

/// Accepts only a certain URI without a query, since answers to a query may differ each time.
fn with_scheme(word: &str) -> Option<String> {
    let known = ["http://", "https://", "ftp://", "ftps://", "sftp://", "file://"];
    let sure = known.iter().any(|scheme| word.starts_with(scheme)) && !word.contains(['?', '{', '[']);
    sure.then(|| word.to_string())
}

fn last_name(uri: &str) -> Option<String> {
    let parsed = url::Url::parse(uri).ok()?;
    let name = parsed.path_segments()?.next_back()?.to_string();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<(String, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        recognise(&words).map(|r| (r.uri, r.destination))
    }

    fn is(line: &str, uri: &str, destination: &str) {
        assert_eq!(of(line), Some((uri.to_string(), destination.to_string())), "{line}");
    }

    #[test]
    fn ssh_and_rsync() {
        is("scp alice@host:/data/x /scratch/x", "sftp://alice@host/data/x", "/scratch/x");
        is("scp -q -P 2222 host:data/x /scratch", "sftp://host:2222/~/data/x", "/scratch");
        is("scp -P2222 -i k host:~/x .", "sftp://host:2222/~/x", ".");
        is("/usr/bin/scp -- host:/a+b;c /s", "sftp://host/a+b%3Bc", "/s");
        is("sftp host:/data/x /scratch/x", "sftp://host/data/x", "/scratch/x");
        is("rsync -avP host:/data/x /scratch/x", "sftp://host/data/x", "/scratch/x");
        is("rsync /data/x /scratch/x", "file:///data/x", "/scratch/x");
    }

    #[test]
    fn curl_wget_cp() {
        is("curl -fsSLo /s/x https://h/d/x", "https://h/d/x", "/s/x");
        is("curl -o /s/x --retry 3 http://h/x", "http://h/x", "/s/x");
        is("curl --output=/s/x http://h/x", "http://h/x", "/s/x");
        is("curl -sO http://h/d/x", "http://h/d/x", "x");
        is("curl -O --output-dir /s http://h/x", "http://h/x", "/s/x");
        is("wget -q -O /s/x ftp://h/x", "ftp://h/x", "/s/x");
        is("wget -P /s http://h/d/x", "http://h/d/x", "/s/x");
        is("wget http://h/x", "http://h/x", "./x");
        is("cp -p /data/x /s/", "file:///data/x", "/s/");
        is("cp -t /s /data/a%b", "file:///data/a%25b", "/s");
    }

    #[test]
    fn where_it_is_not_sure_it_says_nothing() {
        for line in [
            "scp -r host:/data /s",
            "scp host:/a host:/b /s",
            "scp host:/data/*.nc /s",
            "scp -P 99999 host:/x /s",
            "scp /local /s/x y",
            "scp /local/x host:/s",
            "rsync -a host:/data/ /s",
            "rsync host::module/x /s",
            "rsync -e sh host:/x /s",
            "cp -r /data /s",
            "cp data/x /s",
            "cp /a /b /s",
            "curl -d a=b -o /s/x http://h/x",
            "curl http://h/x",
            "curl -o /s/x h/x",
            "curl -o /s/x http://h/x?id=3",
            "curl -o - http://h/x",
            "curl -o /s/x ftp://me:hush@h/x",
            "wget -r http://h/",
            "wget -i list",
            "tar xf x",
            "sh -c scp",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
        assert_eq!(recognise(&[]), None);
    }
}
