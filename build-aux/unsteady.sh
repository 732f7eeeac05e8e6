# SPDX-License-Identifier: BSD-3-Clause
# unsteady.sh: what becomes of a test program that failed. Read by ./check, .ci/run and build-aux/check-long (`. unsteady.sh`).
#
# A program that failed is run again alone, twice at most. If it passes then, it is unsteady: it is listed with what it said first,
# and does not fail the run. A crash and a sanitizer's report are never run again, and more than UNSTEADY_MOST unsteady programs in
# a whole run fail it.
#
# A program FOLDER/NAME has its results in FOLDER/NAME.trs and its output in FOLDER/NAME.log, as automake's driver for TAP writes
# them; an unsteady one keeps what it said first in FOLDER/NAME.first.

UNSTEADY_MOST=3   # of a whole run
UNSTEADY_BROKEN=8 # so many of one stage that failed are broken, not unsteady: they are not run again
unsteady_here=$(dirname "${BASH_SOURCE:-$0}")

# What a sanitizer writes, what the kernel, a C library, Check, the driver for TAP and tests/tools say of a signal that is a crash
# (ILL, TRAP, ABRT, BUS, FPE, SEGV, SYS). Check reports a time-out in other words.
unsteady_reports='ERROR: (Address|Leak|Memory)Sanitizer|WARNING: (Thread|Memory)Sanitizer|SUMMARY: [A-Za-z]*Sanitizer|: runtime error: '
unsteady_crashes='Received signal [0-9]+|segfault at|libFuzzer: (deadly signal|out-of-memory|fuzz target)|[Ss]egmentation fault|Illegal instruction|Bus error|Floating point exception|core dumped'
unsteady_crashes="$unsteady_crashes"'|^Aborted|: Assertion .* failed|stack smashing detected|double free or corruption|free\(\): |malloc\(\): '
unsteady_crashes="$unsteady_crashes"'|(exit|status|signal) (-(4|5|6|7|8|11|31)|13[2-69]|159)([^0-9]|$)|(terminated by|action of) signal (4|5|6|7|8|11|31)([^0-9]|$)'

unsteady_path() { # NAME: without its extension, as automake names a test's files
    name=${1%.tap}
    echo "${name%.sh}"
}

# Whether the program failed. One that has begun and has no results did, too: its driver came to no end.
unsteady_failed() { # FOLDER NAME
    path=$1/$(unsteady_path "$2")
    if [ -s "$path.trs" ]; then
        grep -qE '^:test-result: *(FAIL|ERROR|XPASS)' "$path.trs"
    else
        [ -e "$path.log" ]
    fi
}

# The programs without a result: a run that was ended has not begun them, or not ended them.
unsteady_without_result() { # FOLDER NAME...
    unsteady_folder=$1
    shift
    for unsteady_name; do
        [ -s "$unsteady_folder/$(unsteady_path "$unsteady_name").trs" ] || echo "$unsteady_name"
    done
}

unsteady_skips() { # FOLDER NAME: how many of its tests were skipped
    grep -sc '^:test-result: *SKIP' "$1/$(unsteady_path "$2").trs"
}

# Whether its output tells of what may not be run again. Names of tests that passed or were skipped are no reports.
unsteady_crashed() { # FOLDER NAME
    grep -avE '^(ok|PASS:|SKIP:|XFAIL:|# time) ?' "$1/$(unsteady_path "$2").log" 2>/dev/null |
        grep -aqE "$unsteady_reports|$unsteady_crashes"
}

# Runs one program again, until it passes or crashes or has been run three times in all. What it said the first time is kept. A
# test that is skipped now has not passed.
unsteady_run_again() { # FOLDER NAME LIST AGAIN
    unsteady_file=$1/$(unsteady_path "$2")
    unsteady_skipped=$(unsteady_skips "$1" "$2")
    cp "$unsteady_file.log" "$unsteady_file.first" || return
    for unsteady_time in second third; do
        rm -f "$unsteady_file.trs"
        "$4" "$2" >/dev/null 2>&1 </dev/null
        [ -s "$unsteady_file.trs" ] || echo ':test-result: FAIL it ended without a result' >"$unsteady_file.trs"
        if unsteady_crashed "$1" "$2"; then
            echo "$2 crashed as it was run again, alone: failed"
            return
        elif unsteady_failed "$1" "$2"; then
            continue
        elif [ "$(unsteady_skips "$1" "$2")" -gt "${unsteady_skipped:-0}" ]; then
            printf ':test-result: FAIL %s\n' "skipped as it was run again" >>"$unsteady_file.trs"
            echo "$2 skipped a test as it was run again, which is no pass: failed"
            return
        else
            echo "unsteady: $2: passed the $unsteady_time time, alone. The first time it said:"
            "$unsteady_here/show-failures" "$unsteady_file.first" | sed 's/^/  /'
            echo "$2" >>"$3"
            return
        fi
    done
    echo "$2 failed three times, twice of it alone"
}

# Behind a stage: gives each of its programs that failed its further tries. LIST: a file to which the names of the unsteady ones are
# added. AGAIN: a command that runs NAME and writes its two files anew. Prints what became of each.
unsteady_retry() { # FOLDER LIST AGAIN NAME...
    unsteady_folder=$1 unsteady_list=$2 unsteady_again=$3
    shift 3
    # The loop ends with what failed in place of all.
    for unsteady_name; do
        shift
        if unsteady_failed "$unsteady_folder" "$unsteady_name"; then
            set -- "$@" "$unsteady_name"
        fi
    done
    if [ $# -ge "$UNSTEADY_BROKEN" ]; then
        echo "$# programs failed: so many are not run again"
        return
    fi
    for unsteady_name; do
        if unsteady_crashed "$unsteady_folder" "$unsteady_name"; then
            echo "$unsteady_name crashed, or a sanitizer reported: it is not run again"
        else
            unsteady_run_again "$unsteady_folder" "$unsteady_name" "$unsteady_list" "$unsteady_again"
        fi
    done
}

# At the end of a run: the line that names the unsteady ones, if there are any. Status 1: they are too many.
unsteady_verdict() { # LIST
    [ -s "$1" ] || return 0
    unsteady_count=$(wc -l <"$1")
    echo "unsteady: $unsteady_count: $(paste -sd ' ' "$1")"
    [ "$unsteady_count" -gt "$UNSTEADY_MOST" ] || return 0
    echo "unsteady: more than $UNSTEADY_MOST programs, which fails the run"
    return 1
}
