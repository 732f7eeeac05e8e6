# SPDX-License-Identifier: BSD-3-Clause
"""Programs that compare starts: pinned, with all descriptors the system gives, and ended by their id."""
import ctypes
import os
import re
import resource
import selectors
import signal
import subprocess
import tempfile
import time

END_SECONDS = 3
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A program did not do what it was asked for; the text says what."""


class Programs:
    """Those that run now, so that none is left behind whatever happens."""

    def __init__(self):
        self.running = []

    def start(self, command, cpu=None, environment=None):
        def prepare():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # should compare be killed, nothing stays behind
            if cpu is not None:
                os.sched_setaffinity(0, {cpu} if isinstance(cpu, int) else cpu)
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

        try:
            program = Program(command, prepare, environment)
        except OSError as error:
            raise Failed("%s: %s" % (command[0], error.strerror)) from error
        self.running.append(program)
        return program

    def end(self, program):
        program.end()
        if program in self.running:
            self.running.remove(program)

    def end_all(self):
        for program in list(self.running):
            self.end(program)

    def run(self, command, seconds, cpu=None, environment=None):
        """Its standard output; Failed if it does not end well in that time."""
        program = self.start(command, cpu, environment)
        try:
            return program.finish(seconds)
        finally:
            self.end(program)


class Program:
    def __init__(self, command, prepare, environment):
        self.command = command
        self.errors = tempfile.TemporaryFile()
        # A session of its own: Ctrl-C comes to compare alone, which ends what it started.
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors,
                                      env=environment, preexec_fn=prepare, start_new_session=True)
        self.text = b""
        os.set_blocking(self.child.stdout.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.child.stdout, selectors.EVENT_READ)

    def name(self):
        return os.path.basename(self.command[0])

    def said(self):
        """Lines of its standard error so far."""
        # Not seek: the program writes at the same place of the file.
        return os.pread(self.errors.fileno(), 1 << 20, 0).decode(errors="replace").strip().splitlines()

    def failed(self, what):
        said = self.said()
        return Failed("%s %s%s" % (self.name(), what, ": " + said[-1][:200] if said else ""))

    def pump(self, seconds):
        """Reads what there is, waiting at most that long; False at the end of its output."""
        if self.selector.select(max(0, seconds)):
            data = self.child.stdout.read(65536)
            self.text += data or b""
            return data != b""
        return True

    def port(self, seconds):
        """The port that a server says it listens on."""
        limit = time.monotonic() + seconds
        while True:
            found = re.search(rb"\bport (\d+)\s*\n", self.text)
            if found:
                return int(found.group(1))
            if time.monotonic() > limit:
                raise self.failed("server names no port")
            if not self.pump(limit - time.monotonic()):
                raise self.failed("server ended, status %d" % self.child.wait(END_SECONDS))

    def finish(self, seconds):
        limit = time.monotonic() + seconds
        while self.pump(limit - time.monotonic()):
            if time.monotonic() > limit:
                raise self.failed("does not end within %d s" % seconds)
        try:
            status = self.child.wait(max(0.1, limit - time.monotonic()))
        except subprocess.TimeoutExpired as error:
            raise self.failed("does not end within %d s" % seconds) from error
        if status:
            raise self.failed("ended with status %d" % status)
        return self.text.decode(errors="replace")

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.selector.close()
        self.child.stdout.close()
        self.errors.close()
