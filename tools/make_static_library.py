"""Makes the static library: one object, in which only the version script's symbols are global.

    make_static_library.py MAP OBJCOPY AR OBJECTS.a LIBRARY.a COMPILER..

A program that links it sees the same names as with the shared library: every other name is its own.
"""

import pathlib
import subprocess
import sys
import tempfile

from header import exported_symbols


def main(version_script, objcopy, ar, objects, library, *compiler):
    symbols = exported_symbols(version_script)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        merged, kept = folder / "gsplat_c.o", folder / "symbols"
        kept.write_text("".join(f"{symbol}\n" for symbol in symbols))
        subprocess.run(
            [*compiler, "-r", "-nostdlib", "-o", merged, "-Wl,--whole-archive", objects,
             "-Wl,--no-whole-archive"],
            check=True,
        )
        subprocess.run([objcopy, f"--keep-global-symbols={kept}", merged], check=True)
        pathlib.Path(library).unlink(missing_ok=True)
        # D: no dates and owners, the same objects give the same bytes.
        subprocess.run([ar, "rcsD", library, merged], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
