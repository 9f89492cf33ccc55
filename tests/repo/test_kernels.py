"""The kernels of cuda/*.cu, the list that the host loads them by, and their arguments."""

import itertools
import re

from support import ROOT

LIST = ROOT / "src/gpu/kernel_list.h"


def list_rows():
    return re.findall(r"X\((\w+), (\w+), (\w+), (\w+)\)", LIST.read_text())


def listed_kernels():
    """(file, kernel, argument struct, block size) of every kernel in the list."""
    return {(file, name, "gsc_k_" + args, block) for file, name, args, block in list_rows()}


def source(path):
    """The file's text, with its macro KERNEL, if it has one, expanded."""
    text = re.sub(r" *\\\n", "\n", path.read_text())
    macro = re.search(r"#define KERNEL\((.*?)\)(.*?)\n\n", text, flags=re.S)
    if not macro:
        return text

    def expand(use):
        body = macro.group(2)
        for name, value in zip(macro.group(1).split(", "), use.group(1).split(", "), strict=True):
            body = re.sub(rf"\b{name}\b", value, body)
        return body

    return re.sub(r"^KERNEL\((.*)\)$", expand, text.replace(macro.group(0), ""), flags=re.M)


def kernels():
    """The same for every extern "C" kernel; one without launch bounds has one thread."""
    for path in sorted((ROOT / "cuda").glob("*.cu")):
        for declaration in re.findall(r'extern "C"\s+__global__(.*?)\{', source(path), re.S):
            bounds = re.search(r"__launch_bounds__\((\w+)", declaration)
            name, argument = re.search(
                r"gsc_(\w+)\(const __grid_constant__ (gsc_k_\w+) args\)", declaration
            ).groups()
            yield path.stem, name, argument, bounds.group(1) if bounds else "1"


def test_every_kernel_is_listed():
    found = set(kernels())
    assert found == listed_kernels()
    assert len(found) > 10


def test_every_kernel_waits_for_the_one_before_it():
    for path in sorted((ROOT / "cuda").glob("*.cu")):
        text = source(path)
        bodies = re.findall(r'extern "C"\s+__global__[^{]*\{\n(.*)', text)
        assert len(bodies) == text.count("__global__ void")
        assert set(map(str.strip, bodies)) <= {"gsc__begin_kernel();"}, path.name


def test_every_file_is_built():
    build = (ROOT / "cuda/meson.build").read_text()
    text = re.search(r"gpu_files = \[(.*?)\]", build, flags=re.S).group(1)
    existing = {path.stem for path in (ROOT / "cuda").glob("*.cu")}
    assert set(re.findall(r"'(\w+)'", text)) == existing
    assert {file for file, _, _, _ in list_rows()} == existing


def test_the_kernels_of_a_file_are_listed_together():
    """The host loads a file where its name changes in the list."""
    files = [file for file, _, _, _ in list_rows()]
    changes = sum(before != after for before, after in itertools.pairwise(files))
    assert changes + 1 == len(set(files))


def test_every_argument_struct_is_shared():
    declared = {
        name
        for header in (ROOT / "cuda").glob("*.h")
        for name in re.findall(r"^\} (gsc_k_\w+);", header.read_text(), flags=re.M)
    }
    assert {argument for _, _, argument, _ in kernels()} <= declared


def device_includes(path, seen):
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), flags=re.M):
        header = (path.parent / name).resolve()
        if header not in seen:
            seen.add(header)
            device_includes(header, seen)
    return seen


def test_every_header_is_a_dependency():
    """NVRTC writes no dependency files: the build has to name what the kernels include."""
    build = (ROOT / "cuda/meson.build").read_text()
    text = re.search(r"device_headers = files\((.*?)\)", build, flags=re.S).group(1)
    named = {(ROOT / "cuda" / name).resolve() for name in re.findall(r"'([^']+)'", text)}
    included = set()
    for path in (ROOT / "cuda").glob("*.cu"):
        device_includes(path, included)
    assert sorted(included - named) == [], "add to device_headers in cuda/meson.build"
