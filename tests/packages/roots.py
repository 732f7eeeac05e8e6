# SPDX-License-Identifier: BSD-3-Clause
"""Folders with a new Debian, for tests that root runs: made by mmdebstrap, entered by chroot in namespaces of their own.

What is made lies in BUILD/elsewhere and BUILD/deb, and serves the other tests of one run (make check-packages-elsewhere).
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ.get("TC_TOP_SRCDIR", "."), "tests/verbs"))
from verbstest import BUILD, SOURCE, has, skip_all  # noqa: E402
from toolstest import SCALE  # noqa: E402 (its folder is known by now)

FOLDER = os.path.join(BUILD, "elsewhere")
DEBS = os.path.join(BUILD, "deb")
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
# The root's own /proc: what starts in there ends with the namespace of its first process.
ENTER = 'root=$1; shift; mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" && %s exec chroot "$root" "$@"'
UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
# A pair over loopback; the server's port is free in its namespace, and is in the table once it listens.
PAIR = """"$@" & server=$!
until grep -qiE "^ *[0-9]+: [0-9A-F]+:$(printf %04X "$PORT") [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6; do
    kill -0 $server || exit 1
done
"$@" 127.0.0.1 && wait $server"""


def command(*words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                          stdin=subprocess.DEVNULL, **options)


def codename():
    """Of the Debian that runs the test."""
    with open("/etc/os-release", encoding="utf-8") as release:
        return re.search(r"^VERSION_CODENAME=(.*)$", release.read(), re.M)[1]


def make_debian(tap, release, tar):
    """A new Debian in a tar file; the test ends where there is none. It is skipped if the mirror is not to be reached, and has failed of
    all else. What mmdebstrap mounts of root's, the host's /dev/shm too, ends with it, also when it is killed."""
    mirror = command(SOURCE + "/build-aux/mirror").stdout.strip()
    apart = [] if os.geteuid() else ["unshare", "--mount"] # an ordinary user's has namespaces of its own
    made = command(*apart, "mmdebstrap", "--variant=apt", "--format=tar", release, tar, mirror)
    if made.returncode == 0:
        return
    reached = command(SOURCE + "/build-aux/mirror", "--reach")
    if reached.returncode:
        why = re.search(r"^E: (.*)$", reached.stdout, re.M)
        tap.skip("a new Debian, " + release, "the mirror is not to be reached: " + (why[1] if why else reached.stdout.strip()))
    else:
        tap.ok(False, "a new Debian, " + release, made.stdout)
    tap.done()


def remove(folder):
    """A root, in which nothing of the host's is mounted."""
    inside = os.path.realpath(folder) + "/"
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        found = [line.split()[4] for line in mounts if line.split()[4].startswith(inside)]
    if found:
        raise RuntimeError("umount these first: " + " ".join(found))
    subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)


def need_root():
    """Ends the test where no other Debian can be made or entered."""
    if os.geteuid():
        skip_all("only root can enter another Debian (chroot)")
    if not has("mmdebstrap"):
        skip_all("mmdebstrap is missing (build-aux/install-deps.sh packages)")
    if command(*UNSHARE, "--net", "true").returncode:
        skip_all("no namespaces here (unshare)")


def packages(tap):
    """The packages of this tree, built if they are not there yet."""
    if not glob.glob(DEBS + "/*.deb"):
        made = command("make", "-s", "-C", BUILD, "deb")
        lacking = re.search(r"^.* is missing \(build-aux/install-deps\.sh packages\)$", made.stdout, re.M)
        if lacking:
            skip_all(lacking[0])
        tap.ok(made.returncode == 0, "the packages are built, and lintian finds nothing", made.stdout)
    return [path for path in glob.glob(DEBS + "/*.deb") if "-dbgsym_" not in path]


class Root:
    """A new Debian of a release in a folder, removed by close()."""

    def __init__(self, tap, release, name):
        self.path = os.path.join(FOLDER, name)
        tar = os.path.join(FOLDER, release + ".tar")
        os.makedirs(FOLDER, exist_ok=True)
        if not os.path.exists(tar):
            make_debian(tap, release, tar + ".new")
            os.rename(tar + ".new", tar)
        self.close()
        os.mkdir(self.path)
        subprocess.run(["tar", "-x", "--exclude=./dev/*", "-C", self.path, "-f", tar], check=True)
        for name in ("resolv.conf", "hosts"):
            shutil.copy("/etc/" + name, self.path + "/etc/" + name)
        self.write("etc/dpkg/dpkg.cfg.d/unsafe", "force-unsafe-io\n")

    def close(self):
        remove(self.path)

    def write(self, path, text):
        with open(os.path.join(self.path, path), "w", encoding="utf-8") as file:
            file.write(text)

    def online(self, *words, **env):
        """Runs a command in there that may fetch packages."""
        return command(*UNSHARE, "sh", "-c", ENTER % "", "sh", self.path, *words, env=dict(ENVIRONMENT, **env), cwd="/")

    def run(self, *words, user=None, **env):
        """Runs one in a network of its own, as an ordinary user if it is given."""
        name = ["setpriv", "--reuid=" + user, "--regid=nogroup" if user == "nobody" else "--regid=" + user, "--init-groups"] if user else []
        return command(*UNSHARE, "--net", "sh", "-c", ENTER % "ip link set lo up &&", "sh", self.path, *name, *words,
                       env=dict(ENVIRONMENT, **env), cwd="/")

    def pair(self, port, *words, user="nobody", **env):
        """A server and a client of the same words over loopback; the result, and seconds until both have ended."""
        begun = time.monotonic()
        result = self.run("bash", "-c", PAIR, "bash", *words, user=user, PORT=str(port), **env)
        return result, time.monotonic() - begun

    def apt(self, *words):
        return self.online("apt-get", "-q", "-y", "--no-install-recommends", *words)

    def copy(self, paths, place):
        """Files of the host into a folder in there; their names there."""
        os.makedirs(self.path + place, exist_ok=True)
        for path in paths:
            shutil.copy(path, self.path + place)
        return [os.path.join(place, os.path.basename(path)) for path in paths]


def write_bw(tap, root, where, user="nobody", limit=10, **env):
    """ital-run ib_write_bw between two processes, within some seconds."""
    result, seconds = root.pair(18515, "ital-run", "ib_write_bw", user=user, **env)
    good = result.returncode == 0 and re.search(r"^ +65536 +5000 ", result.stdout, re.M) and seconds < limit * SCALE
    return tap.ok(good, "ital-run ib_write_bw, server and client, %s: %.1f s" % (where, seconds), result.stdout)
