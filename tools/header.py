"""What the generators and the ABI check share: reads the public headers, writes generated files.

Understands the part of C that the headers use: constants in anonymous enums, structs, opaque
structs, function types and functions.  Anything else is an error.
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
PUBLIC = "gsplat_c.h"
BINDINGS = "gsplat_c/bindings.h"

# C type: struct code, bytes and alignment on LP64 and LLP64 systems.
SCALARS = {
    "int32_t": ("i", 4),
    "uint32_t": ("I", 4),
    "gsc_status": ("i", 4),
    "float": ("f", 4),
    "int64_t": ("q", 8),
    "uint64_t": ("Q", 8),
    "double": ("d", 8),
    "size_t": ("Q", 8),
}
POINTER = ("Q", 8)
DEVICE = {"device_type": ("i", 4), "device_id": ("i", 4)}  # fields of a DLDevice


@dataclass
class Name:
    """A field, an argument, a constant, a struct or a function, with its comment."""

    name: str
    doc: str = ""
    type: str = ""  # in C; of a function its result
    value: int = 0  # of a constant
    flag: bool = False  # whether a constant is written as a bit
    parts: list = field(default_factory=list)  # fields or arguments


@dataclass
class Header:
    """What headers declare, in their order."""

    constants: list = field(default_factory=list)
    structs: list = field(default_factory=list)
    opaque: list = field(default_factory=list)
    callbacks: list = field(default_factory=list)
    functions: list = field(default_factory=list)


def declarations(text, end):
    """[(comment, code)] of the declarations in a text, each up to an `end` outside brackets."""
    found, comment, code, depth = [], "", "", 0
    for part in re.findall(r"/\*.*?\*/|[{}();,]|[^/{}();,]+", text, flags=re.S):
        if part.startswith("/*") and not depth:
            if part.startswith("/**<"):
                if code.strip():  # describes the last one, which has no end
                    comment = part
                else:
                    found[-1] = (part, found[-1][1])
            elif part.startswith("/**"):
                comment = part
            continue
        depth += (part in "{(") - (part in "})")
        if part == end and not depth:
            found.append((comment, code.strip()))
            comment = code = ""
        else:
            code += part
    if code.strip():
        found.append((comment, code.strip()))
    return found


def plain(comment):
    """The text of a comment."""
    lines = re.sub(r"^/\*\*<?|\*/$", "", comment).splitlines()
    return "\n".join(re.sub(r"^\s*\* ?", "", line).strip() for line in lines).strip()


def variable(code, comment=""):
    """A field or an argument: `const DLTensor *means` or `void (*free)(void *user)`."""
    function = re.fullmatch(r"(.*?)\(\s*\*\s*(\w+)\s*\)\s*(\(.*\))", code, flags=re.S)
    if function:
        result, name, arguments = function.groups()
        return Name(name, plain(comment), f"{result.strip()} (*){' '.join(arguments.split())}",
                    parts=arguments_of(arguments[1:-1]))
    kind, stars, name = re.fullmatch(r"((?:const |struct )*\w+)\s*(\**)\s*(\w+)", code).groups()
    return Name(name, plain(comment), f"{kind} {stars}".strip())


def arguments_of(text):
    return [variable(code) for _, code in declarations(text, ",") if code != "void"]


def read(*names, include=INCLUDE):
    """The Header of these files of a folder."""
    header = Header()
    for name in names:
        text = (include / name).read_text()
        for macro, value in re.findall(r"^#define (GSC_\w+) (\d+)", text, flags=re.M):
            header.constants.append(Name(macro, value=int(value)))
        text = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", text, flags=re.M)
        text = re.sub(r'extern "C" \{|^\}$', "", text, flags=re.M)
        text = re.sub(r"static inline [^{]*\{.*?\n(?=/|\w|\n)", "", text, flags=re.S)
        for comment, code in declarations(text, ";"):
            declare(header, plain(comment), code)
    return header


def declare(header, doc, code):
    """Adds a declaration."""
    enum = re.fullmatch(r"enum \{(.*)\}", code, flags=re.S)
    struct = re.fullmatch(r"typedef struct (\w+) \{(.*)\} \1", code, flags=re.S)
    opaque = re.fullmatch(r"typedef struct (\w+) \1", code)
    callback = re.fullmatch(r"typedef (\w+) (\w+_fn)\((.*)\)", code, flags=re.S)
    function = re.fullmatch(r"GSC_API (?:GSC_CHECK )?([\w ]+\**)\s*\b(\w+)\((.*)\)", code,
                            flags=re.S)
    if enum:
        for comment, value in declarations(enum[1], ","):
            name, _, expression = value.partition(" = ")
            number = eval(re.sub(r"(\d)u\b", r"\1", expression), {"__builtins__": {}})
            header.constants.append(Name(name, plain(comment), value=number,
                                         flag="u <<" in expression))
    elif struct:
        fields = [variable(field, comment) for comment, field in declarations(struct[2], ";")]
        header.structs.append(Name(struct[1], doc, parts=fields))
    elif opaque:
        header.opaque.append(Name(opaque[1], doc))
    elif callback:
        kind, name, arguments = callback.groups()
        header.callbacks.append(Name(name, doc, kind, parts=arguments_of(arguments)))
    elif function:
        kind = " ".join(function[1].replace("*", " *").split())
        header.functions.append(Name(function[2], doc, kind, parts=arguments_of(function[3])))
    elif not re.fullmatch(r"typedef int32_t gsc_status|struct \w+", code):
        raise ValueError(f"cannot read the declaration: {code}")


def layout(struct):
    """(bytes, struct format, {field: offset}) with C's natural alignment."""
    offset, widest, form, offsets = 0, 1, "=", {}
    for part in struct.parts:
        if part.type == "DLDevice":
            fields = [(f"{part.name}.{name}", *code) for name, code in DEVICE.items()]
        else:
            fields = [(part.name, *(POINTER if "*" in part.type else SCALARS[part.type]))]
        for name, code, size in fields:
            padding = -offset % size
            form += "x" * padding + code
            offsets[name] = offset + padding
            offset += padding + size
            widest = max(widest, size)
    padding = -offset % widest
    return offset + padding, form + "x" * padding, offsets


def update(texts):
    """Writes {path: text}, or with --check as the only argument exits 1 if a file is different."""
    tool = f"tools/{Path(sys.argv[0]).name}"
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(f"usage: {tool} [--check]")
    for path, text in texts.items():
        if not sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is out of date: run {tool}")


def map_nodes(version_script):
    """{version node: symbols} of a linker's version script."""
    text = re.sub(r"/\*.*?\*/|#.*?$", "", Path(version_script).read_text(), flags=re.S | re.M)
    return {node: re.findall(r"[^\s;]+", symbols) for node, symbols in re.findall(
        r"([\w.]+)\s*\{\s*global:(.*?)(?:local:.*?)?\}", text, flags=re.S)}


def exported_symbols(version_script):
    """What a version script exports."""
    symbols = [symbol for node in map_nodes(version_script).values() for symbol in node]
    if not symbols:
        raise SystemExit(f"{version_script}: no global symbols")
    return symbols
