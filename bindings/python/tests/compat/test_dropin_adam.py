"""SparseGaussianAdam: the step, its state, and what callers do with both."""

import pytest
import torch

BETA1, BETA2 = (torch.tensor(value).item() for value in (0.9, 0.999))  # as float32 has them
EPS = 1e-15


def expected(param, grad, m, v, visible, lr):
    """The update in float64: no bias correction, unseen rows untouched."""
    param, grad, m, v = (tensor.detach().double().cpu() for tensor in (param, grad, m, v))
    rows = visible.cpu().view(-1, *[1] * (param.ndim - 1))
    m_new, v_new = BETA1 * m + (1 - BETA1) * grad, BETA2 * v + (1 - BETA2) * grad**2
    step = lr * m_new / (v_new.sqrt() + EPS)
    return [torch.where(rows, new, old)
            for new, old in ((param - step, param), (m_new, m), (v_new, v))]


@pytest.mark.parametrize("shape", [(30, 3), (30, 15, 3), (30, 1), (30, 0, 3), (0, 3)])
def test_steps(use, device, shape):
    optimizer_class = use("2024-accel").dgr.SparseGaussianAdam
    param = torch.nn.Parameter(torch.randn(shape, device=device))
    optimizer = optimizer_class([{"params": [param], "lr": 0.01, "name": "xyz"}], lr=0.0, eps=EPS)
    visible = torch.rand(shape[0], device=device) > 0.4
    m = v = torch.zeros(shape)
    for _ in range(3):
        param.grad = torch.randn(shape, device=device)
        wanted = expected(param, param.grad, m, v, visible, 0.01)
        assert optimizer.step(visible, shape[0]) is None
        state = optimizer.state[param]
        for got, value in zip((param, state["exp_avg"], state["exp_avg_sq"]), wanted):
            torch.testing.assert_close(got.detach().double().cpu(), value, rtol=1e-5, atol=1e-7)
        _, m, v = wanted
        visible = ~visible


def test_state(use, device):
    optimizer_class = use("taming").dgr.SparseGaussianAdam
    assert issubclass(optimizer_class, torch.optim.Adam)
    assert optimizer_class.__module__ == "diff_gaussian_rasterization"
    param, idle = (torch.nn.Parameter(torch.randn(8, 3, device=device)) for _ in range(2))
    optimizer = optimizer_class([{"params": [param], "lr": 0.1}, {"params": [idle]}], lr=0.0,
                                eps=EPS)
    param.grad = torch.randn_like(param)
    before = param.detach().clone()
    optimizer.step(torch.ones(8, dtype=torch.bool, device=device), 8)
    state = optimizer.state[param]
    assert set(state) == {"step", "exp_avg", "exp_avg_sq"} and idle not in optimizer.state
    assert state["step"].shape == () and state["step"].dtype == torch.float32
    assert state["step"].device.type == "cpu" and state["step"] == 0
    # Without bias correction the first step is sqrt(10) of the usual one.
    torch.testing.assert_close((param - before).abs(), torch.full_like(param, 0.1 * 10**0.5),
                               rtol=1e-4, atol=0)
    restored = optimizer_class([{"params": [param], "lr": 0.1}, {"params": [idle]}], lr=0.0,
                               eps=EPS)
    restored.load_state_dict(optimizer.state_dict())
    assert torch.equal(restored.state[param]["exp_avg"], state["exp_avg"])
    optimizer.zero_grad(set_to_none=True)
    kept = param.detach().clone()
    optimizer.step(torch.ones(8, dtype=torch.bool, device=device), 8)
    assert torch.equal(param, kept)


def test_surgery(use, device):
    """Pruning and densification cut and join the state, and give it another key."""
    optimizer_class = use("2024-accel").dgr.SparseGaussianAdam
    old = torch.nn.Parameter(torch.randn(10, 3, device=device))
    optimizer = optimizer_class([{"params": [old], "lr": 0.01, "name": "xyz"}], lr=0.0, eps=EPS)
    old.grad = torch.randn_like(old)
    optimizer.step(torch.ones(10, dtype=torch.bool, device=device), 10)
    keep = torch.arange(10, device=device) % 3 != 0

    group = optimizer.param_groups[0]
    state = optimizer.state.get(group["params"][0], None)
    extension = torch.randn(4, 3, device=device)
    for name in ("exp_avg", "exp_avg_sq"):
        state[name] = torch.cat((state[name][keep], torch.zeros_like(extension)), dim=0)
    del optimizer.state[group["params"][0]]
    group["params"][0] = torch.nn.Parameter(
        torch.cat((group["params"][0][keep], extension), dim=0).requires_grad_(True))
    optimizer.state[group["params"][0]] = state

    param = group["params"][0]
    param.grad = torch.randn_like(param)
    visible = torch.rand(param.shape[0], device=device) > 0.5
    wanted = expected(param, param.grad, state["exp_avg"], state["exp_avg_sq"], visible, 0.01)
    optimizer.step(visible, param.shape[0])
    torch.testing.assert_close(param.detach().double().cpu(), wanted[0], rtol=1e-5, atol=1e-7)


def test_strided_parameters_are_not_lost(use, device):
    optimizer_class = use("2024-accel").dgr.SparseGaussianAdam
    param = torch.nn.Parameter(torch.randn(3, 12, device=device).t())
    assert not param.is_contiguous()
    param.grad = torch.randn(12, 3, device=device)
    visible = torch.ones(12, dtype=torch.bool, device=device)
    zero = torch.zeros(12, 3)
    wanted = expected(param, param.grad, zero, zero, visible, 0.1)
    optimizer = optimizer_class([{"params": [param], "lr": 0.1}], lr=0.0, eps=EPS)
    optimizer.step(visible, 12)
    torch.testing.assert_close(param.detach().double().cpu(), wanted[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(optimizer.state[param]["exp_avg"].double().cpu(), wanted[1],
                               rtol=1e-5, atol=1e-7)


def test_raw_update(use, device):
    raw = use("taming-rasterizer").raw
    param, grad, m = (torch.randn(9, 5, device=device) for _ in range(3))
    v = torch.rand(9, 5, device=device)
    visible = torch.arange(9, device=device) % 2 == 0
    wanted = expected(param, grad, m, v, visible, 0.3)
    assert raw.adamUpdate(param, grad, m, v, visible, 0.3, BETA1, BETA2, EPS, 9, 5) is None
    for got, value in zip((param, m, v), wanted):
        torch.testing.assert_close(got.double().cpu(), value, rtol=1e-5, atol=1e-6)


def test_groups_are_one_call(use, monkeypatch):
    from gsplat_c import _ops

    calls = []
    monkeypatch.setattr(_ops, "adam_step", lambda groups, visible: calls.append(len(groups)))
    params = [torch.nn.Parameter(torch.randn(6, *shape)) for shape in ((3,), (1, 3), (4,))]
    for param in params:
        param.grad = torch.ones_like(param)
    groups = [{"params": [param], "lr": 0.1} for param in params]
    use("taming").dgr.SparseGaussianAdam(groups, lr=0.0, eps=EPS).step(
        torch.ones(6, dtype=torch.bool), 6)
    assert calls == [3]


def test_refused(use):
    optimizer_class = use("2024-accel").dgr.SparseGaussianAdam
    param, other = (torch.nn.Parameter(torch.randn(6, 2)) for _ in range(2))
    param.grad = torch.ones(6, 2)
    with pytest.raises(TypeError):
        optimizer_class([param])
    together = optimizer_class([param, other], lr=0.1, eps=EPS)
    with pytest.raises(AssertionError, match="more than one tensor in group"):
        together.step(torch.ones(6, dtype=torch.bool), 6)
    optimizer = optimizer_class([param], lr=0.1, eps=EPS)
    kept = param.detach().clone()
    for wrong in (torch.ones(6), torch.ones(6, dtype=torch.int32), torch.arange(6)):
        with pytest.raises(RuntimeError, match="expected torch.bool"):
            optimizer.step(wrong, 6)
    for wrong, count in ((torch.ones(5, dtype=torch.bool), 6),
                         (torch.ones(5, dtype=torch.bool), 5)):
        with pytest.raises(RuntimeError, match="^SparseGaussianAdam: visible has 5"):
            optimizer.step(wrong, count)
    with pytest.raises(TypeError):
        optimizer.step()
    assert torch.equal(param, kept)
