#!/usr/bin/env python3
"""What a frozen header promises, in terms that a compiler and abidiff understand.

    tools/abi_reference.py FOLDER --asserts    assertions that every later header has to satisfy
    tools/abi_reference.py FOLDER --library    a library with the header's functions, all empty
    tools/abi_reference.py FOLDER --grown HEADERS    for abidiff: structs that have grown since may

FOLDER is one of abi/, such as abi/1.0.  scripts/abi-check.sh compiles the first with today's
headers, and lets abidiff compare the second with today's library.  gsplat_c/bindings.h promises
nothing and is not read.
"""

import argparse
import re
import sys
from pathlib import Path

from header import PUBLIC, layout, read


def assertion(condition, text):
    return f'_Static_assert({condition}, "{text}");'


def arguments(function):
    return ", ".join(part.type for part in function.parts) or "void"


def typed(expression, kind, name, since):
    """abidiff does not look at types in structs that may grow."""
    return assertion(f"_Generic({expression}, {kind}: 1, default: 0)", f"{name} is {kind} {since}")


def asserts(header, dlpack):
    """Offsets, sizes, types and constants as they are on a 64-bit system."""
    constants = {constant.name: constant.value for constant in header.constants}
    major, minor = constants.pop("GSC_ABI_MAJOR"), constants.pop("GSC_ABI_MINOR")
    constants.update(re.findall(r"\b(kDL\w+)\s*=\s*(\d+)", dlpack))
    since = f"in ABI {major}.{minor}"
    same = f"GSC_ABI_MINOR == {minor}"
    lines = ['#include "gsplat_c.h"', "",
             assertion(f"GSC_ABI_MAJOR == {major} && GSC_ABI_MINOR >= {minor}",
                       f"the headers are not of ABI {major}.{minor} or a later minor")]
    lines += [assertion(f"{name} == {value}", f"{name} is {value} {since}")
              for name, value in constants.items()]
    for struct in header.structs:
        name, (size, _, offsets) = struct.name, layout(struct)
        lines += [assertion(f"offsetof({name}, {field}) == {offset}",
                            f"{name}.{field} is at byte {offset} {since}")
                  for field, offset in offsets.items()]
        lines.append(assertion(f"sizeof({name}) >= {size}", f"{name} has {size} bytes {since}"))
        lines.append(assertion(f"sizeof({name}) == {size} || !({same})",
                               f"{name} has {size} bytes {since}: a new field needs a new minor"))
        lines += [typed(f"(({name} *)0)->{field.name}", field.type, f"{name}.{field.name}", since)
                  for field in struct.parts]
    lines += [typed(f"&{function.name}", f"{function.type} (*)({arguments(function)})",
                    function.name, since) for function in header.functions]
    return "\n".join([*lines, ""])


def library(header):
    """A definition for each declaration."""
    lines = ['#include "gsplat_c.h"', ""]
    for function in header.functions:
        given = ", ".join(f"{part.type} {part.name}" for part in function.parts) or "void"
        body = "" if function.type == "void" else " return 0; "
        lines.append(f"{function.type} {function.name}({given}) {{{body}}}")
    return "\n".join([*lines, ""])


def grown(header, later):
    """New fields at the end of a struct are what a minor version may add."""
    now = {struct.name: layout(struct)[0] for struct in later.structs}
    return "\n".join(f"[suppress_type]\nname = {struct.name}\nhas_data_member_inserted_at = end\n"
                     for struct in header.structs if now.get(struct.name, 0) > layout(struct)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--asserts", action="store_true", help="print the assertions")
    what.add_argument("--library", action="store_true", help="print the empty library")
    what.add_argument("--grown", type=Path, metavar="HEADERS", help="print suppressions")
    options = parser.parse_args()
    include = options.folder / "include"
    header = read(PUBLIC, include=include)
    if options.library:
        sys.stdout.write(library(header))
    elif options.grown:
        sys.stdout.write(grown(header, read(PUBLIC, include=options.grown)))
    else:
        sys.stdout.write(asserts(header, (include / "gsplat_c/dlpack.h").read_text()))


if __name__ == "__main__":
    main()
