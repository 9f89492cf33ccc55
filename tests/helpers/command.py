"""Runs the gsplat-c command for its tests."""

import os
import pathlib
import re
import subprocess

import pytest

from scenes import camera, gaussian, write_cameras, write_scene
from support import ROOT

COMMAND = os.environ.get("GSPLAT_C_COMMAND", str(ROOT / "build/tools/gsplat-c"))
OK, RUNTIME, USAGE = 0, 1, 2


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    if not pathlib.Path(COMMAND).exists():
        pytest.fail(f"{COMMAND} does not exist; build first, or set GSPLAT_C_COMMAND")
    monkeypatch.chdir(tmp_path)


def call(*arguments, code=OK):
    """Runs the command; an error prints one line to stderr, success prints none."""
    result = subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == code, result.stderr
    if code == OK:
        assert result.stderr == ""
        return result.stdout
    assert re.fullmatch(r"gsplat-c: [^\n]+\n", result.stderr)
    return result.stderr[len("gsplat-c: ") : -1]


@pytest.fixture
def scene(tmp_path):
    """An opaque red Gaussian in front of the camera, a green one 2 to the right and behind it."""
    rows = [gaussian(), gaussian((1, 0, 1), (0, 1, 0), scale=0.3)]
    return write_scene(tmp_path / "scene.ply", rows)


@pytest.fixture
def cameras(tmp_path):
    three = [camera("left", (-0.5, 0, -3)), camera("middle"), camera("a/b.JPG", (0.5, 0, -3))]
    return write_cameras(tmp_path / "cameras.json", *three)
