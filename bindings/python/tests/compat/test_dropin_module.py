"""GaussianRasterizer is a torch.nn.Module, though what that keeps is made only when asked for."""

import copy
import pickle

import pytest
import torch
from frames import Camera, arguments, gaussians


@pytest.fixture(params=["2023", "auto"])
def module(request, use):
    dgr = use(request.param).dgr
    settings = dgr.GaussianRasterizationSettings(**Camera().settings("2023"))
    return dgr.GaussianRasterizer(raster_settings=settings)


def draw(module):
    return module(**arguments(gaussians(), False))[0]


def test_a_module_that_is_only_called_keeps_its_settings_alone(module):
    draw(module)
    assert list(vars(module)) == ["raster_settings"]


@pytest.mark.parametrize("ask", [
    lambda m: m.training is True,
    lambda m: list(m.parameters()) == [] and m.state_dict() == {},
    lambda m: m.eval() is m and m.training is False,
    lambda m: repr(m) == "GaussianRasterizer()",
    lambda m: torch.nn.Sequential(m).float()[0] is m,
    lambda m: not hasattr(m, "nothing"),
])
def test_it_is_one_when_asked(module, ask):
    expected = draw(module)
    assert ask(module)
    assert torch.equal(draw(module), expected)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy,
                                    lambda module: pickle.loads(pickle.dumps(module))])
def test_copies(module, copied):
    assert torch.equal(draw(copied(module)), draw(module))


def test_attributes(module):
    module.weight = torch.nn.Parameter(torch.zeros(2))
    module.inner = torch.nn.Linear(2, 2)
    module.number = 3
    assert len(list(module.parameters())) == 3 and module.number == 3
    with pytest.raises(AttributeError, match="'GaussianRasterizer' object has no attribute"):
        module.nothing


def test_hooks(module):
    calls = []
    removes = torch.nn.modules.module.register_module_forward_hook(
        lambda *_: calls.append("of all"))
    try:
        draw(module)
    finally:
        removes.remove()
    module.register_forward_hook(lambda *_: calls.append("its own"))
    draw(module)
    assert calls == ["of all", "its own"]


def test_a_class_of_the_callers(module):
    class Larger(type(module)):
        def __init__(self, settings):
            super().__init__(settings)
            self.bias = torch.nn.Parameter(torch.ones(3, 1, 1))

        def forward(self, **inputs):
            return super().forward(**inputs)[0] + self.bias

    larger = Larger(module.raster_settings)
    assert torch.equal(larger(**arguments(gaussians(), False)), draw(module) + 1)


def test_the_node_may_be_called(module, use):
    dgr = use("2023").dgr
    leaves = gaussians()
    inputs = arguments(leaves, False)
    image, radii = dgr._RasterizeGaussians.apply(
        inputs["means3D"], inputs["means2D"], inputs["shs"], None, inputs["opacities"],
        inputs["scales"], inputs["rotations"], None, module.raster_settings)
    assert torch.equal(image, draw(module)) and not radii.requires_grad
    image.sum().backward()
    assert leaves["means"].grad.abs().sum() > 0
