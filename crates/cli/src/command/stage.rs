//! `entrepot stage`: data in from a source, results out to a destination.

use crate::command::work;
use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use crate::values;
use clap::{Args, Subcommand};
use engine::source::{Identity, JOB_VARIABLE, means_directory};
use engine::stage::{
    Algorithm, BadLine, Checksum, Chosen, Compare, Looked, ManifestIn, Pattern, Row, StageError, StageIn, StageOut,
    Staged, There, Wanted,
};
use node::control::answers::read;
use node::control::{Client, Problem, Request, exit};
use object::host::umask;
use policy::schedule::staging::{Again, Attempts, PAUSE_MIN};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bring data in from a source, or take results out, verified
///
/// Sources and destinations are URIs: http, https, webdav, s3, sftp, ftp, file;
/// and records of data, zenodo:NUMBER and doi:10... Credentials come from your environment
/// (AWS_ACCESS_KEY_ID, ENTREPOT_HTTP_USER, ...), from ssh's own files, or from a file of mode 0600; never from the URI.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot stage in https://example.org/big.dat /mnt/scratch/big.dat
  entrepot stage out /mnt/scratch/result.txt sftp://home.example.org/results/result.txt")]
pub struct Stage {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    In(In),
    Out(Out),
}

/// Bring files in: parallel ranges straight into the striped layout, with a checksum per stripe
///
/// The file appears under its name when every byte is there. Its source is recorded, so that lost stripes can be
/// fetched again. After an interruption or a failure run the same command again: fetched bytes are kept.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot stage in https://example.org/big.dat /mnt/scratch/big.dat
  entrepot stage in --also s3://bucket/big.dat https://example.org/big.dat /mnt/scratch/
  entrepot stage in --directory file:///home/me/input /mnt/scratch/input
  entrepot stage in https://example.org/set/ /mnt/scratch/set    a listed directory
  entrepot stage in --sha256 ba7816bf... https://example.org/big.dat /mnt/scratch/
  entrepot stage in --keep https://example.org/big.dat /mnt/scratch/big.dat   if it changed
  entrepot stage in --manifest SHA256SUMS https://example.org/set /mnt/scratch/set
  entrepot stage in --manifest input.txt       lines `URI PATH`, paths relative to the mount point")]
struct In {
    /// URI of the data; with a checksum manifest, of the directory of its files.
    #[arg(required_unless_present = "manifest", requires = "path")]
    uri: Option<String>,
    /// Destination: a new file, or a directory, in which the source's last name is used; with a checksum manifest a
    /// directory.
    path: Option<PathBuf>,
    /// Another source of the same bytes, used if the first fails.
    #[arg(long, value_name = "URI")]
    also: Vec<String>,
    /// Stage a whole directory, with symbolic links if the source has them. A URI that ends in `/` is a directory too,
    /// and so is a record: `zenodo:NUMBER`, `doi:10...`.
    #[arg(long, short = 'r', conflicts_with_all = ["blake3", "sha512", "sha256", "sha1", "md5"])]
    directory: bool,
    /// List of files: a path, a URI, or `-` for standard input. With URI and PATH it is a checksum manifest of
    /// `sha256sum`, `md5sum`, `b3sum`, BSD's tools or BagIt, and its files are staged and compared. Without them it has
    /// lines `URI PATH`, optionally with checksums in front (`sha256:HEX`).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["also", "directory", "blake3", "sha512", "sha256", "sha1", "md5"])]
    manifest: Option<String>,
    /// The BLAKE3 checksum that the file must have.
    #[arg(long, value_name = "HEX", value_parser = sum(Algorithm::Blake3))]
    blake3: Option<String>,
    /// The SHA-512 checksum that the file must have.
    #[arg(long, value_name = "HEX", value_parser = sum(Algorithm::Sha512))]
    sha512: Option<String>,
    /// The SHA-256 checksum that the file must have.
    #[arg(long, value_name = "HEX", value_parser = sum(Algorithm::Sha256))]
    sha256: Option<String>,
    /// The SHA-1 checksum that the file must have.
    #[arg(long, value_name = "HEX", value_parser = sum(Algorithm::Sha1))]
    sha1: Option<String>,
    /// The MD5 checksum that the file must have.
    #[arg(long, value_name = "HEX", value_parser = sum(Algorithm::Md5))]
    md5: Option<String>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
    /// Keep an existing file if it came from the same source and the source is unchanged.
    #[arg(long, conflicts_with = "force")]
    keep: bool,
    /// Only files of a directory, a record or a manifest that match: `*.h5`, `maps/**`. May be given several times.
    #[arg(long, value_name = "PATTERN")]
    include: Vec<Pattern>,
    /// Skip files that match: `tmp/**`. May be given several times, and overrides --include.
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<Pattern>,
    /// Show the files, their sizes, and existing files of these names; transfer nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: TransferOptions,
}

/// Take a file or a directory out: copied, verified at the destination, and renamed there
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot stage out /mnt/scratch/result.txt file:///home/me/result.txt
  entrepot stage out --retry 3 /mnt/scratch/results s3://bucket/results
  entrepot stage out --exclude 'tmp/**' /mnt/scratch/results s3://bucket/results
  entrepot stage out --manifest out.txt        lines `PATH URI`")]
struct Out {
    /// The file or directory.
    #[arg(required_unless_present = "manifest", requires = "uri")]
    path: Option<PathBuf>,
    /// Destination; in an existing directory the file keeps its name. Missing directories of a local path are created.
    uri: Option<String>,
    /// Many files: lines `PATH URI`; `-` is standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["uri", "path"])]
    manifest: Option<PathBuf>,
    /// Check at the destination before the copy gets its name.
    #[arg(long, value_name = "WHAT", default_value = "content")]
    #[arg(value_parser = values::explained::<Compare>(COMPARISONS))]
    verify: Compare,
    /// Only files of a directory that match: `*.nc`, `maps/**`. May be given several times.
    #[arg(long, value_name = "PATTERN", conflicts_with = "manifest")]
    include: Vec<Pattern>,
    /// Skip files that match: `tmp/**`. May be given several times, and overrides --include. They stay in the volume.
    #[arg(long, value_name = "PATTERN", conflicts_with = "manifest")]
    exclude: Vec<Pattern>,
    /// Show the files, their sizes, and existing files at the destination; transfer nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    how: TransferOptions,
}

/// Comparisons at the destination.
const COMPARISONS: &[(&str, &str)] = &[("content", "The checksum of all bytes, read back"), ("size", "The size alone")];

#[derive(Debug, Args)]
struct TransferOptions {
    /// Number of retries after a temporary failure.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retry: u32,
    /// A file of mode 0600 with credentials.
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// Limit in bytes per second, such as `100MiB/s`, of all connections and nodes together; it includes bytes that are
    /// read back to be compared.
    #[arg(long, value_name = "RATE", value_parser = jobs::limit::of)]
    limit: Option<u64>,
    /// Format of the result.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Parser of checksums of that kind.
fn sum(algorithm: Algorithm) -> impl Fn(&str) -> std::result::Result<String, StageError> + Clone {
    move |hex: &str| Checksum { algorithm, hex: hex.into() }.check().map(|()| hex.to_owned())
}

impl Stage {
    pub fn run(self, context: &Context) -> Result<u8> {
        match self.verb {
            Verb::In(c) => c.run(context),
            Verb::Out(c) => c.run(context),
        }
    }
}

impl In {
    fn run(self, context: &Context) -> Result<u8> {
        let identity = identity(self.how.credentials.clone())?;
        let sums = [
            (Algorithm::Blake3, self.blake3),
            (Algorithm::Sha512, self.sha512),
            (Algorithm::Sha256, self.sha256),
            (Algorithm::Sha1, self.sha1),
            (Algorithm::Md5, self.md5),
        ];
        let sums = sums.into_iter().filter_map(|(algorithm, hex)| Some(Checksum { algorithm, hex: hex? }));
        let sums: Vec<_> = sums.collect();
        let (replace, keep) = (self.force, self.keep);
        let inside = self.path.as_deref().map(|path| context.inside(path)).transpose()?;
        let chosen = Chosen { include: self.include, exclude: self.exclude };
        let (mut client, wanted) = if let Some(name) = self.manifest {
            let text = if name.contains("://") { None } else { Some(read_text(Path::new(&name))?) };
            let client = match &inside {
                Some(inside) => Client::connect(&inside.volume.socket())?,
                None => context.connect()?,
            };
            let path = inside.map(|inside| inside.path).unwrap_or_default();
            (client, Wanted::Manifest(ManifestIn { name, text, from: self.uri, path, replace, keep }))
        } else {
            let inside = inside.map_or_else(|| context.inside(Path::new(".")), Ok)?;
            let uris: Vec<_> = self.uri.into_iter().chain(self.also).collect();
            let is_directory = self.directory || (sums.is_empty() && uris.iter().any(|uri| means_directory(uri)));
            let what = StageIn { uris, path: inside.path, replace, keep, checksums: sums };
            let wanted = if is_directory { Wanted::Tree(what) } else { Wanted::File(what) };
            (Client::connect(&inside.volume.socket())?, wanted)
        };
        if matches!(wanted, Wanted::File(_)) && !chosen.is_all() {
            let problem = Problem::wrong("--include and --exclude choose among many files, and this is one");
            return Err(problem.try_this("add --directory for a directory, or leave them out").into());
        }
        if self.dry_run {
            return dry_run(&mut client, wanted, chosen, identity, self.how.output);
        }
        let limit = self.how.limit;
        let request = match wanted {
            Wanted::File(what) => Request::StageIn { what, limit, identity },
            Wanted::Tree(what) => Request::StageInTree { what, chosen, limit, identity },
            Wanted::Manifest(what) => Request::StageInManifest { what, chosen, limit, identity },
        };
        let staged = with_retries(self.how.retry, &mut client, &request)?;
        show(&staged, "in", self.how.output)
    }
}

impl Out {
    fn run(self, context: &Context) -> Result<u8> {
        let identity = identity(self.how.credentials.clone())?;
        let lines = match (&self.manifest, self.path, self.uri) {
            (Some(manifest), _, _) => lines_of(&read_text(manifest)?)?,
            (None, Some(path), Some(uri)) => vec![(path, uri)],
            _ => Vec::new(),
        };
        let mut inside = Vec::new();
        for (path, uri) in lines {
            inside.push((context.inside(&path)?, uri));
        }
        let (mut all, mut looked) = (Staged::default(), Looked::default());
        let chosen = Chosen { include: self.include, exclude: self.exclude };
        for (from, uri) in inside {
            let (limit, identity) = (self.how.limit, identity.clone());
            let what = StageOut { path: from.path, uri, compare: self.verify, chosen: chosen.clone() };
            let mut client = Client::connect(&from.volume.socket())?;
            if self.dry_run {
                let answer =
                    work::follow(|progress| client.ask(&Request::LookAtStageOut { what, identity }, progress), None)?;
                looked.add(read(answer)?);
                continue;
            }
            let request = Request::StageOut { what, limit, identity };
            all.add(with_retries(self.how.retry, &mut client, &request)?);
        }
        if self.dry_run {
            return show_looked(&looked, self.how.output);
        }
        show(&all, "out", self.how.output)
    }
}

/// Prints the effect of staging in.
fn dry_run(client: &mut Client, wanted: Wanted, chosen: Chosen, identity: Identity, output: Output) -> Result<u8> {
    let request = Request::LookAtStageIn { wanted, chosen, identity };
    let answer = work::follow(|progress| client.ask(&request, progress), None)?;
    show_looked(&read(answer)?, output)
}

/// Shows the files of a staging without transferring them.
fn show_looked(looked: &Looked, output: Output) -> Result<u8> {
    shown::value(output, looked, looked_text)?;
    Ok(0)
}

fn looked_text(looked: &Looked) -> String {
    let mut text = String::new();
    for Row { path, bytes, there } in &looked.list {
        let there = match there {
            There::Nothing => "",
            There::SameSize => "  there already, with this size",
            There::Sent => "  there already, in this version",
            There::Other => "  something else is there",
        };
        let _ = writeln!(text, "{:>12}  {path}{there}", shown::bytes(*bytes));
    }
    text += &notes(&looked.notes);
    let more = looked.files.saturating_sub(looked.list.len() as u64);
    if more > 0 {
        let _ = writeln!(text, "and {more} files more");
    }
    let (way, moved) = if looked.free_bytes.is_some() { ("in", "fetched") } else { ("out", "sent") };
    let free = looked.free_bytes.map_or(String::new(), |free| format!("; free: {}", shown::bytes(free)));
    let [files, there_files] = [looked.files, looked.there_files].map(|n| shown::count(n, "file"));
    let left = looked.bytes.saturating_sub(looked.there_bytes);
    let [all, there, left] = [looked.bytes, looked.there_bytes, left].map(shown::bytes);
    let _ = write!(text, "would stage {way} {files}, {all}; there already: {there_files}, {there}; ");
    let _ = writeln!(text, "to be {moved}: {left}{free}");
    text
}

fn with_retries(retries: u32, client: &mut Client, request: &Request) -> Result<Staged> {
    let hint =
        "run the same command again; it goes on where it stopped, and fetches parts under way (4 MiB each) again";
    let mut attempts = Attempts::new(retries, PAUSE_MIN);
    loop {
        let outcome = work::follow(|progress| client.ask(request, progress), Some(hint));
        let cause = match &outcome {
            Err(Failure::Problem(p)) if p.exit_code == exit::FAILED => p.cause.clone(),
            _ => return Ok(read(outcome?)?),
        };
        let Some(Again { attempt, of, pause }) = attempts.ended(true) else { return Ok(read(outcome?)?) };
        let pause = Duration::from_nanos(pause.0);
        eprintln!("try {} of {of} failed: {cause}; again in {} s", attempt - 1, pause.as_secs());
        std::thread::sleep(pause);
    }
}

fn show(staged: &Staged, way: &str, output: Output) -> Result<u8> {
    shown::value(output, staged, |staged| {
        let what = shown::count(staged.files, "file");
        let [size, fetched] = [staged.bytes, staged.fetched_bytes].map(shown::bytes);
        format!("{}staged {way} {what}, {size} ({fetched} transferred now)\n", notes(&staged.notes))
    })?;
    Ok(0)
}

fn notes(notes: &[String]) -> String {
    notes.iter().map(|note| format!("note: {note}\n")).collect()
}

/// Identity of the caller for the daemon: credentials, mask and job.
pub fn identity(credentials: Option<PathBuf>) -> Result<Identity> {
    let credentials_file = credentials.map(std::path::absolute).transpose()?;
    let variables = source::CREDENTIAL_VARIABLES.iter();
    let environment = variables.filter_map(|v| Some((v.to_string(), std::env::var(v).ok()?))).collect();
    let job = std::env::var(JOB_VARIABLE).ok();
    // The daemon replaces these ids by those of the socket's peer.
    Ok(Identity { uid: 0, gid: 0, credentials_file, environment, umask: umask(), job })
}

fn read_text(file: &Path) -> Result<String> {
    let text =
        if file == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(file) };
    text.map_err(|e| Failure::of_io(&format!("the manifest {}", file.display()), &e).into())
}

/// Parses the lines `PATH URI` of a manifest; all are checked before the first is executed.
fn lines_of(text: &str) -> Result<Vec<(PathBuf, String)>> {
    let (mut lines, mut bad) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#')) {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            [path, uri] => lines.push((PathBuf::from(path), uri.to_string())),
            _ => bad.push(BadLine { line: at + 1, why: "`PATH URI` is expected".into() }),
        }
    }
    if bad.is_empty() {
        return Ok(lines);
    }
    let next = "write one path and one URI per line; blanks in a URI are %20";
    Err(Problem::wrong(StageError::Manifest(bad).to_string()).try_this(next).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_whole_before_anything_is_done() {
        let lines = lines_of("# results\n\na file:///x\nb/c  s3://k/b\n").unwrap();
        assert_eq!(lines[1], (PathBuf::from("b/c"), "s3://k/b".to_string()));
        let Err(Failure::Problem(problem)) = lines_of("a file:///x\nb\nc d\ne\n") else { panic!("accepted") };
        assert!(problem.cause.contains("line 2") && problem.cause.contains("line 4"), "all of them: {problem}");
    }
}
