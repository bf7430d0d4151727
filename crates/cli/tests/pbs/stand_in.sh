#!/bin/bash
# A strict stand-in for PBS: called as qsub, qstat, qdel or pbsnodes. Takes only what OpenPBS takes of what Entrepot may
# say, keeps its jobs in the directory $PBS_STAND_IN, and runs them on this machine as whoever submits.
set -u
at=${PBS_STAND_IN:?}
me=$(basename "$0")
refuse() { echo "$me: $*" >&2; exit "${code:-2}"; }
known() { [[ $1 =~ ^[0-9]+\.stand-in$ ]] && [ -d "$at/$1" ] || { code=153 refuse "Unknown Job Id $1"; }; }
put() { printf %s "$3" > "$at/$1/.new" && mv "$at/$1/.new" "$at/$1/$2"; }
get() { cat "$at/$1/$2" 2>/dev/null; }

# Waits for what the job depends on, runs it, leaves its status. A dependent of a job that failed is deleted.
run() {
    local id=$1 after=$2
    if [ -n "$after" ]; then
        until [ "$(get "$after" job_state)" = F ]; do sleep 0.05; done
        [ "$(get "$after" exit)" = 0 ] || { put "$id" job_state F; return; }
    fi
    [ -e "$at/$id/deleted" ] && { put "$id" job_state F; return; }
    put "$id" job_state R
    local out
    out=$(get "$id" out)
    (cd "$(get "$id" cwd)" && exec setsid bash -c 'echo $$ > "$1/pid"; exec "$1/script"' - "$at/$id") > "$out" 2>&1
    local status=$?
    [ "$status" -gt 128 ] && status=$((status - 128 + 256))
    put "$id" exit "$status"
    put "$id" job_state F
}

qsub() {
    local variables='' name_of
    local name='' queue=batch after='' out='' join=n begin=''
    [ -e "$at/.slow" ] && sleep 2
    while [ $# -gt 0 ]; do
        [ $# -ge 2 ] || refuse "option $1 needs a value"
        case $1 in
        -N) [[ $2 =~ ^[A-Za-z][A-Za-z0-9_.-]{0,14}$ ]] || refuse "illegal -N value $2"; name=$2 ;;
        -q) [[ $2 =~ ^(batch|dataxfer)$ ]] || { code=170 refuse "Unknown queue $2"; }; queue=$2 ;;
        -W)
            [[ $2 =~ ^depend=afterok:(.+)$ ]] || refuse "illegal -W value $2"
            after=${BASH_REMATCH[1]}
            known "$after" ;;
        -a)
            [[ $2 =~ ^20[0-9]{2}(0[1-9]|1[0-2])[0-3][0-9][0-2][0-9][0-5][0-9]\.[0-5][0-9]$ ]] || refuse "illegal -a value $2"
            local at_s; at_s=$(date -d "${2:0:8} ${2:8:2}:${2:10:2}:${2:13:2}" +%s) || refuse "illegal -a value $2"
            [ "$at_s" -ge "$(date +%s)" ] || refuse "illegal -a value $2: it is over"
            begin=$2 ;;
        -j) [ "$2" = oe ] || refuse "illegal -j value $2"; join=oe ;;
        -v)
            # Names alone: their values are those of this command.
            [[ $2 =~ ^[A-Za-z_][A-Za-z0-9_]*(,[A-Za-z_][A-Za-z0-9_]*)*$ ]] || refuse "illegal -v value $2"
            variables=$2 ;;
        -o) [[ $2 == /* ]] || refuse "illegal -o value $2"; out=$2 ;;
        -l) [[ $2 =~ ^(select=[0-9]+:ncpus=[0-9]+|walltime=[0-9]{2,}:[0-9]{2}:[0-9]{2})$ ]] || refuse "illegal -l value $2" ;;
        *) refuse "illegal option $1" ;;
        esac
        shift 2
    done
    [ -n "$name" ] || refuse "no name"
    [ "$queue" = batch ] || [ -n "$out" ] || refuse "a data job without a log"
    local n=1 id
    until mkdir "$at/$n.stand-in" 2>/dev/null; do n=$((n + 1)); done
    id=$n.stand-in
    cat > "$at/$id/script"
    [ "$(head -c 2 "$at/$id/script")" = '#!' ] || { rm -r "${at:?}/$id"; refuse "a script without an interpreter"; }
    grep -qE '^#(STAGE|CHECKPOINT|DW|BB|BB_LUA entrepot)' "$at/$id/script" && { rm -r "${at:?}/$id"; refuse "a directive that nobody here reads"; }
    chmod +x "$at/$id/script"
    # A job has the variables that it was given, and none that happen to be here.
    for name_of in ${!DW_*}; do [[ ,$variables, == *,$name_of,* ]] || unset "$name_of"; done
    put "$id" queue "$queue"; put "$id" name "$name"; put "$id" cwd "$PWD"; put "$id" join "$join"
    put "$id" out "${out:-$PWD/$name.o$n}"; put "$id" user "$(id -un)"
    if [ -n "$begin" ]; then put "$id" begin "$begin"; echo "$id"; put "$id" job_state W; return; fi
    if [ -n "$after" ]; then put "$id" job_state H; else put "$id" job_state Q; fi
    run "$id" "$after" </dev/null >/dev/null 2>&1 &
    echo "$id"
}

show() {
    local id=$1 exit ncpus
    ncpus=$(get "$id" ncpus)
    exit=$(get "$id" exit)
    printf '"%s":{"Job_Name":"%s","Job_Owner":"%s@here","job_state":"%s","queue":"%s","Join_Path":"%s","Output_Path":"here:%s",' \
        "$id" "$(get "$id" name)" "$(get "$id" user)" "$(get "$id" job_state)" "$(get "$id" queue)" "$(get "$id" join)" "$(get "$id" out)"
    [ -n "$exit" ] && printf '"Exit_status":%s,' "$exit"
    [ -e "$at/$id/start" ] && printf '"estimated":{"start_time":"%s"},' "$(TZ=UTC LC_ALL=C date -d "@$(get "$id" start)" '+%a %b %e %T %Y')"
    printf '"ctime":"Sat Nov 21 12:00:00 2026","Resource_List":{"nodect":1,"ncpus":%s,"walltime":"01:00:00"}}' "${ncpus:-1}"
}

qstat() {
    local jobs='' id
    case "$*" in
    '-f -F json')
        for id in $(ls "$at" | sort -n); do
            [ "$(get "$id" job_state)" = F ] || jobs+="${jobs:+,}$(show "$id")"
        done ;;
    '-x -f -F json '*) known "$5"; jobs=$(show "$5") ;;
    *) refuse "illegal options $*" ;;
    esac
    printf '{"timestamp":1,"pbs_version":"stand-in"%s}\n' "${jobs:+,\"Jobs\":{$jobs\}}"
}

qdel() {
    [ $# -ge 1 ] || refuse "no job"
    local id
    for id in "$@"; do
        known "$id"
        touch "$at/$id/deleted"
        [ "$(get "$id" job_state)" = W ] && put "$id" job_state F
        [ "$(get "$id" job_state)" = R ] && kill -TERM -- "-$(get "$id" pid)"
    done
    return 0
}

pbsnodes() {
    [ "$*" = '-a -F json' ] || refuse "illegal options $*"
    echo '{"nodes":{"here":{"state":"free","resources_available":{"ncpus":64}}}}'
}

"$me" "$@"
