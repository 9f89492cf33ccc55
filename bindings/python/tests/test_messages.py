"""Errors name the function that the user called, and that function's argument."""

import numpy as np
import pytest

import gsplat_c
from scenes import cloud

WRONG = {"scales": np.zeros((40, 4), np.float32)}
IMAGE = np.zeros((1, 3, 16, 16), np.float32)


def changed(**changes):
    return {**cloud(), **changes}


def saved():
    return gsplat_c.rasterize_forward(**cloud())[1]


def group(**changes):
    return {**{name: np.zeros(4, np.float32) for name in (
        "parameter", "gradient", "moment1", "moment2")}, "lr": 0.1, **changes}


class Producer:
    def __dlpack__(self, **options):
        return 3

    def __dlpack_device__(self):
        return 1, 0


# name: (a call, what its message begins with)
CASES = {
    "rasterize": (lambda: gsplat_c.rasterize(**changed(**WRONG)), "rasterize: scales is"),
    "rasterize_forward": (lambda: gsplat_c.rasterize_forward(**changed(**WRONG)),
                          "rasterize_forward: scales is"),
    "rasterize_backward": (lambda: gsplat_c.rasterize_backward(
        saved(), wrt=("means",), grad_color=IMAGE[0], **cloud()), "rasterize_backward: "),
    "mark_visible": (lambda: gsplat_c.mark_visible(means=IMAGE, view=np.eye(4, dtype=np.float32)),
                     "mark_visible: means is"),
    "knn": (lambda: gsplat_c.knn(np.zeros((3, 2), np.float32)), "knn: points is"),
    "k": (lambda: gsplat_c.knn(np.zeros((3, 3), np.float32), k=2.5),
          "knn: k is 2.5, expected an integer"),
    "ssim": (lambda: gsplat_c.ssim(IMAGE, IMAGE[:, :2]), "ssim: target is"),
    "ssim_backward": (lambda: gsplat_c.ssim_backward(IMAGE, IMAGE[:, :2], grad_mean=IMAGE[0, 0, 0]),
                      "ssim_backward: "),
    "image_loss": (lambda: gsplat_c.image_loss(IMAGE, IMAGE[:, :2]), "image_loss: target is"),
    "adam_step": (lambda: gsplat_c.adam_step([group(moment1=np.zeros(3, np.float32))]),
                  r"adam_step: groups\[0\].moment1"),
    "train_step": (lambda: gsplat_c.train_step(target=IMAGE[0], groups={}, **changed(**WRONG)),
                   "train_step: raster.scales is"),
    "limits": (lambda: gsplat_c.limits("gpu"), "limits: device is 'gpu'"),
    "a list of outputs": (lambda: gsplat_c.rasterize(**cloud(), outputs=("depht",)),
                          "rasterize: outputs has 'depht', expected any of color, alpha"),
    "out": (lambda: gsplat_c.rasterize(**cloud(), out={"colour": None}),
            "rasterize: out has 'colour', expected any of color, alpha"),
    "wrt": (lambda: gsplat_c.rasterize_backward(saved(), wrt=("radii",), **cloud()),
            "rasterize_backward: wrt has 'radii', expected any of means"),
    "a number": (lambda: gsplat_c.rasterize(**changed(blur=[0.3])),
                 r"rasterize: blur is \[0.3\], expected a number"),
    "a size": (lambda: gsplat_c.rasterize(**changed(width=64.0)),
               "rasterize: width is 64.0, expected an integer"),
    "a long size": (lambda: gsplat_c.rasterize(**changed(height=1 << 40)),
                    "rasterize: height is 1099511627776, expected an integer of 32 bits"),
    "no names": (lambda: gsplat_c.rasterize(**cloud(), outputs=3),
                 "rasterize: outputs is 3, expected names among color, alpha"),
    "names in names": (lambda: gsplat_c.rasterize_backward(saved(), wrt=[["means"]], **cloud()),
                       r"rasterize_backward: wrt is \[\['means'\]\], expected names among means"),
    "no groups": (lambda: gsplat_c.adam_step(3),
                  "adam_step: groups is int, expected a sequence of mappings"),
    "groups of numbers": (lambda: gsplat_c.adam_step([3]), "adam_step: groups is list, expected"),
    "a window": (lambda: gsplat_c.ssim(IMAGE, IMAGE, window="x", valid=True, outputs="map"),
                 "ssim: window is 'x', expected an integer"),
    "no device": (lambda: gsplat_c.limits(None), "limits: device is None, expected 'cpu'"),
    "a list without numbers": (lambda: gsplat_c.rasterize(**changed(background=[None] * 3)),
                               "rasterize: background has a value that is no float32"),
    "a class": (lambda: gsplat_c.rasterize(**changed(scales=np.float64)),
                "rasterize: scales is type, expected an array"),
    "a producer of something else": (
        lambda: gsplat_c.rasterize(**changed(scales=Producer())),
        r"rasterize: __dlpack__\(\) of scales is int, expected an array"),
    "a stream": (lambda: gsplat_c.ssim(IMAGE, IMAGE, stream="current"),
                 "ssim: stream is 'current', expected an integer"),
    "a limit": (lambda: gsplat_c.rasterize_forward(**cloud(), max_intersections_bytes=1e9),
                "rasterize_forward: max_intersections_bytes is 1000000000.0, expected an integer"),
    "out by name": (lambda: gsplat_c.rasterize(**cloud(), out=IMAGE),
                    "rasterize: out is ndarray, expected arrays by name"),
    "both results of forward": (lambda: gsplat_c.rasterize_backward(
        gsplat_c.rasterize_forward(**cloud()), wrt=("means",), **cloud()),
        "rasterize_backward: saved is tuple, expected the SavedRaster"),
    "groups by name": (lambda: gsplat_c.train_step(target=IMAGE[0], groups=[], **cloud()),
                       "train_step: groups is list, expected groups by parameter"),
    "no array": (lambda: gsplat_c.rasterize(**changed(means="m")), "rasterize: means is str"),
    "the tensor that is float64": (lambda: gsplat_c.rasterize(**changed(
        means=cloud()["means"].astype(np.float64), intrinsics=[30, 30, 20, 14])),
        "rasterize: means is float64, expected float32"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_function_that_was_called(name):
    call, message = CASES[name]
    with pytest.raises(gsplat_c.ArgumentError, match=f"^{message}"):
        call()


@pytest.mark.parametrize("function", ["rasterize", "rasterize_forward"])
def test_no_memory(function, monkeypatch):
    from gsplat_c._numpy import NumpyArrays

    def none(*_):
        raise MemoryError("none today")

    what = {"rasterize": "empty", "rasterize_forward": "bytes"}[function]
    monkeypatch.setattr(NumpyArrays, what, none)
    with pytest.raises(gsplat_c.OutOfMemoryError, match=f"^{function}: no memory for .*none today"):
        getattr(gsplat_c, function)(**cloud())


torch = pytest.importorskip("torch")


def tensors(**changes):
    return {name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
            for name, value in changed(**changes).items()}


def gsplats(**changes):
    args = {"means": torch.zeros(5, 3), "quats": torch.ones(5, 4), "scales": torch.ones(5, 3),
            "opacities": torch.ones(5), "colors": torch.ones(5, 3), "viewmats": torch.eye(4)[None],
            "Ks": torch.eye(3)[None], "width": 16, "height": 16}
    return {**args, **changes}


def recorded(args):
    return {**args, "means": args["means"].clone().requires_grad_()}


def torch_cases():
    import gsplat_c.torch as gt

    image = torch.zeros(1, 3, 16, 16)
    return {
        "rasterize": (lambda: gt.rasterize(**tensors(**WRONG)), "rasterize: scales is"),
        "with a graph": (lambda: gt.rasterize(**recorded(tensors(**WRONG))),
                         "rasterize: scales is"),
        "a constant": (lambda: gt.rasterize(**{
            **tensors(), "intrinsics": torch.ones(4, requires_grad=True)}),
            "rasterize: intrinsics requires grad"),
        "rasterization": (lambda: gt.rasterization(**gsplats(quats=torch.ones(4, 4))),
                          "rasterization: quats is"),
        "rasterization with a graph": (lambda: gt.rasterization(**recorded(gsplats(
            backgrounds=torch.ones(1, 4)))), "rasterization: backgrounds is"),
        "a mode": (lambda: gt.rasterization(**gsplats(render_mode="depth")),
                   "rasterization: render_mode is 'depth'"),
        "ssim": (lambda: gt.ssim(image, image[:, :2]), "ssim: target is"),
        "image_loss": (lambda: gt.ImageLoss()(image, image[:, :2]), "image_loss: target is"),
    }


@pytest.mark.parametrize("name", torch_cases())
def test_functions_of_torch(name):
    call, message = torch_cases()[name]
    with pytest.raises(gsplat_c.ArgumentError, match=f"^{message}"):
        call()


def test_adam_of_torch():
    import gsplat_c.torch as gt

    parameter = torch.zeros(4, requires_grad=True)
    parameter.grad = torch.zeros(4)
    adam = gt.SelectiveAdam([parameter])
    with pytest.raises(gsplat_c.ArgumentError, match="^SelectiveAdam: visible is"):
        adam.step(visible=torch.ones(3, dtype=torch.bool))
