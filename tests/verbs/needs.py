#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Which versions of rdma-core's libraries do the programs and libraries of a folder need that ital's lack?

    needs.py [--libraries FOLDER] [--all] FOLDER...

Reads each ELF file below the folders, of any processor, and writes a line for each version that ital's library of that name does
not define, with --all for each file that needs one of these libraries. Exit status: 0, nothing is lacking; 1, something is.
Drivers of rdma-core and its own copies of the libraries are passed over: under ital-run nothing loads them.
"""
import argparse
import mmap
import os
import struct
import sys

OURS = ("libibverbs.so.1", "librdmacm.so.1", "libmlx5.so.1", "libefa.so.1", "libhns.so.1", "libmlx4.so.1", "libmana.so.1", "libionic.so.1")
SHT_VERDEF, SHT_VERNEED = 0x6ffffffd, 0x6ffffffe
VER_FLG_BASE, VER_FLG_WEAK = 1, 2


class Elf:
    """The versions that an ELF file defines and needs. ValueError or struct.error: it is none, or it is broken."""

    def __init__(self, octets):
        if octets[:4] != b"\x7fELF" or octets[4] not in (1, 2) or octets[5] not in (1, 2):
            raise ValueError("no ELF file")
        self.octets, self.wide, self.order = octets, octets[4] == 2, "<>"[octets[5] - 1]
        table, = self.read("Q" if self.wide else "I", 40 if self.wide else 32)
        size, count = self.read("HH", 58 if self.wide else 46)
        self.sections = [self.section(table + i * size) for i in range(count)]

    def read(self, layout, at):
        return struct.unpack_from(self.order + layout, self.octets, at)

    def section(self, at):
        """Type, offset, index of the section of strings, number of entries."""
        fields = self.read("IIQQQQII" if self.wide else "IIIIIIII", at)
        return fields[1], fields[4], fields[6], fields[7]

    def string(self, section, at):
        begin = self.sections[section][1] + at
        end = self.octets.find(b"\0", begin)
        if end < 0:
            raise ValueError("a string without an end")
        return self.octets[begin:end].decode("utf-8", "replace")

    def chains(self, kind, layout, next_entry, first):
        """(fields, offset of the first auxiliary entry, section of strings) of each entry of the sections of that type."""
        for of_kind, at, strings, count in self.sections:
            for _ in range(count if of_kind == kind else 0):
                fields = self.read(layout, at)
                yield fields, at + fields[first], strings
                if not fields[next_entry]:
                    break
                at += fields[next_entry]

    def needs(self):
        """[(library, version, weak)]"""
        found = []
        for (_, count, library, _, _), at, strings in self.chains(SHT_VERNEED, "HHIII", 4, 3):
            for _ in range(count):
                _, flags, _, name, more = self.read("IHHII", at)
                found.append((self.string(strings, library), self.string(strings, name), bool(flags & VER_FLG_WEAK)))
                at += more
        return found

    def defines(self):
        return {self.string(strings, self.read("I", at)[0])
                for fields, at, strings in self.chains(SHT_VERDEF, "HHHHIII", 6, 5) if not fields[1] & VER_FLG_BASE}


def read_elf(path):
    """None: no ELF file, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return None
            return Elf(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, IndexError, struct.error):
        return None


def files(folder):
    for inside, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(inside, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def is_replaced(path):
    inside, name = os.path.split(path)
    return os.path.basename(inside) == "libibverbs" or name.startswith(OURS)


def offered(libraries):
    """{library: its versions}"""
    elves = {name: read_elf(os.path.join(libraries, name)) for name in OURS}
    return {name: elf.defines() for name, elf in elves.items() if elf}


def lacking(folder, have):
    """Yields (path, [(library, version)] that it needs, those of them that are not there) for each file that needs the libraries."""
    for path in files(folder):
        elf = None if is_replaced(path) else read_elf(path)
        try:
            needs = [(library, version) for library, version, weak in elf.needs() if library in have and not weak] if elf else []
        except (ValueError, IndexError, struct.error):
            print("%s: broken" % path, file=sys.stderr)
            continue
        if needs:
            yield path, needs, [need for need in needs if need[1] not in have[need[0]]]


def main():
    parser = argparse.ArgumentParser(description="Which versions of rdma-core's libraries do programs need that ital's lack?")
    parser.add_argument("--libraries", default=os.path.join(os.environ.get("TC_TOP_BUILDDIR", "."), "verbs/.libs"), help="the folder of ital's libraries")
    parser.add_argument("--all", action="store_true", help="a line for each file that needs them, too")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    arguments = parser.parse_args()
    have = offered(arguments.libraries)
    if len(have) < len(OURS):
        parser.error("not all of ital's libraries are in %s" % arguments.libraries)
    users = bad = 0
    for folder in arguments.folders:
        for path, needs, lacks in lacking(folder, have):
            users += 1
            bad += bool(lacks)
            if arguments.all and not lacks:
                print("%s: has all %d versions that it needs" % (path, len(needs)))
            for library, version in lacks:
                print("%s: needs %s of %s" % (path, version, library))
    print("%d files need these libraries, %d of them a version that is not there" % (users, bad))
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
