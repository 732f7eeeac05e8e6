#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# install-deps.sh build|check|vm|bench|packages|programs ...: installs the Debian packages that are missing, quietly.
set -eu

build="autoconf automake libtool make gcc libc6-dev pkg-config libltdl-dev libinih-dev uthash-dev
       libisal-dev libmnl-dev liburing-dev libsmartcols-dev libjansson-dev libssl-dev systemtap-sdt-dev scdoc
       libibverbs-dev librdmacm-dev libsystemd-dev libseccomp-dev libcap-ng-dev"
check="abigail-tools check g++ clang clang-format libclang-rt-14-dev llvm python3 valgrind binutils gcovr tshark
       ibverbs-utils rdmacm-utils python3-pyverbs rdma-core perftest fio qperf iperf3 curl qemu-user"
vm="qemu-system-x86 tshark python3 xz-utils util-linux"
packages="build-essential debhelper lintian mmdebstrap"
programs="dapl2-utils fio libfabric-bin libiscsi-bin librpma-dev netpipe-openmpi openmpi-bin
          qemu-system-x86 tgt ucx-utils"
bench="libfabric-dev libucx-dev gnuplot-nox iproute2 python3 linux-perf"

wanted=
for group in "$@"; do
    case $group in
    build) wanted="$wanted $build" ;;
    check) wanted="$wanted $check" ;;
    vm) wanted="$wanted $vm" ;;
    bench) wanted="$wanted $bench" ;;
    packages) wanted="$wanted $packages" ;;
    programs) wanted="$wanted $programs" ;;
    *) echo "install-deps.sh: unknown group \"$group\" (build, check, vm, bench, packages, programs)" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086
    echo "not a Debian system: install these yourself if configure misses them:" $wanted
    exit 0
fi
missing=
for package in $wanted; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$status" = "install ok installed" ] || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "all packages are there"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "these packages are missing, and only root can install them:$missing" >&2
    exit 1
fi

echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
quiet() {
    "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "failed: $*" >&2; return 1; }
}
# Package lists may be there already; if they are stale the second attempt refreshes them.
# shellcheck disable=SC2086
if ! apt-get install -y -q --no-install-recommends $missing >"$log" 2>&1; then
    echo "fetching the package lists"
    quiet apt-get update -q
    quiet apt-get install -y -q --no-install-recommends $missing
fi
