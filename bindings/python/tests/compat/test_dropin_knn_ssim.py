"""simple_knn and fused_ssim beside what is recorded: few points, paddings, volumes."""

import pytest
import torch
import torch.nn.functional as functional


def test_few_points(use, device):
    distances = use(None).knn.distCUDA2
    points = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], device=device)
    wanted = torch.tensor([14 / 3, (1 + 5 + 10) / 3, (4 + 5 + 13) / 3, (9 + 10 + 13) / 3])
    torch.testing.assert_close(distances(points).cpu(), wanted)
    three = distances(points[:3])
    assert torch.isfinite(three).all() and (three > 1e38).all() and (three < 1.2e38).all()
    assert torch.isinf(distances(points[:2])).all() and torch.isinf(distances(points[:1])).all()
    assert distances(points[:0]).shape == (0,)


def test_duplicates_strides_and_gradients(use, device):
    distances = use(None).knn.distCUDA2
    points = torch.rand(50, 3, device=device)
    assert (distances(points.repeat(4, 1)) == 0).all()
    strided = points.t().contiguous().t().requires_grad_()
    got = distances(strided)
    assert torch.equal(got, distances(points)) and not got.requires_grad


def test_wrong_points(use):
    distances = use(None).knn.distCUDA2
    with pytest.raises(RuntimeError, match="distCUDA2: points has dtype torch.float64, expected "
                                           "scalar type Float"):
        distances(torch.rand(5, 3).double())
    with pytest.raises(ValueError):
        distances(torch.rand(5, 2))
    with pytest.raises(TypeError):
        distances([[0.0, 0, 0]])


def window(taps=11, sigma=1.5):
    x = torch.arange(taps, dtype=torch.float64) - taps // 2
    weights = torch.exp(-(x**2) / (2 * sigma**2))
    return weights / weights.sum()


def reference(one, two, padding):
    """Mean SSIM in float64, of images or volumes, by torch's convolution."""
    dimensions = one.ndim - 2
    one, two = (x.double().reshape(-1, 1, *x.shape[2:]) for x in (one, two))
    kernel = window()
    full = kernel
    for _ in range(dimensions - 1):
        full = full[..., None] * kernel
    convolve = functional.conv2d if dimensions == 2 else functional.conv3d

    def blur(x):
        return convolve(x, full[None, None], padding=5)

    m1, m2 = blur(one), blur(two)
    s1, s2, s12 = blur(one**2) - m1**2, blur(two**2) - m2**2, blur(one * two) - m1 * m2
    found = ((2 * m1 * m2 + 0.01**2) * (2 * s12 + 0.03**2)) / (
        (m1**2 + m2**2 + 0.01**2) * (s1 + s2 + 0.03**2))
    if padding == "valid":
        found = found[(..., *[slice(5, -5)] * dimensions)]
    return found.mean()


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("shape", [(1, 3, 20, 33), (2, 1, 11, 12), (1, 2, 12, 13, 14)])
def test_value_and_gradient(use, device, padding, shape):
    ssim = use(None).ssim
    function = ssim.fused_ssim if len(shape) == 4 else ssim.fused_ssim3d
    one = torch.rand(shape, device=device, requires_grad=True)
    two = torch.rand(shape, device=device, requires_grad=True)
    value = function(one, two, padding=padding)
    value.backward()
    assert two.grad is None
    exact = one.detach().cpu().double().requires_grad_()
    wanted = reference(exact, two.detach().cpu(), padding)
    wanted.backward()
    assert value.shape == () and abs(value.item() - wanted.item()) < 1e-5
    torch.testing.assert_close(one.grad.double().cpu(), exact.grad, rtol=1e-3, atol=1e-7)


def test_train_is_only_a_hint(use, device):
    ssim = use(None).ssim
    one, two = (torch.rand(1, 3, 15, 15, device=device) for _ in range(2))
    with torch.no_grad():
        value = ssim.fused_ssim(one, two, train=False)
    assert torch.equal(value, ssim.fused_ssim(one, two)) and value.mean().double() == value
    assert ssim.fused_ssim(one, one).item() == pytest.approx(1, abs=1e-6)


def test_strided_images(use, device):
    ssim = use(None).ssim
    one = torch.rand(1, 20, 15, 3, device=device).permute(0, 3, 1, 2).requires_grad_()
    two = torch.rand(1, 3, 20, 15, device=device)
    value = ssim.fused_ssim(one, two)
    torch.testing.assert_close(value, ssim.fused_ssim(one.contiguous(), two))
    value.backward()
    assert one.grad.shape == one.shape


def test_images_without_a_window(use):
    """An empty map has no mean."""
    ssim = use(None).ssim
    one = torch.rand(1, 3, 10, 40, requires_grad=True)
    two = torch.rand(1, 3, 10, 40)
    value = ssim.fused_ssim(one, two, padding="valid")
    assert torch.isnan(value)
    assert ssim.FusedSSIMMap.apply(0.01**2, 0.03**2, one, two, "valid").shape == (1, 3, 0, 30)
    assert torch.isfinite(ssim.fused_ssim(one, two))


def test_refused(use):
    ssim, image = use(None).ssim, torch.rand(1, 3, 12, 12)
    with pytest.raises(AssertionError):
        ssim.fused_ssim(image, image, padding="full")
    for wrong in (image.double(), image.half()):
        with pytest.raises(RuntimeError, match="expected scalar type Float"):
            ssim.fused_ssim(wrong, wrong)
    with pytest.raises(ValueError):
        ssim.fused_ssim(image[0, 0], image[0, 0])
    with pytest.raises(ValueError):
        ssim.fused_ssim(image, torch.rand(1, 3, 12, 13))
    with pytest.raises(ValueError):
        ssim.fused_ssim3d(image, image)


def test_volumes_below_the_python_layer(use):
    modules = use(None)
    one, two = torch.rand(1, 2, 12, 11, 13, requires_grad=True), torch.rand(1, 2, 12, 11, 13)
    found, *parts = modules.ssim_raw.fusedssim3d(0.01**2, 0.03**2, one, two, True)
    assert found.shape == one.shape and not found.requires_grad and len(parts) == 3
    wanted = modules.ssim.FusedSSIMMap.apply(0.01**2, 0.03**2, one, two, "same", True, 3)
    by_map = torch.rand_like(found)
    wanted.backward(by_map)
    got = modules.ssim_raw.fusedssim_backward3d(0.01**2, 0.03**2, one, two, by_map, *parts)
    torch.testing.assert_close(found, wanted.detach())
    torch.testing.assert_close(got, one.grad)
