# The machine's own share of a measured time; to be sourced by the rigs. A task that is ready and waits for a processor lengthens requests as
# no device does, and so does a hypervisor that runs another guest. Above a tenth of the time, a rig judges nothing.
machine_share_max=10
# Seconds so far: the clock, waits for a processor (pressure stall information, "some"), stolen time of a processor.
machine_times() {
    printf '%s ' "$(date +%s.%N)"
    sed -n 's/^some .*total=//p' /proc/pressure/cpu 2>/dev/null | awk '{ us = $1 } END { printf "%.6f ", us / 1e6 }' || true
    awk -v hz="$(getconf CLK_TCK)" '$1 == "cpu" { stolen = $9 / hz } /^cpu[0-9]/ { n++ } END { print stolen / n }' /proc/stat
}
machine_begin() { machine_began=$(machine_times); }
# Percent of the time since machine_begin.
machine_share() {
    echo "$machine_began $(machine_times)" | awk '{ printf "%.0f", ($5 - $2 + $6 - $3) / ($4 - $1) * 100 }'
}
# WHAT PERCENT: whether WHAT may be judged; otherwise the reason is on the standard error.
machine_allows() {
    [ -e /proc/pressure/cpu ] || echo "without /proc/pressure/cpu, the machine's own share is known by stolen time only" >&2
    [ "$2" -le $machine_share_max ] && return
    echo "skipped: $1: the machine took $2 % of the time, at most $machine_share_max % are allowed" >&2
    return 1
}
