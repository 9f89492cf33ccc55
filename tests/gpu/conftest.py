"""GPU tests: the CUDA backend through the Python package, mostly on torch tensors, against
the CPU backend on the same values.  Skipped where there is no torch with a GPU.

An area is a file.  What it measured goes into one table that is printed last of all; the
file that $GSPLAT_C_GPU_TABLE names gets a copy."""

import fcntl
import os
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings" / "python"))
import torch  # noqa: E402


def pytest_collection_modifyitems(items):
    if not torch.cuda.is_available():
        for item in items:
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def _take(path):
    """The first line of a file that several processes take lines from; None if there is none."""
    with open(path, "r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        first, _, rest = file.read().partition("\n")
        file.seek(0)
        file.truncate()
        file.write(rest)
    return first or None


def pytest_runtestloop(session):
    """$GSPLAT_C_TEST_QUEUE: a file with the ids of the tests to run, which several processes
    share, until it is empty or it is $GSPLAT_C_TEST_UNTIL, in seconds of time.time()."""
    queue = os.environ.get("GSPLAT_C_TEST_QUEUE")
    if not queue:
        return None
    items = {item.nodeid: item for item in session.items}
    until = float(os.environ["GSPLAT_C_TEST_UNTIL"])
    name = _take(queue)
    while name is not None:
        if name not in items:
            raise pytest.UsageError(f"{queue} has {name}, which is no test of these files")
        item = items[name]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        name = _take(queue) if time.time() < until else None
    return True


# ----------------------------------------------------------------------- table


class Area:
    def __init__(self):
        self.tests = self.passed = self.skipped = 0
        self.seconds = self.worst = 0.0
        self.worst_of = ""
        self.notes = []


_areas = {}
_now = Area()


def note_error(error, what):
    """Keeps the largest error of the area whose test is running."""
    if error > _now.worst:
        _now.worst, _now.worst_of = error, what


def note(text):
    """A line under the table."""
    _now.notes.append(text)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    global _now
    name = Path(str(item.fspath)).stem
    _now = _areas.setdefault(name[len("test_"):], Area())
    start = time.perf_counter()
    yield
    _now.seconds += time.perf_counter() - start


def pytest_runtest_logreport(report):
    if report.when == "call" or report.skipped:
        _now.tests += 1
        _now.passed += report.passed
        _now.skipped += report.skipped


def _table():
    form = "{:<12} {:>6} {:>7} {:>7} {:>9}  {:<30} {:>7}"
    yield form.format("area", "tests", "passed", "skipped", "worst", "of", "seconds")
    total = Area()
    for name, area in _areas.items():
        worst = f"{area.worst:.1e}" if area.worst else "-"
        yield form.format(name, area.tests, area.passed, area.skipped, worst,
                          area.worst_of[:30], f"{area.seconds:.1f}")
        for field in ("tests", "passed", "skipped", "seconds"):
            setattr(total, field, getattr(total, field) + getattr(area, field))
    yield form.format("all", total.tests, total.passed, total.skipped, "", "",
                      f"{total.seconds:.1f}")
    for name, area in _areas.items():
        for text in area.notes:
            yield f"{name}: {text}"


def pytest_unconfigure():
    if not _areas:
        return
    text = "\n".join(_table())
    print(f"\n{text}", flush=True)
    if os.environ.get("GSPLAT_C_GPU_TABLE"):
        Path(os.environ["GSPLAT_C_GPU_TABLE"]).write_text(text + "\n")


# ------------------------------------------------------------------ comparison


def relative(a, b, what=""):
    """Relative L2 distance of two arrays; NaN anywhere never passes."""
    a, b = torch.as_tensor(a).double().cpu(), torch.as_tensor(b).double().cpu()
    assert a.shape == b.shape
    assert torch.isfinite(a).all() and torch.isfinite(b).all()
    error = float((a - b).norm() / (b.norm() + 1e-30)) if b.numel() else 0.0
    note_error(error, what)
    return error


def to_cuda(args, device="cuda"):
    """The same arguments with numpy arrays as CUDA tensors."""
    return {k: torch.from_numpy(v).to(device) if hasattr(v, "__array_interface__") else v
            for k, v in args.items()}
