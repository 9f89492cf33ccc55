"""Reads and writes scenes in the PLY layout of 3D Gaussian splatting, with numpy.

A scene is a dictionary of float32 arrays, before activation as the file has them:
means [N, 3], log_scales [N, 3], rotations [N, 4] (w x y z), logits [N] (of the opacity)
and sh [N, K, 3].
"""

import numpy as np

_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}
_FIELDS = {
    "means": ("x", "y", "z"),
    "log_scales": ("scale_0", "scale_1", "scale_2"),
    "rotations": ("rot_0", "rot_1", "rot_2", "rot_3"),
    "logits": ("opacity",),
    "dc": ("f_dc_0", "f_dc_1", "f_dc_2"),
}


def _read_header(file, path):
    """(dtype of a vertex, number of vertices); leaves the file at the first vertex."""
    if file.readline().strip() != b"ply":
        raise ValueError(f"{path}: not a PLY file")
    order, count, columns = None, None, []
    for line in iter(file.readline, b""):
        words = line.decode("ascii", "replace").split()
        if words[:1] == ["end_header"]:
            break
        if words[:1] == ["format"]:
            order = {"binary_little_endian": "<", "binary_big_endian": ">"}.get(words[1])
        elif words[:1] == ["element"]:
            if words[1] != "vertex" or count is not None:
                raise ValueError(f"{path}: has elements other than 'vertex'")
            count = int(words[2])
        elif words[:1] == ["property"]:
            if len(words) != 3 or words[1] not in _TYPES:
                raise ValueError(f"{path}: {line!r} is not a number's property")
            columns.append((words[2], _TYPES[words[1]]))
    if order is None or count is None:
        raise ValueError(f"{path}: not a binary PLY file with vertices")
    return np.dtype([(name, order + kind) for name, kind in columns]), count


def read(path):
    """Reads the scene of a binary PLY file."""
    with open(path, "rb") as file:
        dtype, count = _read_header(file, path)
        rows = np.frombuffer(file.read(count * dtype.itemsize), dtype, count)
    absent = [name for names in _FIELDS.values() for name in names if name not in dtype.names]
    if absent:
        raise ValueError(f"{path}: not a Gaussian scene, it has no property {absent[0]!r}")

    def table(names):
        return np.stack([rows[name].astype(np.float32) for name in names], axis=-1)

    scene = {field: table(names) for field, names in _FIELDS.items()}
    scene["logits"] = scene["logits"][:, 0]
    scene["sh"] = scene.pop("dc")[:, None]
    rest = sum(name.startswith("f_rest_") for name in dtype.names)
    if rest:  # channel by channel in the file
        higher = table([f"f_rest_{i}" for i in range(rest)]).reshape(count, 3, rest // 3)
        scene["sh"] = np.concatenate([scene["sh"], higher.transpose(0, 2, 1)], axis=1)
    return {name: np.ascontiguousarray(values) for name, values in scene.items()}


def write(path, scene):
    """Writes a scene as a binary little-endian PLY file; some viewers expect its normals, zeros."""
    count, stored = scene["sh"].shape[:2]
    higher = scene["sh"][:, 1:].transpose(0, 2, 1).reshape(count, 3 * stored - 3)
    columns = [scene["means"], np.zeros((count, 3), np.float32), scene["sh"][:, 0], higher,
               scene["logits"][:, None], scene["log_scales"], scene["rotations"]]
    names = [*_FIELDS["means"], "nx", "ny", "nz", *_FIELDS["dc"],
             *(f"f_rest_{i}" for i in range(3 * stored - 3)),
             *_FIELDS["logits"], *_FIELDS["log_scales"], *_FIELDS["rotations"]]
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {count}",
              *(f"property float {name}" for name in names), "end_header", ""]
    with open(path, "wb") as file:
        file.write("\n".join(header).encode("ascii"))
        file.write(np.concatenate(columns, axis=1).astype("<f4").tobytes())
