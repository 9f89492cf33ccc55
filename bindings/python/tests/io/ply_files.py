"""Scenes for tests, and PLY files that say what the tests want them to."""

import numpy as np

from gsplat_c.io import Scene

COLUMNS = ("x y z nx ny nz f_dc_0 f_dc_1 f_dc_2 opacity scale_0 scale_1 scale_2 "
           "rot_0 rot_1 rot_2 rot_3").split()


def make_scene(count=12, degree=1, seed=1):
    random = np.random.default_rng(seed)

    def normal(*shape):
        return random.normal(size=(count, *shape)).astype(np.float32)

    rotations = normal(4)
    rotations /= np.linalg.norm(rotations, axis=1, keepdims=True)
    return Scene(normal(3), normal(3) * np.float32(0.5) - 2, rotations, normal(),
                 normal((degree + 1) ** 2, 3))


def columns_of(scene):
    """{name: values} as 3DGS stores them."""
    rest = scene.sh[:, 1:].transpose(0, 2, 1).reshape(len(scene), -1)
    columns = {}
    for names, values in (("x y z", scene.means), ("nx ny nz", np.zeros((len(scene), 3))),
                          ("f_dc_0 f_dc_1 f_dc_2", scene.sh[:, 0]),
                          (" ".join(f"f_rest_{i}" for i in range(rest.shape[1])), rest),
                          ("opacity", scene.logits[:, None]),
                          ("scale_0 scale_1 scale_2", scene.log_scales),
                          ("rot_0 rot_1 rot_2 rot_3", scene.rotations)):
        columns.update(zip(names.split(), values.T))
    return columns


_TYPES = {"f4": "float", "f8": "double", "u1": "uchar", "u2": "ushort"}


def ply_bytes(columns, form="binary_little_endian", comments=(), end="\n", before=b"", types=None,
              declare=()):
    """A PLY file; before: rows of other elements, which declare has the header's lines of."""
    types, count = types or {}, len(next(iter(columns.values())))
    kinds = [(name, types.get(name, "f4")) for name in columns]
    lines = ["ply", f"format {form} 1.0", *(f"comment {text}" for text in comments), *declare,
             f"element vertex {count}",
             *(f"property {_TYPES[kind]} {name}" for name, kind in kinds), "end_header", ""]
    data = end.join(lines).encode()
    if form == "ascii":
        rows = "\n".join(" ".join(repr(float(value)) for value in row)
                         for row in zip(*columns.values()))
        return data + before + rows.encode()
    order = ">" if form == "binary_big_endian" else "<"
    rows = np.empty(count, [(name, order + kind) for name, kind in kinds])
    for name, values in columns.items():
        rows[name] = values
    return data + before + rows.tobytes()


def assert_same(scene, expected, names=("means", "log_scales", "rotations", "logits", "sh")):
    for name in names:
        np.testing.assert_array_equal(getattr(scene, name), getattr(expected, name), name)
