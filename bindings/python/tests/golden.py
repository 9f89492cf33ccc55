"""Recorded cases: CASE.json describes the arrays in CASE.bin."""

import glob
import json
import os

import numpy as np

FOLDER = os.environ.get("GSPLAT_C_GOLDEN") or os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden")


def names(prefix):
    """The names of the recorded cases that begin with prefix."""
    return sorted(os.path.basename(path)[:-5]
                  for path in glob.glob(os.path.join(FOLDER, prefix + "*.json")))


def load(name):
    """(manifest, {name: array})"""
    with open(os.path.join(FOLDER, name + ".json")) as file:
        manifest = json.load(file)
    with open(os.path.join(FOLDER, name + ".bin"), "rb") as file:
        raw = file.read()
    arrays = {key: np.frombuffer(raw, spec["dtype"], int(np.prod(spec["shape"])),
                                 spec["offset"]).reshape(spec["shape"]).copy()
              for key, spec in manifest["arrays"].items()}
    return manifest, arrays
