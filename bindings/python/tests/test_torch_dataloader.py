"""A torch DataLoader whose workers, processes that were forked, use the library too."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gsplat_c  # noqa: E402
import gsplat_c.torch as gt  # noqa: E402
from scenes import arrays_of, cloud  # noqa: E402

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here"),
    pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*DataLoader will create.*:UserWarning"),
]


class Pictures(torch.utils.data.Dataset):
    """Item n: a picture, its gradient by the colours, and the process that made them."""

    def __len__(self):
        return 12

    def __getitem__(self, n):
        args = arrays_of(cloud(count=400, seed=n), lambda a: torch.from_numpy(a.copy()))
        colors = args["colors"].requires_grad_()
        color = gt.rasterize(**args).color
        color.square().sum().backward()
        with pytest.raises(ValueError, match="means"):
            gsplat_c.rasterize(**{**cloud(), "means": np.zeros((2, 2), np.float32)})
        return color.detach(), colors.grad, os.getpid()


def test_workers_draw_the_same():
    data = Pictures()
    expected = [data[n] for n in range(len(data))]  # starts the parent's threads
    loader = torch.utils.data.DataLoader(data, batch_size=3, num_workers=2, timeout=60,
                                         multiprocessing_context="fork", persistent_workers=True)
    for _ in range(2):
        processes, at = set(), 0
        for color, gradient, process in loader:
            for row in range(len(color)):
                assert torch.equal(color[row], expected[at][0])
                assert torch.equal(gradient[row], expected[at][1])
                at += 1
            processes |= set(process.tolist())
            # The parent goes on beside its workers.
            assert torch.equal(data[at - 1][0], expected[at - 1][0])
        assert at == len(data)
        assert len(processes) == 2 and os.getpid() not in processes
