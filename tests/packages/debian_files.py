# SPDX-License-Identifier: BSD-3-Clause
"""What `make install` installs, and which of Debian's packages has each file."""
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ.get("TC_TOP_SRCDIR", "."), "tests/verbs"))
from verbstest import BUILD, SOURCE, defined, skip_all

DEBIAN = os.path.join(SOURCE, "debian")
# As debian/rules configures: a variable of the makefile, and the folder that it is.
FOLDERS = {"pkglibexecdir": "usr/lib/TRIPLET/ital", "libdir": "usr/lib/TRIPLET", "bindir": "usr/bin", "sbindir": "usr/sbin",
           "systemdunitdir": "usr/lib/systemd/system", "includedir": "usr/include", "mandir": "usr/share/man",
           "docdir": "usr/share/doc/ital-doc", "datadir": "usr/share", "sysconfdir": "etc"}

with open(os.path.join(BUILD, "Makefile"), encoding="utf-8") as makefile:
    MAKEFILE = makefile.read()
VARIABLES = dict(re.findall(r"^(\w+) = (.*)$", MAKEFILE, re.M))


def value(name):
    """Of a makefile's variable."""
    return re.sub(r"\$[{(](\w+)[})]", lambda m: value(m[1]), VARIABLES[name])


def lines(path):
    """Patterns, without the comments."""
    with open(path, encoding="utf-8") as text:
        return [line.strip() for line in text if line.strip() and not line.startswith("#")]


def need_all():
    """Ends the test where not all is built that the packages contain."""
    for needed in ("HAVE_VERBS", "HAVE_RDMACORE", "HAVE_LIBCRYPTO"):
        if not defined(needed):
            skip_all("not all that the packages contain is built here: no " + needed)
    if "HAVE_SCDOC_TRUE = #" in MAKEFILE:
        skip_all("not all that the packages contain is built here: no manual pages")


def installed():
    """As the packages' names for the files; the result of make; the links in the folder of ital-run."""
    links = {}
    with tempfile.TemporaryDirectory() as folder:
        stub = os.path.join(SOURCE, "tests/packages/libtool_names")
        made = subprocess.run(["make", "-s", "-C", BUILD, "install", "DESTDIR=" + folder, "LIBTOOL=" + stub], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        found = []
        for place, _, names in os.walk(folder):
            found += [os.path.join(place, name)[len(folder):] for name in names]
            links.update((name, os.readlink(os.path.join(place, name))) for name in names
                         if place.endswith("/ital/verbs") and os.path.islink(os.path.join(place, name)))
        for name in ("conf.d", "policy.d"):
            place = folder + value("sysconfdir") + "/ital/" + name
            links[name] = os.path.isdir(place) and not os.listdir(place)
    known = sorted(((value(name) + "/", path + "/") for name, path in FOLDERS.items()), key=lambda pair: -len(pair[0]))
    for number, path in enumerate(found):
        for prefix, place in known:
            if path.startswith(prefix):
                found[number] = place + path[len(prefix):]
                break
    return sorted(found), made, links


def packaged(patterns, path):
    """The packages whose patterns match: * stands for no slash, as in the shell."""
    count = path.count("/")
    return [(package, p) for package, p in patterns if p.count("/") == count and fnmatch.fnmatchcase(path, p)]


def package_patterns():
    """Pairs of a package and a pattern of its files."""
    return [(os.path.basename(name)[:-8], line) for name in sorted(glob.glob(DEBIAN + "/*.install")) for line in lines(name)]


def left_out_patterns():
    """The same of what is in no package."""
    return [("none", line) for line in lines(DEBIAN + "/not-installed")]


def names_of_group(group):
    """Packages that install-deps.sh names in a variable; those of every build of a package are left out."""
    with open(os.path.join(SOURCE, "build-aux/install-deps.sh"), encoding="utf-8") as script:
        words = re.search(r'^%s="(.*?)"' % group, script.read(), re.M | re.S)[1].split()
    return set(words) - {"autoconf", "automake", "libtool", "make", "gcc", "libc6-dev"}
