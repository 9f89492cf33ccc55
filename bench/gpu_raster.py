"""Times the rasterizer on a CUDA device: medians between events, everything included.

    python3 bench/gpu_raster.py [--json] [SCENES.py] [SCENE ..]

SCENE is DIST:GRID:SIZE, for example trained:3:1080p, of a SCENES.py that defines
scene(grid, dist, size) -> dict of tensors; or a trained scene and the number of one of
its cameras, FILE.ply:CAMERAS.json:CAMERA:SIZE.  SIZE is 720p, 1080p or 4k.

gsplat and the diff_gaussian_rasterization that is installed are timed too, taking turns.
Forward keeps nothing for a backward pass.  The columns MB are torch's peak beside the
inputs: without gradients, and with backward.
"""

import importlib.util
import inspect
import math
import sys
from pathlib import Path

import torch

from measure import Table, alternating_ms, optional, peak_mb

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings" / "python"))
import gsplat_c
import scene_file

gsplat = optional("gsplat")
original = optional("diff_gaussian_rasterization")

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
        return gsplat_c.rasterize(outputs=("color", "radii"), **self.args)

    def forward_for_backward(self):
        return gsplat_c.rasterize_forward(outputs=("color", "radii"), **self.args)

    def both(self):
        saved = self.forward_for_backward()[1]
        return gsplat_c.rasterize_backward(saved, wrt=(*PARAMETERS, "means2d"),
                                           grad_color=self.upstream, **self.args)

    def pairs(self):
        return self.forward_for_backward()[1].pairs

    def sizes(self):
        """The variables of the formulas in stages.py."""
        (_, radii), saved = self.forward_for_backward()
        width, height = self.args["width"], self.args["height"]
        weights = torch.ones(height, width, device=radii.device)
        blended = gsplat_c.rasterize(outputs=("color", "weight_count"), pixel_weights=weights,
                                     **self.args).weight_count
        return {"n": len(self.args["means"]), "k": self.args["sh"].shape[1],
                "v": int((radii > 0).sum()), "m": saved.pairs, "p": width * height,
                "a": int(blended.sum(dtype=torch.int64))}


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


class Original(Gsplat):
    """diff_gaussian_rasterization, in a version that takes these arguments."""

    name = "original"

    def __init__(self, scene, upstream):
        fx, fy, cx, cy = scene["intrinsics"]
        width, height, view = scene["width"], scene["height"], scene["view"]
        near, far = 0.01, 100.0
        projection = view.new_tensor(
            [[2 * fx / width, 0, 2 * cx / width - 1, 0],
             [0, 2 * fy / height, 2 * cy / height - 1, 0],
             [0, 0, far / (far - near), -far * near / (far - near)], [0, 0, 1, 0]])
        values = {
            "image_height": height, "image_width": width, "tanfovx": width / (2 * fx),
            "tanfovy": height / (2 * fy), "bg": scene["background"], "scale_modifier": 1.0,
            "viewmatrix": view.T.contiguous(), "projmatrix": (projection @ view).T.contiguous(),
            "sh_degree": sh_degree(scene), "campos": torch.linalg.inv(view)[:3, 3].contiguous(),
            "prefiltered": False, "debug": False, "antialiasing": False,
            "pixel_weights": view.new_ones(height, width)}
        settings = original.GaussianRasterizationSettings
        self.upstream = upstream
        self.inputs = [scene[name].detach().requires_grad_() for name in PARAMETERS]
        self.means2d = torch.zeros_like(scene["means"], requires_grad=True)
        self.rasterizer = original.GaussianRasterizer(
            settings(**{name: values[name] for name in settings._fields if name in values}))
        self.coefficients = ("shs",)
        if "dc" in inspect.signature(self.rasterizer.forward).parameters:
            sh = scene["sh"]
            self.coefficients = ("dc", "shs")
            self.inputs[4:] = [sh[:, :1].contiguous().requires_grad_(),
                               sh[:, 1:].contiguous().requires_grad_()]

    def image(self):
        means, rotations, scales, opacities, *sh = self.inputs
        return self.rasterizer(means3D=means, means2D=self.means2d, opacities=opacities[:, None],
                               scales=scales, rotations=rotations,
                               **dict(zip(self.coefficients, sh)))[0]


def runs(scene):
    """The libraries that can rasterize a scene, this one first."""
    torch.manual_seed(4)
    upstream = torch.randn(3, scene["height"], scene["width"], device=scene["means"].device)
    found = [Ours(scene, upstream)]
    for library, module in ((Gsplat, gsplat), (Original, original)):
        if not module:
            continue
        try:
            run = library(scene, upstream)
            run.both()
        except Exception as error:  # whatever another library's version does not take
            print(f"{library.name} is left out: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            found.append(run)
    return found


def load(name, scenes):
    """(name in the table, scene) of a command line argument."""
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


def asked_for(usage):
    """(name, scene) for each argument, one at a time; usage: the caller's docstring."""
    words = [word for word in sys.argv[1:] if word != "--json"]
    scenes = load_module(words.pop(0)) if words and words[0].endswith(".py") else None
    if not words and scenes is None:
        raise SystemExit(usage.split("\n\n")[1].strip())
    if not torch.cuda.is_available():
        raise SystemExit(f"{Path(sys.argv[0]).name}: no CUDA device")
    return (load(word, scenes) for word in words or DEFAULT)


def main():
    asked = asked_for(__doc__)
    table = Table(COLUMNS, "--json" in sys.argv)
    for name, scene in asked:
        found = runs(scene)
        forward = alternating_ms({run.name: run.forward for run in found})
        both = alternating_ms({run.name: run.both for run in found})
        for run in found:
            table.add(name, run.name, len(scene["means"]), run.pairs(), forward[run.name],
                      both[run.name], peak_mb(run.forward), peak_mb(run.both))
        del found, run
    table.close(gsplat_c=gsplat_c.version())


if __name__ == "__main__":
    main()
