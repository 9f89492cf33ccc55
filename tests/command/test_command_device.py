"""The gsplat-c command with --device: its messages where CUDA is unavailable.

tests/gpu/test_tool.py tests pictures and times on a CUDA device.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from command import COMMAND, RUNTIME, USAGE, call, cameras, in_folder, scene  # noqa: F401
from support import ROOT, run

BUILD = pathlib.Path(os.environ.get("GSPLAT_C_BUILD", ROOT / "build"))
MOCK_DRIVER = BUILD / "tests/gpu_host/libmock_driver.so"
COMMANDS = pytest.mark.parametrize("command", ["render", "bench"])


def has_runtime():
    text = json.loads(call("info", "--json"))["cuda_runtime"]
    assert re.fullmatch(r"\d+\.\d+|none: the command works on the CPU only", text)
    return text[0] != "n"


def has_cuda_code():
    return json.loads(call("info", "--json"))["build"]["gpu_targets"] != []


@pytest.fixture
def runtime():
    if not has_runtime():
        pytest.skip("this gsplat-c was built without the CUDA Runtime")
    if not has_cuda_code():
        pytest.skip("this library has no CUDA code")


@pytest.fixture
def mock_driver(runtime, monkeypatch):
    monkeypatch.setenv("GSC_CUDA_LIBRARY", str(MOCK_DRIVER))
    assert MOCK_DRIVER.exists()


@COMMANDS
@pytest.mark.parametrize(
    "name", ["gpu", "CUDA", "cuda:", "cuda0", "cuda:-1", "cuda:1024", "cuda:0x", "cpu:0"]
)
def test_names(command, name):
    error = call(command, "a.ply", "--device", name, code=USAGE)
    assert error == f"--device {name}: expected cpu, cuda or cuda:N"


@COMMANDS
def test_threads_are_for_the_cpu(command):
    error = call(command, "a.ply", "--device", "cuda", "--threads", 2, code=USAGE)
    assert error == "--threads 2: is for the CPU, not for a CUDA device"


def test_the_cpu_is_the_default(scene, cameras, tmp_path):
    for name, extra in (("default", ()), ("cpu", ("--device", "cpu"))):
        call("render", scene, "--cameras", cameras, "-o", f"{name}.png", *extra)
    assert (tmp_path / "default.png").read_bytes() == (tmp_path / "cpu.png").read_bytes()
    report = json.loads(call("bench", "--gaussians", 9, "--size", "64x48", "--repeat", 1, "--json"))
    assert report["device"]["device"] == "cpu"


@COMMANDS
def test_without_the_runtime(scene, command):
    if has_runtime():
        pytest.skip("this gsplat-c was built with the CUDA Runtime")
    error = call(command, scene, "--device", "cuda:1", code=RUNTIME)
    assert error == (
        "--device cuda:1: this gsplat-c was built without the CUDA Runtime and works on the CPU "
        "only; on Linux 'make build' in the source tree builds one with CUDA"
    )
    assert "cuda_runtime          none: the command works on the CPU only\n" in call("info")


@COMMANDS
def test_without_a_driver(scene, tmp_path, monkeypatch, runtime, command):
    monkeypatch.setenv("GSC_CUDA_LIBRARY", str(tmp_path / "none.so"))
    error = call(command, scene, "--device", "cuda", code=RUNTIME)
    assert error.startswith("GSC_ERROR_NO_DRIVER: context_create: no CUDA driver: ")
    assert [path.name for path in tmp_path.iterdir()] == ["scene.ply"]


@COMMANDS
def test_no_such_device(scene, mock_driver, command):
    error = call(command, scene, "--device", "cuda:2", code=RUNTIME)
    assert error == (
        "GSC_ERROR_NO_DEVICE: context_create: device is cuda:2, expected one of 2 devices"
    )


@COMMANDS
def test_context_fails(scene, mock_driver, monkeypatch, command):
    monkeypatch.setenv("MOCK_DRIVER_FAIL", "cuDevicePrimaryCtxRetain=2")
    error = call(command, scene, "--device", "cuda", code=RUNTIME)
    assert error.startswith("GSC_ERROR_") and "CUDA_ERROR_OUT_OF_MEMORY" in error


@COMMANDS
def test_the_runtime_needs_a_driver_of_its_own(scene, mock_driver, monkeypatch, command):
    """The library takes the mock driver; the Runtime looks for the real one only."""
    with monkeypatch.context() as without:
        without.delenv("GSC_CUDA_LIBRARY")
        if len(json.loads(call("info", "--json"))["devices"]) > 1:
            pytest.skip("this machine has a CUDA device")
    error = call(command, scene, "--device", "cuda:1", code=RUNTIME)
    assert re.match(r"cuda:1: cuda\w+: .*driver", error), error


def test_example_without_a_driver(tmp_path, runtime):
    example = BUILD / "examples/render_cuda"
    assert example.exists()
    result = subprocess.run(
        [example, tmp_path / "knot.ppm"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(os.environ, GSC_CUDA_LIBRARY=str(tmp_path / "none.so")),
    )
    assert result.returncode == 1
    assert result.stderr.startswith("context_create: no CUDA driver: ")
    assert list(tmp_path.iterdir()) == []


def test_the_runtime_is_linked_statically():
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", COMMAND))
    assert "libgsplat_c.so.1" in needed
    assert not [name for name in needed if "cuda" in name]
