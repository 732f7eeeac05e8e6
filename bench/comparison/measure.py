# SPDX-License-Identifier: BSD-3-Clause
"""How one cell is measured: command lines, configuration, and figures in units that all have in common."""
import json
import os
import shutil
import resource

from . import cells
from .process import Failed

PROBE = "bench/peers/probe"
HEADROOM = 500               # descriptors left for everything but endpoints
SERVER_SECONDS, SLACK_SECONDS, MANY_SECONDS = 10, 20, 120


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


class Measurer:
    def __init__(self, programs, builddir, cpus, seconds, work):
        self.programs, self.builddir, self.cpus, self.seconds, self.work = programs, builddir, cpus, seconds, work
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
        run = self.itperf if cell.peer == "ital" else self.peer
        figures = run(cell, prefix, host)
        if figures.get("messages_per_s"):
            figures["us_per_message"] = 1e6 / figures["messages_per_s"]
            figures["mean_over_median"] = figures.get("mean_messages_per_s", 0) / figures["messages_per_s"]
        return {key: float("%.6g" % value) if isinstance(value, float) else value for key, value in figures.items()}

    def pair(self, server_command, client_command, environment=None, slack=SLACK_SECONDS):
        """Runs both, each on its processor; what the client printed, and the server's memory."""
        server = self.programs.start(server_command, self.cpus[1], environment)
        try:
            port = server.port(SERVER_SECONDS)
            text = self.programs.run(client_command(port), self.seconds + slack, self.cpus[0], environment)
            return text, server.memory()
        finally:
            self.programs.end(server)

    # ---- peers ----

    def peer(self, cell, prefix, host):
        about = cells.PEERS[cell.peer]
        program = self.path(about.program)
        common = ["--op", cell.op, "--mode", cell.mode, "--size", cell.size, "--window", cell.window,
                  "--completion", cell.completion, *about.arguments, *cell.arguments]

        def client(port):
            return [str(word) for word in (*prefix[0], program, "client", "--host", host, "--port", port, *common,
                                           "--seconds", self.seconds, "--json")]

        server = [*prefix[1], program, "server", "--port", "0"]
        figures = last_object(self.pair(server, client)[0], cell.key)
        return {key: value for key, value in figures.items() if key == "library" or
                (isinstance(value, (int, float)) and not isinstance(value, bool) and key not in ("size",))}

    # ---- ital ----

    def configuration(self, cell):
        path = os.path.join(self.work, "ital.conf")
        with open(path, "w") as file:
            if cell.spin is not None:
                file.write("[ital]\nspin = %d\n" % cell.spin)
            file.write("[interface compare]\nprovider = softrdma\n")
            file.writelines("%s = %s\n" % item for item in {"crc": "on", **dict(cell.conf)}.items())
        return {**os.environ, "ITAL_CONF": path,
                "ITAL_PROVIDER_PATH": os.path.join(self.builddir, "providers/softrdma/.libs")}

    def endpoints(self, cell):
        """As many as asked for, or as the hard limit of descriptors leaves room for."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if cell.endpoints <= 64 or hard == resource.RLIM_INFINITY:
            return cell.endpoints
        return max(1, min(cell.endpoints, hard - HEADROOM))

    def itperf(self, cell, prefix, host):
        program, file = self.path(cells.PEERS["ital"].program), os.path.join(self.work, "itperf.json")
        endpoints = self.endpoints(cell)
        many = cell.endpoints == cells.MANY
        words = [cell.op, "lat" if cell.mode == "lat" else "bw", "-s", cell.size, "-D", self.seconds,
                 "--completion", cell.completion, "--perform_warm_up", *cell.arguments]
        if cell.mode != "lat":
            words += ["-t", cell.window]
            words += ["-r", cell.window * (16 if cell.mode == "rate" else 4)] if cell.op == "send" else []
        words += ["-q", endpoints] if endpoints > 1 else []
        words += ["--active", 1, "--timeout", MANY_SECONDS] if many else []

        def client(port):
            return [str(word) for word in (*prefix[0], program, *words, "-d", "compare", "--quiet", "--out_json_file", file,
                                           "%s:%d" % (host, port))]

        server = [*prefix[1], program, "-p", "0", "-d", "compare", "--keep"]
        if os.path.exists(file):
            os.unlink(file)
        _, memory = self.pair(server, client, self.configuration(cell), MANY_SECONDS if many else SLACK_SECONDS)
        try:
            with open(file) as stream:
                figures = itperf_figures(json.load(stream), cell)
        except (OSError, ValueError, KeyError) as error:
            raise Failed("itperf left no figures: %s" % error) from error
        figures["memory_kib"] = memory
        if many:
            figures["endpoints"] = endpoints
            if figures.get("connect_seconds"):
                figures["connects_per_s"] = endpoints / figures["connect_seconds"]
        return figures


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
    for key, name in (("t_typical", "median_us"), ("percentile_99", "p99_us"), ("percentile_99.9", "p999_us")):
        if key in result:
            figures[name] = result[key]
    if "BW_average" in result:
        figures["bytes_per_s"] = (result.get("BW_median") or result["BW_average"]) * (1 << 20)
        figures["mean_messages_per_s"] = result["MsgRate"] * 1e6
        figures["messages_per_s"] = (result.get("MsgRate_median") or result["MsgRate"]) * 1e6
    there_and_back = 2 if cell.mode == "lat" and cell.op != "read" else 1  # itperf counts round trips, peers messages
    for key in ("ns_per_message", "ns_per_byte"):
        figures["cpu_" + key] = (result["cpu_here"][key] + result["cpu_there"][key]) / there_and_back
    figures["iters"] = result["n_iterations"]
    figures["connect_seconds"] = document["test_info"].get("connect_seconds", 0)
    return figures
