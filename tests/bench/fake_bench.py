# SPDX-License-Identifier: BSD-3-Clause
"""A build folder whose programs do not measure: they tell what a script says, so that compare can be judged.

FakeBench(folder, script) fills the folder. script is {"probe": [[handoff_ns, lost], ...], KEY: [figure, ...]}: what the
n-th call tells, the last one for all that follow. KEY is "PROGRAM PROVIDER OP MODE", of itperf with " nocrc" behind it
where CRC is off, " reno" where that congestion control is asked for, " pair", " away", " nap" or " threads" with those options; probe and scale are alone; threads with " lanes" and " shared". A figure is a number, or "fail", or "block": says so and waits to be ended. script["mean"] is {KEY: mean in parts of the figure};
script["ignored"] is an option that itperf's server warns of.
"""
import json
import os
import stat
import sys

PROGRAMS = ("bench/peers/probe", "bench/peers/raw_tcp", "bench/peers/fabric_peer", "bench/peers/roofline", "tools/itperf/itperf", "bench/scale/scale",
            "bench/scale/threads")
FAKE = """#!%s -IS
import json, os, signal, sys
root, name, words = %r, os.path.basename(sys.argv[0]), sys.argv[1:]
def option(key, default=""):
    return words[words.index(key) + 1] if key in words else default
if "server" in words[:1] or (name == "itperf" and "--keep" in words):
    with open(root + "/script") as file:
        ignored = json.load(file).get("ignored")
    if ignored and name == "itperf":
        print('ital: warning: conf:3: unknown option "%%s" of provider softrdma is ignored' %% ignored, file=sys.stderr, flush=True)
    print("port 1" if name != "itperf" else "listening on port 1", flush=True)
    signal.pause()
if name == "itperf":
    key = "itperf  %%s %%s" %% (words[0], words[1])
    with open(os.environ["ITAL_CONF"]) as file:
        conf = file.read()
    key += " nocrc" if "crc = off" in conf else ""
    key += "".join(" " + line.split()[2] for line in conf.splitlines() if line.startswith("tcp_congestion = ") and len(line.split()) == 3)
    key += "".join(" " + word for word in ("pair", "away", "nap", "threads") if word in words or "--" + word in words)
elif name == "threads":
    with open(os.environ["ITAL_CONF"]) as file:
        key = name + (" lanes" if "lanes = 2" in file.read() else "") + (" shared" if "--shared" in words else "")
else:
    key = name if name in ("probe", "scale") else "%%s %%s %%s %%s" %% (name, option("--provider"), option("--op"), option("--mode"))
    key += " " + option("--congestion") if option("--congestion") else ""
with open(root + "/calls", "a+") as calls:
    calls.seek(0)
    number = calls.read().splitlines().count(key)
    calls.write(key + "\\n")
with open(root + "/script") as file:
    script = json.load(file)
says, says_mean = script.get(key, ["fail"]), script.get("mean", {})
figure = says[min(number, len(says) - 1)]
if figure == "fail":
    sys.exit("no figure for " + key)
if figure == "block":
    with open(root + "/blocked", "w") as file:
        file.write("%%d\\n" %% os.getpid())
    signal.pause()
if name == "probe":
    print(json.dumps({"cpus": [0, 1], "handoff_ns": figure[0], "lost": [figure[1], 0]}))
elif name == "threads":
    print(json.dumps({"one_thread": 1e6, "two_threads": 1e6 * figure, "ratio": figure, "ratio_by_cpu": figure + 0.1}))
elif name == "scale":
    both = {"server": figure * 512, "client": figure * 1024}
    print(json.dumps({"endpoints": int(option("--endpoints")) - 1, "connects_per_second": 1000 * figure, "page_octets": both, "heap_octets": both,
                      "half_round_trip_ns": {"many": 1000 * figure, "p99_many": 2000 * figure, "ratio": figure / 4}}, indent=1))
elif name == "itperf":
    lat = words[1] == "lat"
    cpu = {"ns_per_message": 2 * figure, "ns_per_byte": figure}
    result = {"MsgSize": int(option("-s")), "n_iterations": 5, "cpu_here": cpu, "cpu_there": cpu}
    result.update({"t_typical": figure, "percentile_99": figure, "percentile_99.9": figure} if lat else
                  {"BW_average": 1, "BW_median": figure / 1048576, "MsgRate": figure / 1e6, "MsgRate_median": figure / 1e6})
    if "--pair" in words:
        result.update({"late_percentile_50": -1, "late_percentile_99": figure - 3, "gap_percentile_99": 1, "lone_percentile_99": 2})
    with open(option("--out_json_file"), "w") as file:
        json.dump({"test_info": {"connect_seconds": 1}, "results": result}, file)
else:
    both = {"median_us": figure, "p99_us": 2 * figure, "p999_us": figure / 2} if option("--mode") == "lat" else {
        "bytes_per_s": figure, "messages_per_s": figure, "mean_messages_per_s": figure * says_mean.get(key, 1)}
    print(json.dumps({"peer": name, "cpu_ns_per_message": figure, "cpu_ns_per_byte": figure, 
                      "library": "fake " + (os.environ.get("LD_LIBRARY_PATH") or "1"), **both}))
"""


class FakeBench:
    def __init__(self, folder, script, cost="", programs=PROGRAMS):
        self.folder = folder
        for program in programs:
            path = os.path.join(folder, program)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(FAKE % (os.path.realpath(sys.executable), folder))
            os.chmod(path, stat.S_IRWXU)
        with open(folder + "/script", "w") as file:
            json.dump(script, file)
        with open(folder + "/Makefile", "w") as file:
            file.write("bench-cost:\n" + "".join("\t@echo '%s'\n" % line for line in cost.splitlines()) + "\t@exit 1\n")
        os.mkfifo(folder + "/blocked")

    def calls(self):
        try:
            with open(self.folder + "/calls") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []
