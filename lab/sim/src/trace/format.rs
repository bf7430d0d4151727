//! Formats by name, with their properties.

use serde::Serialize;

/// A format of trace files. Layouts are in the readers' modules and in `docs/reference/traces.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Our own format.
    Native,
    /// SPC ASCII 1.0.1, as in the UMass repository.
    Spc,
    /// MSR Cambridge CSV.
    Msr,
    /// Format of blkreplay's `.load`.
    Load,
    /// Text of `blkparse`.
    Blkparse,
    /// Binary of `blktrace`.
    Blktrace,
    /// fio's I/O log, versions 2 and 3.
    Fio,
    /// DiskSim ASCII (also MQSim's and SSDsim's).
    Disksim,
    /// Format oracleGeneral of libCacheSim.
    OracleGeneral,
    /// `.lis` of the ARC paper.
    Arc,
    /// References of the LIRS distribution.
    Lirs,
    /// Text of `darshan-dxt-parser`.
    Dxt,
    /// Records of VMware's vscsiStats.
    Vscsi,
    /// Tencent's block traces.
    Tencent,
    /// Traces of SYSTOR '17.
    Systor,
    /// Text with the columns that the options name.
    Csv,
}

impl Format {
    /// All formats, in order.
    pub const ALL: &'static [Format] = &[
        Format::Native,
        Format::Spc,
        Format::Msr,
        Format::Load,
        Format::Blkparse,
        Format::Blktrace,
        Format::Fio,
        Format::Disksim,
        Format::OracleGeneral,
        Format::Arc,
        Format::Lirs,
        Format::Dxt,
        Format::Vscsi,
        Format::Tencent,
        Format::Systor,
        Format::Csv,
    ];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Native => "native",
            Format::Spc => "spc",
            Format::Msr => "msr",
            Format::Load => "load",
            Format::Blkparse => "blkparse",
            Format::Blktrace => "blktrace",
            Format::Fio => "fio",
            Format::Disksim => "disksim",
            Format::OracleGeneral => "oracle-general",
            Format::Arc => "arc",
            Format::Lirs => "lirs",
            Format::Dxt => "dxt",
            Format::Vscsi => "vscsi",
            Format::Tencent => "tencent",
            Format::Systor => "systor",
            Format::Csv => "csv",
        }
    }

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Format> {
        Format::ALL.iter().copied().find(|f| f.name() == name)
    }

    /// All names, for messages.
    pub fn names() -> String {
        Format::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(", ")
    }

    /// Returns whether requests have times. Without, all are 0 and only a closed-loop replay makes sense.
    pub const fn has_times(self) -> bool {
        !matches!(self, Format::Arc | Format::Lirs)
    }

    /// Returns whether addresses are block numbers with an unknown block size.
    pub const fn needs_block_bytes(self) -> bool {
        matches!(self, Format::Arc | Format::Lirs)
    }

    /// Returns whether records name their issuers.
    pub const fn has_clients(self) -> bool {
        matches!(self, Format::Native | Format::Msr | Format::Blkparse | Format::Blktrace | Format::Dxt)
    }

    /// Returns whether times count from some distant past, so that the first record's becomes 0.
    pub const fn has_absolute_times(self) -> bool {
        matches!(
            self,
            Format::Msr
                | Format::Blktrace
                | Format::OracleGeneral
                | Format::Vscsi
                | Format::Tencent
                | Format::Systor
                | Format::Csv
        )
    }

    /// Returns its units of time and address, in words.
    pub const fn units(self) -> &'static str {
        match self {
            Format::Native => "ns, bytes",
            Format::Spc => "seconds, sectors of 512 bytes",
            Format::Msr => "100 ns since 1601, bytes",
            Format::Load | Format::Blkparse => "seconds, sectors of 512 bytes",
            Format::Blktrace => "ns since boot, sectors of 512 bytes",
            Format::Fio => "us, bytes",
            Format::Disksim => "given unit, sectors of 512 bytes",
            Format::OracleGeneral => "seconds, object numbers times the block size",
            Format::Arc | Format::Lirs => "no times, block numbers times the block size",
            Format::Dxt => "seconds (0.1 ms), bytes",
            Format::Vscsi => "us, sectors of 512 bytes",
            Format::Tencent => "seconds since 1970, sectors of 512 bytes",
            Format::Systor => "seconds since 1970, bytes",
            Format::Csv => "units of the named columns",
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A unit of time of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Unit of a second.
    S,
    /// Unit of a millisecond.
    Ms,
    /// Unit of a microsecond.
    Us,
    /// Unit of a nanosecond.
    Ns,
}

impl TimeUnit {
    /// Returns the unit with this name: s, ms, us or ns.
    pub fn named(name: &str) -> Option<TimeUnit> {
        match name {
            "s" => Some(TimeUnit::S),
            "ms" => Some(TimeUnit::Ms),
            "us" => Some(TimeUnit::Us),
            "ns" => Some(TimeUnit::Ns),
            _ => None,
        }
    }

    /// Returns the nanoseconds in a unit.
    pub const fn ns(self) -> u64 {
        match self {
            TimeUnit::S => 1_000_000_000,
            TimeUnit::Ms => 1_000_000,
            TimeUnit::Us => 1_000,
            TimeUnit::Ns => 1,
        }
    }
}

/// Options of a reader. By default the content decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Format of the file; the default is detected from its content.
    pub format: Option<Format>,
    /// Whether malformed lines are skipped and counted instead of ending the trace.
    pub lenient: bool,
    /// Unit of time for a format without one (DiskSim).
    pub time_unit: Option<TimeUnit>,
    /// Block size for a format that counts in blocks; default 4096.
    pub block_bytes: Option<u32>,
    /// Event of blktrace and blkparse that represents the request: `Q` (queued, its arrival), `D` (issued to the
    /// device), `C` ...
    pub action: u8,
    /// Columns of a text trace; they imply the format csv.
    pub columns: Option<String>,
    /// DXT: use the transfers of MPI-IO instead of the resulting POSIX ones.
    pub mpiio: bool,
    /// Sort by time. Needs all records in memory; DXT is always sorted.
    pub sort: bool,
    /// Maximum of records in memory for sorting.
    pub sort_records_max: usize,
}

impl Options {
    /// Records in 1 GiB.
    pub const SORT_RECORDS_MAX: usize = 32 << 20;
    /// Default block size: a page, as in most published caches.
    pub const BLOCK_BYTES: u32 = 4096;

    /// Returns the block size, given or default.
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes.unwrap_or(Self::BLOCK_BYTES).max(1)
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            format: None,
            lenient: false,
            time_unit: None,
            block_bytes: None,
            action: b'Q',
            columns: None,
            mpiio: false,
            sort: false,
            sort_records_max: Options::SORT_RECORDS_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_formats() {
        for format in Format::ALL {
            assert_eq!(Format::named(format.name()), Some(*format));
        }
        assert_eq!(Format::named("SPC"), None);
    }
}
