# SPDX-License-Identifier: BSD-3-Clause
"""Links that lose packets, by peers/lossy: needs root."""
import os
import time

SECONDS = 60


class Lossy:
    """Two namespaces with a link that loses a share of the packets, MTU 1500; more: as lossy's words behind the MTU."""

    def __init__(self, programs, builddir, percent, *more):
        self.programs, self.percent = programs, percent
        self.more = ["1500", *(str(word) for word in more)] if more else []
        self.path = os.path.join(builddir, "bench/peers/lossy")
        self.names = ["ital-lossy-%d-%s" % (os.getpid(), side) for side in "ab"]

    def __enter__(self):
        for name in self.names:
            self.programs.run(["ip", "netns", "add", name], SECONDS)
        self.link = self.programs.start([self.path, *("/run/netns/" + name for name in self.names), str(self.percent), *self.more])
        deadline = time.monotonic() + SECONDS
        while b"ready" not in self.link.text:
            if not self.link.pump(deadline - time.monotonic()):
                raise self.link.failed("ended")
        for name, address in zip(self.names, ("192.0.2.1/24", "192.0.2.2/24")):
            for words in (["addr", "add", address, "dev", "lossy0"], ["link", "set", "lo", "up"], ["link", "set", "lossy0", "up"]):
                self.programs.run(["ip", "-n", name, *words], SECONDS)
        return self

    def __exit__(self, *_):
        self.programs.end(self.link)
        for name in self.names:
            self.programs.run(["ip", "netns", "del", name], SECONDS)

    def prefix(self, side):
        return ["ip", "netns", "exec", self.names[side]]
