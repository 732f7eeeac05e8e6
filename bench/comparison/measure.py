# SPDX-License-Identifier: BSD-3-Clause
"""How one cell is measured: command lines, configuration, and figures in units that all have in common."""
import json
import os
import platform
import re
import shutil

from . import cells
from .cells import KIB
from .process import Failed

PROBE = "bench/peers/probe"
SERVER_SECONDS, SLACK_SECONDS, MANY_SECONDS = 10, 20, 120
MANY_ROUNDS = 7              # within bench/scale: one endpoint and many in turn
THREAD_ROUNDS = 3            # within bench/scale/threads: one thread and two in turn


class Veth:
    """Two network namespaces with a link between them; nothing of the machine's own network is touched."""

    def __init__(self, programs):
        self.programs = programs
        self.names = ["ital-cmp-%d-%s" % (os.getpid(), side) for side in "ab"]
        self.made, self.why = [], ""

    def ip(self, *arguments):
        return self.programs.run(["ip", *arguments], SERVER_SECONDS)

    def make(self):
        """Once; Failed, with the same reason every time, where it cannot be."""
        if self.why:
            raise Failed(self.why)
        if self.made:
            return
        try:
            if os.geteuid() != 0:
                raise Failed("needs root, for network namespaces")
            if not shutil.which("ip"):
                raise Failed("needs the program ip (Debian: iproute2)")
            self.link()
        except Failed as error:
            self.why = str(error)
            self.end()
            raise

    def link(self):
        for name in self.names:
            self.ip("netns", "add", name)
            self.made.append(name)
        here, there = self.names
        self.ip("-n", here, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", there)
        for name, address in zip(self.names, ("192.0.2.1/24", "192.0.2.2/24")):
            self.ip("-n", name, "address", "add", address, "dev", "veth0")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", "veth0", "up")

    def end(self):
        while self.made:
            name = self.made.pop()
            try:
                self.ip("netns", "del", name)
            except Failed:
                pass


PEER_LIBRARIES = ("libfabric.so.1", "libucp.so.0")


def library_path(prefix):
    """Where the peers' libraries are below it, as LD_LIBRARY_PATH takes it; Failed if none is there."""
    folders = [os.path.join(os.path.abspath(prefix), name) for name in ("lib", "lib64", "lib/%s-linux-gnu" % platform.machine())]
    found = [folder for folder in folders if any(os.path.exists(os.path.join(folder, name)) for name in PEER_LIBRARIES)]
    if not found:
        raise Failed("PEERS_PREFIX: neither %s in %s" % (" nor ".join(PEER_LIBRARIES), ", ".join(folders)))
    return ":".join(found)


class Measurer:
    def __init__(self, programs, builddir, cpus, seconds, work, peers_prefix=""):
        self.programs, self.builddir, self.cpus, self.seconds, self.work = programs, builddir, cpus, seconds, work
        self.peers_path = library_path(peers_prefix) if peers_prefix else ""
        self.veth = Veth(programs)

    def path(self, program):
        return os.path.join(self.builddir, program)

    def missing(self):
        """{peer: what would bring it} of those that are not built."""
        return {name: peer.package for name, peer in cells.PEERS.items() if not os.access(self.path(peer.program), os.X_OK)}

    def check(self):
        """Without these there is nothing to compare, or no round that counts."""
        for program in (cells.PEERS["ital"].program, PROBE):
            if not os.access(self.path(program), os.X_OK):
                raise Failed("%s is not built: \"make all bench-peers\", or let \"make bench-compare\" do all" % self.path(program))

    def probe(self):
        text = self.programs.run([self.path(PROBE), *map(str, self.cpus)], SERVER_SECONDS + SLACK_SECONDS)
        return last_object(text, "probe")

    def measure(self, cell, place):
        """{metric: number} of one cell, measured once."""
        prefix, host = [[], []], "127.0.0.1"
        if place == "veth":
            self.veth.make()
            prefix = [["ip", "netns", "exec", name] for name in self.veth.names]
            host = "192.0.2.2"
        run = {"ital": self.itperf, "scale": self.scale, "threads": self.threads}.get(cell.peer, self.peer)
        figures = run(cell, prefix, host)
        if figures.get("messages_per_s"):
            figures["us_per_message"] = 1e6 / figures["messages_per_s"]
            figures["mean_over_median"] = figures.get("mean_messages_per_s", 0) / figures["messages_per_s"]
        return {key: float("%.6g" % value) if isinstance(value, float) else value for key, value in figures.items()}

    def places(self, threads):
        """The processors of the client and of the server, as many for each as it has threads."""
        if threads == 1:
            return self.cpus
        more = sorted(os.sched_getaffinity(0) - set(self.cpus))
        if len(more) < 2 * (threads - 1):
            raise Failed("needs %d processors: %d threads on each side" % (2 * threads, threads))
        return (self.cpus[0], *more[:threads - 1]), (self.cpus[1], *more[threads - 1:2 * threads - 2])

    def pair(self, server_command, client_command, environment=None, cell=cells.Cell("", "")):
        """Runs both, each on its processors; what the client printed."""
        here, there = self.places(cell.threads)
        server = self.programs.start(server_command, set(self.cpus) if cell.unpinned else there, environment)
        try:
            port = server.port(SERVER_SECONDS)
            ignored = [line for line in server.said() if "unknown option" in line]
            if ignored:          # or the figure would be that of another configuration
                raise Failed(re.sub(r"^.*unknown option", "ital has no option", ignored[0]))
            return self.programs.run(client_command(port), self.seconds_of(cell) + SLACK_SECONDS, here, environment)
        finally:
            self.programs.end(server)

    def seconds_of(self, cell):
        return max(self.seconds, cell.seconds)

    # ---- peers ----

    def peer(self, cell, prefix, host):
        about = cells.PEERS[cell.peer]
        program = self.path(about.program)
        common = ["--op", cell.op, "--mode", cell.mode, "--size", cell.size, "--window", cell.window,
                  "--completion", cell.completion, *about.arguments, *cell.arguments]
        common += ["--congestion", cell.congestion] if cell.congestion else []

        def client(port):
            return [str(word) for word in (*prefix[0], program, "client", "--host", host, "--port", port, *common,
                                           "--seconds", self.seconds, "--json")]

        server = [*prefix[1], program, "server", "--port", "0"]
        environment = {**os.environ, "LD_LIBRARY_PATH": self.peers_path} if self.peers_path and cell.peer in cells.RIVALS else None
        figures = last_object(self.pair(server, client, environment), cell.key)
        return {key: value for key, value in figures.items() if key == "library" or
                (isinstance(value, (int, float)) and not isinstance(value, bool) and key not in ("size",))}

    # ---- ital ----

    def configuration(self, cell):
        path = os.path.join(self.work, "ital.conf")
        with open(path, "w") as file:
            if cell.spin is not None:
                file.write("[ital]\nspin = %d\n" % cell.spin)
            file.write("[interface compare]\nprovider = softrdma\n")
            options = {"local": "no", "crc": "on", "tcp_congestion": cell.congestion, **dict(cell.conf)}
            file.writelines("%s = %s\n" % item for item in options.items())
        return {**os.environ, "ITAL_CONF": path,
                "ITAL_PROVIDER_PATH": os.path.join(self.builddir, "providers/software/.libs")}

    def itperf(self, cell, prefix, host):
        program, file = self.path(cells.PEERS["ital"].program), os.path.join(self.work, "itperf.json")
        words = [cell.op, "lat" if cell.mode == "lat" else "bw", "-s", cell.size, "-D", self.seconds_of(cell),
                 "--completion", cell.completion, "--perform_warm_up", *cell.arguments]
        if cell.mode != "lat":
            words += ["-t", cell.window]
            words += ["-r", cell.window * (16 if cell.mode == "rate" else 4)] if cell.op == "send" else []
        words += ["-q", cell.endpoints] if cell.endpoints > 1 else []
        words += ["--threads", cell.threads] if cell.threads > 1 else []

        def client(port):
            return [str(word) for word in (*prefix[0], program, *words, "-d", "compare", "--quiet", "--out_json_file", file,
                                           "%s:%d" % (host, port))]

        server = [*prefix[1], program, "-p", "0", "-d", "compare", "--keep"]
        server += ["--max-threads", str(cell.threads)] if cell.threads > 1 else []
        if os.path.exists(file):
            os.unlink(file)
        self.pair(server, client, self.configuration(cell), cell)
        try:
            with open(file) as stream:
                return itperf_figures(json.load(stream), cell)
        except (OSError, ValueError, KeyError) as error:
            raise Failed("itperf left no figures: %s" % error) from error

    def scale(self, cell, prefix, host):
        """bench/scale starts its processes itself, and takes one of the two processors for each."""
        command = [self.path(cells.PEERS["scale"].program), "--endpoints", str(cell.endpoints), "--rounds", str(MANY_ROUNDS),
                   "--json", "--quiet"]
        text = self.programs.run(command, MANY_SECONDS, self.cpus, self.configuration(cell))
        try:
            found = json.loads(text)
            figures = {"endpoints": found["endpoints"], "connects_per_s": found["connects_per_second"],
                       "median_us": found["half_round_trip_ns"]["many"] / 1e3, "p99_us": found["half_round_trip_ns"]["p99_many"] / 1e3,
                       "times_that_of_one": found["half_round_trip_ns"]["ratio"]}
            for key, name in (("page_octets", "kib_per_endpoint"), ("heap_octets", "heap_kib_per_endpoint")):
                figures[name] = max(found[key].values()) / KIB  # of server and client, the one that takes more
        except (ValueError, KeyError, TypeError) as error:
            raise Failed("bench/scale: figures are missing: %s" % error) from error
        return figures

    def threads(self, cell, prefix, host):
        """bench/scale/threads: one process, whose threads take one of the two processors each; one thread and two in turn."""
        command = [self.path(cells.PEERS["threads"].program), "--rounds", str(THREAD_ROUNDS), "--json", *cell.arguments,
                   "--milliseconds", str(int(1000 * self.seconds_of(cell) / THREAD_ROUNDS) or 1)]
        text = self.programs.run(command, self.seconds_of(cell) * 3 + SLACK_SECONDS, self.cpus, self.configuration(cell))
        found = last_object(text, "bench/scale/threads")
        try:
            return {"messages_per_s": found["one_thread"], "times_that_of_one": found["ratio"], "times_by_cpu": found["ratio_by_cpu"]}
        except KeyError as error:
            raise Failed("bench/scale/threads: figures are missing: %s" % error) from error


def last_object(text, who):
    """The JSON object on the last line that has one."""
    for line in reversed(text.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    raise Failed(who + ": no JSON in its output")


def itperf_figures(document, cell):
    """The figures of peers from itperf's JSON: bytes per second, microseconds, both sides' CPU time."""
    result, figures = document["results"], {}
    for key, name in (("t_typical", "median_us"), ("percentile_99", "p99_us"), ("percentile_99.9", "p999_us"),
                      ("late_percentile_50", "late_median_us"), ("late_percentile_99", "late_p99_us"),
                      ("gap_percentile_99", "gap_p99_us"), ("lone_percentile_99", "lone_p99_us")):
        if key in result:
            figures[name] = result[key]
    if "BW_average" in result:
        figures["bytes_per_s"] = (result.get("BW_median") or result["BW_average"]) * (1 << 20)
        figures["mean_messages_per_s"] = result["MsgRate"] * 1e6
        figures["messages_per_s"] = (result.get("MsgRate_median") or result["MsgRate"]) * 1e6
    there_and_back = 2 if cell.mode == "lat" and cell.op != "read" else 1  # itperf counts round trips, peers messages
    if "--pair" in cell.arguments:
        there_and_back = 5       # three messages, two answers
    for key in ("ns_per_message", "ns_per_byte"):
        figures["cpu_" + key] = (result["cpu_here"][key] + result["cpu_there"][key]) / there_and_back
    figures["iters"] = result["n_iterations"]
    figures["connect_seconds"] = document["test_info"].get("connect_seconds", 0)
    return figures
