#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# install-deps.sh build|check|vm|bench|packages|recipes|programs|suites|suite|breadth|arm64 ...: installs the Debian packages that are missing, quietly.
#
# A name with "|" is a choice: the first of them that this release has. What no package of this release is called is said, and left
# out. On a system without apt it installs nothing and says the names for dnf or apk.
set -eu

build="autoconf automake libtool make gcc libc6-dev pkgconf libltdl-dev libinih-dev uthash-dev
       libisal-dev libmnl-dev liburing-dev libsmartcols-dev libjansson-dev libssl-dev systemtap-sdt-dev scdoc
       libibverbs-dev librdmacm-dev libsystemd-dev libseccomp-dev libcap-ng-dev"
check="abigail-tools check g++ clang clang-format libclang-rt-dev|libclang-rt-14-dev llvm python3 valgrind binutils gcovr tshark
       ibverbs-utils rdmacm-utils python3-pyverbs rdma-core perftest fio qperf iperf3 curl nginx-light qemu-user"
vm="qemu-system-x86 tshark python3 xz-utils util-linux"
packages="build-essential debhelper lintian mmdebstrap"
# What reads packaging/, where it is there.
recipes="rpm rpmlint nix-bin yamllint python3-yaml shellcheck"
programs="dapl2-utils fio libfabric-bin libgloo-dev libiscsi-bin librpma-dev netpipe-openmpi openmpi-bin
          qemu-system-x86 tgt ucx-utils"
bench="libfabric-dev libucx-dev gnuplot-nox iproute2 python3 linux-perf"
suites="debootstrap iproute2 util-linux"
# What build-aux/check-long.d/arm64 needs here; the libraries of arm64 are unpacked, not installed.
arm64="gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static|qemu-user iproute2 util-linux"
# Inside the release that build-aux/debian-suite makes: what its tests run (gdb says where a program crashed), and what the long form
# has beside it.
suite="check python3 binutils gdb-minimal procps iproute2 ibverbs-utils rdmacm-utils python3-pyverbs rdma-core perftest fio qperf iperf3 curl"
breadth="g++ clang git libfabric-bin libgloo-dev ucx-utils openmpi-bin netpipe-openmpi mpich netpipe-mpich2"

# The same by Fedora's and EL's names (EL: with EPEL and CRB), and by Alpine's.
dnf_build="autoconf automake libtool make gcc pkgconf-pkg-config libtool-ltdl-devel inih-devel uthash-devel isa-l-devel
           libmnl-devel liburing-devel libsmartcols-devel jansson-devel openssl-devel systemtap-sdt-devel scdoc
           rdma-core-devel systemd-devel libseccomp-devel libcap-ng-devel"
dnf_check="libabigail check-devel gcc-c++ clang clang-tools-extra compiler-rt llvm python3 valgrind binutils gcovr wireshark-cli
           libibverbs-utils librdmacm-utils python3-pyverbs rdma-core perftest fio qperf iperf3 curl"
apk_build="autoconf automake libtool make gcc musl-dev pkgconf libltdl inih-dev uthash-dev isa-l-dev libmnl-dev liburing-dev
           util-linux-dev jansson-dev openssl-dev scdoc rdma-core-dev libseccomp-dev libcap-ng-dev"
apk_check="check-dev g++ clang clang-extra-tools compiler-rt llvm python3 valgrind binutils tshark rdma-core fio iperf3 curl"

wanted='' by_dnf='' by_apk=''
for group in "$@"; do
    case $group in
    build) wanted="$wanted $build" by_dnf="$by_dnf $dnf_build" by_apk="$by_apk $apk_build" ;;
    check) wanted="$wanted $check" by_dnf="$by_dnf $dnf_check" by_apk="$by_apk $apk_check" ;;
    vm) wanted="$wanted $vm" ;;
    bench) wanted="$wanted $bench" ;;
    packages) wanted="$wanted $packages" ;;
    recipes) wanted="$wanted $recipes" ;;
    programs) wanted="$wanted $programs" ;;
    suites) wanted="$wanted $suites" ;;
    suite) wanted="$wanted $suite" ;;
    breadth) wanted="$wanted $breadth" ;;
    arm64) wanted="$wanted $arm64" ;;
    *) echo "install-deps.sh: unknown group \"$group\" (build, check, vm, bench, packages, recipes, programs, suites, suite, breadth, arm64)" >&2; exit 2 ;;
    esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    # shellcheck disable=SC2086
    if command -v apk >/dev/null; then
        echo "no apt here: install these if configure misses them: apk add" $by_apk
    elif command -v dnf >/dev/null; then
        echo "no apt here: install these if configure misses them: dnf install" $by_dnf
    else
        echo "no apt here: install these if configure misses them, by Debian's names:" $wanted
    fi
    exit 0
fi

is_installed() { # PACKAGE
    [ "$(dpkg-query -W -f '${Status}' "$1" 2>/dev/null || true)" = "install ok installed" ]
}
missing=
for choice in $wanted; do
    there=
    for package in $(echo "$choice" | tr '|' ' '); do
        ! is_installed "$package" || there=yes
    done
    [ -n "$there" ] || missing="$missing $choice"
done
if [ -z "$missing" ]; then
    echo "all packages are there"
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "these packages are missing, and only root can install them:$missing" >&2
    exit 1
fi

# Into chosen and unknown: of each missing package the name that the package lists have. They are asked once: each call reads all of them.
choose() {
    chosen='' unknown=''
    # shellcheck disable=SC2046
    known=" $(apt-cache show --no-all-versions $(echo "$missing" | tr '|' ' ') 2>/dev/null | sed -n 's/^Package: //p' | tr '\n' ' ')"
    for choice in $missing; do
        name=
        for package in $(echo "$choice" | tr '|' ' '); do
            case $known in
            *" $package "*) name=${name:-$package} ;;
            esac
        done
        if [ -n "$name" ]; then
            chosen="$chosen $name"
        else
            unknown="$unknown $choice"
        fi
    done
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
quiet() {
    "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; echo "failed: $*" >&2; return 1; }
}
install_chosen() {
    # shellcheck disable=SC2086
    [ -z "$chosen" ] || "$@" apt-get install -y -q --no-install-recommends $chosen
}

# Package lists may be there already; if they are stale the second attempt refreshes them.
choose
echo "installing:$chosen$unknown"
if [ -n "$unknown" ] || ! install_chosen >"$log" 2>&1; then
    echo "fetching the package lists"
    quiet apt-get update -q
    choose
    install_chosen quiet
fi
# Last: what calls this shows the last line.
[ -z "$unknown" ] || echo "this release has no package of these names, what needs them is left out:$unknown"
