"""Times the rasterizer on a CUDA device: medians between events, everything included.

    python3 bench/gpu_raster.py SCENES.py [SCENE ..]

SCENES.py defines scene(grid, dist, size, device) -> dict of tensors; SCENE is
DIST:GRID:SIZE, for example trained:3:1080p.
"""

import importlib.util
import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings" / "python"))
import gsplat_c  # noqa: E402

DEFAULT = ["uniform:1:1080p", "trained:3:1080p", "trained:7:1080p", "uniform:5:4k"]


def median_ms(call, runs=20, warm_up=5):
    for _ in range(warm_up):
        call()
    times = []
    for _ in range(runs):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def peak_mb(call):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = call()
    torch.cuda.synchronize()
    del kept
    return (torch.cuda.max_memory_allocated() - before) / 1e6


def arguments(scene):
    intrinsics = torch.tensor(scene["intrinsics"], device="cuda")
    return {"means": scene["means"], "rotations": scene["rotations"], "scales": scene["scales"],
            "opacities": scene["opacities"], "sh": scene["sh"], "sh_degree": 3,
            "view": scene["view"], "view_row_major": True, "intrinsics": intrinsics,
            "width": scene["width"], "height": scene["height"],
            "background": scene["background"]}


def main():
    path = sys.argv[1]
    spec = importlib.util.spec_from_file_location("scenes", path)
    scenes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(scenes)
    print(torch.cuda.get_device_name(0))
    print(f"{'scene':18} {'N':>9} {'pairs':>9} {'forward ms':>10} {'+backward':>10} "
          f"{'MB':>7} {'train MB':>8}")
    for name in sys.argv[2:] or DEFAULT:
        dist, grid, size = name.split(":")
        args = arguments(scenes.scene(int(grid), dist, size))
        wrt = ["means", "opacities", "scales", "rotations", "sh", "means2d"]
        upstream = torch.randn(3, args["height"], args["width"], device="cuda")

        def forward(args=args):
            return gsplat_c.rasterize_forward(outputs=("color", "radii"), **args)

        def both(args=args, upstream=upstream):
            saved = gsplat_c.rasterize_forward(outputs=("color", "radii"), **args)[1]
            return gsplat_c.rasterize_backward(saved, wrt=wrt, grad_color=upstream, **args)

        saved = forward()[1]
        print(f"{name:18} {len(args['means']):9} {saved.pairs:9} {median_ms(forward):10.3f} "
              f"{median_ms(both):10.3f} {peak_mb(forward):7.0f} {peak_mb(both):8.0f}")
        del saved


if __name__ == "__main__":
    main()
