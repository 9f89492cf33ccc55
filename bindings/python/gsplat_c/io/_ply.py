"""PLY files: a text header names elements and their properties, then follow their rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ._messages import at

_LONGEST_HEADER = 1 << 20
_FORMATS = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
_TYPES = {
    "char": "i1", "int8": "i1", "uchar": "u1", "uint8": "u1", "short": "i2", "int16": "i2",
    "ushort": "u2", "uint16": "u2", "int": "i4", "int32": "i4", "uint": "u4", "uint32": "u4",
    "float": "f4", "float32": "f4", "double": "f8", "float64": "f8",
}
# What the first bytes of other files of Gaussians say they are.
_OTHERS = {b"NGSP": "SPZ", b"\x1f\x8b": "SPZ", b"glTF": "glTF", b"PK\3\4": "SOG",
           b"\0\1": ".ksplat"}


class Property(NamedTuple):
    name: str
    kind: str  # of the value, or of a list's items
    length_kind: str | None  # of a list's length


class Element(NamedTuple):
    name: str
    rows: int
    properties: list[Property]

    def row_bytes(self, order):
        """The fewest bytes that a row takes; in text a digit and a separator for each value."""
        if not order:
            return 2 * len(self.properties)
        return sum(int((item.length_kind or item.kind)[1]) for item in self.properties)


class Table(NamedTuple):
    rows: int
    columns: dict[str, np.ndarray]
    comments: list[str]
    elements: list[str]  # names of all elements


def read_table(path: Any, name: str) -> Table:
    """The rows of one element, whose properties must be numbers."""
    with open(path, "rb") as file:
        order, elements, comments = _read_header(file)
        start = file.tell()
        left = file.seek(0, 2) - start
        file.seek(start)
        names = [element.name for element in elements]
        if name not in names:
            raise ValueError(f"has no element {name!r}")
        found = names.index(name)
        for item in elements[found].properties:
            if item.length_kind:
                raise ValueError(f"property {item.name!r} is a list")
        read = _read_binary if order else _read_text
        columns = read(file, left, order, elements[:found + 1])
    return Table(elements[found].rows, columns, comments, names)


# ----------------------------------------------------------------------- header


def _read_header(file):
    """("<", ">" or "" for text, elements, comments); leaves the file at the first row."""
    first = file.readline(_LONGEST_HEADER)
    if first.split() != [b"ply"]:
        kind = next((kind for magic, kind in _OTHERS.items() if first.startswith(magic)), None)
        hint = f" (this is {kind}: convert it to PLY first, for instance with splat-transform)"
        raise ValueError("not a PLY file: it does not start with 'ply'" + (hint if kind else ""))
    order, elements, comments, left = None, [], [], _LONGEST_HEADER
    for number in range(2, _LONGEST_HEADER):
        line = file.readline(left)
        left -= len(line)
        if not line.endswith(b"\n") and line.strip() != b"end_header":
            raise ValueError("its header has no end_header")
        keyword, *words = line.decode("utf-8", "replace").split() or [""]
        if keyword == "end_header":
            break
        with at(f"line {number}"):
            if keyword == "comment":
                comments.append(" ".join(words))
            elif keyword == "format":
                order = _read_format(words)
            elif keyword == "element":
                elements.append(_read_element(words))
            elif keyword == "property":
                _read_property(words, elements)
            elif keyword not in ("", "obj_info"):
                raise ValueError(f"unknown header keyword {keyword[:20]!r}")
    if order is None:
        raise ValueError("its header has no format line")
    _check_names("element", elements)
    for element in elements:
        _check_names("property", element.properties)
    return order, elements, comments


def _read_format(words):
    if not words or words[0] not in _FORMATS:
        raise ValueError(f"unknown format {' '.join(words[:1])!r}")
    if words[1:] != ["1.0"]:
        raise ValueError(f"unknown format version {' '.join(words[1:])!r}")
    return _FORMATS[words[0]]


def _read_element(words):
    if len(words) != 2:
        raise ValueError("expected 'element NAME COUNT'")
    if not (words[1].isascii() and words[1].isdigit()) or len(words[1]) > 18:
        raise ValueError(f"not a number of rows: {words[1]!r}")
    return Element(words[0], int(words[1]), [])


def _read_property(words, elements):
    if not elements:
        raise ValueError("no element yet for 'property'")
    is_list = words[:1] == ["list"]
    types = words[1:3] if is_list else words[:1]
    if len(words) != (4 if is_list else 2):
        raise ValueError("expected 'property TYPE NAME' or 'property list TYPE TYPE NAME'")
    for word in types:
        if word not in _TYPES:
            raise ValueError(f"unknown property type {word!r}")
    kinds = [_TYPES[word] for word in types]
    if is_list and kinds[0].startswith("f"):
        raise ValueError(f"the length of a list must be an integer in {elements[-1].name!r}")
    elements[-1].properties.append(Property(words[-1], kinds[-1], kinds[0] if is_list else None))


def _check_names(what, items):
    names = set()
    for item in items:
        if item.name in names:
            raise ValueError(f"{what} {item.name!r} occurs twice")
        names.add(item.name)


# ------------------------------------------------------------------------- rows


def _check_length(element, left, order):
    size = element.row_bytes(order)
    if element.rows * size > left + (not order):  # the last line of text may lack its end
        raise ValueError(f"cut short: element {element.name!r} has {element.rows} rows of at "
                         f"least {size} bytes, but only {left} bytes are left")


def _read_binary(file, left, order, elements):
    end = file.tell() + left
    for element in elements[:-1]:
        _check_length(element, end - file.tell(), order)
        if not any(item.length_kind for item in element.properties):
            file.seek(element.rows * element.row_bytes(order), 1)
            continue
        for _ in range(element.rows if element.properties else 0):
            for item in element.properties:
                _skip(file, end, order, item)
    element = elements[-1]
    _check_length(element, end - file.tell(), order)
    kinds = np.dtype([(item.name, order + item.kind) for item in element.properties])
    rows = np.fromfile(file, kinds, element.rows)
    return {item.name: rows[item.name] for item in element.properties}


def _skip(file, end, order, item):
    """Skips one value or list of a row."""
    size, length = int(item.kind[1]), 1
    if item.length_kind:
        data = file.read(int(item.length_kind[1]))
        if len(data) == int(item.length_kind[1]):
            length = int(np.frombuffer(data, order + item.length_kind)[0])
            if length < 0:
                raise ValueError(f"list {item.name!r} has length {length}")
    if file.seek(length * size, 1) > end:
        raise ValueError("cut short: the file ends in the middle of its data")


def _read_text(file, left, order, elements):
    for element in elements:
        _check_length(element, left, order)
    lines = [line.decode("latin-1") for line in file.read().splitlines() if line.strip()]
    first = sum(element.rows for element in elements[:-1] if element.properties)
    element = elements[-1]
    lines = lines[first:first + element.rows]
    if len(lines) < element.rows:
        raise ValueError(f"cut short: element {element.name!r} has {element.rows} rows, but "
                         f"only {len(lines)} lines are left")
    rows = np.empty((0, len(element.properties)))
    if lines:
        rows = np.loadtxt(lines, np.float64, comments=None, ndmin=2)
    if rows.shape[1] != len(element.properties):
        raise ValueError(f"a row of element {element.name!r} has {rows.shape[1]} numbers, "
                         f"expected {len(element.properties)}")
    with np.errstate(over="ignore", invalid="ignore"):
        return {item.name: rows[:, index].astype(item.kind)
                for index, item in enumerate(element.properties)}
