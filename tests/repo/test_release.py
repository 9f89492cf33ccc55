"""scripts/release.sh rejects anything but a release, and builds complete archives."""

import hashlib
import json
import os
import re
import subprocess
import tarfile

import pytest

from packages import ENVIRONMENT, PLATFORMS, QUICK, clone, commit, git
from support import ROOT, run

QUICK = {**QUICK, "GSPLAT_C_PLATFORMS": " ".join(PLATFORMS)}


def release(folder, *options, **environment):
    result = subprocess.run(["sh", "scripts/release.sh", *options], cwd=folder, text=True,
                            capture_output=True, check=False, env={**ENVIRONMENT, **environment})
    return result.returncode, result.stdout + result.stderr


def version():
    return (ROOT / "meson.build").read_text().split("version: '")[1].split("'")[0]


def edit(folder, name, old, new):
    path = folder / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def expect_refusal(folder, reason, *options, **environment):
    code, said = release(folder, *options, **environment)
    assert code == 1 and reason in said, said
    assert not (folder / "dist").exists()


@pytest.fixture
def changed(checkout, tmp_path):
    """A checkout for a test to change."""
    return clone(checkout, tmp_path / "clone")


def test_needs_a_clean_tree(changed):
    (changed / "new.txt").write_text("forgotten\n")
    expect_refusal(changed, "new.txt", "--dry-run", **QUICK)
    (changed / "new.txt").unlink()
    edit(changed, "README.md", "\n", "\n\n")
    expect_refusal(changed, "README.md", "--dry-run", **QUICK)


def test_needs_the_versions_tag(changed):
    expect_refusal(changed, f"HEAD has no tag v{version()}")
    git(changed, "tag", "v0.0.1")
    expect_refusal(changed, f"HEAD has no tag v{version()}")
    edit(changed, "CHANGELOG.md", "## Unreleased", "## Not released")
    commit(changed)
    git(changed, "tag", f"v{version()}")
    if f"\n## {version()}" not in (changed / "CHANGELOG.md").read_text():
        expect_refusal(changed, f"no heading '## {version()}'")


@pytest.mark.parametrize("name", QUICK)
def test_needs_all_of_the_library(changed, name):
    value = "" if name == "GSPLAT_C_PLATFORMS" else QUICK[name]
    expect_refusal(changed, "every platform, every instruction set and every GPU", **{name: value})


def test_packaging_names_this_version_and_its_options():
    port = json.loads((ROOT / "packaging/vcpkg/vcpkg.json").read_text())
    assert port["version"] == version()
    known = re.findall(r"^option\('(\w+)'", (ROOT / "meson_options.txt").read_text(), re.M)
    for name in "vcpkg/portfile.cmake", "conda/meta.yaml":
        options = re.findall(r"-D(\w+)=", (ROOT / "packaging" / name).read_text())
        assert len(options) >= 4 and set(options) <= set(known)


def test_needs_one_version(changed):
    edit(changed, "bindings/python/shims/simple-knn/pyproject.toml", f'"{version()}"', '"0.0.1"')
    commit(changed)
    expect_refusal(changed, "simple-knn/pyproject.toml has another version", "--dry-run", **QUICK)


def test_needs_a_frozen_interface_from_1_0_0_on(changed):
    edit(changed, "meson.build", f"version: '{version()}'", "version: '1.0.0'")
    for path in changed.glob("bindings/python/shims/*/pyproject.toml"):
        edit(changed, path, f'version = "{version()}"', 'version = "1.0.0"')
    edit(changed, "packaging/vcpkg/vcpkg.json", f'"{version()}"', '"1.0.0"')
    edit(changed, "include/gsplat_c.h", "#define GSC_ABI_MINOR ", "#define GSC_ABI_MINOR 9")
    commit(changed)
    expect_refusal(changed, "freeze the interface", "--dry-run", **QUICK)
    run("sh", changed / "scripts/abi-freeze.sh")
    edit(changed, "src/libgsplat_c.map", "    gsc_knn;\n", "    gsc_knn;\n    gsc_new;\n")
    commit(changed)
    expect_refusal(changed, "a change needs a higher GSC_ABI_MINOR", "--dry-run", **QUICK)


@pytest.fixture(scope="module")
def released(checkout, tmp_path_factory):
    folder = clone(checkout, tmp_path_factory.mktemp("released") / "clone")
    code, said = release(folder, "--dry-run", **QUICK)
    assert code == 0, said
    return folder / "dist"


def test_every_file_has_a_checksum(released):
    rows = dict(reversed(line.split("  "))
                for line in (released / "SHA256SUMS").read_text().splitlines())
    names = {path.name for path in released.iterdir()} - {"SHA256SUMS"}
    assert set(rows) == names and len(names) == 6 + 2 * len(PLATFORMS)
    for name, digest in rows.items():
        assert hashlib.sha256((released / name).read_bytes()).hexdigest() == digest


@pytest.mark.parametrize("platform", PLATFORMS)
def test_other_platforms_have_what_hosts_need(released, platform):
    files = {"arm64": ("lib/libgsplat_c.so.1", "lib/pkgconfig/gsplat_c.pc"),
             "windows": ("bin/gsplat_c.dll", "lib/gsplat_c.def", "lib/pkgconfig/gsplat_c.pc")}
    name = f"gsplat_c-{version()}-{PLATFORMS[platform]}"
    with tarfile.open(released / f"{name}.tar.gz") as file:
        names = set(file.getnames())
    for wanted in ("LICENSE", "include/gsplat_c.h", "lib/cmake/gsplat_c/gsplat_c-config.cmake",
                   *files[platform]):
        assert f"{name}/{wanted}" in names


def test_the_library_works_where_it_is_unpacked(released, tmp_path):
    machine = os.uname().machine
    archive, = released.glob(f"gsplat_c-*-linux-{machine}.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path)
    place = tmp_path / archive.name.removesuffix(".tar.gz")
    assert (place / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    environment = {**os.environ, "PKG_CONFIG_PATH": str(place / "lib/pkgconfig"),
                   "LD_LIBRARY_PATH": str(place / "lib")}
    flags = run("pkg-config", "--cflags", "--libs", "gsplat_c", env=environment).split()
    assert all(str(place) in flag for flag in flags if flag[:2] in ("-I", "-L"))
    program = tmp_path / "program"
    run("cc", "-std=c11", ROOT / "examples/c/three_splats.c", *flags, "-o", program)
    assert run(program, env=environment).startswith("P3 320 240 255")


def test_the_source_has_its_tests(released):
    with tarfile.open(released / f"gsplat_c-{version()}.tar.gz") as file:
        names = {name.split("/", 1)[1] for name in file.getnames()}
    assert {"meson.build", "abi/README.md", "tests/repo/test_release.py"} <= names
