"""Makes the module definition of a DLL that exports the version script's symbols.

    make_def.py MAP DLL OUTPUT.def
"""

import pathlib
import sys

from header import exported_symbols


def main(version_script, library, output):
    symbols = sorted(exported_symbols(version_script))
    lines = [f"LIBRARY {library}", "EXPORTS", *(f"    {symbol}" for symbol in symbols)]
    pathlib.Path(output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
