"""All distributions at once: the source, the wheel and those of the drop-in modules."""

import hashlib
import sys
from pathlib import Path

from . import build_sdist, build_shims, build_wheel


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python3 -m gsplat_c_build FOLDER [-MESON-OPTION..]")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    names = [build_sdist(folder), *build_shims(folder),
             build_wheel(folder, {"setup-args": sys.argv[2:]})]
    sums = [f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
            for name in names]
    (folder / "SHA256SUMS").write_text("".join(sums))
    for name in names:
        print(f"{(folder / name).stat().st_size / 1e6:8.3f} MB  {folder / name}")


main()
