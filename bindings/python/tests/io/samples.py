"""Samples of public formats: $GSPLAT_C_FORMATS, or the folder formats beside the golden data."""

import os
import pathlib

import pytest

import golden

FOLDER = pathlib.Path(os.environ.get("GSPLAT_C_FORMATS")
                      or pathlib.Path(golden.FOLDER).resolve().parent / "formats")


def sample(name):
    """The path of a sample; skips the test where there is none."""
    if not (FOLDER / name).exists():
        pytest.skip(f"no samples of formats in {FOLDER}")
    return FOLDER / name
