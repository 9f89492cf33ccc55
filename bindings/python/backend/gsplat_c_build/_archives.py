"""Writes wheels (PEP 427) and source distributions, the same bytes from the same files."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import os
import subprocess
import tarfile
import time
import zipfile

FIRST_ZIP_TIME = 315532800  # 1980-01-01, the earliest that a zip file can tell
NOT_SOURCE = ("build", "dist", "PKG-INFO")


def _time():
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", FIRST_ZIP_TIME)), FIRST_ZIP_TIME)


def write_wheel(folder, project, files, platform):
    """Writes {name: bytes} and what describes them; returns the wheel's name."""
    tag = f"py3-none-{platform}"
    purelib = "true" if platform == "any" else "false"
    wheel = ("Wheel-Version: 1.0\nGenerator: gsplat_c_build\n"
             f"Root-Is-Purelib: {purelib}\nTag: {tag}\n")
    described = {**project.files(), "WHEEL": wheel.encode()}
    files = {**dict(sorted(files.items())),
             **{f"{project.dist_info}/{name}": data for name, data in sorted(described.items())}}
    record = f"{project.dist_info}/RECORD"
    rows = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in files.items()]
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    path = folder / f"{project.file_name}-{tag}.whl"
    date = time.gmtime(_time())[:6]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.create_system = 3  # Unix: the next line's meaning
            entry.external_attr = (0o100755 if name.endswith((".so", ".dll")) else 0o100644) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    return path.name


def _digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_sdist(folder, project, root):
    """Writes the files of the checkout, or of an unpacked sdist; returns the archive's name."""
    path = folder / f"{project.file_name}.tar.gz"
    files = {name: root / name for name in _source_files(root)}
    with open(path, "wb") as file, \
            gzip.GzipFile("", "wb", 9, file, mtime=_time()) as packed, \
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, source in files.items():
            mode = 0o755 if source.stat().st_mode & 0o100 else 0o644
            _add(archive, f"{project.file_name}/{name}", source.read_bytes(), mode)
        _add(archive, f"{project.file_name}/PKG-INFO", project.metadata(), 0o644)
    return path.name


def _add(archive, name, data, mode):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = len(data), mode, _time()
    archive.addfile(entry, io.BytesIO(data))


def _source_files(root):
    """Names of what git tracks; without git of all but what building left."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True,
                                capture_output=True).stdout.decode().split("\0")
        return sorted(name for name in listed if name and (root / name).is_file())
    found = []
    for folder, folders, names in os.walk(root):
        here = os.path.relpath(folder, root)
        top = here == "."
        folders[:] = [name for name in folders if name not in ("__pycache__", ".venv")
                      and not (top and name.startswith(NOT_SOURCE))]
        found += [os.path.normpath(os.path.join(here, name)) for name in names
                  if not (top and name.startswith(NOT_SOURCE))]
    return sorted(found)
