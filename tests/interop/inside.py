# SPDX-License-Identifier: BSD-3-Clause
"""What the programs that run this tree inside the machine share: TAP, what goes into the machine, its devices."""
import glob
import os
import re
import shutil
import subprocess
import sys
import threading

import machine

TOOLS = ("itinfo", "itping", "itcp")
PAIR_SECONDS = round(150 * machine.SCALE)  # of a program that needs a second or two there
# The question what devices a provider has takes a tenth of a second on a quiet host; a limit of 5 s is passed on a busy one.
ASKING = "[ital]\nask_timeout = %d\n" % (1000 * PAIR_SECONDS)
# One pair of programs: the server's output is shown after the client's; the status is the first that is not 0.
SHELL = """
export LD_LIBRARY_PATH=/ital/lib ITAL_PROVIDER_PATH=/ital/lib/ital ITAL_CONF=/ital/conf PATH=/ital/bin:$PATH TC_SHORT=1
pair() { # SERVER... -- CLIENT...
    local server=
    while [ "$1" != -- ]; do server="$server $1"; shift; done
    shift
    serve $server || return
    timeout -s KILL %d "$@" 2>&1
    client=$?
    [ $client -eq 0 ] || abandon
    collect || return
    return $client
}
""" % PAIR_SECONDS
DEVICES = {
    "rnic:siw0": ("{ [ -e /sys/module/siw ] || insmod /modules/siw/siw.ko; } && rdma link add siw0 type siw netdev eth0", "rdma link delete siw0",
                  "iWARP/TCP"),
    "ib:rxe0": ("rdma link add rxe0 type rxe netdev eth0", "rdma link delete rxe0", "InfiniBand"),
}


def indented(text):
    """What a test says behind "not ok": lines that build-aux/show-failures tells from other comments."""
    return "".join("#   %s\n" % line for line in text.splitlines())


class Tap:
    """Lines of results, from any thread."""

    def __init__(self, only):
        self.count = self.failed = 0
        self.only = only
        self.lock = threading.Lock()

    def wanted(self, name):
        return all(text in name for text in self.only)

    def ok(self, good, name, detail=""):
        with self.lock:
            self.count += 1
            self.failed += not good
            print("%s %d - %s" % ("ok" if good else "not ok", self.count, name))
            if not good:
                print(indented("\n".join(str(detail).splitlines()[-60:])), end="")
            sys.stdout.flush()

    def skip(self, name, why):
        with self.lock:
            self.count += 1
            print("ok %d - %s # SKIP %s" % (self.count, name, why), flush=True)


# ---- what goes into the machine ----

def libraries(files, folders):
    """Every library that the files need, but those of rdma-core and the C library, which the machine has."""
    own = re.compile(r"/(?:libc\.so|libibverbs|librdmacm|libnl|ld-linux)")
    found = set()
    for file in files:
        text = subprocess.run(["ldd", file], stdout=subprocess.PIPE, text=True, check=True,
                              env={**os.environ, "LD_LIBRARY_PATH": ":".join(folders)}).stdout
        found.update(path for path in re.findall(r"=> (/\S+)", text) if not own.search(path))
    return found


def built(builddir, name):
    """The program itself, not libtool's script in its place."""
    folder, base = os.path.split(name)
    real = os.path.join(builddir, folder, ".libs", base)
    return real if os.path.exists(real) else os.path.join(builddir, name)


def named(builddir, text):
    """Behind each frame of a backtrace, as the programs print it in the machine, the functions and lines there, by addr2line: the
    machine has neither that nor debug information."""
    lines = []
    for line in text.splitlines():
        lines.append(line)
        frame = re.match(r"/ital/\S*/([^/\s]+)\(\+(0x[0-9a-f]+)\)", line)
        files = frame and (glob.glob("%s/**/.libs/%s" % (builddir, frame[1]), recursive=True) or
                           glob.glob("%s/**/%s" % (builddir, frame[1]), recursive=True))
        if not files or not shutil.which("addr2line"):
            continue
        got = subprocess.run(["addr2line", "-pife", files[0], frame[2]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             check=False).stdout
        lines += ["    " + place for place in got.splitlines() if not place.startswith("?")]
    return "\n".join(lines)


def stage(builddir, root, others=()):
    """Fills the folder that appears in the machine's root: tools, other programs, libraries, providers. What is missing, or None."""
    folders = [builddir + "/itapi/.libs", builddir + "/ual/.libs"]
    modules = [builddir + "/providers/" + name for name in
               ("rdmacore/.libs/vp_rnic.so", "rdmacore/.libs/vp_ib.so", "software/.libs/vp_softrdma.so")]
    programs = [built(builddir, "tools/%s/%s" % (name, name)) for name in TOOLS]
    programs += [built(builddir, name) for name in others]
    helpers = [builddir + "/kal/ital-ask"]
    missing = [path for path in modules + programs + helpers if not os.path.exists(path)]
    if missing:
        return "not built: " + ", ".join(os.path.basename(path) for path in missing)
    for folder, files in (("bin", programs), ("lib/ital", modules), ("libexec/ital", helpers),
                          ("lib", libraries(programs + modules + helpers, folders))):
        os.makedirs("%s/ital/%s" % (root, folder), exist_ok=True)
        for path in files:
            target = "%s/ital/%s/%s" % (root, folder, os.path.basename(path))
            shutil.copy(os.path.realpath(path), target)
            subprocess.run(["strip", "--strip-debug", target], check=False, stderr=subprocess.DEVNULL)
    for name, text in (("shell", SHELL), ("conf", ASKING)):
        with open("%s/ital/%s" % (root, name), "w") as file:
            file.write(text)
    return None
