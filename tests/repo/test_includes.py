"""Includes go one way, down the table of folders in docs/architecture.md, without cycles."""

import re
from graphlib import TopologicalSorter

from support import ROOT

PAGE = ROOT / "docs/architecture.md"
# Headers of the operating system and of one processor, and the files that may include them.
SYSTEM = re.compile(
    r"^(pthread|sched|semaphore|dlfcn|unistd|fcntl|signal|windows|sys/\w+)\.h$"
)
SYSTEM_FILES = re.compile(r"^src/os/system(\.h|_\w+\.c)$")
PROCESSOR = re.compile(r"^(\w*intrin|arm_neon|cpuid)\.h$")
PROCESSOR_FILES = re.compile(r"^src/cpu/(simd\.h|dispatch\.c)$")



def folder_ranks():
    """{folder: its place in the table}."""
    table = PAGE.read_text().split("## Folders")[1].split("\n## ")[0]
    return {name: rank for rank, name in enumerate(re.findall(r"^\| `([\w/]+)/`", table, re.M))}


FOLDERS = folder_ranks()


def folder_of(path):
    return next((name for name in FOLDERS if path.startswith(f"{name}/")), None)


def source_files():
    return sorted(
        str(path.relative_to(ROOT))
        for top in ("include", "src", "cuda")
        for path in (ROOT / top).rglob("*")
        if path.suffix in {".c", ".h", ".cu", ".cuh"}
    )


def includes(path):
    """(quoted, name) of each include of a file."""
    text = (ROOT / path).read_text()
    for opening, name in re.findall(r'^\s*#\s*include\s*(["<])([^">]+)', text, flags=re.M):
        yield opening == '"', name


def resolve(path, name):
    """The project's file that `#include "name"` in path means; None if it is generated."""
    for base in (ROOT / path).parent, ROOT / "src", ROOT / "include":
        target = (base / name).resolve()
        if target.exists():
            return str(target.relative_to(ROOT))
    assert name == "build_config.h", f"{path} includes {name}, which does not exist"
    return None


def project_includes():
    """{path: the files of the project that it includes}."""
    return {
        path: [target for quoted, name in includes(path)
               if quoted and (target := resolve(path, name))]
        for path in source_files()
    }


def test_every_file_has_a_folder_of_the_table():
    assert FOLDERS
    assert [path for path in source_files() if folder_of(path) is None] == []


def test_includes_go_one_way():
    graph = project_includes()
    assert sum(map(len, graph.values())) > 100
    for path, targets in graph.items():
        for target in targets:
            assert target.endswith((".h", ".cuh")), f"{path} includes {target}"
            assert FOLDERS[folder_of(target)] <= FOLDERS[folder_of(path)], (
                f"{path} includes {target}, whose folder stands below"
            )
    TopologicalSorter(graph).prepare()  # CycleError names the circle


def test_system_headers_stay_in_one_place():
    for path in source_files():
        for quoted, name in includes(path):
            if quoted:
                continue
            if SYSTEM.match(name):
                assert SYSTEM_FILES.match(path), f"{path} includes <{name}>"
            if PROCESSOR.match(name):
                assert PROCESSOR_FILES.match(path), f"{path} includes <{name}>"


def test_every_source_is_compiled():
    """meson.build or its list names each .c file of src/, and each header is included."""
    build = (ROOT / "meson.build").read_text()
    build += re.sub("^", "src/", (ROOT / "src/sources.txt").read_text(), flags=re.M)
    files = [path for path in source_files() if path.startswith("src/")]
    compiled = {path for path in files if path in build or path.startswith("src/os/system_")}
    for stem in re.findall(r"foreach name, contraction : \{'(\w+)': 'fast', '(\w+)'", build):
        compiled |= {f"src/cpu/{name}.c" for name in stem}
    included = {target for targets in project_includes().values() for target in targets}
    assert [path for path in files if path not in compiled | included] == []
