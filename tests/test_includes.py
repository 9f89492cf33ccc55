"""Includes go one way: down the list of source files in docs/architecture.md."""

import re

from support import ROOT

PAGE = ROOT / "docs/architecture.md"
FOLDERS = ("include", "src", "cuda")
# Headers of the operating system and of one processor, and who may include them.
SYSTEM = re.compile(
    r"^(pthread|sched|semaphore|dlfcn|unistd|fcntl|signal|windows|sys/\w+)\.h$"
)
SYSTEM_FILES = re.compile(r"^src/system(\.h|_\w+\.c)$")
PROCESSOR = re.compile(r"^(\w*intrin|arm_neon|cpuid)\.h$")
PROCESSOR_FILES = re.compile(r"^src/cpu/(simd\.h|dispatch\.c)$")


def listed_files():
    """{path: line number in the list}; names after the first on a line share its folder."""
    lines = re.search(r"```text\n(include/.*?)```", PAGE.read_text(), flags=re.S).group(1)
    ranks = {}
    for rank, line in enumerate(filter(str.strip, lines.splitlines())):
        names = re.match(r"[^\s,]+(?:, [^\s,]+)*", line).group(0).split(", ")
        folder = names[0].rpartition("/")[0]
        for name in names:
            path = name if "/" in name else f"{folder}/{name}"
            assert path not in ranks, f"{path} is listed twice"
            ranks[path] = rank
    return ranks


def source_files():
    return sorted(
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".c", ".h", ".cu", ".cuh", ".S", ".map"}
    )


def includes(path):
    """(quoted, name) of each include of a file."""
    text = (ROOT / path).read_text()
    for opening, name in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)', text, flags=re.M):
        yield opening == '"', name


def resolve(path, name):
    """The project's file that `#include "name"` in path means; None if it is generated."""
    for base in (ROOT / path).parent, ROOT / "include":
        target = (base / name).resolve()
        if target.exists():
            return str(target.relative_to(ROOT))
    assert name == "build_config.h", f"{path} includes {name}, which does not exist"
    return None


def test_every_file_is_listed():
    listed, existing = set(listed_files()), set(source_files())
    assert sorted(existing - listed) == [], "add to the list in docs/architecture.md"
    assert sorted(listed - existing) == [], "listed in docs/architecture.md, but gone"


def test_includes_go_up_the_list():
    ranks = listed_files()
    edges = 0
    for path in ranks:
        for quoted, name in includes(path):
            target = resolve(path, name) if quoted else None
            if target is None:
                continue
            edges += 1
            assert target in ranks, f"{path} includes {target}, which is not listed"
            assert ranks[target] <= ranks[path], f"{path} includes {target}, listed below it"
            assert target.endswith((".h", ".cuh")), f"{path} includes {target}"
    assert edges > 10


def test_system_headers_stay_in_one_place():
    for path in source_files():
        for quoted, name in includes(path):
            if quoted:
                continue
            if SYSTEM.match(name):
                assert SYSTEM_FILES.match(path), f"{path} includes <{name}>"
            if PROCESSOR.match(name):
                assert PROCESSOR_FILES.match(path), f"{path} includes <{name}>"
