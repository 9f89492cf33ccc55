"""A damaged state on the device: an error or any numbers, but no fault and no write outside
of the buffers.  Each kind of damage runs in a process of its own, see victim.py;
GSPLAT_C_SANITIZER=compute-sanitizer runs them under it."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import note

VARIANTS = ("whole", "bands", "channels", "cameras", "cameras in one buffer")
PATTERNS = ("ones", "zeros", "random", "shifted", "bits", "other")
KINDS = [(v, p) for v in VARIANTS for p in PATTERNS]
VICTIM = Path(__file__).resolve().parent / "victim.py"


def run(kind):
    tool = os.environ.get("GSPLAT_C_SANITIZER")
    before = [tool, "--tool", "memcheck", "--error-exitcode", "9"] if tool else []
    try:
        done = subprocess.run([*before, sys.executable, str(VICTIM), *kind], text=True,
                              capture_output=True, timeout=900 if tool else 90, check=False)
    except subprocess.TimeoutExpired:
        return {"fault": "hangs", "calls": 0}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"fault": (done.stdout + done.stderr)[-400:], "calls": 0}
    found = json.loads(lines[-1])
    if done.returncode and not found["fault"]:
        found["fault"] = (done.stdout + done.stderr)[-400:]
    return found


@pytest.fixture(scope="module")
def outcomes(request):
    """Of the kinds that are asked for, several processes at a time."""
    kinds = [(item.callspec.params["variant"], item.callspec.params["pattern"])
             for item in request.session.items if "outcomes" in item.fixturenames]
    with ThreadPoolExecutor(1 if os.environ.get("GSPLAT_C_SANITIZER") else 6) as pool:
        found = dict(zip(kinds, pool.map(run, kinds)))
    note(f"{sum(o['calls'] for o in found.values())} calls on damaged states")
    return found


@pytest.mark.parametrize("variant, pattern", KINDS)
def test_a_damaged_state_faults_nothing(outcomes, variant, pattern):
    outcome = outcomes[variant, pattern]
    assert outcome["fault"] is None
    assert outcome["calls"] > 80 and outcome["well"]
