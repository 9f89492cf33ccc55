"""Times nearest neighbours, SSIM, the image loss and Adam on a CUDA device.

    python3 bench/gpu_ops.py [--json] [knn] [ssim] [loss] [adam]

Through the Python package with everything included: the median of single calls between
events, and the time of a call among many.  simple_knn, fused_ssim and torch's fused Adam
are timed on the same values where they can be imported.
"""

import sys
from pathlib import Path

import torch

from measure import Table, alternating_ms, optional, row_ms

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings" / "python"))
import gsplat_c

COLUMNS = {"operation": "<34", "of": "<16", "library": "<11", "alone ms": "9.3f",
           "back to back ms": "12.3f"}
SIZES = ((1080, 1920), (2160, 3840))
ADAM_SHAPES = ((3,), (1, 3), (15, 3), (1,), (3,), (4,))  # 59 floats


def time_into(table):
    """Times the work of a benchmark and adds a row for each library.

    others: {library: call} of the same work; sizes: those of the stages' formulas.
    """
    def add(operation, of, call, others=None, count=20, sizes=None):
        calls = {"gsplat_c": call, **(others or {})}
        times = alternating_ms(calls, runs=count)
        for library, call in calls.items():
            table.add(operation, of, library, times[library], row_ms(call, count))
    return add


def garden(count):
    """A dense middle, a ground, and a far background: 80, 15 and 5 percent."""
    torch.manual_seed(3)
    middle = torch.randn(int(count * 0.8), 3, device="cuda")
    ground = torch.randn(int(count * 0.15), 3, device="cuda") * torch.tensor(
        [10.0, 0.1, 10.0], device="cuda")
    rest = count - len(middle) - len(ground)
    far = torch.randn(rest, 3, device="cuda")
    far = far / far.norm(dim=1, keepdim=True) * (30 + 200 * torch.rand(rest, 1, device="cuda"))
    return torch.cat([middle, ground, far])[torch.randperm(count, device="cuda")].contiguous()


def bench_knn(add):
    simple_knn = optional("simple_knn._C")
    clouds = {"1 M uniform": lambda: torch.rand(1_000_000, 3, device="cuda"),
              "1 M garden": lambda: garden(1_000_000),
              "10 M uniform": lambda: torch.rand(10_000_000, 3, device="cuda"),
              "10 M garden": lambda: garden(10_000_000)}
    for name, make in clouds.items():
        points = make()
        out = {"mean2": torch.empty(len(points), device="cuda")}
        others = {"simple_knn": lambda: simple_knn.distCUDA2(points)} if simple_knn else {}
        add("mean of 3 nearest neighbours", name,
            lambda: gsplat_c.knn(points, 3, out=out, outputs=()), others, 5 if others else 20,
            sizes={"c": len(points)})
        if len(points) <= 1_000_000:
            for k in (8, 32):
                add(f"{k} nearest neighbours", name, lambda: gsplat_c.knn(points, k))


def images(height, width):
    torch.manual_seed(1)
    x = torch.rand(1, 3, height, width, device="cuda")
    return x, (x + 0.1 * torch.randn_like(x)).clamp(0, 1)


def bench_ssim(add):
    fused = optional("fused_ssim")
    for height, width in SIZES:
        x, y = images(height, width)
        of = f"3x{height}x{width}"
        mean, grad = torch.empty((), device="cuda"), torch.ones((), device="cuda")
        out = {"grad_image": torch.empty_like(x)}

        def value():
            return gsplat_c.ssim(x, y, out={"mean": mean}, outputs=())

        def gradient(**options):
            return gsplat_c.ssim_backward(x, y, grad_mean=grad, out={"image": out["grad_image"]},
                                          wrt=(), **options)

        def loss():
            return gsplat_c.image_loss(x, y, l1_weight=0.0, ssim_weight=1.0,
                                       out={"loss": mean, **out}, outputs=())

        leaf = x.clone().requires_grad_()
        values = {"fused_ssim": lambda: fused.fused_ssim(x, y, train=False)} if fused else {}
        grads = {"fused_ssim": lambda: torch.autograd.grad(fused.fused_ssim(leaf, y), leaf)
                 } if fused else {}
        sizes = {"e": x.numel(), "w": 11}
        add("SSIM value", of, value, values, sizes=sizes)
        add("SSIM gradient", of, gradient)
        add("SSIM value + gradient", of, loss, grads, sizes=sizes)
        for window in (7, 33):
            add(f"SSIM gradient, window {window}", of, lambda: gradient(window=window))


def bench_loss(add):
    for height, width in SIZES:
        x, y = images(height, width)
        of = f"3x{height}x{width}"
        out = {"loss": torch.empty((), device="cuda"), "grad_image": torch.empty_like(x)}
        mask = torch.rand(height, width, device="cuda")
        as_bytes = (y * 255).to(torch.uint8)

        def loss(target, **options):
            return gsplat_c.image_loss(x, target, out=out, outputs=(), **options)

        add("L1 + SSIM loss", of,
            lambda: gsplat_c.image_loss(x, y, out={"loss": out["loss"]}, outputs=()))
        add("L1 + SSIM loss + gradient", of, lambda: loss(y), sizes={"e": x.numel(), "w": 11})
        add("the same, uint8 target", of, lambda: loss(as_bytes))
        add("the same, with a mask", of, lambda: loss(y, mask=mask))
        add("L1 loss + gradient", of, lambda: loss(y, ssim_weight=0.0))


def bench_adam(add):
    for count in (100_000, 1_000_000, 5_000_000):
        of = f"{count / 1e6:g} M x 59"
        groups = [{**{name: torch.rand(count, *shape, device="cuda")
                      for name in ("parameter", "gradient", "moment1", "moment2")},
                   "lr": 0.01, "step": 10} for shape in ADAM_SHAPES]
        places = torch.arange(count, device="cuda")
        rows = {"20% of the rows visible": torch.rand(count, device="cuda") < 0.2,
                "50% of the rows visible": torch.rand(count, device="cuda") < 0.5,
                # As for a camera in a scene where neighbours are stored side by side.
                "20% of the rows, in runs": places // (count // 50) % 5 == 0}
        for name, visible in rows.items():
            add(f"Adam, {name}", of, lambda: gsplat_c.adam_step(groups, visible=visible),
                sizes={"u": 59 * int(visible.sum()), "r": count})
        leaves = [group["parameter"].requires_grad_() for group in groups]
        for leaf, group in zip(leaves, groups):
            leaf.grad = group["gradient"]
        optimizer = torch.optim.Adam(leaves, lr=0.01, fused=True)
        inputs = [{**group, "parameter": group["parameter"].detach()} for group in groups]
        add("Adam", of, lambda: gsplat_c.adam_step(inputs), {"torch fused": optimizer.step},
            sizes={"u": 59 * count})


BENCHES = {"knn": bench_knn, "ssim": bench_ssim, "loss": bench_loss, "adam": bench_adam}


def main():
    words = [word for word in sys.argv[1:] if word != "--json"]
    unknown = [word for word in words if word not in BENCHES]
    if unknown:
        raise SystemExit(f"gpu_ops.py: {unknown[0]} is none of {', '.join(BENCHES)}")
    if not torch.cuda.is_available():
        raise SystemExit("gpu_ops.py: no CUDA device")
    table = Table(COLUMNS, "--json" in sys.argv)
    for word in words or BENCHES:
        BENCHES[word](time_into(table))
    table.close(gsplat_c=gsplat_c.version())


if __name__ == "__main__":
    main()
