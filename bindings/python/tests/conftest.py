"""Puts the package of this checkout and the examples on the path, before anything imports them."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(TESTS), str(TESTS.parent), str(TESTS.parents[2] / "examples"),
                str(TESTS.parents[2] / "tests" / "helpers")]
