"""The tables in _abi.py are the header's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gsplat_c import _abi

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools" / "make_bindings.py"
pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="not a source checkout")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_file_is_up_to_date():
    result = run(sys.executable, str(TOOL), "--check")
    assert result.returncode == 0, result.stdout + result.stderr


def test_offsets_sizes_and_constants_as_the_compiler_sees_them(tmp_path):
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    wanted = dict(_abi.CONSTANTS)
    for name, (size, _, offsets) in _abi.STRUCTS.items():
        wanted[f"sizeof({name})"] = size
        wanted.update({f"offsetof({name}, {field})": at for field, at in offsets.items()})
    assert len(wanted) > 150
    source = tmp_path / "offsets.c"
    source.write_text('#include "gsplat_c.h"\n' + "".join(
        f'_Static_assert({expression} == {value}, "");\n' for expression, value in wanted.items()))
    build = run(compiler, "-fsyntax-only", "-I", str(ROOT / "include"), str(source))
    assert build.returncode == 0, build.stderr


def test_formats_agree_with_offsets():
    import struct

    for name, (size, form, offsets) in _abi.STRUCTS.items():
        assert struct.calcsize(form) == size, name
        codes = form[1:]
        for index, (field, offset) in enumerate(offsets.items()):
            position = [i for i, code in enumerate(codes) if code != "x"][index]
            assert struct.calcsize("=" + codes[:position]) == offset, (name, field)


def test_every_exported_function_has_a_prototype():
    from gsplat_c._lib import lib

    for name in _abi.FUNCTIONS:
        assert getattr(lib, name).argtypes is not None
    script = ROOT / "src" / "libgsplat_c.map"
    if script.exists():
        import re

        exported = set(re.findall(r"\b(gsc_\w+|gsplat_c_abi_version)\b", script.read_text()))
        assert exported == set(_abi.FUNCTIONS)
