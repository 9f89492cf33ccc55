"""Builds the wheels and the source distribution; standard library, meson and ninja only.

It is the PEP 517 backend of pyproject.toml, so ``pip install .`` works, and a program:

    PYTHONPATH=bindings/python/backend python3 -m gsplat_c_build FOLDER [-MESON-OPTION..]

An own one, since the wheel holds a library that is loaded by ctypes and not an extension
module: it fits every Python (py3-none-PLATFORM), which common backends do not know to say.

Configuration settings, as in ``pip install . --config-settings=setup-args=-Dgpu=disabled``:
    setup-args  options for meson setup, any number of them; with --cross-file=FILE the wheel is
                for the machine that FILE tells of
    build-dir   folder to build the library of the wheel in; build-wheel by default
"""

from __future__ import annotations

from pathlib import Path

from . import _archives, _library
from ._metadata import Project

ROOT = Path(__file__).resolve().parents[4]
PACKAGE = ROOT / "bindings" / "python" / "gsplat_c"
SHIMS = ROOT / "bindings" / "python" / "shims"

__all__ = [
    "build_editable",
    "build_sdist",
    "build_shims",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]


def _words(settings, name):
    """A setting that pip gives as a string, or as a list if it came more than once."""
    value = (settings or {}).get(name, [])
    return (value if isinstance(value, str) else " ".join(value)).split()


def _modules(folder):
    """{name in the wheel: bytes} of the Python files below a folder."""
    files = [*folder.rglob("*.py"), *folder.rglob("py.typed")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def get_requires_for_build_wheel(config_settings=None):
    """The system's tools where it has them, so that nothing is fetched."""
    return _library.missing_tools()


get_requires_for_build_editable = get_requires_for_build_wheel


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    project = Project(ROOT, ROOT)
    folder = Path(metadata_directory) / project.dist_info
    for name, data in project.files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    options = [*_library.OPTIONS, *_words(config_settings, "setup-args")]
    folder = _words(config_settings, "build-dir") or [_library.default_folder(ROOT, options)]
    library = _library.build(ROOT, Path(folder[0]).absolute(), options)
    files = {f"gsplat_c/{name}": data for name, data in _modules(PACKAGE).items()}
    files[f"gsplat_c/{library.name}"] = library.read_bytes()
    return _archives.write_wheel(Path(wheel_directory), Project(ROOT, ROOT), files,
                                 _library.platform_tag(library))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package where it lies, with the library in build/, where the package looks for it."""
    _library.build(ROOT, ROOT / "build", _words(config_settings, "setup-args"))
    files = {"gsplat_c.pth": f"{PACKAGE.parent}\n".encode()}
    return _archives.write_wheel(Path(wheel_directory), Project(ROOT, ROOT), files, "any")


def build_sdist(sdist_directory, config_settings=None):
    return _archives.write_sdist(Path(sdist_directory), Project(ROOT, ROOT), ROOT)


def build_shims(wheel_directory):
    """The wheels of the distributions that put the drop-in modules on the path."""
    return [_archives.write_wheel(Path(wheel_directory), Project(pyproject.parent, ROOT),
                                  _modules(pyproject.parent), "any")
            for pyproject in sorted(SHIMS.glob("*/pyproject.toml"))]
