"""All that the pages name exists: links, files, make targets, options, variables, functions."""

import os
import re

import pytest

from support import ROOT

# Folders whose pages do not belong to the project.
SKIPPED = {"build", "dist", "target", "node_modules"}
# Meson's built-in options.
MESON_OPTIONS = set(
    "b_coverage b_lto b_lundef b_sanitize buildtype c_link_args default_library optimization prefix"
    " strip werror".split()
)


def folders():
    """(path, folders, files) of the checkout, without build folders and hidden ones."""
    for path, names, files in os.walk(ROOT):
        names[:] = [
            name
            for name in names
            if name not in SKIPPED and not name.startswith((".", "build-", "__"))
        ]
        yield path, names, files


PAGES = sorted(
    os.path.relpath(os.path.join(path, name), ROOT)
    for path, _, files in folders()
    for name in files
    if name.endswith(".md")
)


def read(page):
    return (ROOT / page).read_text()


def code_of(page):
    """Code blocks and code spans of a page."""
    text = read(page)
    blocks = re.findall(r"^```.*?^```$", text, flags=re.S | re.M)
    blocks += re.findall(r"^    \S.*$", text, flags=re.M)
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M)
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", prose)
    return "\n".join(blocks + spans)


@pytest.fixture(scope="module")
def sources():
    """All text of the checkout that is not a page."""
    suffixes = (".c", ".h", ".cu", ".cuh", ".sh", ".py", ".build", ".txt", ".toml", ".rs", ".map")
    parts = [read("Makefile")]
    for path, _, files in folders():
        for name in files:
            if name.endswith(suffixes) and name != "test_docs.py":
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    parts.append(file.read())
    return "\n".join(parts)


def test_there_are_pages():
    assert {"README.md", "CONTRIBUTING.md", "docs/README.md", "docs/memory.md"} <= set(PAGES)


def anchor(heading):
    """The anchor of a heading in rendered Markdown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES)
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)", read(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, wanted = target.partition("#")
        other = (ROOT / page).parent / path if path else ROOT / page
        assert other.exists(), f"{page} links to {target}"
        if wanted:
            headings = re.findall(r"^#+ (.*)$", other.read_text(), flags=re.M)
            assert wanted in map(anchor, headings), f"{page} links to {target}"


def test_every_page_of_docs_is_in_its_index():
    index = read("docs/README.md")
    for page in PAGES:
        folder, _, name = page.rpartition("/")
        if folder == "docs" and name != "README.md":
            assert f"]({name})" in index, f"{page} is not in docs/README.md"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets(page):
    targets = set(re.findall(r"^([a-z][\w-]*):", read("Makefile"), flags=re.M))
    for name in re.findall(r"\bmake ([a-z][a-z0-9-]*)", code_of(page)):
        assert name in targets, f"{page} says make {name}"


def test_makefile_tells_its_targets():
    text = read("Makefile")
    targets = set(re.findall(r"^([a-z][\w-]*):", text, flags=re.M))
    assert set(re.search(r"^\.PHONY: (.*)$", text, flags=re.M).group(1).split()) == targets
    assert set(re.findall(r"echo 'make ([\w-]+)", text)) == targets - {"help"}


@pytest.mark.parametrize("page", PAGES)
def test_meson_options(page):
    declared = set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), flags=re.M))
    for name in re.findall(r"(?<![\w-])-D([a-z]\w*)", code_of(page)):
        assert name in declared | MESON_OPTIONS, f"{page} names -D{name}"


def test_every_meson_option_is_told():
    page = read("docs/building.md")
    for name in re.findall(r"^option\('(\w+)'", read("meson_options.txt"), flags=re.M):
        assert f"-D{name}`" in page, f"docs/building.md does not tell of -D{name}"


@pytest.mark.parametrize("page", PAGES)
def test_names(page, sources):
    """Environment variables, constants and functions of the interface and of the sources."""
    names = set(re.findall(r"\b(?:GSC|gsc|GSPLAT_C)_\w*[A-Za-z0-9]\b", read(page)))
    for name in names:
        if re.search(r"_(?:NAME|\w)$", name):  # a placeholder
            continue
        assert re.search(rf"(?:\b|-D){name}", sources), f"{page} names {name}"


@pytest.mark.parametrize("page", PAGES)
def test_paths(page):
    top = r"(?:abi|bench|bindings|cuda|docs|examples|include|scripts|src|tests|tools)/"
    for name in re.findall(rf"(?<!`)`({top}[\w./*-]*)`", read(page)):
        name = re.sub(r"_N\b", "_*", name)  # a placeholder
        found = list(ROOT.glob(name)) or list((ROOT / page).parent.glob(name))
        assert found, f"{page} names {name}"


def test_files_of_the_way_of_a_call():
    """The files in the diagram of docs/architecture.md, relative to a folder of src/ or the top."""
    diagram = re.search(r"^```text\n( HOST.*?)^```", read("docs/architecture.md"), re.S | re.M)
    names = set(re.findall(r"[\w/]+\.(?:cu|c)\b", diagram.group(1)))
    assert len(names) > 20
    for name in names:
        assert [*ROOT.glob(f"src/**/{name}"), *ROOT.glob(name)], name


@pytest.mark.parametrize("page", PAGES)
def test_options_of_the_command(page):
    """Options on lines that call gsplat-c; other lines with options are for other programs."""
    told = "\n".join(path.read_text() for path in (ROOT / "tools").glob("*.c"))
    for line in code_of(page).splitlines():
        if not re.match(r"\s*(?:\w+=\S+ )*(?:build/tools/)?gsplat-c ", line):
            continue
        for name in re.findall(r"(?<!\S)--?([a-z][a-z-]*)", line):
            dashes = "-" if len(name) == 1 else "--"
            assert f'"{dashes}{name}' in told or f" {dashes}{name}" in told, f"{page}: {line}"


def test_facts_of_the_readme():
    """The line of facts at the top of README.md, each compared with its source."""
    (line,) = [line for line in read("README.md").splitlines() if line.startswith("**MIT**")]
    meson = read("meson.build")
    assert "license: 'MIT'" in meson and read("LICENSE").startswith("MIT License")
    assert 'license = "MIT"' in read("pyproject.toml")

    major, minor = re.findall(r"#define GSC_ABI_M\w+ (\d+)", read("include/gsplat_c.h"))
    assert f"**ABI {major}.{minor}**" in line

    (standard,) = re.findall(r"'c_std=(\w+)'", meson)
    assert f"**{standard.upper()}**" in line

    (glibc,) = re.findall(r"HIGHEST_GLIBC = \((\d+), (\d+)\)", read("tests/repo/test_symbols.py"))
    assert f"**Linux x86-64, glibc {'.'.join(glibc)}+**" in line

    (targets,) = re.findall(r"^ +gpu_targets = \[(.*?)\]", read("cuda/meson.build"), flags=re.M)
    targets = sorted(int(target) for target in re.findall(r"\d+", targets))
    lowest, highest = (f"{target // 10}.{target % 10}" for target in (targets[0], targets[-1]))
    (driver,) = re.findall(r"driver (\d+)\.", read("src/gpu/driver.c"))
    assert f"**CUDA {lowest} to {highest}, driver {driver}+**" in line

    (python,) = re.findall(r'requires-python = ">=([\d.]+)"', read("pyproject.toml"))
    assert f"**Python {python}+**" in line
