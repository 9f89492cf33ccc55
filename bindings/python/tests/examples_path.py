"""Puts the folder of the examples on the path."""

import pathlib
import sys

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
sys.path.insert(0, str(EXAMPLES))
