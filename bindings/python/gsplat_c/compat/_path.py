"""What the three distributions on the path call: fills their modules."""

from __future__ import annotations

import sys
import warnings

from ._install import contents
from ._variants import resolve


def provide(name: str) -> None:
    """Fills the module ``name`` that is being imported from a file on the path.

    The variant is what GSPLAT_C_COMPAT says, else the settings of each frame decide.
    Warns if a second distribution claims the same name: pip lets the later one
    overwrite the earlier.
    """
    sys.modules[name].__dict__.update(contents(name, resolve(None)))
    top = name.partition(".")[0]
    claims = _distributions_of(top)
    if len(claims) > 1:
        warnings.warn(f"{top} comes with several distributions: {', '.join(claims)}; uninstall "
                      "all of them and install the one that you want", RuntimeWarning, stacklevel=3)


def _distributions_of(top):
    """Names of the installed distributions that hold a top-level module."""
    import importlib.metadata as metadata

    if not hasattr(metadata, "packages_distributions"):  # Python 3.9
        return []
    return sorted(set(metadata.packages_distributions().get(top, ())))
