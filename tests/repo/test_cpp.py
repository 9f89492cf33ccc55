"""The C++ header, and the example on libtorch."""

import re
import shutil

import pytest

from header import PUBLIC, read
from installation import example
from support import ROOT

# Counts the blocks of memory that are out.
PROGRAM = r"""
#include <gsplat_c.hpp>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

static int blocks = 0;
static void *allocate(void *, size_t bytes, size_t, DLDevice, void *) {
    blocks++;
    return std::aligned_alloc(256, (bytes + 511) / 256 * 256);
}
static void release(void *, void *data, size_t, DLDevice, void *) {
    blocks--;
    std::free(data);
}

static_assert(!std::is_copy_constructible_v<gsplat_c::context>);
static_assert(std::is_nothrow_move_constructible_v<gsplat_c::context>);
static_assert(sizeof(gsplat_c::raster_args) == sizeof(gsc_raster_args));

struct tensor {
    int64_t shape[3];
    DLTensor view;
    template <size_t n>
    tensor(float (&data)[n], int32_t ndim, int64_t a, int64_t b = 0, int64_t c = 0)
        : shape{a, b, c}, view{data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, shape, nullptr, 0} {}
    tensor(const tensor &) = delete;
    tensor &operator=(const tensor &) = delete;
};

int main() {
    gsplat_c::allocator memory;
    memory.alloc = allocate;
    memory.free = release;
    gsplat_c::context_desc desc(DLDevice{kDLCPU, 0});
    assert(desc.abi_version == GSC_ABI_VERSION && desc.cpu_threads == 0);
    desc.allocator = &memory;
    desc.cpu_threads = 1;
    gsplat_c::context first(desc), context = std::move(first);
    assert(!first.get() && context.get());
    assert(context.limits().max_sh_degree == 4);

    float eye[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, pinhole[4] = {30, 30, 16, 12};
    float mean[3] = {0, 0, 4}, scale[3] = {.5f, .5f, .5f}, quaternion[4] = {1, 0, 0, 0};
    float opacity[1] = {.9f}, rgb[3] = {1, .5f, 0}, image[3 * 24 * 32], grad_rgb[3] = {-1, -1, -1};
    tensor view(eye, 2, 4, 4), intrinsics(pinhole, 1, 4), means(mean, 2, 1, 3);
    tensor scales(scale, 2, 1, 3), rotations(quaternion, 2, 1, 4), opacities(opacity, 1, 1);
    tensor colors(rgb, 2, 1, 3), color(image, 3, 3, 24, 32), grad_colors(grad_rgb, 2, 1, 3);
    gsplat_c::raster_args args;
    args.width = 32;
    args.height = 24;
    args.view = &view.view;
    args.intrinsics = &intrinsics.view;
    args.means = &means.view;
    args.scales = &scales.view;
    args.rotations = &rotations.view;
    args.opacities = &opacities.view;
    args.colors = &colors.view;
    gsplat_c::raster_outputs outputs;
    outputs.color = &color.view;
    {
        gsplat_c::raster_saved saved;
        for (int i = 0; i < 2; i++) context.rasterize(args, outputs, &saved); // frees the first
        assert(saved && blocks > 0);
        assert(image[12 * 32 + 16] > 0.8f);
        gsplat_c::raster_grads grads;
        grads.color = &color.view;
        grads.colors = &grad_colors.view;
        context.rasterize_backward(args, saved, grads);
        assert(grad_rgb[0] > 0 && grad_rgb[1] > 0 && grad_rgb[2] == 0);
    }
    assert(blocks == 0);
    context.rasterize(args, outputs);

    args.width = 0;
    try {
        context.rasterize(args, outputs);
        return 1;
    } catch (const gsplat_c::error &error) {
        assert(error.status() == GSC_ERROR_INVALID_ARGUMENT && error.cuda() == 0);
        assert(!std::strncmp(error.what(), "rasterize: ", 11));
    }
    try {
        gsplat_c::context none(DLDevice{kDLCPU, 7});
        return 2;
    } catch (const std::runtime_error &error) {
        assert(!std::strncmp(error.what(), "context_create: ", 16));
    }
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_header(installed, compiler, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", compiler)
    source = tmp_path / "host.cpp"
    source.write_text(PROGRAM)
    installed.run(installed.build(source, tmp_path / "host", "-Wconversion"))


def test_every_function_of_a_context_is_a_member():
    text = (ROOT / "include/gsplat_c.hpp").read_text()
    members = set(re.findall(r"check\((gsc_\w+)\(get\(\)", text))
    header = read(PUBLIC)
    taking = {function.name for function in header.functions if function.parts
              and re.fullmatch(r"(const )?gsc_context \*", function.parts[0].type)}
    assert len(taking) > 15
    assert members == taking - {"gsc_context_free"}


def test_every_descriptor_has_defaults():
    text = (ROOT / "include/gsplat_c.hpp").read_text()
    sized = {struct.name for struct in read(PUBLIC).structs
             if struct.parts[0].name == "struct_size"}
    assert set(re.findall(r"descriptor<(\w+)>", text)) == sized


def test_libtorch(installed, tmp_path):
    """Compiled against the headers in torch's wheel, in both orders of the headers."""
    extension = pytest.importorskip("torch.utils.cpp_extension")
    if shutil.which("c++") is None:
        pytest.skip("c++ is not installed")
    flags = ["-std=c++20"]  # torch's headers need it
    for folder in extension.include_paths():
        flags += ["-isystem", folder]
    for folder in extension.library_paths():
        flags += [f"-L{folder}", f"-Wl,-rpath,{folder}"]
    text = example("render_torch.cpp").read_text()
    ours = "#include <gsplat_c.hpp>\n"
    last = text.replace(ours, "").replace("\nnamespace {", f"{ours}\nnamespace {{", 1)
    source = tmp_path / "last.cpp"
    source.write_text(last)
    assert last.index(ours) > last.index("<ATen/DLConvertor.h>")
    installed.build(source, tmp_path / "last.o", *flags, "-fsyntax-only")
    program = installed.build(example("render_torch.cpp"), tmp_path / "render_torch",
                              *flags, "-ltorch_cpu", "-lc10")
    drawn, derived = map(float, re.findall(r": (\S+)", installed.run(program)))
    assert 0.01 < drawn < 1
    assert drawn == pytest.approx(derived, abs=2e-6)
