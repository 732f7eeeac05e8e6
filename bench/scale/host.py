#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""host.py BUILD itstat [ENDPOINTS]: how long itstat takes beside processes with so many endpoints.
host.py BUILD cost [ROUNDS]: latency and rate of itperf without monitor and rules, with each, with both, and with an itstat that
asks twenty times a second; all in turn, ROUNDS times."""
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = sys.argv[1]


def tool(name):
    return os.path.join(BUILD, "tools", name, name)


def itstat(*arguments):
    begin = time.monotonic()
    result = subprocess.run([tool("itstat")] + [str(one) for one in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return (time.monotonic() - begin) * 1000, result.stdout


def largest():
    """The process with most queue pairs, and how many."""
    found = [(one["accounts"]["qp"]["held"], one["process"]["pid"]) for one in json.loads(itstat("-j")[1] or '{"processes":[]}')["processes"]]
    return max(found, default=(0, 0))


def measure_itstat(endpoints):
    os.environ["ITAL_MONITOR"] = "yes"
    scale = subprocess.Popen([os.path.join(BUILD, "bench/scale/scale"), "-q", "-n", str(endpoints), "-r", "64", "-m", "100000"], stdout=subprocess.DEVNULL)
    held = 0
    while held < endpoints and scale.poll() is None:
        held, process = largest()
    for what in ((), ("-j", process), (process,), ("endpoint",), ("endpoint", "127.0.0.1:1"), ("--prometheus", process)):
        times, octets = [], 0
        for _ in range(5):
            took, out = itstat(*what)
            times.append(took)
            octets = len(out)
        print("%-32s %7.1f ms, %d octets" % ("itstat " + " ".join(str(one) for one in what), statistics.median(times), octets), flush=True)
    print("%d endpoints in the process; scale %s" % (held, "still runs" if scale.poll() is None else "has ended: not valid"))
    scale.terminate()
    scale.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def itperf(environment, arguments):
    port = str(free_port())
    server = subprocess.Popen([tool("itperf"), "-p", port], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    server.stdout.readline()
    result = subprocess.run([tool("itperf")] + arguments + ["--json", "-p", port, "127.0.0.1"], env=environment, stdout=subprocess.PIPE, check=True)
    server.terminate()
    server.wait()
    return json.loads(result.stdout)


def measure_cost(rounds):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as rules:
        rules.write("[policy]\n" + "".join("rule%d = deny connect to 192.0.2.%d\n" % (i, i) for i in range(1, 100)))
        rules.flush()
        ways = (("neither", "no", os.devnull, False), ("monitor", "yes", os.devnull, False), ("rules", "no", rules.name, False),
                ("both", "yes", rules.name, False), ("both, asked 20 times a second", "yes", rules.name, True))
        seen = {way[0]: ([], []) for way in ways}
        for _ in range(rounds):
            for name, monitor, conf, asked in ways:
                environment = dict(os.environ, ITAL_MONITOR=monitor, ITAL_CONF=conf)
                watcher = subprocess.Popen([tool("itstat"), "-j", "--watch=0.05"], env=environment, stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL) if asked else None
                seen[name][0].append(itperf(environment, ["send", "lat", "-s", "64", "-n", "20000"])["results"]["percentile_50"])
                seen[name][1].append(itperf(environment, ["send", "bw", "-s", "64", "-n", "1000000"])["results"]["MsgRate_median"] * 1e6)
                if watcher:
                    watcher.terminate()
                    watcher.wait()
        for name, (latency, rate) in seen.items():
            print("%-32s %.2f us (%.2f to %.2f), %.2f million/s (%.2f to %.2f)" % (
                name, statistics.median(latency), min(latency), max(latency), statistics.median(rate) / 1e6, min(rate) / 1e6, max(rate) / 1e6))


if len(sys.argv) < 3 or sys.argv[2] not in ("itstat", "cost"):
    sys.exit(__doc__)
if sys.argv[2] == "itstat":
    measure_itstat(int(sys.argv[3]) if len(sys.argv) > 3 else 10000)
else:
    measure_cost(int(sys.argv[3]) if len(sys.argv) > 3 else 5)
