"""The packages of scripts/wheel.sh: reproducible, complete and installable."""

import base64
import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from packages import ENVIRONMENT, PLATFORMS, QUICK, clone, one
from scenes import gaussian, write_scene
from support import ROOT, run

SHIMS = {"diff_gaussian_rasterization", "simple_knn", "fused_ssim"}
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


def build(checkout, folder, *parts):
    """Runs scripts/wheel.sh of a checkout and returns its output folder."""
    run("sh", "scripts/wheel.sh", *parts, cwd=checkout,
        env={**ENVIRONMENT, **QUICK, "DIST": str(folder)})
    return folder


def assert_same_bytes(first, second):
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


@pytest.fixture(scope="module")
def made(checkout, tmp_path_factory):
    """Folder with an sdist, the wheel for this machine, and the drop-in modules' wheels."""
    return build(checkout, tmp_path_factory.mktemp("dist"))


def test_the_same_source_gives_the_same_bytes(checkout, made, tmp_path):
    assert len(list(made.iterdir())) == 6
    assert_same_bytes(made, build(clone(checkout, tmp_path / "clone"), tmp_path / "dist"))


def files_in(wheel):
    """Returns {name: bytes} of a wheel's files, after checking them against its RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    rows = {name: row for name, *row in csv.reader(files.pop(record).decode().splitlines())}
    assert rows.pop(record) == ["", ""]
    digests = {name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()
               for name, data in files.items()}
    assert rows == {name: [f"sha256={digests[name].rstrip('=')}", str(len(data))]
                    for name, data in files.items()}
    return files


def pip(environment, *arguments):
    python = environment / "bin/python"
    return run(python, "-m", "pip", *arguments, env=ENVIRONMENT, cwd=environment)


@pytest.fixture(scope="module")
def packed(made):
    """The files in the wheel."""
    return files_in(one(made, "gsplat_c-*.whl"))


def test_sdist_gives_the_same_library(made, packed, tmp_path):
    with tarfile.open(one(made, "*.tar.gz")) as archive:
        archive.extractall(tmp_path)
    options = ("-Dgpu=disabled", *QUICK["GSPLAT_C_MESON_OPTIONS"].split())
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check",
        "--outdir", tmp_path, *(f"-Csetup-args={option}" for option in options),
        one(tmp_path, "gsplat_c-*/"), env=ENVIRONMENT)
    same = "gsplat_c/libgsplat_c.so.1"
    assert files_in(one(tmp_path, "*.whl"))[same] == packed[same]


def check_glibc(name, files, folder):
    """The tag names the highest glibc that any binary needs, and systems of 2018 have it."""
    platform = r"manylinux_(\d+)_(\d+)_(x86_64|aarch64)"
    glibc = re.fullmatch(rf"gsplat_c-[\d.]+\+cpu-py3-none-{platform}\.whl", name)
    assert glibc, name
    binaries = [data for data in files.values() if data[:4] == b"\x7fELF"]
    assert len(binaries) == 3  # with cJSON
    versions = {(int(major), int(minor)) for data in binaries
                for major, minor in re.findall(r"GLIBC_(\d+)\.(\d+)", readelf("-VW", data, folder))}
    assert tuple(map(int, glibc.groups()[:2])) == max(versions) <= (2, 27)


def test_tag_names_the_glibc(made, packed, tmp_path):
    check_glibc(one(made, "gsplat_c-*.whl").name, packed, tmp_path)


@pytest.mark.parametrize("name", ["libgsplat_c.so.1", "gsplat-c"])
def test_binaries_are_stripped(packed, tmp_path, name):
    sections = readelf("-SW", packed[f"gsplat_c/{name}"], tmp_path)
    assert ".dynsym" in sections
    assert ".symtab" not in sections and ".debug" not in sections


def test_bill_of_materials(packed):
    (name,) = (name for name in packed if "/sboms/" in name)
    bill = json.loads(packed[name])
    assert name.endswith(".dist-info/sboms/gsplat_c.cdx.json")
    assert bill["bomFormat"] == "CycloneDX"
    assert {part["name"] for part in bill["components"]} == {"libcjson", "libpng", "zlib"}
    assert all(part["version"] and part["licenses"] for part in bill["components"])


def readelf(option, library, folder):
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed")
    (folder / "library").write_bytes(library)
    return run("readelf", option, folder / "library")


def package_with(*binaries):
    """Names in a wheel of the package."""
    package = ROOT / "bindings/python/gsplat_c"
    names = {f"gsplat_c/{path.relative_to(package)}" for path in package.rglob("*.py")}
    return names | {f"gsplat_c/{name}" for name in ("py.typed", *binaries)}


def test_contents(made):
    version = re.search(r"version: '(.*?)'", (ROOT / "meson.build").read_text()).group(1)
    for wheel in made.glob("*.whl"):
        files = files_in(wheel)
        (info,) = {name.split("/")[0] for name in files if ".dist-info/" in name}
        metadata = files[f"{info}/METADATA"].decode()
        assert files[f"{info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()
        label = "+cpu" if wheel.name.startswith("gsplat_c-") else ""
        assert f"\nVersion: {version}{label}\n" in metadata
        assert "\nLicense-Expression: MIT\n" in metadata
        inside = {name for name in files if not name.startswith(info)}
        if wheel.name.startswith("gsplat_c-"):
            assert files[f"{info}/licenses/tools/NOTICES.txt"]
            (cjson,) = (name for name in inside if name.startswith("gsplat_c.libs/libcjson-"))
            assert inside - {cjson} == package_with("libgsplat_c.so.1", "gsplat-c")
        else:
            top = wheel.name.split("-")[0].replace("gsplat_c_", "")
            assert top in SHIMS
            assert {name.split("/")[0].split(".")[0] for name in inside} - {f"{top}_cuda"} == {top}
            assert re.search(r"\nRequires-Dist: gsplat-c>=[\d.]+\n", metadata)


def test_sdist_has_what_git_has(checkout, made):
    with tarfile.open(one(made, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names - {"PKG-INFO"} == set(run("git", "-C", checkout, "ls-files").splitlines())


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
    # --no-deps for the drop-in modules, which depend on torch.
    pip(environment, "install", "--quiet", one(made, "gsplat_c-*.whl"))
    pip(environment, "install", "--quiet", "--no-deps", *made.glob("gsplat_c_*.whl"))
    path, value = run(python, "-c", RENDER.format(numpy=str(Path(numpy.__file__).parents[1])),
                      env=ENVIRONMENT, cwd=tmp_path).split()
    assert Path(path).is_relative_to(environment)
    assert float(value) == pytest.approx(0.9, abs=0.01)  # half a pixel beside the centre
    found = run(python, "-c", "from importlib.util import find_spec as f; "
                f"print(*(f(name).name for name in {sorted(SHIMS)}), f('fused_ssim_cuda').name)",
                env=ENVIRONMENT, cwd=tmp_path)
    assert set(found.split()) == SHIMS | {"fused_ssim_cuda"}
    added = files_of(environment) - before
    assert all("site-packages/" in name for name in added - {"bin/gsplat-c"}) and len(added) > 30
    scene = write_scene(tmp_path / "scene.ply", [gaussian()])
    for command in [environment / "bin/gsplat-c"], [python, "-m", "gsplat_c"]:
        run(*command, "render", scene, "-o", "a.png", env=ENVIRONMENT, cwd=tmp_path)
        assert (tmp_path / "a.png").read_bytes()[1:4] == b"PNG"
        (tmp_path / "a.png").unlink()

    distributions = [f"gsplat-c-{name.replace('_', '-')}" for name in SHIMS]
    pip(environment, "uninstall", "--quiet", "--yes", "gsplat-c", *distributions)
    assert files_of(environment) == before
    assert not list(environment.rglob("*gsplat_c*"))


def test_editable(checkout, tmp_path):
    source = clone(checkout, tmp_path / "source")
    native = tmp_path / "quick.ini"  # pip before 23.1 takes one setting of a name
    native.write_text("[project options]\ngpu = 'disabled'\nisa = ['baseline']\n")
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
        "--prefix", tmp_path / "prefix", f"--config-settings=setup-args=--native-file={native}",
        "--editable", source, env=ENVIRONMENT)
    site = one(tmp_path / "prefix", "lib/python*/site-packages")
    module, library = run(
        sys.executable, "-c", f"import site; site.addsitedir({str(site)!r}); import gsplat_c; "
        "print(gsplat_c.__file__, gsplat_c._lib.path)", env=ENVIRONMENT, cwd=tmp_path).split()
    assert Path(module) == source / "bindings/python/gsplat_c/__init__.py"
    assert Path(library).is_relative_to(source / "build")
    help_text = run(
        sys.executable, "-c", f"import site, sys; site.addsitedir({str(site)!r}); "
        "sys.argv[1:] = ['--help']; import gsplat_c.__main__ as m; m.main()", env=ENVIRONMENT,
        cwd=tmp_path)
    assert "gsplat-c render" in help_text


# --------------------------------------------------------------- other platforms


@pytest.mark.parametrize("platform", ["arm64", "windows"])
def test_wheel_for_another_platform(checkout, tmp_path, platform):
    if platform not in PLATFORMS:
        pytest.skip(f"run scripts/cross.sh {platform} first")
    first = build(checkout, tmp_path / "first", platform)
    again = clone(checkout, tmp_path / "clone")
    assert_same_bytes(first, build(again, tmp_path / "second", platform))
    wheel = one(first, "*.whl")
    files = files_in(wheel)
    package = {name for name in files if name.startswith("gsplat_c/")}
    if platform == "windows":
        assert re.fullmatch(r"gsplat_c-[\d.]+\+cpu-py3-none-win_amd64\.whl", wheel.name)
        assert package == package_with("gsplat_c.dll", "gsplat-c.exe")
    else:
        check_glibc(wheel.name, files, tmp_path)
        assert package == package_with("libgsplat_c.so.1", "gsplat-c")
    (described,) = (files[name].decode() for name in files if name.endswith(".dist-info/WHEEL"))
    assert f"\nTag: {wheel.stem.split('-', 2)[2]}\n" in described
    assert "\nRoot-Is-Purelib: false\n" in described
