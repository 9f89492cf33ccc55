"""Compiles a device-only .cu file to one image, with NVRTC.

    gpu_compile.py NVRTC_LIBRARY NVFATBIN_LIBRARY ARCH INPUT OUTPUT [-Idir] [-Dname=value] ..

ARCH sm_90 writes a cubin, compute_90 writes PTX; with NVFATBIN_LIBRARY, which may be "", in a fat
binary that the driver unpacks.  Both libraries are opened here, so that building needs neither
nvcc nor an installed toolkit.
"""

import ctypes
import pathlib
import sys

OPTIONS = ["--std=c++17", "-default-device", "-restrict", "-DGSC_IMAGE=1",
           "--extra-device-vectorization"]
PACKER_OPTIONS = ["-64", "-compress=true", "-compress-all"]


class Library:
    """The functions of a shared library whose result 0 is success."""

    def __init__(self, path, prefix):
        self.library, self.prefix = ctypes.CDLL(path), prefix

    def __call__(self, name, *arguments):
        status = self.library[self.prefix + name](*arguments)
        if status != 0:
            sys.exit(f"gpu_compile: {self.prefix}{name} failed: {status}")

    def bytes(self, size_name, name, handle):
        """What a pair of functions returns: the size, and that many bytes."""
        size = ctypes.c_size_t()
        self(size_name, handle, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        self(name, handle, data)
        return data.raw


def strings(texts):
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def compiled(path, arch, name, options):
    nvrtc = Library(path, "nvrtc")
    program = ctypes.c_void_p()
    source = pathlib.Path(name).read_bytes()
    nvrtc("CreateProgram", ctypes.byref(program), source, name.encode(), 0, None, None)
    options = [f"--gpu-architecture={arch}", *OPTIONS, *options]
    failed = nvrtc.library.nvrtcCompileProgram(program, len(options), strings(options))
    log = nvrtc.bytes("GetProgramLogSize", "GetProgramLog", program)
    sys.stderr.write(log.rstrip(b"\0").decode())
    if failed:
        sys.exit(f"gpu_compile: {name}: compilation failed")
    kind = "PTX" if arch.startswith("compute_") else "CUBIN"
    return nvrtc.bytes(f"Get{kind}Size", f"Get{kind}", program)


def packed(path, arch, image):
    packer = Library(path, "nvFatbin")
    handle, size = ctypes.c_void_p(), ctypes.c_size_t(len(image))
    name, number = arch.encode(), arch.partition("_")[2].encode()
    packer("Create", ctypes.byref(handle), strings(PACKER_OPTIONS),
           ctypes.c_size_t(len(PACKER_OPTIONS)))
    if arch.startswith("compute_"):
        packer("AddPTX", handle, image, size, number, name, b"")
    else:
        packer("AddCubin", handle, image, size, number, name)
    return packer.bytes("Size", "Get", handle)


def main(nvrtc, packer, arch, source, output, *options):
    image = compiled(nvrtc, arch, source, options)
    pathlib.Path(output).write_bytes(packed(packer, arch, image) if packer else image)


if __name__ == "__main__":
    main(*sys.argv[1:])
