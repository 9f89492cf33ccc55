"""The gsplat-c command that is in the package: ``gsplat-c`` and ``python -m gsplat_c``."""

import os
import subprocess
import sys
from importlib.resources import files


def main():
    windows = sys.platform == "win32"
    command = files(__package__) / ("gsplat-c.exe" if windows else "gsplat-c")
    if not command.is_file():
        sys.exit(f"gsplat-c: there is no {command}: the package was built without cJSON or libpng")
    arguments = [os.fspath(command), *sys.argv[1:]]
    if windows:
        sys.exit(subprocess.call(arguments))
    os.execv(arguments[0], ["gsplat-c", *arguments[1:]])


if __name__ == "__main__":
    main()
