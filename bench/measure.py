"""Times and memory of calls on a CUDA device, and a table of them."""

import importlib
import json
import statistics
import sys

import torch

WARM_UPS, RUNS = 5, 20


def optional(name):
    """A module to compare with; None if it is not installed or is this project's drop-in."""
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:
        return None
    except Exception as error:  # built for another torch, say
        print(f"{name} is left out: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return None if "gsplat_c.compat" in sys.modules else module


def events():
    return tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))


def alternating_ms(calls, runs=RUNS, warm_up=WARM_UPS):
    """{name: median milliseconds} of {name: call}, between events around each call, all that
    the host does included.  The calls take turns, so that the device's clocks treat them
    alike."""
    for _ in range(warm_up):
        for call in calls.values():
            call()
    times = {name: [] for name in calls}
    for _ in range(runs):
        for name, call in calls.items():
            begin, end = events()
            torch.cuda.synchronize()
            begin.record()
            call()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(values) for name, values in times.items()}


def median_ms(call, runs=RUNS, warm_up=WARM_UPS):
    return alternating_ms({"": call}, runs, warm_up)[""]


def row_ms(call, count=RUNS, warm_up=WARM_UPS):
    """Milliseconds of a call back to back: the device's time if it is longer than the host's."""
    for _ in range(warm_up):
        call()
    begin, end = events()
    torch.cuda.synchronize()
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def peak_mb(call):
    """Peak memory of a call, results included, besides what was allocated before."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = call()
    torch.cuda.synchronize()
    del kept
    return (torch.cuda.max_memory_allocated() - before) / 1e6


class Table:
    """Prints rows as they come, or all of them at the end as JSON.

    columns: {name: format}, such as {"scene": "<20", "ms": "10.3f"}.  A value of None is
    printed as '-'.
    """

    def __init__(self, columns, as_json=False):
        self.columns, self.as_json, self.rows = columns, as_json, []
        if not as_json:
            names = (self._cell(name, form, header=True) for name, form in columns.items())
            print(torch.cuda.get_device_name())
            print(" ".join(names), flush=True)

    @staticmethod
    def _cell(value, form, header=False):
        if header or value is None:
            width = form.strip("<").split(".")[0].rstrip("df")
            return format("-" if value is None else value, ("<" if "<" in form else ">") + width)
        return format(value, form)

    def add(self, *values):
        self.rows.append(dict(zip(self.columns, values)))
        if not self.as_json:
            print(" ".join(self._cell(value, form)
                           for value, form in zip(values, self.columns.values())), flush=True)

    def close(self, **facts):
        if self.as_json:
            print(json.dumps({"device": torch.cuda.get_device_name(), **facts,
                              "results": self.rows}, indent=1))
