#!/usr/bin/env python3
"""Writes the list of licences in bindings/rust/README.md, and refuses one that is not allowed.

    tools/rust_licences.py            write the list
    tools/rust_licences.py --check    exit 1 if the list is not what would be written
"""

import re
import subprocess
import sys
from pathlib import Path

from header import ROOT, update

WORKSPACE = ROOT / "bindings" / "rust"
README = WORKSPACE / "README.md"
BEGIN, END = "<!-- licences: written by tools/rust_licences.py -->\n", "<!-- /licences -->"
ALLOWED = {"0BSD", "Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Unlicense", "Zlib"}
# Arguments of `cargo tree`; a crate's purpose is the first that lists it.
PURPOSES = {
    "always": "--edges normal,build --no-default-features",
    "feature `bundled`": "--edges normal,build --package gsplat-c --features bundled",
    "feature `cudarc`": "--edges normal,build --package gsplat-c --features cudarc",
    "feature `ndarray`": "--edges normal,build --package gsplat-c --features ndarray",
    "tests and examples": "--edges all --all-features",
}


def crates(arguments):
    """(name and version, licence) of the crates that are not of this workspace."""
    command = ["cargo", "tree", "--workspace", "--target", "all", "--locked", "--offline",
               "--prefix", "none", "--no-dedupe", "--format", "{p}|{l}", *arguments.split()]
    result = subprocess.run(command, cwd=WORKSPACE, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr)
    lines = {line for line in result.stdout.splitlines() if "|" in line and " (/" not in line}
    return [line.replace(" (proc-macro)", "").replace(" v", " ", 1).split("|")
            for line in sorted(lines)]


def is_allowed(licence):
    """Whether every part of an SPDX expression has an alternative that is allowed."""
    parts = re.split(r"\bAND\b", licence.replace("(", "").replace(")", "").replace("/", " OR "))
    return all(ALLOWED & set(re.split(r"\s+OR\s+", part.strip())) for part in parts)


def table():
    rows = {}
    for purpose, arguments in PURPOSES.items():
        for name, licence in crates(arguments):
            if not is_allowed(licence):
                sys.exit(f"{name} is under '{licence}', which {Path(__file__).name} does not list")
            rows.setdefault(name, f"| {name} | {licence} | {purpose} |")
    return "\n".join(["| crate | licence | needed for |", "|---|---|---|", *rows.values()]) + "\n"


def main():
    before, _, rest = README.read_text().partition(BEGIN)
    update({README: before + BEGIN + table() + END + rest.partition(END)[2]})


if __name__ == "__main__":
    main()
