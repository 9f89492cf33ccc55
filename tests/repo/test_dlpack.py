"""Programs include a reference header of DLPack, of any version, before or after ours."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from support import ROOT, run

WARNINGS = "-Wall -Wextra -Wpedantic -Werror".split()
LANGUAGES = {"c11": ("gcc", "c"), "c++17": ("g++", "c++")}

# What each version added to the reference header, as declarations of our own.
DEVICES = {
    "0.6": "kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3, kDLOpenCL = 4, kDLVulkan = 7, kDLMetal = 8,"
           " kDLVPI = 9, kDLROCM = 10, kDLROCMHost = 11, kDLExtDev = 12, kDLCUDAManaged = 13",
    "0.8": ", kDLOneAPI = 14, kDLWebGPU = 15, kDLHexagon = 16",
    "1.0": ", kDLMAIA = 17",
}
CODES = {
    "0.6": "kDLInt = 0U, kDLUInt = 1U, kDLFloat = 2U, kDLOpaqueHandle = 3U, kDLBfloat = 4U,"
           " kDLComplex = 5U",
    "0.8": ", kDLBool = 6U",
    "1.0": "",
}
VERSIONED = """
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
typedef struct { uint32_t major; uint32_t minor; } DLPackVersion;
"""
MANAGED = """
struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl_tensor;
};
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;
"""


def stand_in(version):
    """A header that declares what the reference header of a version does."""
    known = [each for each in DEVICES if each <= version]
    devices, codes = ("".join(table[each] for each in known) for table in (DEVICES, CODES))
    return f"""
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
extern "C" {{
#else
#define DLPACK_EXTERN_C
#endif
#define DLPACK_DLL
{VERSIONED if version >= "1.0" else f"#define DLPACK_VERSION {version.replace('.', '')}"}
typedef enum {{ {devices} }} DLDeviceType;
typedef struct {{ DLDeviceType device_type; int32_t device_id; }} DLDevice;
typedef enum {{ {codes} }} DLDataTypeCode;
typedef struct {{ uint8_t code; uint8_t bits; uint16_t lanes; }} DLDataType;
typedef struct {{
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
}} DLTensor;
typedef struct DLManagedTensor {{
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
}} DLManagedTensor;
{MANAGED if version >= "1.0" else ""}
#ifdef __cplusplus
}}
#endif
#endif
"""


def real_headers():
    """Reference headers on this machine: of the system and of Python packages."""
    places = [Path(folder) for folder in sys.path if folder.endswith("-packages")]
    found = [Path("/usr/include/dlpack/dlpack.h"), Path("/usr/local/include/dlpack/dlpack.h")]
    for pattern in ("torch/include/ATen/dlpack.h", "*/include/dlpack/dlpack.h",
                    "*/_core/include/cupy/_dlpack/dlpack.h"):
        found += [path for place in places for path in sorted(place.glob(pattern))]
    return [path for path in found if path.exists()]


@pytest.fixture(params=[*DEVICES, *real_headers()], ids=str)
def reference(request, tmp_path):
    """A folder with dlpack/dlpack.h."""
    folder = tmp_path / "dlpack"
    folder.mkdir()
    if isinstance(request.param, Path):
        shutil.copy(request.param, folder)
    else:
        (folder / "dlpack.h").write_text(stand_in(request.param))
    return tmp_path


USE = """
static int host_exports(DLManagedTensor *managed) {
    return managed->dl_tensor.ndim == 0 && managed->dl_tensor.device.device_type != kDLOpenCL;
}
int main(void) {
    GSC_INIT(gsc_raster_args, args);
    DLTensor view = {NULL, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
    DLManagedTensor managed = {view, NULL, NULL};
    struct DLManagedTensorVersioned *taken[2] = {NULL, NULL};
    gsc_raster_info info;
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, view.device);
    args.means = &managed.dl_tensor;
    (void)gsc_raster_saved_take(NULL, taken, &info);
    return host_exports(&managed) && args.means ? 0 : 1;
}
"""


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_both_orders(reference, language, first, tmp_path):
    compiler, kind = LANGUAGES[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    ours = "gsplat_c.h" if kind == "c" else "gsplat_c.hpp"
    headers = ["#include <dlpack/dlpack.h>\n",
               f"#include <{ours}>\n#include <gsplat_c/bindings.h>\n"]
    source = tmp_path / "program"
    source.write_text("".join(headers if first == "theirs" else headers[::-1]) + USE)
    run(compiler, "-x", kind, f"-std={language}", *WARNINGS, "-isystem", reference,
        f"-I{ROOT / 'include'}", "-fsyntax-only", source)


def test_ours_declares_what_the_references_do(reference):
    """So that a program that includes ours first misses nothing of theirs."""

    def names(text):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
        return {name for pattern in (
            r"\b(kDL\w+)\s*=", r"\}\s*(\w+)\s*;", r"#define (DLPACK_FLAG\w+)",
            r"typedef [^;{]*?\(\s*\*\s*(DLPack\w+)\s*\)") for name in re.findall(pattern, text)}

    theirs = names((reference / "dlpack/dlpack.h").read_text())
    assert len(theirs) > 20
    assert theirs <= names((ROOT / "include/gsplat_c/dlpack.h").read_text())
