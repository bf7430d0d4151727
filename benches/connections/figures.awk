# Tables in the shape of the paper's figures from the cells that benches/connections/run.sh measured, and whether the aims are met (1 if not).
# In tables of limited connections a field is megabytes per second, times one plain mount, times Manual+.
function note(list, item) { if (!((list, item) in seen)) { seen[list, item] = 1; items[list, ++count[list]] = item } }
function median(key,    i, j, n, list, swap) {
    n = runs[key]
    for (i = 1; i <= n; i++) list[i] = value[key, i]
    for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j] < list[j - 1]; j--) { swap = list[j]; list[j] = list[j - 1]; list[j - 1] = swap }
    return n ? list[int((n + 1) / 2)] : 0
}
function get(part, mode, what, threads, n, way) { return median(part SUBSEP mode SUBSEP what SUBSEP request[part, mode] SUBSEP threads SUBSEP n SUBSEP way) }
function field(mode, what, threads, n, way,    mine, one, hand) {
    mine = get("shaped", mode, what, threads, way == "plain" ? 1 : n, way)
    if (!mine) return " |"
    one = get("shaped", mode, what, threads, 1, "plain")
    hand = get("shaped", mode, what, threads, n, "manual")
    if (way == "plain") return sprintf(" %.1f |", mine)
    return sprintf(" %.1f, %.2f%s |", mine, mine / one, way != "manual" && hand ? sprintf(", %.2f", mine / hand) : "")
}
function name(way) { return way == "plain" ? "one plain mount" : way == "manual" ? "Manual+" : way }
function head(first, list, word,    i, line, rule) {
    line = "| " first " |"; rule = "|---|"
    for (i = 1; i <= count[list]; i++) { line = line " " items[list, i] " " word " |"; rule = rule "---|" }
    print line; print rule
}
function aim(said, holds) { printf "- %s: %s\n", said, holds ? "holds" : "MISSED"; if (!holds) missed = 1 }

$1 == "lock-time" { lock[$6, $7] = $8; all[$6, $7] = $9; writes[$6, $7] = $10; note("locked", $7); note("lockedby", $6); next }
{
    key = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4 SUBSEP $5 SUBSEP $6 SUBSEP $7
    value[key, ++runs[key]] = $8
    if ($1 == "shaped" || $1 ~ /daemons/) request[$1, $2] = $4
    note($1 ".mode", $2); note($1 ".threads", $5); note($1 ".way", $7)
    if ($7 != "plain") note($1 ".n", $6)
    if ($1 == "unshaped") { note("cell", $2 " " $3 " " $4 " " $5); rounds = runs[key] }
}

END {
    split("write read", whats)
    if (count["shaped.way"]) {
        most = items["shaped.threads", count["shaped.threads"]]
        for (m = 1; m <= count["shaped.mode"]; m++) for (w = 1; w <= 2; w++) {
            mode = items["shaped.mode", m]
            printf "\nFigure %s, %s %s, %d threads:\n\n", mode == "sync" ? "4.7" : "4.8", mode, whats[w], most
            head("MB/s, to one mount, to Manual+", "shaped.n", "connections")
            for (i = 1; i <= count["shaped.way"]; i++) {
                line = "| " name(items["shaped.way", i]) " |"
                for (k = 1; k <= count["shaped.n"]; k++) line = line field(mode, whats[w], most, items["shaped.n", k], items["shaped.way", i])
                print line
            }
        }
        for (k = 1; k <= count["shaped.n"]; k++) {
            printf "\n%s%d connections by threads:\n\n", items["shaped.n", k] == 2 ? "Figure 4.10, " : items["shaped.n", k] == 4 ? "Figure 4.11, " : "", items["shaped.n", k]
            head("MB/s, to one mount, to Manual+", "shaped.threads", "threads")
            for (m = 1; m <= count["shaped.mode"]; m++) for (w = 1; w <= 2; w++) for (i = 1; i <= count["shaped.way"]; i++) {
                line = "| " items["shaped.mode", m] " " whats[w] ", " name(items["shaped.way", i]) " |"
                for (t = 1; t <= count["shaped.threads"]; t++)
                    line = line field(items["shaped.mode", m], whats[w], items["shaped.threads", t], items["shaped.n", k], items["shaped.way", i])
                print line
            }
        }
        if (("shaped.mode", "async") in seen) {
            print "\nFigure 4.13, asynchronous requests of few threads:\n"
            head("MB/s, to one mount, to Manual+", "shaped.n", "connections")
            for (w = 1; w <= 2; w++) for (t = 1; t <= count["shaped.threads"] && items["shaped.threads", t] <= 2; t++) for (i = 1; i <= count["shaped.way"]; i++) {
                line = "| " whats[w] ", threads: " items["shaped.threads", t] ", " name(items["shaped.way", i]) " |"
                for (k = 1; k <= count["shaped.n"]; k++) line = line field("async", whats[w], items["shaped.threads", t], items["shaped.n", k], items["shaped.way", i])
                print line
            }
        }
    }
    for (limited = 1; limited >= 0; limited--) {
        part = limited ? "daemons" : "daemons-unshaped"
        if (!count[part ".way"]) continue
        printf "\nFigure 4.12, %d connections to one server daemon and (+) to two, 16 threads, %s, MB/s:\n\n", items[part ".n", 1], limited ? "each connection limited" : "no limit"
        line = "| |"; rule = "|---|"
        for (i = 1; i <= count[part ".way"]; i++) { line = line " " items[part ".way", i] " |"; rule = rule "---|" }
        print line; print rule
        for (m = 1; m <= count[part ".mode"]; m++) for (w = 1; w <= 2; w++) {
            line = "| " items[part ".mode", m] " " whats[w] " |"
            for (i = 1; i <= count[part ".way"]; i++) line = line sprintf(" %.1f |", get(part, items[part ".mode", m], whats[w], 16, items[part ".n", 1], items[part ".way", i]))
            print line
        }
    }
    if (count["locked"]) {
        print "\nFigure 4.9, asynchronous writes of 16 threads without a limit: share of the time of the server's writes that they sleep for the inode's lock, and that time per write in microseconds:\n"
        head("", "lockedby", "connections")
        for (i = 1; i <= count["locked"]; i++) {
            line = "| " items["locked", i] " |"
            for (k = 1; k <= count["lockedby"]; k++) {
                n = items["lockedby", k]; way = items["locked", i]
                line = line (all[n, way] ? sprintf(" %.1f %%, %.1f us |", 100 * lock[n, way] / all[n, way], 1e6 * lock[n, way] / writes[n, way]) : " |")
            }
            print line
        }
    }
    if (count["unshaped.way"]) {
        printf "\nWithout a limit (policy load), times one plain mount, medians of %d; one connection is what the layer costs:\n\n", rounds
        line = "| | threads | one plain mount, MB/s |"; rule = "|---|---|---|"
        for (k = 1; k <= count["unshaped.n"]; k++) { line = line " " items["unshaped.n", k] " |"; rule = rule "---|" }
        print line; print rule
        for (c = 1; c <= count["cell"]; c++) {
            split(items["cell", c], cell, " ")
            base = "unshaped" SUBSEP cell[1] SUBSEP cell[2] SUBSEP cell[3] SUBSEP cell[4] SUBSEP
            plain = median(base 1 SUBSEP "plain")
            line = sprintf("| %s %s %s | %d | %.1f |", cell[1], cell[2], cell[3], cell[4], plain)
            for (k = 1; k <= count["unshaped.n"]; k++) {
                ratio = plain ? median(base items["unshaped.n", k] SUBSEP "load") / plain : 0
                line = line sprintf(" %.2f |", ratio)
                fields++
                if (ratio < 1) { slower++; if (!least || ratio < least) { least = ratio; where = items["cell", c] " threads, " items["unshaped.n", k] " connections" } }
            }
            print line
        }
    }
    print "\nAims (policy load):\n"
    for (k = 1; k <= count["shaped.n"]; k++) {
        n = items["shaped.n", k]
        if (!(("shaped.way", "load") in seen) || n < 4) continue
        one = hand = 1e9
        for (m = 1; m <= count["shaped.mode"]; m++) for (w = 1; w <= 2; w++) {
            mode = items["shaped.mode", m]; mine = get("shaped", mode, whats[w], most, n, "load")
            x = mine / get("shaped", mode, whats[w], most, 1, "plain"); if (x < one) one = x
            x = mine / get("shaped", mode, whats[w], most, n, "manual"); if (x < hand) hand = x
        }
        aim(sprintf("%d connections, %d threads: at least %.1f of one mount (%.2f)", n, most, n < 8 ? 3.6 : 6, one), one >= (n < 8 ? 3.6 : 6))
        aim(sprintf("%d connections, %d threads: at least 0.95 of Manual+ (%.2f)", n, most, hand), hand >= 0.95)
        one = get("shaped", "async", "read", 1, 1, "plain")
        if (one) aim(sprintf("%d connections, one thread, asynchronous reads: at least 3 of one mount (%.2f)", n, get("shaped", "async", "read", 1, n, "load") / one), get("shaped", "async", "read", 1, n, "load") >= 3 * one)
    }
    if (fields) aim(sprintf("without a limit never slower than one plain mount (%d of %d fields are%s)", slower, fields, slower ? sprintf("; the least %.2f: %s", least, where) : ""), !slower)
    exit missed
}
