"""The header compiles alone and its structs have no hidden bytes."""

import re
import shutil

import pytest

from header import BINDINGS, PUBLIC, SCALARS, read
from support import ROOT, run

WARNINGS = "-Wpadded -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror".split()
INCLUDE = f"-I{ROOT / 'include'}"

# From the DLPack specification: offset and size of each field on 64-bit systems.
DLTENSOR = [
    ("data", 0, 8),
    ("device", 8, 8),
    ("ndim", 16, 4),
    ("dtype", 20, 4),
    ("shape", 24, 8),
    ("strides", 32, 8),
    ("byte_offset", 40, 8),
]
# Plain structs that travel inside descriptors, not versioned by a size of their own.
UNVERSIONED = {"gsc_adam_group", "gsc_train_group"}


def header_structs():
    """{struct: [fields]} of the header."""
    return {struct.name: [field.name for field in struct.parts] for struct in read(PUBLIC).structs}


def layout_of(compiler, folder, structs):
    """{struct: (size, [(field, offset, size)])}, as a C program of this compiler prints it."""
    lines = ['#include "gsplat_c.h"', "#include <stdio.h>", "int main(void) {"]
    for name, fields in structs.items():
        lines.append(f'    printf("{name} . 0 %zu\\n", sizeof({name}));')
        for field in fields:
            lines.append(
                f'    printf("{name} {field} %zu %zu\\n", offsetof({name}, {field}),'
                f" sizeof((({name} *)0)->{field}));"
            )
    lines += ["    return 0;", "}", ""]
    source = folder / "layout.c"
    source.write_text("\n".join(lines))
    run(compiler, "-std=c11", INCLUDE, source, "-o", folder / "layout")
    layout = {}
    for line in run(folder / "layout").splitlines():
        name, field, offset, size = line.split()
        if field == ".":
            layout[name] = (int(size), [])
        else:
            layout[name][1].append((field, int(offset), int(size)))
    return layout


@pytest.mark.parametrize("language", ["c11", "c17", "c++11", "c++17"])
def test_header_compiles_alone(compiler, language, tmp_path):
    cxx = language.startswith("c++")
    if cxx:
        compiler = {"gcc": "g++", "clang": "clang++"}[compiler]
        if shutil.which(compiler) is None:
            pytest.skip(f"{compiler} is not installed")
    source = tmp_path / ("alone.cc" if cxx else "alone.c")
    # Includes the header twice and uses every macro and inline function.
    source.write_text(
        '#include "gsplat_c.h"\n'
        '#include "gsplat_c.h"\n'
        '#include "gsplat_c/bindings.h"\n'
        "int main(void) {\n"
        "    GSC_INIT(gsc_raster_args, args);\n"
        "    gsc_context_desc desc;\n"
        "    DLDevice cpu = {kDLCPU, 0};\n"
        "    gsc_context_desc_init(&desc, cpu);\n"
        "    return args.struct_size == sizeof args && desc.abi_version == GSC_ABI_VERSION"
        " ? 0 : 1;\n"
        "}\n"
    )
    strict = [] if cxx else ["-Wstrict-prototypes"]
    run(compiler, f"-std={language}", *WARNINGS, *strict, INCLUDE, source, "-o", tmp_path / "a")
    run(tmp_path / "a")


def test_no_padding(compiler, tmp_path):
    structs = header_structs()
    assert len(structs) >= 10
    for name, (size, fields) in layout_of(compiler, tmp_path, structs).items():
        end = 0
        for field, offset, width in fields:
            assert offset == end, f"{name}.{field} is at {offset}, the field before ends at {end}"
            end = offset + width
        assert size == end, f"{name} has {size} bytes, its last field ends at {end}"


def test_descriptors_start_with_their_size():
    for name, fields in header_structs().items():
        if name not in UNVERSIONED:
            assert fields[0] == "struct_size", name


def test_dltensor_layout(compiler, tmp_path):
    structs = {"DLTensor": [field for field, _, _ in DLTENSOR]}
    assert layout_of(compiler, tmp_path, structs)["DLTensor"] == (48, DLTENSOR)


def test_only_fixed_width_fields():
    """No enum, bool or long in a struct, since their width varies."""
    for struct in read(PUBLIC).structs:
        for field in struct.parts:
            assert "*" in field.type or field.type in {*SCALARS, "DLDevice"}, field


# ---------------------------------------------------------------- documentation


def test_every_public_item_has_a_comment():
    """Doxygen, in scripts/lint.sh, does not complain of enumerators."""
    header = read(PUBLIC, BINDINGS)
    items = [*header.constants, *header.structs, *header.opaque, *header.callbacks,
             *header.functions, *(field for struct in header.structs for field in struct.parts)]
    assert len(items) > 200
    assert [item.name for item in items if not item.doc and item.name[:8] != "GSC_ABI_"] == []
    dlpack = (ROOT / "include/gsplat_c/dlpack.h").read_text()
    assert re.findall(r"^ *(kDL\w+) = \d+\b(?!,? */\*\*<)", dlpack, flags=re.M) == []


def test_the_program_in_the_header_runs(compiler, library, tmp_path):
    text = (ROOT / "include" / PUBLIC).read_text()
    program = text.partition("@code\n")[2].partition(" * @endcode")[0]
    source = tmp_path / "program.c"
    source.write_text("\n".join(line[3:] for line in program.splitlines()))
    run(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", INCLUDE, source, library,
        f"-Wl,-rpath,{library.resolve().parent}", "-o", tmp_path / "program")
    assert run(tmp_path / "program") == "red in the middle: 0.90\n"
