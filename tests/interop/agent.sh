# SPDX-License-Identifier: BSD-3-Clause
# agent.sh: what the machine runs for tests/interop/run. A line on standard input is a command; behind its output comes
# a line "== STATUS". Built-in commands:
#   load VARIANT     exchange the driver
#   serve COMMAND    start it in the background and wait until it listens
#   collect          wait for it; its output and status
#   abandon          end it, if it still runs
pid=

load() {
    if rdma link show siw0/1 >/dev/null 2>&1; then
        rdma link delete siw0 && rmmod siw || return
    fi
    insmod "/modules/siw/$1.ko" && rdma link add siw0 type siw netdev eth0 &&
        ping -c 1 -W 5 10.0.2.2 >/dev/null # the address of the host is known from now on
}

serve() {
    "$@" >/tmp/out 2>&1 &
    pid=$!
    until rdma resource show cm_id | grep -q LISTEN; do
        kill -0 $pid 2>/dev/null || { cat /tmp/out; return 1; }
    done
}

collect() {
    wait $pid
    code=$?
    cat /tmp/out
    return $code
}

abandon() {
    kill -9 $pid 2>/dev/null
    return 0
}

ulimit -l unlimited
echo ready
while read -r line; do
    eval "$line"
    echo "== $?"
done
