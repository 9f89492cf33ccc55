"""Times the rasterizer on a CUDA device: medians between events, everything included.

    python3 bench/gpu_raster.py [--json] [SCENES.py] [SCENE ..]

SCENE is DIST:GRID:SIZE, for example trained:3:1080p, of a SCENES.py that defines
scene(grid, dist, size) -> dict of tensors; or a trained scene and the number of one of
its cameras, FILE.ply:CAMERAS.json:CAMERA:SIZE.  SIZE is 720p, 1080p or 4k.

gsplat is timed too where it can be imported.  The columns MB are torch's peak beside the
inputs: without gradients, and with backward.
"""

import importlib.util
import math
import sys
from pathlib import Path

import torch
from measure import Table, median_ms, peak_mb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings" / "python"))
import gsplat_c  # noqa: E402
import scene_file  # noqa: E402

try:
    import gsplat
except ImportError:
    gsplat = None

DEFAULT = ["uniform:1:1080p", "trained:3:1080p", "trained:7:1080p", "uniform:5:4k"]
PARAMETERS = ("means", "rotations", "scales", "opacities", "sh")
COLUMNS = {"scene": "<22", "library": "<9", "Gaussians": "9d", "pairs": "9d",
           "forward ms": "10.3f", "+backward ms": "12.3f", "MB": "6.0f", "train MB": "8.0f"}


def sh_degree(scene):
    return math.isqrt(scene["sh"].shape[1]) - 1


class Ours:
    name = "gsplat_c"

    def __init__(self, scene, upstream):
        self.upstream = upstream
        self.args = {name: scene[name] for name in (*PARAMETERS, "view", "width", "height",
                                                    "background")}
        self.args.update(view_row_major=True, sh_degree=sh_degree(scene),
                         intrinsics=torch.tensor(scene["intrinsics"], device="cuda"))

    def forward(self):
        return gsplat_c.rasterize_forward(outputs=("color", "radii"), **self.args)

    def both(self):
        saved = self.forward()[1]
        return gsplat_c.rasterize_backward(saved, wrt=(*PARAMETERS, "means2d"),
                                           grad_color=self.upstream, **self.args)

    def pairs(self):
        return self.forward()[1].pairs


class Gsplat:
    name = "gsplat"

    def __init__(self, scene, upstream):
        fx, fy, cx, cy = scene["intrinsics"]
        self.upstream = upstream.permute(1, 2, 0)[None].contiguous()
        self.inputs = [scene[name].detach().requires_grad_() for name in PARAMETERS]
        self.options = {
            "viewmats": scene["view"][None],
            "Ks": torch.tensor([[[fx, 0, cx], [0, fy, cy], [0, 0, 1]]], device="cuda"),
            "width": scene["width"], "height": scene["height"], "near_plane": 0.2,
            "sh_degree": sh_degree(scene), "backgrounds": scene["background"][None]}

    def image(self):
        means, rotations, scales, opacities, sh = self.inputs
        return gsplat.rasterization(means, rotations, scales, opacities, sh, **self.options)[0]

    def forward(self):
        with torch.no_grad():
            return self.image()

    def both(self):
        return torch.autograd.grad(self.image(), self.inputs, self.upstream)

    def pairs(self):
        return None


def load(name, scenes):
    """(name for the table, scene) of a command line word."""
    parts = name.split(":")
    if parts[0].endswith(".ply"):
        path, cameras, *rest = parts
        index, size = rest[0] if rest else "0", rest[1] if len(rest) > 1 else "1080p"
        return (f"{Path(path).stem}:{index}:{size}",
                scene_file.read(path, cameras, int(index), size))
    if scenes is None:
        raise SystemExit(f"gpu_raster.py: {name} needs a SCENES.py before it")
    dist, grid, size = parts
    return name, scenes.scene(int(grid), dist, size)


def load_module(path):
    spec = importlib.util.spec_from_file_location("scenes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    words = [word for word in sys.argv[1:] if word != "--json"]
    scenes = load_module(words.pop(0)) if words and words[0].endswith(".py") else None
    if not words and scenes is None:
        raise SystemExit(__doc__.split("\n\n")[1].strip())
    if not torch.cuda.is_available():
        raise SystemExit("gpu_raster.py: no CUDA device")
    table = Table(COLUMNS, "--json" in sys.argv)
    for word in words or DEFAULT:
        name, scene = load(word, scenes)
        torch.manual_seed(4)
        upstream = torch.randn(3, scene["height"], scene["width"], device="cuda")
        for library in [Ours, Gsplat] if gsplat else [Ours]:
            run = library(scene, upstream)
            table.add(name, run.name, len(scene["means"]), run.pairs(), median_ms(run.forward),
                      median_ms(run.both), peak_mb(run.forward), peak_mb(run.both))
            del run
    table.close(gsplat_c=gsplat_c.version())


if __name__ == "__main__":
    main()
