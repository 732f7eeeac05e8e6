# SPDX-License-Identifier: BSD-3-Clause
"""Facts of the machine that figures depend on. Its name is not among them."""
import os
import platform
import re
import subprocess
import time


def first_line(path):
    try:
        with open(path) as file:
            return file.readline().strip()
    except OSError:
        return "unknown"


def cpu_model():
    try:
        with open("/proc/cpuinfo") as file:
            found = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.machine()


def revision(folder):
    """Of the tree, with a mark where it was changed; empty where git does not know."""
    try:
        done = subprocess.run(["git", "-C", folder, "describe", "--always", "--dirty"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode().strip() if done.returncode == 0 else ""


def facts(srcdir, cpus):
    sysctl = "/proc/sys/net/ipv4/"
    return {
        "cpu": cpu_model(), "processors": os.cpu_count(), "pinned to": list(cpus),
        "kernel": platform.system() + " " + platform.release(),
        "congestion control": first_line(sysctl + "tcp_congestion_control"),
        "loopback MTU": first_line("/sys/class/net/lo/mtu"),
        "tcp_rmem": first_line(sysctl + "tcp_rmem").replace("\t", " "),
        "tcp_wmem": first_line(sysctl + "tcp_wmem").replace("\t", " "),
        "load before": round(os.getloadavg()[0], 2),
        "revision": revision(srcdir),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def default_cpus():
    """The first two that this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    return tuple(usable[:2]) if len(usable) > 1 else None
