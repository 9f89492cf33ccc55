"""The source distribution builds without a network, and what it builds installs and goes away."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from support import ROOT, run

BACKEND = ROOT / "bindings/python/backend"
SHIMS = {"diff_gaussian_rasterization", "simple_knn", "fused_ssim"}
# Quick to build: no device code, one instruction set, no optimisation.
QUICK = ("-Dgpu=disabled", "-Disa=baseline", "-Doptimization=0")
WITHOUT = ("GSPLAT_C_LIBRARY", "PYTHONPATH", "SOURCE_DATE_EPOCH", "CFLAGS", "LDFLAGS")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in WITHOUT},
    "PYTHONDONTWRITEBYTECODE": "1",
    "PIP_NO_INDEX": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
RENDER = """
import sys
import gsplat_c
sys.path.append({numpy!r})
import numpy as np
image = gsplat_c.rasterize(
    means=np.array([[0, 0, 3]], np.float32), scales=np.full((1, 3), 0.2, np.float32),
    rotations=np.array([[1, 0, 0, 0]], np.float32), opacities=np.array([0.9], np.float32),
    colors=np.array([[1, 0.5, 0]], np.float32), view=np.eye(4, dtype=np.float32),
    intrinsics=[100, 100, 64, 64], width=128, height=128).color
print(gsplat_c._lib.path, image[0, 64, 64])
"""


def backend(code, folder):
    environment = {**ENVIRONMENT, "PYTHONPATH": str(BACKEND)}
    return run(sys.executable, "-c", f"import gsplat_c_build as b; {code}", cwd=folder,
               env=environment)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folder with an sdist, the wheel that pip builds from it, and the drop-in modules' wheels."""
    for tool in ("meson", "ninja", "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True,
                      check=False).returncode:
        pytest.skip("no pip")
    if sys.version_info < (3, 11):
        pytest.skip("building needs tomli, which would have to be fetched")
    folder = tmp_path_factory.mktemp("dist")
    backend(f"b.build_sdist({str(folder)!r}); b.build_shims({str(folder)!r})", folder)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder,
        f"--config-settings=setup-args={' '.join(QUICK)}", one(folder, "gsplat_c-*.tar.gz"),
        env=ENVIRONMENT, cwd=folder)
    return folder


def one(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


def test_the_same_source_gives_the_same_bytes(made, tmp_path):
    # Not by pip, not from the sdist, and in another folder.
    backend(f"b.build_sdist('.'); b.build_shims('.'); b.build_wheel('.', {{'build-dir': 'build', "
            f"'setup-args': {list(QUICK)!r}}})", tmp_path)
    names = sorted(path.name for path in made.iterdir())
    assert len(names) == 5
    for name in names:
        first, second = ((folder / name).read_bytes() for folder in (made, tmp_path))
        assert hashlib.sha256(first).digest() == hashlib.sha256(second).digest(), name


@pytest.fixture
def packed(made, tmp_path):
    """The library that is in the wheel."""
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    with zipfile.ZipFile(one(made, "gsplat_c-*.whl")) as archive:
        return archive.extract("gsplat_c/libgsplat_c.so", tmp_path)


def test_tag_names_the_glibc(made, packed):
    name = one(made, "gsplat_c-*.whl").name
    platform = re.fullmatch(r"gsplat_c-[\d.]+-py3-none-(\w+)\.whl", name).group(1)
    glibc = re.fullmatch(r"manylinux_(\d+)_(\d+)_(x86_64|aarch64)", platform)
    if glibc is None:
        pytest.skip(f"{platform} is not linked with glibc")
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", run("readelf", "-VW", packed))
    assert tuple(map(int, glibc.groups()[:2])) == max((int(a), int(b)) for a, b in versions)


def test_library_is_stripped(packed):
    sections = run("readelf", "-SW", packed)
    assert ".dynsym" in sections
    assert ".symtab" not in sections and ".debug" not in sections


def check_record(wheel):
    """Returns {name: bytes} of what the wheel holds."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    rows = [row.split(",") for row in files.pop(record).decode().splitlines()]
    assert rows.pop() == [record, "", ""]
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest())
               for name, data in files.items()}
    assert rows == [[name, f"sha256={digests[name].decode().rstrip('=')}", str(len(data))]
                    for name, data in files.items()]
    return files


def package_with(library):
    """Names in a wheel of the package."""
    package = ROOT / "bindings/python/gsplat_c"
    names = {f"gsplat_c/{path.relative_to(package)}" for path in package.rglob("*.py")}
    return names | {"gsplat_c/py.typed", f"gsplat_c/{library}"}


def test_record(made):
    for wheel in made.glob("*.whl"):
        check_record(wheel)


def test_contents(made):
    version = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text()).group(1)
    expected = package_with("libgsplat_c.so")
    for wheel in made.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            names = set(archive.namelist())
            (info,) = {name.split("/")[0] for name in names if ".dist-info/" in name}
            metadata = archive.read(f"{info}/METADATA").decode()
            assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert f"\nVersion: {version}\n" in metadata and "\nLicense-Expression: MIT\n" in metadata
        inside = {name for name in names if not name.startswith(info)}
        if wheel.name.startswith("gsplat_c-"):
            assert inside == expected
        else:
            top = wheel.name.split("-")[0].replace("gsplat_c_", "")
            assert top in SHIMS
            assert {name.split("/")[0].split(".")[0] for name in inside} - {f"{top}_cuda"} == {top}
            assert re.search(r"\nRequires-Dist: gsplat-c>=[\d.]+\n", metadata)


def test_sdist_has_what_git_has(made):
    with tarfile.open(one(made, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"PKG-INFO", "pyproject.toml", "LICENSE", "include/gsplat_c.h", "meson.build"} <= names
    if (ROOT / ".git").exists():
        tracked = run("git", "-C", ROOT, "ls-files").splitlines()
        assert names - {"PKG-INFO"} == {name for name in tracked if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def environment(made, tmp_path_factory):
    """A clean virtual environment."""
    folder = tmp_path_factory.mktemp("environment")
    if subprocess.run([sys.executable, "-m", "venv", folder], capture_output=True,
                      check=False).returncode:
        pytest.skip("no venv module with pip")
    return folder


def files_of(environment):
    return {str(path.relative_to(environment)) for path in environment.rglob("*")
            if "__pycache__" not in path.parts}


def test_install_and_uninstall(made, environment, tmp_path):
    numpy = pytest.importorskip("numpy")
    python, before = environment / "bin/python", files_of(environment)

    def pip(*arguments):
        return run(python, "-m", "pip", *arguments, env=ENVIRONMENT, cwd=tmp_path)

    # --no-deps for the drop-in modules, which depend on torch.
    pip("install", "--quiet", one(made, "gsplat_c-*.whl"))
    pip("install", "--quiet", "--no-deps", *made.glob("gsplat_c_*.whl"))
    path, value = run(python, "-c", RENDER.format(numpy=str(Path(numpy.__file__).parents[1])),
                      env=ENVIRONMENT, cwd=tmp_path).split()
    assert Path(path).is_relative_to(environment)
    assert float(value) == pytest.approx(0.9, abs=0.01)  # half a pixel beside the centre
    found = run(python, "-c", "from importlib.util import find_spec as f; "
                f"print(*(f(name).name for name in {sorted(SHIMS)}), f('fused_ssim_cuda').name)",
                env=ENVIRONMENT, cwd=tmp_path)
    assert set(found.split()) == SHIMS | {"fused_ssim_cuda"}
    added = files_of(environment) - before
    assert all("site-packages/" in name for name in added) and len(added) > 30

    distributions = [f"gsplat-c-{name.replace('_', '-')}" for name in SHIMS]
    pip("uninstall", "--quiet", "--yes", "gsplat-c", *distributions)
    assert files_of(environment) == before
    assert not [path for path in environment.rglob("*gsplat_c*")]


# --------------------------------------------------------------- other platforms


@pytest.mark.parametrize("data, tag", [
    (b"\x7fELF" + bytes(14) + b"\x3e\0", "linux_x86_64"),
    (b"\x7fELF" + bytes(14) + b"\xb7\0" + b"\0GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.4\0",
     "manylinux_2_34_aarch64"),
    (b"\x7fELF" + bytes(14) + b"\x3e\0" + b"\0GLIBC_2.2.5\0", "manylinux_2_17_x86_64"),
    (b"MZ" + bytes(58) + b"\x40\0\0\0" + b"PE\0\0\x64\x86\0", "win_amd64"),
])
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="builds of Linux")
def test_tag_is_of_the_librarys_machine(tmp_path, data, tag):
    (tmp_path / "library").write_bytes(data)
    said = backend("import pathlib; print(b._library.platform_tag(pathlib.Path('library')))",
                   tmp_path)
    assert said.strip() == tag


@pytest.mark.parametrize("target, tag, library", [
    pytest.param("aarch64-linux-gnu", r"manylinux_2_(\d+)_aarch64", "libgsplat_c.so", id="arm64"),
    pytest.param("x86_64-w64-mingw32", "win_amd64", "gsplat_c.dll", id="windows"),
])
def test_wheel_for_another_platform(tmp_path, target, tag, library):
    for tool in ("meson", "ninja", f"{target}-gcc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    if sys.version_info < (3, 11):
        pytest.skip("building needs tomli, which would have to be fetched")
    options = ["-Dgpu=disabled", "-Doptimization=0",
               f"--cross-file={ROOT}/cross/{target}.ini"]
    wheels = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        backend(f"b.build_wheel('.', {{'build-dir': 'build', 'setup-args': {options!r}}})", folder)
        wheels.append(one(folder, "*.whl"))
    found = re.fullmatch(rf"gsplat_c-[\d.]+-py3-none-{tag}\.whl", wheels[0].name)
    assert found and all(int(minor) <= 34 for minor in found.groups())
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    files = check_record(wheels[0])
    assert {name for name in files if ".dist-info/" not in name} == package_with(library)
    (wheel,) = (files[name].decode() for name in files if name.endswith(".dist-info/WHEEL"))
    assert f"\nTag: {wheels[0].stem.split('-', 2)[2]}\n" in wheel
    assert "\nRoot-Is-Purelib: false\n" in wheel
