"""All distributions at once: the source, the wheel and those of the drop-in modules.

With --cross-file=FILE among the options the wheel alone, for another machine.
"""

import hashlib
import sys
from pathlib import Path

from . import _library, build_sdist, build_shims, build_wheel


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: python3 -m gsplat_c_build FOLDER [-MESON-OPTION..]")
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    options = sys.argv[2:]
    names = [build_wheel(folder, {"setup-args": options})]
    if not any(option.startswith(_library.CROSS) for option in options):
        names = [build_sdist(folder), *build_shims(folder), *names]
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in sorted(folder.glob("gsplat_c*"))]
    (folder / "SHA256SUMS").write_text("".join(sums))
    for name in names:
        print(f"{(folder / name).stat().st_size / 1e6:8.3f} MB  {folder / name}")


main()
