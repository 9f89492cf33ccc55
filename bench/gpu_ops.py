"""Times of SSIM, image loss, Adam and nearest neighbours on a GPU.

Medians of device events through the Python package, everything included:

    python bench/gpu_ops.py [ssim|loss|adam|knn ...]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bindings" / "python"))

import torch  # noqa: E402

import gsplat_c  # noqa: E402

WARM_UPS, RUNS = 5, 30


def median(function):
    """Milliseconds of a call, between events around it."""
    for _ in range(WARM_UPS):
        function()
    times = []
    for _ in range(RUNS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[RUNS // 2]


def back_to_back(function, count=20):
    """Milliseconds of a call among many: the device's time, without that of the host."""
    for _ in range(WARM_UPS):
        function()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    begin.record()
    for _ in range(count):
        function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def row(name, function, note=""):
    alone, many = median(function), back_to_back(function)
    print(f"{name:44} {alone:9.4f} ms alone {many:9.4f} ms in a row  {note}", flush=True)


def images(height, width):
    torch.manual_seed(1)
    x = torch.rand(1, 3, height, width, device="cuda")
    return x, (x + 0.1 * torch.randn_like(x)).clamp(0, 1)


def bench_ssim():
    for height, width in ((1080, 1920), (2160, 3840)):
        x, y = images(height, width)
        out = {"image": torch.empty_like(x)}
        mean = torch.empty((), device="cuda")
        grad = torch.ones((), device="cuda")
        size = f"3x{height}x{width}"
        row(f"ssim value {size}", lambda: gsplat_c.ssim(x, y, out={"mean": mean}, outputs=()))
        row(f"ssim gradient {size}",
            lambda: gsplat_c.ssim_backward(x, y, grad_mean=grad, out=out, wrt=()))
        for window in (7, 33):
            row(f"ssim gradient, window {window} {size}",
                lambda: gsplat_c.ssim_backward(x, y, grad_mean=grad, out=out, wrt=(),
                                               window=window))


def bench_loss():
    for height, width in ((1080, 1920), (2160, 3840)):
        x, y = images(height, width)
        loss, grad = torch.empty((), device="cuda"), torch.empty_like(x)
        size = f"3x{height}x{width}"
        mask = torch.rand(height, width, device="cuda")
        as_bytes = (y * 255).to(torch.uint8)
        row(f"loss value {size}", lambda: gsplat_c.image_loss(x, y, out={"loss": loss},
                                                              outputs=()))
        out = {"loss": loss, "grad_image": grad}
        row(f"loss value + gradient {size}", lambda: gsplat_c.image_loss(x, y, out=out,
                                                                         outputs=()))
        row(f"  with a uint8 target {size}",
            lambda: gsplat_c.image_loss(x, as_bytes, out=out, outputs=()))
        row(f"  with a mask {size}",
            lambda: gsplat_c.image_loss(x, y, mask=mask, out=out, outputs=()))
        row(f"  without SSIM {size}",
            lambda: gsplat_c.image_loss(x, y, ssim_weight=0.0, out=out, outputs=()))


def bench_adam():
    shapes = (3,), (1, 3), (15, 3), (1,), (3,), (4,)
    for count in (100_000, 1_000_000, 5_000_000):
        groups = [{**{name: torch.rand(count, *shape, device="cuda")
                      for name in ("parameter", "gradient", "moment1", "moment2")},
                   "lr": 0.01, "step": 10} for shape in shapes]
        elements = sum(group["parameter"].numel() for group in groups)

        def rate(share):
            return f"{28 * elements * share / 1e9:.3f} GB"

        row(f"adam, {count} x 59", lambda: gsplat_c.adam_step(groups), rate(1))
        for share in (0.2, 0.5):
            visible = torch.rand(count, device="cuda") < share
            row(f"adam, {share:.0%} visible, {count} x 59",
                lambda: gsplat_c.adam_step(groups, visible=visible), rate(share))


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


def bench_knn():
    clouds = {"1 M uniform": torch.rand(1_000_000, 3, device="cuda"),
              "1 M garden": garden(1_000_000),
              "10 M garden": garden(10_000_000)}
    for name, points in clouds.items():
        mean2 = torch.empty(len(points), device="cuda")
        row(f"knn, mean2 of 3, {name}",
            lambda: gsplat_c.knn(points, 3, out={"mean2": mean2}, outputs=()))
        for k in (8, 32):
            if len(points) <= 1_000_000:
                row(f"knn, k = {k}, {name}", lambda: gsplat_c.knn(points, k))


def main():
    benches = {"ssim": bench_ssim, "loss": bench_loss, "adam": bench_adam, "knn": bench_knn}
    unknown = [name for name in sys.argv[1:] if name not in benches]
    if unknown:
        raise SystemExit(f"gpu_ops.py: {unknown[0]} is none of {', '.join(benches)}")
    if not torch.cuda.is_available():
        raise SystemExit("gpu_ops.py: no CUDA device")
    print(torch.cuda.get_device_name(), "gsplat_c", gsplat_c.version())
    for name in sys.argv[1:] or benches:
        benches[name]()


if __name__ == "__main__":
    main()
