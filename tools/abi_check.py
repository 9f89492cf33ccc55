#!/usr/bin/env python3
"""Compares today's interface with every frozen one.

    tools/abi_check.py [LIBRARY [HEADERS [BASELINES]]]

The defaults are build/libgsplat_c.so, include and abi.  A compiler checks HEADERS against
assertions made from the frozen headers, and the symbols that LIBRARY exports are compared with
those of the frozen version script.  Additions pass in a higher minor version; anything else is
reported, and the exit status is 1.  gsplat_c/bindings.h promises nothing.
"""

import re
import subprocess
import sys
from pathlib import Path

from header import BINDINGS, PUBLIC, ROOT, declarations, layout, map_nodes, read


def assertion(condition, text):
    return f'_Static_assert({condition}, "{text}");'


def typed(expression, kind, name, since):
    return assertion(f"_Generic({expression}, {kind}: 1, default: 0)", f"{name} is {kind} {since}")


def arguments(function):
    return ", ".join(part.type for part in function.parts) or "void"


def version_of(include):
    """(major, minor) of the ABI."""
    values = {constant.name: constant.value for constant in read(PUBLIC, include=include).constants}
    return values["GSC_ABI_MAJOR"], values["GSC_ABI_MINOR"]


def dlpack(include):
    return (include / "gsplat_c/dlpack.h").read_text()


def asserts(include):
    """What every later header has to satisfy: offsets, sizes, types and constants as they are on a
    64-bit system, as C."""
    header = read(PUBLIC, include=include)
    constants = {constant.name: constant.value for constant in header.constants}
    major, minor = constants.pop("GSC_ABI_MAJOR"), constants.pop("GSC_ABI_MINOR")
    constants.update(re.findall(r"\b(kDL\w+)\s*=\s*(\d+)", dlpack(include)))
    since = f"in ABI {major}.{minor}"
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
        lines.append(assertion(f"sizeof({name}) == {size} || GSC_ABI_MINOR != {minor}",
                               f"{name} has {size} bytes {since}: a new field needs a new minor"))
        lines += [typed(f"(({name} *)0)->{field.name}", field.type, f"{name}.{field.name}", since)
                  for field in struct.parts]
    lines += [typed(f"({callback.name} *)0", f"{callback.type} (*)({arguments(callback)})",
                    callback.name, since) for callback in header.callbacks]
    lines += [typed(f"&{function.name}", f"{function.type} (*)({arguments(function)})",
                    function.name, since) for function in header.functions]
    return "\n".join([*lines, ""])


def exported(library):
    """{symbol: version node} of the dynamic symbols that a library defines."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True,
                            check=True).stdout
    symbols = [line.split()[-1].partition("@") for line in listed.splitlines()
               if " A " not in line]  # an absolute symbol: the version node itself
    return {name: version.lstrip("@") for name, _, version in symbols}


def soname(library):
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True,
                             check=True).stdout
    return re.search(r"SONAME.*\[(.*)\]", dynamic)[1]


def tensor_structs(include):
    """{name: fields} of DLPack."""
    structs = re.findall(r"^typedef struct[ \w]*\{(.*?)^\} (\w+);", dlpack(include), re.S | re.M)
    return {name: [code for _, code in declarations(body, ";")] for body, name in structs}


def breaks(base, library, include):
    """What a program that was built with a frozen interface would miss, a line each."""
    lines = []
    if subprocess.run(["cc", "-std=c11", "-fsyntax-only", f"-I{include}", "-x", "c", "-"],
                      input=asserts(base / "include"), text=True, check=False).returncode != 0:
        lines.append("the headers differ")
    now = tensor_structs(include)
    lines += [f"{name} differs" for name, fields in tensor_structs(base / "include").items()
              if now.get(name) != fields]
    major, minor = version_of(base / "include")
    if soname(library) != f"libgsplat_c.so.{major}":
        lines.append(f"the SONAME is {soname(library)}, expected libgsplat_c.so.{major}")

    nodes = map_nodes(base / "libgsplat_c.map")
    bindings = {function.name for folder in (base / "include", include)
                for function in read(BINDINGS, include=folder).functions}
    then = {(name, node) for node, names in nodes.items() for name in names
            if name not in bindings}
    now = {symbol for symbol in exported(library).items() if symbol[0] not in bindings}
    lines += [f"{name}@@{node} is missing" for name, node in sorted(then - now)]
    lines += [f"{name}@@{node} is new in a version that is frozen"
              for name, node in sorted(now - then)
              if node in nodes or version_of(include) == (major, minor)]
    return lines


def main(library=ROOT / "build/libgsplat_c.so", include=ROOT / "include", baselines=ROOT / "abi"):
    major, minor = version_of(Path(include))
    frozen = sorted(Path(baselines).glob(f"{major}.*"))
    if not frozen:
        sys.exit(f"no interface of major version {major} is frozen in {baselines}")
    failed = []
    for base in frozen:
        lines = breaks(base, library, Path(include))
        failed += [base.name] if lines else []
        print(f"ABI {major}.{minor} keeps what {base.name} promises" if not lines else
              "\n  ".join([f"ABI {base.name} is broken:", *lines]))
    if failed:
        sys.exit(f"programs built for ABI {' '.join(failed)} would not run; see docs/abi.md")


if __name__ == "__main__":
    main(*sys.argv[1:])
