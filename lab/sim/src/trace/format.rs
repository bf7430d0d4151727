//! Formats by name, with their properties.

use serde::Serialize;

named! {
    /// A format of trace files, with its name on the command line. Layouts are in the readers' modules and in
    /// `docs/reference/traces.md`.
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    Format {
        /// Our own format.
        Native = "native",
        /// SPC ASCII 1.0.1, as in the UMass repository.
        Spc = "spc",
        /// MSR Cambridge CSV.
        Msr = "msr",
        /// Format of blkreplay's `.load`.
        Load = "load",
        /// Text of `blkparse`.
        Blkparse = "blkparse",
        /// Binary of `blktrace`.
        Blktrace = "blktrace",
        /// fio's I/O log, versions 2 and 3.
        Fio = "fio",
        /// DiskSim ASCII (also MQSim's and SSDsim's).
        Disksim = "disksim",
        /// Format oracleGeneral of libCacheSim.
        OracleGeneral = "oracle-general",
        /// `.lis` of the ARC paper.
        Arc = "arc",
        /// References of the LIRS distribution.
        Lirs = "lirs",
        /// Text of `darshan-dxt-parser`.
        Dxt = "dxt",
        /// Records of VMware's vscsiStats.
        Vscsi = "vscsi",
        /// Tencent's block traces.
        Tencent = "tencent",
        /// Traces of SYSTOR '17.
        Systor = "systor",
        /// Text with the columns that the options name.
        Csv = "csv",
    }
}

impl Format {
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

named! {
    /// A unit of time of a trace.
    #[derive(Serialize)]
    #[serde(rename_all = "lowercase")]
    TimeUnit {
        /// Unit of a second.
        S = "s",
        /// Unit of a millisecond.
        Ms = "ms",
        /// Unit of a microsecond.
        Us = "us",
        /// Unit of a nanosecond.
        Ns = "ns",
    }
}

impl TimeUnit {
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
            assert_eq!(Format::named(format.text()), Some(*format));
        }
        assert_eq!(Format::named("SPC"), None);
    }
}
