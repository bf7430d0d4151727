//! The sections about files and the targets that they lie on: `[layout]`, `[mount]`, `[health]`, `[mover]`, `[recovery]`.

use super::super::keys::{DAY, HOUR, SECOND, choice, count, flag, optional, rate, section, size, span};
use super::super::section::Section;
use crate::file::MirrorWrites;
use object::target::TARGETS_MAX;
use policy::named;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;
const MS: Duration = Duration::from_millis(1);
const STRIPE: &str = "a multiple of 4096 bytes up to 1GiB, such as \"1MiB\"";

section! {
    /// `[layout]`
    LayoutConfig {
        /// Bytes on one target before the next stripe goes to another; a multiple of 4096.
        stripe_size: u64 = size(4096..=1 << 30, STRIPE), "1MiB";
        /// Targets that a large file is striped over.
        stripe_count: usize = count(1..=TARGETS_MAX as u64), 4;
        /// Files up to this size are kept with their name and need no target.
        inline_max: u64 = size(0..=MIB, "a size up to 1MiB, such as \"64KiB\""), "64KiB";
        /// Files up to this size lie whole on one target.
        single_max: u64 = size(0..=TIB, "a size up to 1TiB, such as \"4MiB\""), "4MiB";
        /// Cut larger files into segments of this size, each of which can lie on other targets; 0 is one segment without end.
        segment: u64 = size(0..=TIB, "a size up to 1TiB, such as \"64MiB\", or 0"), 0;
        /// Where new files go first: "any" is by free space alone; "local" is to targets that are `only_on` the writer's host or
        /// `near` it, while these have room.
        prefer: Prefer = choice(Prefer::NAMES), "any";
        /// Copies of every new file, on different targets.
        mirrors: usize = count(1..=8), 1;
        /// With several copies, a write waits for all ("sync"), or for the first, and the others are updated later
        /// ("stale").
        mirror_writes: MirrorWrites = choice(&[("sync", MirrorWrites::Sync), ("stale", MirrorWrites::Stale)]), "sync";
    }
}

impl LayoutConfig {
    pub(in crate::volume) fn checked(section: &Section<'_, '_, '_>) -> LayoutConfig {
        let layout = LayoutConfig::read(section);
        if !layout.stripe_size.is_multiple_of(4096) {
            let cause = format!("`stripe_size` is {} bytes", layout.stripe_size);
            section.problem("stripe_size", cause, format!("Give {STRIPE}"));
        }
        layout
    }
}

named! {
    /// Targets that new files prefer.
    Prefer {
        /// The targets with the most space.
        Any = "any",
        /// The targets near the writer.
        Local = "local",
    }
}

named! {
    /// Whether the kernel may read and write one-object files by itself.
    Passthrough {
        /// Where the kernel can and nothing needs to see the data.
        Auto = "auto",
        /// The kernel never does.
        Off = "off",
    }
}

named! {
    /// Whether reads go through the kernel's page cache; those of files that are open for writing always do.
    Io {
        /// Unless there is a block cache.
        Auto = "auto",
        /// Reads go past the page cache.
        Direct = "direct",
        /// Reads go through the page cache.
        Cached = "cached",
    }
}

named! {
    /// Whether a node may keep names of directories that other nodes change.
    Names {
        /// Each use of a path looks up all its names.
        AtOnce = "at-once",
        /// Names of directories count for `entry_timeout`.
        Cached = "cached",
    }
}

section! {
    /// `[mount]`
    Mount {
        /// Threads that serve requests. The default is two per core, from 6 to 32.
        threads: usize = count(1..=256), 8 else default_threads();
        /// Time for which the kernel may keep names without a new request.
        entry_timeout: Duration = span(Duration::ZERO..=DAY), "1s";
        /// Time for which the kernel may keep attributes without a new request.
        attr_timeout: Duration = span(Duration::ZERO..=DAY), "1s";
        /// On several nodes: "at-once" shows a directory that another node renamed, replaced or removed at once;
        /// "cached" after `entry_timeout` at the latest. Files and their attributes are shown at once in both cases, and
        /// `entry_timeout` and `attr_timeout` have no other effect.
        names: Names = choice(Names::NAMES), "at-once";
        /// Whether other users may use the mount. The default is yes if run by root, else no.
        allow_other: Option<bool> = optional(flag), true else None;
        /// "auto" lets the kernel read and write files on one target by itself where it can; "off" never.
        passthrough: Passthrough = choice(Passthrough::NAMES), "auto";
        /// The way of reads: "direct" past the page cache, "cached" through it, "auto" through it unless there is a
        /// `[cache]`. Reads and writes of files that are open for writing always go through it.
        io: Io = choice(Io::NAMES), "auto";
    }
}

/// Two per core, so that a reader computes while another waits; some spare ones that may hang. A guess.
fn default_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    (2 * cores).clamp(6, 32)
}

section! {
    /// `[health]`
    Health {
        /// A target without an answer to an operation within this time is suspect; if that happens again it is failed.
        deadline: Duration = span(10 * MS..=HOUR), "5s";
        /// Time between two probes of a suspect target.
        probe_interval: Duration = span(10 * MS..=HOUR), "500ms";
        /// Number of failed probes in a row after which a suspect target is failed.
        probes_failed_max: u32 = count(1..=1000), 2;
        /// Number of good probes in a row after which a failed target is used again. 0: only after `entrepot target
        /// restore`. The default is 4 if the state is on a server, since one node may lose its connection to a working
        /// target; else 0.
        auto_restore: Option<u32> = optional(count(0..=1000)), 4 else None;
    }
}

section! {
    /// `[mover]`
    Mover {
        /// Bytes per second for moving data between targets; 0 is no limit.
        rate: u64 = rate, 0;
        /// Files that are moved at the same time.
        concurrent: usize = count(1..=64), 2;
    }
}

section! {
    /// `[recovery]`
    Recovery {
        /// Ranges fetched from one source at the same time.
        concurrent: usize = count(1..=64), 4;
        /// Tries of one range before the next source is asked.
        retries: u32 = count(1..=100), 3;
        /// Bytes per second; 0 is no limit.
        rate: u64 = rate, 0;
        /// Longest time in which a source may send nothing, or less than 4 KiB per second, before that counts as a
        /// failure; also in staging.
        source_patience: Duration = span(SECOND..=HOUR), "30s";
    }
}

named! {
    /// Files that have checksums.
    Summed {
        /// Files that were staged in, until they are modified.
        Staged = "staged",
        /// All files that were closed, until they are modified.
        Closed = "closed",
    }
}

section! {
    /// `[checksums]`
    Checksums {
        /// The files with checksums: "staged" ones only, or every file a while after it was "closed". Each byte is read once more then, at
        /// the speed of `[mover] rate`.
        files: Summed = choice(Summed::NAMES), "staged";
    }
}

section! {
    /// `[scrub]`
    Scrub {
        /// Interval of scrubs: every file is read, compared and repaired. 0: only on `entrepot scrub`.
        every: Duration = span(Duration::ZERO..=3650 * DAY), "0s";
        /// Bytes per second that are read for it; 0 is no limit. `entrepot scrub --rate` has one of its own.
        rate: u64 = rate, "20MiB";
    }
}
