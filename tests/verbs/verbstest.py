# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of verbs/ share: other packages' programs under ital-run, as an ordinary user, in pairs.

A server of these programs prints nothing when it listens: so its listening port is looked up in /proc/net/tcp, which is read again
until the port is there or the server has ended.
"""
import glob
import os
import pty
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ.get("TC_TOP_SRCDIR", "."), "tests/tools"))
from toolstest import BUILD, DEADLINE, SOURCE, Result, Tap, free_port, hundred, took  # noqa: E402,F401

RUN = os.path.join(BUILD, "verbs/run/ital-run")
LIBRARIES = os.path.join(BUILD, "verbs/.libs")
NOBODY = 65534


def defined(name):
    """Is it in config.h?"""
    try:
        with open(os.path.join(BUILD, "config.h"), encoding="utf-8") as config:
            return "#define %s 1" % name in config.read()
    except OSError:
        return False


def skip_all(why):
    print("1..0 # SKIP " + why)
    sys.exit(0)


def need_build():
    if not defined("HAVE_VERBS"):
        skip_all("configure found no headers of rdma-core 44")
    if defined("ITAL_SANITIZERS"):
        skip_all("programs of others do not load a sanitizer's runtime first")


def user():
    """Arguments of Popen for an ordinary user; the build must be readable for others."""
    if os.geteuid():
        return {}
    try:
        probe = subprocess.run(["test", "-x", RUN], user=NOBODY, group=NOBODY, extra_groups=[], check=False)
    except OSError: # in a user namespace there is no other user
        return {}
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if probe.returncode == 0 else {}


USER = user()

# What ital-run --devices keeps for the next run goes with the test.
_kept = tempfile.TemporaryDirectory(prefix="ital-verbs-")
if USER:
    os.chown(_kept.name, NOBODY, NOBODY)
os.environ["XDG_RUNTIME_DIR"] = _kept.name


CRASHES = {-number for number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)}
FRAMES = 12


def core_is_kept():
    """Does a program that crashes leave its memory in its folder, for gdb? Where the system gives it to another program it does not."""
    try:
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as pattern:
            return not pattern.read().startswith(("|", "/")) and shutil.which("gdb") is not None
    except OSError:
        return False


if core_is_kept():
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))


def frames(program, core):
    said = subprocess.run(["gdb", "-nx", "-batch", "-ex", "bt %d" % FRAMES, program, core], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout.decode(errors="replace").splitlines()
    # gdb shows the innermost one twice
    return "".join(line + "\n" for line in dict.fromkeys(said) if line.startswith(("#", "Program")))


def backtrace(child):
    """Where the program crashed, of the thread that did it; empty: that is not known. The core is removed."""
    program = next((found(word) for word in child.args if word != RUN and not word.startswith("-") and has(word)), None)
    said = ""
    for core in glob.glob(os.path.join(_kept.name, "core*")):
        if program and core_is_kept():
            said += frames(program, core)
        os.unlink(core)
    return said


def start(*words, env=None, runner=True, pass_fds=(), stdin=subprocess.DEVNULL, cwd=None):
    return subprocess.Popen(([RUN] if runner else []) + [str(w) for w in words], stdin=stdin, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=env, cwd=cwd or _kept.name, start_new_session=True, pass_fds=pass_fds, **USER)


def kill(child):
    """With its children: fio forks."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def finish(child, timeout=DEADLINE):
    begun = time.monotonic()
    try:
        out, err = child.communicate(timeout=timeout)
        code = child.returncode
        took(begun, timeout, "the end of " + " ".join(os.path.basename(str(word)) for word in child.args[:4]))
    except subprocess.TimeoutExpired:
        kill(child)
        out, err = child.communicate()
        code = None
    return Result(code, out.decode(errors="replace"), err.decode(errors="replace"), backtrace(child) if code in CRASHES else "")


def listens(port):
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    words = line.split()
                    if len(words) > 3 and words[3] == "0A" and words[1].endswith(":%04X" % port):
                        return True
        except OSError:
            pass
    return False


def await_listener(port, server):
    """False: the server has ended, or is late. The kernel's table signals no change, so it is read again every 10 ms."""
    limit = time.monotonic() + DEADLINE
    while not listens(port):
        try:
            server.wait(0.01)
            return False
        except subprocess.TimeoutExpired:
            if time.monotonic() > limit:
                return False
    return True


def read_until(child, text):
    """What the child has written to stderr up to `text`: a log line of a lane is written by a thread of its own, which may be late."""
    got, limit = b"", time.monotonic() + DEADLINE
    while text.encode() not in got and select.select([child.stderr], [], [], max(0, limit - time.monotonic()))[0]:
        more = os.read(child.stderr.fileno(), 65536)
        if not more:
            break
        got += more
    return got.decode(errors="replace")


def logged(env=None):
    """The environment in which a pair runs: its log tells of the connections, and is printed with a row that fails."""
    return {"ITAL_LOG": "info", **(os.environ if env is None else env)}


def pair(server_words, client_words, ends=True, env=None, until=None, stdin=subprocess.DEVNULL):
    """Results of a server and of a client that meets it. "PORT" in a word stands for a free port. `ends` false: the server does not end
    by itself; it is ended when one of the two has written `until`, if that is given."""
    port = free_port()
    fill = lambda words: [str(w).replace("PORT", str(port)) for w in words]
    server = start(*fill(server_words), env=logged(env), stdin=stdin)
    if not await_listener(port, server):
        kill(server)
        return finish(server), Result(None, "", "the server does not listen")
    client = finish(start(*fill(client_words), env=logged(env), stdin=stdin))
    said = ""
    if not ends:
        if until and until not in client.err:
            said = read_until(server, until)
        server.terminate()
    result = finish(server)
    return Result(result.code, result.out, said + result.err, result.crash), client


def ucx_perftest(words, env=None):
    """As pair(), with a terminal as input: built with MPI, as in Debian 13, it takes any other for mpirun's."""
    terminal, inside = pty.openpty()
    try:
        return pair(words, [*words, "127.0.0.1"], env=env, stdin=inside)
    finally:
        os.close(inside)
        os.close(terminal)


def cmtime(count, port="PORT", server="127.0.0.1", client="127.0.0.1"):
    """Words of a server and of its client. Those of rdma-core 65 meet at the address of -C, and each has its own; such a server ends."""
    if has("cmtime") and "controller_address" in finish(start("cmtime", "-?", runner=False)).out:
        words = "-C %s -p %s -c %d" % (server, port, count)
        return "cmtime -L -b %s %s" % (server, words), "cmtime -b %s %s" % (client, words)
    return "cmtime -p %s -c %d" % (port, count), "cmtime -s %s -p %s -c %d" % (server, port, count)


CMTIME_FOR_EVER = "cmtime -p" # what the words of a server begin with that does not end by itself


def is_alone(client):
    """It was told that nobody listens; or it has ended without a word, as cmtime of rdma-core 56 does, which first meets the server by a
    socket of its own."""
    said = [line for line in client.err.splitlines() if line and not line.startswith("ital: info: ")]
    return client.code != 0 and ("nobody listens" in client.err or not client.out and not said)


def meet(prefix, server_words, client_words, ends, env=None):
    """As pair(), of programs of rdma_cm over a device on which nothing shows that a service is there: the client asks again while nobody
    listens. The words are one text each."""
    port = free_port()
    fill = lambda words: [*prefix, *words.replace("PORT", str(port)).split()]
    server, limit = start(*fill(server_words), env=logged(env)), time.monotonic() + DEADLINE
    while True:
        client = finish(start(*fill(client_words), env=logged(env)))
        if not is_alone(client) or server.poll() is not None or time.monotonic() > limit:
            break
    if not ends:
        server.terminate()
    return finish(server), client


# Both processes are this host's, whatever it can reach, and however few processors it has.
MPI = {"OMPI_MCA_plm_rsh_agent": "/bin/false", "PRTE_MCA_plm_ssh_agent": "/bin/false", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "HYDRA_LAUNCHER": "fork"}


def mpi(folder, *words, runner=(), env=None):
    """NetPIPE's curve between two processes that mpirun starts; their libraries are those that ital-run gave to mpirun."""
    env = {**os.environ, **MPI, **(env or {}), "HOME": folder, "TMPDIR": folder}
    result = finish(start(*runner, *words, "-l", "1", "-u", "65536", "-n", "20", "-o", os.path.join(folder, "curve"), env=env))
    return result, result.code == 0 and "65536 bytes" in result.out + result.err


def told(tap, tier, package, command, good, name, detail):
    """A test that is a row of docs/verbs.md, too; see table.py. Tier: 1, 2, or "refused"."""
    print("# program | %s | %s | %s | %s" % (tier, package, command, "passed" if good else "failed"))
    return tap.ok(good, name, detail)


def found(name):
    """The program's path, or None."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def has(name):
    return found(name) is not None


def without(tap, program, package, name):
    """True, and a line: the program is not there."""
    if has(program):
        return False
    tap.skip(name, "%s is not there (package %s)" % (program, package))
    return True


def without_ucx_verbs(tap, name):
    """True, and a line: Debian's UCX is not there, or has no verbs (sid, 1.23.0~rc1). Each of its transports is a file."""
    if without(tap, "ucx_info", "ucx-utils", name):
        return True
    if not glob.glob("/usr/lib/*/ucx") or glob.glob("/usr/lib/*/ucx/libuct_ib.so*"):
        return False
    tap.skip(name, "this UCX is built without verbs: it has no libuct_ib.so")
    return True
