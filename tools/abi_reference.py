#!/usr/bin/env python3
"""What a frozen header promises, in terms that a compiler and abidiff understand.

    tools/abi_reference.py FOLDER --asserts    assertions that every later header has to satisfy
    tools/abi_reference.py FOLDER --library    a library with the header's functions, all empty
    tools/abi_reference.py FOLDER --grown HEADERS    for abidiff: structs that have grown since may

FOLDER is one of abi/, such as abi/1.0.  scripts/abi-check.sh compiles the first with today's
headers, and lets abidiff compare the second with today's library.
"""

import argparse
import re
import sys
from pathlib import Path

from make_python_offsets import read_constants, read_structs, strip_comments

VERSION = ("GSC_ABI_MAJOR", "GSC_ABI_MINOR")
# Result, name and arguments of a function.
DECLARATION = r"\bGSC_API\s+(?:GSC_CHECK\s+)?([\w\s]+?[\s*]+)(\w+)\s*\(([^;]*)\);"


def assertion(condition, text):
    return f'_Static_assert({condition}, "{text}");'


def has_type(expression, kind, name, since):
    kind = " ".join(kind.split())
    return assertion(f"_Generic({expression}, {kind}: 1, default: 0)", f"{name} is {kind} {since}")


def field_types(body):
    """[(name, type)] of a struct body."""
    fields = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        function = re.match(r"(.*?)\(\s*\*\s*(\w+)\s*\)\s*(\(.*)$", declaration, flags=re.S)
        if function:
            fields.append((function[2], f"{function[1]}(*){function[3]}"))
            continue
        kind, names = re.match(r"((?:const\s+)?\w+)\s*(.*)$", declaration, flags=re.S).groups()
        for stars, name in re.findall(r"(\**)\s*(\w+)", names):
            fields.append((name, f"{kind} {stars}".strip()))
    return fields


def type_asserts(header, since):
    """Types of fields and functions.  abidiff does not look at them in structs that may grow."""
    lines = []
    structs = re.findall(r"typedef\s+struct\s+\w+\s*\{(.*?)\}\s*(\w+)\s*;", header, flags=re.S)
    for body, name in structs:
        lines += [has_type(f"(({name} *)0)->{field}", kind, f"{name}.{field}", since)
                  for field, kind in field_types(body)]
    for result, name, arguments in re.findall(DECLARATION, header):
        lines.append(has_type(f"&{name}", f"{result.strip()} (*)({arguments})", name, since))
    return lines


def asserts(header, dlpack):
    """Offsets, sizes, types and constants as they are on a 64-bit system."""
    constants = read_constants(header)
    major, minor = (constants.pop(name) for name in VERSION)
    constants.update(re.findall(r"\b(kDL\w+)\s*=\s*(\d+)", dlpack))
    since = f"in ABI {major}.{minor}"
    same = f"GSC_ABI_MINOR == {minor}"
    lines = ['#include "gsplat_c.h"', "",
             assertion(f"GSC_ABI_MAJOR == {major} && GSC_ABI_MINOR >= {minor}",
                       f"the headers are not of ABI {major}.{minor} or a later minor")]
    lines += [assertion(f"{name} == {value}", f"{name} is {value} {since}")
              for name, value in constants.items()]
    for name, (size, _, offsets) in read_structs(header).items():
        lines += [assertion(f"offsetof({name}, {field}) == {offset}",
                            f"{name}.{field} is at byte {offset} {since}")
                  for field, offset in offsets.items()]
        lines.append(assertion(f"sizeof({name}) >= {size}", f"{name} has {size} bytes {since}"))
        lines.append(assertion(f"sizeof({name}) == {size} || !({same})",
                               f"{name} has {size} bytes {since}: a new field needs a new minor"))
    return "\n".join([*lines, *type_asserts(header, since), ""])


def library(header):
    """A definition for each declaration."""
    lines = ['#include "gsplat_c.h"', ""]
    for result, name, arguments in re.findall(DECLARATION, header):
        body = "" if result.strip() == "void" else " return 0; "
        lines.append(f"{result}{name}({' '.join(arguments.split())}) {{{body}}}")
    return "\n".join([*lines, ""])


def grown(header, later):
    """New fields at the end of a struct are what a minor version may add."""
    now = read_structs(later)
    return "\n".join(f"[suppress_type]\nname = {name}\nhas_data_member_inserted_at = end\n"
                     for name, (size, _, _) in read_structs(header).items()
                     if name in now and now[name][0] > size)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--asserts", action="store_true", help="print the assertions")
    what.add_argument("--library", action="store_true", help="print the empty library")
    what.add_argument("--grown", type=Path, metavar="HEADERS", help="print suppressions")
    options = parser.parse_args()
    include = options.folder / "include"
    header = strip_comments((include / "gsplat_c.h").read_text())
    if options.library:
        sys.stdout.write(library(header))
    elif options.grown:
        later = strip_comments((options.grown / "gsplat_c.h").read_text())
        sys.stdout.write(grown(header, later))
    else:
        dlpack = strip_comments((include / "gsplat_c/dlpack.h").read_text())
        sys.stdout.write(asserts(header, dlpack))


if __name__ == "__main__":
    main()
