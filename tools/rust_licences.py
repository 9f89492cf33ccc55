#!/usr/bin/env python3
"""Writes the list of licences in bindings/rust/README.md, and refuses one that is not allowed.

The crates, their versions and licences are what Cargo.lock and the crates themselves say.

    tools/rust_licences.py            write the list
    tools/rust_licences.py --check    exit 1 if the list is not what would be written
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent.parent / "bindings" / "rust"
README = WORKSPACE / "README.md"
BEGIN, END = "<!-- licences: written by tools/rust_licences.py -->\n", "<!-- /licences -->"
ALLOWED = {"0BSD", "Apache-2.0", "BSD-3-Clause", "ISC", "MIT", "Unicode-3.0", "Unlicense", "Zlib"}


def metadata():
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline",
               "--all-features"]
    result = subprocess.run(command, cwd=WORKSPACE, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def is_allowed(licence):
    """Whether every part of an SPDX expression has an alternative that is allowed."""
    parts = re.split(r"\bAND\b", licence.replace("(", "").replace(")", "").replace("/", " OR "))
    return all(ALLOWED & set(re.split(r"\s+OR\s+", part.strip())) for part in parts)


def reached(nodes, start):
    """The packages that one needs, itself included, other than for its own tests."""
    found, waiting = set(), [start]
    while waiting:
        package = waiting.pop()
        if package in found:
            continue
        found.add(package)
        waiting += [dep["pkg"] for dep in nodes[package]["deps"]
                    if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])]
    return found


def purposes(data):
    """{package: what it is needed for}; the first that applies."""
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    packages = {package["id"]: package for package in data["packages"]}
    members = set(data["workspace_members"])
    found = {}
    roots = []
    for member in members:
        optional = {dep["name"]: dep["optional"] for dep in packages[member]["dependencies"]
                    if dep["kind"] is None}
        for dep in nodes[member]["deps"]:
            name = packages[dep["pkg"]]["name"]
            is_dev = all(kind["kind"] == "dev" for kind in dep["dep_kinds"])
            rank = 2 if is_dev else 1 if optional.get(name) else 0
            purpose = ("always", f"feature `{name}`", "tests and examples")[rank]
            roots.append((rank, name, purpose, dep["pkg"]))
    for _, _, purpose, root in sorted(roots):
        for package in reached(nodes, root):
            found.setdefault(package, purpose)
    return {packages[key]["name"] + " " + packages[key]["version"]: (purpose, packages[key])
            for key, purpose in found.items() if key not in members}


def table(data):
    rows = []
    for name, (purpose, package) in purposes(data).items():
        licence = package["license"] or "none"
        if not is_allowed(licence):
            sys.exit(f"{name} is under {licence}, which {Path(__file__).name} does not list")
        rows.append((purpose, f"| {name} | {licence} | {purpose} |"))
    lines = [row for _, row in sorted(rows)]
    return "\n".join(["| crate | licence | needed for |", "|---|---|---|", *lines]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, exit 1 if different")
    options = parser.parse_args()
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    wanted = before + BEGIN + table(metadata()) + END + rest.partition(END)[2]
    if options.check:
        if text != wanted:
            sys.exit("bindings/rust/README.md: the licences are out of date: "
                     "run tools/rust_licences.py")
        return
    README.write_text(wanted)


if __name__ == "__main__":
    main()
