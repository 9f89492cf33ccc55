"""Times everything on a CUDA device, stage by stage, next to other libraries.

    python3 bench/gpu.py [--scenes SCENES.py] [--trained FILE.ply:CAMERAS.json:CAMERA:SIZE]
                         [--json FILE] [--plot FILE] [WHAT ..]

WHAT is a scene DIST:GRID:SIZE of SCENES.py, or some of trained, knn, ssim, loss and adam;
without it everything is timed.  The environment variable GSPLAT_C_BENCH, words like
"SCENES.py FILE.ply:CAMERAS.json:0:1080p", stands for the first two options.
"""

import argparse
import datetime
import os
import subprocess
import sys
from pathlib import Path

import report
import stages

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bindings" / "python"))


def arguments(words, environment=""):
    parser = argparse.ArgumentParser(prog="gpu.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("--scenes", metavar="SCENES.py", help="module with scene()")
    parser.add_argument("--trained", metavar="PLY:CAMERAS:CAMERA:SIZE", action="append",
                        default=[], help="a trained scene and its camera; may be repeated")
    parser.add_argument("--json", metavar="FILE", help="append the run, a line of JSON; the "
                        "last earlier one on such a device is shown beside it")
    parser.add_argument("--plot", metavar="FILE", help="plot the runs of --json")
    parser.add_argument("what", metavar="WHAT", nargs="*",
                        help="DIST:GRID:SIZE, trained, knn, ssim, loss, adam; all by default")
    args = parser.parse_args(words)
    data = environment.split()
    args.scenes = args.scenes or next((word for word in data if word.endswith(".py")), None)
    args.trained = args.trained or [word for word in data if ".ply:" in word]
    wrong = [word for word in args.what
             if word not in ("trained", "knn", "ssim", "loss", "adam") and word.count(":") != 2]
    if wrong:
        parser.error(f"{wrong[0]}: no DIST:GRID:SIZE, trained, knn, ssim, loss or adam")
    if any(":" in word for word in args.what) and not args.scenes:
        parser.error("scenes need --scenes or GSPLAT_C_BENCH")
    return args


def raster_tables(args):
    """A table for each scene, one at a time to limit memory."""
    import gpu_raster

    words = [word for word in args.what if ":" in word]
    if not args.what and args.scenes:
        words = gpu_raster.DEFAULT
    if not args.what or "trained" in args.what:
        words = [*words, *args.trained]
    module = gpu_raster.load_module(args.scenes) if args.scenes else None
    for word in words:
        name, scene = gpu_raster.load(word, module)
        table = raster_table(name, gpu_raster.runs(scene))
        yield table
        yield train_table(name, scene, table["sizes"])


def raster_table(name, runs):
    from measure import alternating_ms, row_ms
    from probe import kernels_ms

    sizes, kernels, works = runs[0].sizes(), kernels_ms(runs[0].both), []
    for work, method in (("inference", "forward"), ("forward + backward", "both")):
        calls = {run.name: getattr(run, method) for run in runs}
        times = alternating_ms(calls)
        works += [{"work": work, "library": library, "ms": times[library],
                   "row_ms": row_ms(call), "mb": memory_mb(library, call)}
                  for library, call in calls.items()]
    return {"name": name, "sizes": sizes, "kernels": kernels, "works": works}


def train_table(name, scene, sizes):
    """A training step of the same view: in one call, and as its separate calls."""
    import gpu_train
    from measure import alternating_ms, row_ms
    from probe import kernels_ms

    stored = gpu_train.Scene(scene)
    calls = {"one call": stored.one_call, "four calls": stored.four_calls,
             "torch code": stored.torch_code}
    times = alternating_ms(calls)
    works = [{"work": f"training step, {work}", "library": report.OURS, "ms": times[work],
              "row_ms": row_ms(call), "mb": memory_mb(report.OURS, call)}
             for work, call in calls.items()]
    return {"name": f"{name}, training step", "sizes": {**sizes, "e": 3 * sizes["p"], "w": 11},
            "kernels": kernels_ms(stored.one_call), "works": works}


def memory_mb(library, call):
    from measure import peak_mb
    from probe import memory_of_torch

    if library != report.OURS:
        return peak_mb(call)
    with memory_of_torch():
        call()  # so that the next call knows how much memory it needs
        return peak_mb(call)


def op_tables(name):
    """Tables of one benchmark of gpu_ops.py: the stages of its works, then all works."""
    import gpu_ops
    from measure import alternating_ms, row_ms
    from probe import kernels_ms

    tables, works = [], []

    def add(operation, of, call, others=None, count=20, sizes=None):
        calls, what = {report.OURS: call, **(others or {})}, f"{operation}, {of}"
        times = alternating_ms(calls, runs=count)
        if sizes:
            tables.append({"name": what, "sizes": sizes, "kernels": kernels_ms(call),
                           "works": []})
        works.extend({"work": what, "library": library, "ms": times[library],
                      "row_ms": row_ms(each, count), "mb": memory_mb(library, each)}
                     for library, each in calls.items())

    gpu_ops.BENCHES[name](add)
    return [*tables, {"name": name, "sizes": {}, "kernels": {}, "works": works}]


def first_line(*command):
    """The output of a program, or None if it is missing or fails."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        return None
    return next(iter(said.stdout.splitlines()), None)


def facts():
    """The run without its tables."""
    import torch

    import gsplat_c
    from probe import machine

    device = gsplat_c.device_report(f"cuda:{torch.cuda.current_device()}")
    return {"when": datetime.datetime.now().isoformat(" ", "minutes"),
            "device": torch.cuda.get_device_name(), "report": device,
            "driver": first_line("nvidia-smi", "--query-gpu=driver_version",
                                 "--format=csv,noheader"),
            "checkout": first_line("git", "describe", "--always", "--dirty"),
            "versions": {"gsplat_c": gsplat_c.version(), "torch": torch.__version__,
                         "cuda": torch.version.cuda},
            "build": gsplat_c.build_info(), "machine": machine(), "tables": []}


def head(run):
    rates, versions = run["machine"], run["versions"]
    return (f"{run['device']}, driver {run['driver']}, torch {versions['torch']}\n"
            f"gsplat_c {versions['gsplat_c']}, checkout {run['checkout']}\n"
            f"a copy: {rates['copy_bytes_s'] / 1e9:.0f} GB/s; float32 products: "
            f"{rates['flop_s'] / 1e12:.1f} Tflop/s\n")


def main():
    args = arguments(sys.argv[1:], os.environ.get("GSPLAT_C_BENCH", ""))
    earlier = report.read(args.json) if args.json else []
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("gpu.py: no CUDA device")
    run = facts()
    earlier = report.same_device(earlier, run["device"])
    print(head(run))

    def show(table):
        table["stages"] = stages.rows(table.pop("kernels"), table["sizes"], run["machine"])
        run["tables"].append(table)
        print(report.table_text(table, earlier), flush=True)

    if not (args.what or args.scenes or args.trained):
        print("no scenes: see --scenes, --trained and GSPLAT_C_BENCH\n")
    for table in raster_tables(args):
        show(table)
    for name in ("knn", "ssim", "loss", "adam"):
        if not args.what or name in args.what:
            for table in op_tables(name):
                show(table)
    if args.json:
        report.append(args.json, run)
    if args.plot:
        problem = report.plot(args.plot, [*earlier, run])
        if problem:
            print(problem)


if __name__ == "__main__":
    main()
