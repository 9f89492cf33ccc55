"""The Python in README.md runs as it stands."""

import os
import re
import subprocess
import sys

import pytest

from support import ROOT


def test_python_example(library):
    pytest.importorskip("numpy")
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    environment = dict(
        os.environ, GSPLAT_C_LIBRARY=str(library), PYTHONPATH=str(ROOT / "bindings/python")
    )
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    # It prints what its comment says.
    assert result.stdout.strip() == re.search(r"print\(.*\)  # (.*)", code).group(1)
