"""A torch.nn.Module that costs next to nothing to make."""

from __future__ import annotations

import torch

# Dictionaries of hooks for all modules.
_GLOBAL_HOOKS = [value for name, value in vars(torch.nn.modules.module).items()
                 if name.startswith("_global_") and isinstance(value, dict)]


class LazyModule(torch.nn.Module):
    """A module that makes what nn.Module keeps, fifteen containers, when somebody asks for it.

    Training code makes a rasterizer for each frame, calls it and drops it; the containers alone
    would take a third of the host's time for a frame.  Classes set their attributes in __dict__.
    """

    def __init__(self):  # not that of nn.Module
        pass

    def __getattr__(self, name):
        if "_modules" in self.__dict__:
            return super().__getattr__(name)
        self.__dict__.update(vars(torch.nn.Module()))
        return getattr(self, name)

    def __setattr__(self, name, value):
        self._modules  # noqa: B018  is there from now on
        super().__setattr__(name, value)

    def __call__(self, *args, **kwargs):
        try:
            if "_modules" in self.__dict__ or any(_GLOBAL_HOOKS):
                return super().__call__(*args, **kwargs)
            return self.forward(*args, **kwargs)
        except TypeError:
            self.explain(kwargs)
            raise

    def explain(self, kwargs):
        """May raise a better error than the TypeError of a call with these keywords."""
