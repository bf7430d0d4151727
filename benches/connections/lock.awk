# Reads `perf script -F tid,time,event,trace` of a server's writes and waits for locks; prints how long these waited for the inode's lock, how long they
# took, and how many there were.
# A line: TID TIME: EVENT: TRACE. The inode's lock is the one of theirs that is taken for writing.
{
    thread = $1; time = $2 + 0; event = $3
    if (event ~ /sys_enter_pwrite64/) { entered[thread] = time; waited[thread] = 0; from[thread] = 0 }
    else if (event ~ /contention_begin/ && /flags=WRITE/ && entered[thread]) from[thread] = time
    else if (event ~ /contention_end/ && entered[thread] && from[thread]) { waited[thread] += time - from[thread]; from[thread] = 0 }
    else if (event ~ /sys_exit_pwrite64/ && entered[thread]) { all += time - entered[thread]; lock += waited[thread]; writes++; entered[thread] = 0 }
}
END { printf "lock-time async write 256k 16 %s %s %.6f %.6f %d\n", n, way, lock, all, writes }
