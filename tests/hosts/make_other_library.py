"""Writes a library with every global name of this one: the worst neighbour in a process.

    make_other_library.py NM OBJECTS.a OUT.c

Each function counts its calls.  other_calls() is the count, other_calls_itself() calls each of
them by its global name and returns how many arrived here; names in the header are left out there.
"""

import pathlib
import subprocess
import sys


def main(nm, objects, out):
    lines = subprocess.run([nm, "-g", "--defined-only", objects], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    names = {line.split()[2] for line in lines if len(line.split()) == 3}
    names = sorted(name for name in names if name.startswith("gs"))  # not those of sanitizers
    internal = [name for name in names if name.startswith("gsc__")]
    if len(internal) < 50 or "gsc__fail_cuda" not in names or "gsc_knn" not in names:
        sys.exit(f"{objects} has not the names of the library: {' '.join(names)}")
    parts = ["static int calls;\n"]
    parts += [f"void {name}(void);\nvoid {name}(void) {{ calls++; }}\n" for name in names]
    parts += ["int other_calls(void);\nint other_calls(void) { return calls; }\n"]
    parts += ["int other_calls_itself(void);\nint other_calls_itself(void) {\n    calls = 0;\n"]
    parts += [f"    {name}();\n" for name in internal]
    parts += [f"    int arrived = calls == {len(internal)};\n    calls = 0;\n",
              "    return arrived;\n}\n"]
    pathlib.Path(out).write_text("".join(parts))


if __name__ == "__main__":
    main(*sys.argv[1:])
