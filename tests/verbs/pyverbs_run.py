# SPDX-License-Identifier: BSD-3-Clause
"""pyverbs_run.py FOLDER WITHOUT OPTIONS: rdma-core's suite, which is in FOLDER, with a line "RESULT OUTCOME TEST DETAIL" for each test.
WITHOUT: patterns of tests that are not run, with a comma between."""
import fnmatch
import os
import sys
import unittest
from importlib.machinery import SourceFileLoader


def name_of(test):
    return test.id().partition("tests.")[2] or test.id()


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


class Lines(unittest.TestResult):
    def line(self, outcome, test, detail=""):
        text = "\nRESULT %s %s %s\n" % (outcome, name_of(test), " ".join(str(detail).split())[:200])
        os.write(1, text.encode(errors="replace")) # whole lines, also beside those of other processes

    def addSuccess(self, test):
        self.line("passed", test)

    def addSkip(self, test, reason):
        self.line("skipped", test, reason)

    def addError(self, test, err):
        self.line("failed", test, err[1])

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err:
            self.line("failed", test, err[1])


class Runner:
    def run(self, suite):
        result = Lines()
        unittest.TestSuite(test for test in each(suite) if not any(fnmatch.fnmatchcase(name_of(test), left) for left in without)).run(result)
        return result


folder = sys.argv.pop(1)
without = sys.argv.pop(1).split(",")
sys.path.insert(0, folder)
tests = SourceFileLoader("tests", os.path.join(folder, "__init__.py")).load_module()
from args_parser import parser # noqa: E402
parser.parse_args()
unittest.main(module=tests, testRunner=Runner(), exit=False)
