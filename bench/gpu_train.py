"""Times a training step on a CUDA device: L1 + SSIM loss and Adam for the visible rows.

    python3 bench/gpu_train.py [--json] [SCENES.py] [SCENE ..]

Scenes are those of gpu_raster.py, stored as training does: logarithms, logits, the first
coefficient apart.  The step is timed as one call, as the four calls that it stands for, and
as torch code: activations, gsplat_c.torch and SelectiveAdam.
"""

import sys

import torch

import gsplat_c
import gsplat_c.torch
from gpu_raster import asked_for, sh_degree
from measure import Table, median_ms, row_ms

COLUMNS = {"scene": "<22", "step": "<11", "Gaussians": "9d", "seen": "9d", "ms": "8.3f",
           "back to back": "8.3f"}
RATE = 1e-9  # so that the scene stays as it is


class Scene:
    def __init__(self, scene):
        sh = scene["sh"]
        opacities = scene["opacities"].clamp(1e-6, 1 - 1e-6)
        self.values = {"means": scene["means"], "scales": scene["scales"].log(),
                       "opacities": opacities.logit(), "rotations": scene["rotations"],
                       "sh_dc": sh[:, :1].contiguous(), "sh": sh[:, 1:].contiguous()}
        self.camera = {"view": scene["view"].cpu(), "view_row_major": True,
                       "intrinsics": list(scene["intrinsics"]), "sh_degree": sh_degree(scene),
                       "width": scene["width"], "height": scene["height"]}
        size = (3, scene["height"], scene["width"])
        self.target = (torch.rand(size, device="cuda") * 255).byte()
        self.groups = {name: {"moment1": torch.zeros_like(value),
                              "moment2": torch.zeros_like(value), "lr": RATE}
                       for name, value in self.values.items()}
        self.stored = {**self.values, **self.camera, "log_scales": True, "logit_opacities": True}
        self.parameters = [torch.nn.Parameter(value.clone()) for value in self.values.values()]
        self.optimizer = gsplat_c.torch.SelectiveAdam(
            [{"params": [value]} for value in self.parameters], lr=RATE)

    def seen(self):
        radii = gsplat_c.rasterize(outputs=("color", "radii"), **self.stored).radii
        return int((radii > 0).sum())

    def one_call(self):
        return gsplat_c.train_step(target=self.target, groups=self.groups, **self.stored)

    def four_calls(self):
        outputs, saved = gsplat_c.rasterize_forward(outputs=("color", "radii"), **self.stored)
        loss = gsplat_c.image_loss(outputs.color[None], self.target[None],
                                   outputs=("loss", "grad_image"))
        grads = gsplat_c.rasterize_backward(saved, wrt=tuple(self.values),
                                            grad_color=loss.grad_image[0], **self.stored)
        gsplat_c.adam_step([{"parameter": self.values[name], "gradient": getattr(grads, name),
                             **group} for name, group in self.groups.items()],
                           visible=outputs.radii)

    def torch_code(self):
        args = dict(zip(self.values, self.parameters))
        args["scales"], args["opacities"] = args["scales"].exp(), args["opacities"].sigmoid()
        drawn = gsplat_c.torch.rasterize(outputs=("color", "radii"), **args, **self.camera)
        gsplat_c.torch.image_loss(drawn.color[None], self.target[None]).backward()
        self.optimizer.step(visible=drawn.radii > 0)
        self.optimizer.zero_grad(set_to_none=True)


def main():
    asked = asked_for(__doc__)
    table = Table(COLUMNS, "--json" in sys.argv)
    for name, arrays in asked:
        scene = Scene(arrays)
        seen = scene.seen()
        for step in (scene.one_call, scene.four_calls, scene.torch_code):
            table.add(name, step.__name__.replace("_", " "), len(arrays["means"]), seen,
                      median_ms(step), row_ms(step))
        del scene, arrays
    table.close(gsplat_c=gsplat_c.version())


if __name__ == "__main__":
    main()
