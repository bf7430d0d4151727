//! The one table of all metrics: names, units, help.

use policy::named;

named! {
    /// Operations that applications request.
    Op {
        /// Read requests of applications.
        Read = "read",
        /// Write requests of applications.
        Write = "write",
        /// New files, directories, links and devices.
        Create = "create",
        /// Requests to open a file.
        Open = "open",
        /// Lookups of names.
        Lookup = "lookup",
        /// Looks at attributes.
        Getattr = "getattr",
        /// Changes of attributes.
        Setattr = "setattr",
        /// Reads of directories.
        Readdir = "readdir",
        /// Requests to remove a name.
        Unlink = "unlink",
        /// Requests to rename a file.
        Rename = "rename",
        /// New hard links of files.
        Link = "link",
        /// Requests for extended attributes.
        Xattr = "xattr",
        /// Closes of a descriptor.
        Flush = "flush",
        /// Requests to make a file durable.
        Fsync = "fsync",
        /// Last closes of open files.
        Release = "release",
        /// Reservations and holes.
        Fallocate = "fallocate",
        /// Searches for data and holes.
        Seek = "seek",
        /// Copies inside the mount.
        Copy = "copy",
        /// Looks at the space.
        Statfs = "statfs",
        /// Requests for file locks.
        Lock = "lock",
    }
}

named! {
    /// Numbers that belong to no operation and no target.
    Metric {
        /// Bytes copied by the mover.
        MoverBytes = "mover_bytes",
        /// Layout changes that the mover completed.
        MoverChanges = "mover_changes",
        /// Layout changes that failed.
        MoverFailures = "mover_failures",
        /// Mirrors marked stale.
        MirrorsStale = "mirrors_stale",
        /// Stripes reported lost.
        RecoveryStripesLost = "recovery_stripes_lost",
        /// Stripes fetched from a source.
        RecoveryStripes = "recovery_stripes",
        /// Bytes fetched from a source.
        RecoveryBytes = "recovery_bytes",
        /// Readers that waited for a stripe.
        RecoveryWaits = "recovery_waits",
        /// Nanoseconds that readers waited.
        RecoveryDelayNs = "recovery_delay_ns",
        /// Fetches that failed and were tried again.
        RecoveryRetries = "recovery_retries",
        /// Objects that could not be recovered.
        RecoveryFailures = "recovery_failures",
        /// Files of which checksums were made after they were closed.
        SumsMade = "sums_made",
        /// Bytes of these.
        SumsBytes = "sums_bytes",
        /// Closed files that got no checksums: in use again, or on a target that is not well.
        SumsLeft = "sums_left",
        /// Passes of a scrub over all files that came to their end.
        ScrubPasses = "scrub_passes",
        /// Bytes of files that a scrub compared.
        ScrubBytes = "scrub_bytes",
        /// Objects that a scrub found to hold other bytes than they should, or to lack some.
        ScrubFound = "scrub_found",
        /// Objects among these that were restored from a mirror or a source.
        ScrubMended = "scrub_mended",
        /// Files that a scrub could not compare.
        ScrubLeft = "scrub_left",
        /// Copies of input files begun for jobs that start soon.
        ReplicasBegun = "replicas_begun",
        /// Copies of input files completed.
        ReplicasCompleted = "replicas_completed",
        /// Copies of input files removed because no job needs them any more.
        ReplicasRemoved = "replicas_removed",
        /// Copies of input files that could not be made.
        ReplicasFailed = "replicas_failed",
        /// Jobs dispatched with input in the volume while a policy of replication was in force.
        ReplicationDispatched = "replication_dispatched",
        /// Jobs among these dispatched before all copies of their input were complete.
        ReplicationAtRisk = "replication_at_risk",
        /// Files whose lost objects were swapped for those of a replica.
        Failovers = "failovers",
        /// Nanoseconds that the swaps took.
        FailoverNs = "failover_ns",
        /// Secondary replicas made in the background after a swap.
        ReplicasRebuilt = "replicas_rebuilt",
        /// Bytes staged in.
        StageInBytes = "stage_in_bytes",
        /// Bytes staged out.
        StageOutBytes = "stage_out_bytes",
        /// Nanoseconds that transfers waited because of `--limit` and `[stage] limit`.
        StageHeldNs = "stage_held_ns",
        /// Files that were purged.
        PurgedFiles = "purged_files",
        /// Bytes of the purged files.
        PurgedBytes = "purged_bytes",
        /// Jobs submitted to the local runner.
        JobsSubmitted = "jobs_submitted",
        /// Jobs among these that ended well.
        JobsCompleted = "jobs_completed",
        /// Jobs among these that failed.
        JobsFailed = "jobs_failed",
        /// Jobs whose data were there when they started, and not too early.
        StagingInTime = "staging_in_time",
        /// Jobs that waited for their data, which could have begun to come sooner.
        StagingTooLate = "staging_too_late",
        /// Nanoseconds that these waited.
        StagingTooLateNs = "staging_too_late_ns",
        /// Jobs that waited for their data though these began to come at once.
        StagingNoLead = "staging_no_lead",
        /// Jobs whose data lay there for longer than `[jobs] stage_in_early` before they started.
        StagingTooEarly = "staging_too_early",
        /// Nanoseconds that the data of all jobs lay there before their start.
        StagingIdleNs = "staging_idle_ns",
        /// Times that a stage-in found no space.
        StagingNoSpace = "staging_no_space",
        /// Jobs that failed because there was no space for their data.
        StagingRefused = "staging_refused",
        /// Files restriped for their load.
        StripesRestriped = "stripes_restriped",
        /// Forks made: further copies that are striped differently.
        StripesForks = "stripes_forks",
        /// Forks given up.
        StripesForksDropped = "stripes_forks_dropped",
        /// Changes of stripes that failed or were not possible.
        StripesFailed = "stripes_failed",
        /// Bytes copied for restriping and for forks.
        StripesBytes = "stripes_bytes",
        /// Accesses to segments that tiering counted.
        TieringAccesses = "tiering_accesses",
        /// Accesses among these to the fast tier.
        TieringFastAccesses = "tiering_fast_accesses",
        /// Segments moved to the fast tier.
        TieringPromoted = "tiering_promoted",
        /// Segments moved to the slow tier.
        TieringDemoted = "tiering_demoted",
        /// Segments among these that went back to a kept slow copy, without any copying.
        TieringReturned = "tiering_returned",
        /// Moves between tiers that were given up.
        TieringFailed = "tiering_failed",
        /// Slow copies made of segments on the fast tier while the devices were idle.
        TieringCopied = "tiering_copied",
        /// Slow copies that were given up, mostly because of a concurrent write.
        TieringCopiesFailed = "tiering_copies_failed",
        /// Bytes of such copies.
        TieringCopiedBytes = "tiering_copied_bytes",
        /// Bytes of files that moves between tiers moved.
        TieringMovedBytes = "tiering_moved_bytes",
        /// Accesses that tiering forgot because too many waited to be looked at.
        TieringLost = "tiering_lost",
        /// Opens with passthrough, whose reads and writes the daemon does not see.
        PassthroughOpens = "passthrough_opens",
    }
}

named! {
    /// Gauges that are read at each report.
    Level {
        /// Since the start of the daemon.
        Uptime = "uptime_seconds",
        /// Nodes that have the volume.
        Nodes = "nodes",
        /// 1 if this node leads.
        Leads = "leads",
        /// Orders for targets that other nodes do not have yet, since the state was away when they were given here.
        OrdersKept = "orders_kept",
        /// Users, groups and directories that have a quota.
        QuotaLimits = "quota_limits",
        /// Subjects among these that are over a soft limit.
        QuotaOver = "quota_over",
        /// Subjects among these that may not grow because the grace period is over.
        QuotaExpired = "quota_expired",
        /// Users, groups and directories that have as much as a hard limit says.
        QuotaFull = "quota_full",
        /// How much of its limit the fullest quota takes, of the hard one if it has one.
        QuotaFullest = "quota_fullest_ratio",
        /// Requests that a quota refused.
        QuotaRefused = "quota_refused",
        /// Files that are open, or worked at.
        FilesInUse = "files_in_use",
        /// Files that cannot be read while their targets are failed, as the last look through the tree found on the node that leads.
        FilesAway = "files_away",
        /// Bytes of these files.
        FilesAwaySize = "files_away_bytes",
        /// Files of which bytes are being moved.
        MovesRunning = "moves_running",
        /// Lost objects that are being recovered.
        RecoveriesRunning = "recoveries_running",
        /// Stripes that are being fetched for these.
        FetchesRunning = "recovery_fetches_running",
        /// Requested stagings under way.
        StagingsRunning = "stagings_running",
        /// Jobs of this node's queue that have not ended.
        Jobs = "jobs",
        /// Jobs of Slurm that this node's hooks serve and that have not ended.
        SlurmJobs = "slurm_jobs",
        /// Bytes promised to jobs of this node, of data that are still to come.
        StagingPromised = "staging_promised_bytes",
        /// Bytes of the targets of a tier, each file system counted once.
        TierSize = "tier_size_bytes",
        /// Free bytes of these.
        TierFree = "tier_free_bytes",
        /// Segments on the fast tier.
        TieringFastSegments = "tiering_fast_segments",
        /// Further segments for which the fast tier has room.
        TieringRoomSegments = "tiering_room_segments",
        /// Moves between tiers that wait.
        TieringWaiting = "tiering_waiting",
        /// Slow copies that are kept below segments on the fast tier.
        TieringCopiesKept = "tiering_copies_kept",
        /// Bytes that the burst buffer has. These numbers come from the node that decides.
        BurstSize = "burst_size_bytes",
        /// Bytes of it that checkpoints take.
        BurstUsed = "burst_used_bytes",
        /// Bytes of these that are not on the capacity tier yet.
        BurstNotDemoted = "burst_not_demoted_bytes",
        /// Versions of checkpoints in the burst buffer.
        BurstVersions = "burst_versions",
        /// Versions that wait for their turn.
        BurstWaiting = "burst_waiting",
        /// Versions that are being written.
        BurstWriting = "burst_writing",
        /// Writes that are held until there is room.
        BurstHeldWrites = "burst_held_writes",
        /// Versions of checkpoints that were completed.
        CheckpointsCommitted = "checkpoints_committed",
        /// Versions that failed.
        CheckpointsFailed = "checkpoints_failed",
        /// Versions demoted to the capacity tier.
        CheckpointsDemoted = "checkpoints_demoted",
        /// Bytes of these.
        CheckpointsDemotedBytes = "checkpoints_demoted_bytes",
        /// Restarts that found their version in the burst buffer.
        RestartsFromBuffer = "restarts_from_buffer",
        /// Restarts that found it on the capacity tier.
        RestartsFromCapacity = "restarts_from_capacity",
        /// 1 if a connection of a target is in use.
        ConnectionInUse = "connection_in_use",
        /// Operations that ended on a connection.
        ConnectionOps = "connection_ops",
        /// Operations among these that ended with an error of the connection.
        ConnectionErrors = "connection_errors",
        /// Bytes read over a connection.
        ConnectionReadBytes = "connection_read_bytes",
        /// Bytes written over a connection.
        ConnectionWrittenBytes = "connection_written_bytes",
        /// Bytes under way on a connection.
        ConnectionOutstandingBytes = "connection_outstanding_bytes",
        /// Mean time of an operation on a connection.
        ConnectionLatency = "connection_latency_seconds",
        /// Times that a connection was mounted again.
        ConnectionMountedAgain = "connection_mounted_again",
    }
}

impl Level {
    /// Labels of the metric, if it has any.
    pub fn labels(self) -> &'static [&'static str] {
        match self {
            Level::Jobs | Level::SlurmJobs => &["state"],
            Level::TierSize | Level::TierFree => &["tier"],
            Level::QuotaFullest => &["resource"],
            Level::ConnectionInUse
            | Level::ConnectionOps
            | Level::ConnectionErrors
            | Level::ConnectionReadBytes
            | Level::ConnectionWrittenBytes
            | Level::ConnectionOutstandingBytes
            | Level::ConnectionLatency
            | Level::ConnectionMountedAgain => &["target", "connection"],
            _ => &[],
        }
    }

    /// Whether it only grows, from the start of what counts it.
    pub fn is_counter(self) -> bool {
        matches!(
            self,
            Level::QuotaRefused
                | Level::CheckpointsCommitted
                | Level::CheckpointsFailed
                | Level::CheckpointsDemoted
                | Level::CheckpointsDemotedBytes
                | Level::RestartsFromBuffer
                | Level::RestartsFromCapacity
                | Level::ConnectionOps
                | Level::ConnectionErrors
                | Level::ConnectionReadBytes
                | Level::ConnectionWrittenBytes
                | Level::ConnectionMountedAgain
        )
    }
}
