# SPDX-License-Identifier: BSD-3-Clause
"""Programs of a folder of tests once more, with connections that stay on TCP (option local); by default they leave it."""
import concurrent.futures
import os
import re
import subprocess
import sys

SOURCE = os.path.abspath(os.environ.get("TC_TOP_SRCDIR", "."))
sys.path.insert(0, os.path.join(SOURCE, "tests/tools"))
from toolstest import BUILD, SCALE

CONFIGURATION = os.path.join(SOURCE, "tests/common/tcp.conf")


def environment(**more):
    made = {**os.environ, "ITAL_CONF": CONFIGURATION, "TC_SHORT": "1", **more}
    made.pop("ITAL_TEST_SEEN", None) # the records of these programs are those of the suite itself
    return made


def run(path, **more):
    """Exit status and output of a test program or script."""
    result = subprocess.run([path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                            timeout=600 * SCALE, env=environment(**more))
    return result.returncode, result.stdout


def passes(tap, folder, names, keep_out=None):
    """Each program passes; keep_out: single tests that it leaves out, by program."""
    paths = [os.path.join(BUILD, folder, name) for name in names]
    built = [path for path in paths if os.path.exists(path)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = dict(zip(built, pool.map(lambda path: run(path, TC_KEEP_OUT=(keep_out or {}).get(os.path.basename(path), "")), built)))
    for path in paths:
        name = os.path.relpath(path, BUILD) + ", over TCP"
        if path not in results:
            tap.skip(name, "it was not built")
        elif results[path][0] == 77:
            tap.skip(name, "it has nothing to test here")
        else:
            status, output = results[path]
            tap.ok(status == 0 and not re.search("^not ok", output, re.M), name, output[-3000:])
