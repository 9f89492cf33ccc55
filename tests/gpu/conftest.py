"""GPU tests: the CUDA backend through the Python package on torch tensors, against the
CPU backend on the same values.  Skipped where there is no torch with a GPU."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bindings" / "python"))
import torch  # noqa: E402


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def relative(a, b):
    """Relative L2 distance of two arrays; NaN anywhere never passes."""
    a, b = torch.as_tensor(a).double().cpu(), torch.as_tensor(b).double().cpu()
    assert a.shape == b.shape
    assert torch.isfinite(a).all() and torch.isfinite(b).all()
    return float((a - b).norm() / (b.norm() + 1e-30)) if b.numel() else 0.0
