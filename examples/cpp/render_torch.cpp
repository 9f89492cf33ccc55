// Renders Gaussians that are tensors of libtorch, and computes gradients, without a copy: DLPack
// views of torch's memory.
//
//     paths() { python3 -c "from torch.utils import cpp_extension as c; print(*c.$1())"; }
//     c++ -std=c++20 render_torch.cpp $(paths include_paths | sed 's/[^ ]*/-isystem &/g')
//         $(paths library_paths | sed 's/[^ ]*/-L& -Wl,-rpath,&/g') -ltorch_cpu -lc10
//         $(pkg-config --cflags --libs gsplat_c) -o render_torch
//     ./render_torch
#include <gsplat_c.hpp>

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

#include <cstdio>
#include <deque>
#include <exception>
#include <memory>

namespace {

// DLPack views of tensors, which keep the tensors' memory alive.
class views {
  public:
    const DLTensor *of(const at::Tensor &tensor) {
        managed_.emplace_back(at::toDLPack(tensor));
        return &managed_.back()->dl_tensor;
    }

  private:
    struct give_back {
        void operator()(DLManagedTensor *managed) const {
            managed->deleter(managed);
        }
    };
    std::deque<std::unique_ptr<DLManagedTensor, give_back>> managed_;
};

void render() {
    constexpr int64_t n = 500, width = 160, height = 120;
    at::manual_seed(1);
    const at::Tensor means = at::rand({n, 3}) * 2 - 1 + at::tensor({0.0F, 0.0F, 4.0F});
    const at::Tensor scales = at::rand({n, 3}) * 0.05 + 0.02;
    const at::Tensor rotations = at::randn({n, 4});
    const at::Tensor opacities = at::rand({n}), colors = at::rand({n, 3});
    const at::Tensor view = at::eye(4);
    const at::Tensor intrinsics = at::tensor({150.0F, 150.0F, width / 2.0F, height / 2.0F});
    const at::Tensor image = at::empty({3, height, width});

    const gsplat_c::context context(DLDevice{kDLCPU, 0});
    views borrowed;
    gsplat_c::raster_args args;
    args.width = width;
    args.height = height;
    args.view = borrowed.of(view);
    args.intrinsics = borrowed.of(intrinsics);
    args.means = borrowed.of(means);
    args.scales = borrowed.of(scales);
    args.rotations = borrowed.of(rotations);
    args.opacities = borrowed.of(opacities);
    args.colors = borrowed.of(colors);
    gsplat_c::raster_outputs outputs;
    outputs.color = borrowed.of(image);
    gsplat_c::raster_saved saved;
    context.rasterize(args, outputs, &saved);

    // The loss is the mean of the image.
    const at::Tensor grad_image = at::full_like(image, 1.0 / static_cast<double>(image.numel()));
    const at::Tensor grad_colors = at::empty_like(colors);
    gsplat_c::raster_grads grads;
    grads.color = borrowed.of(grad_image);
    grads.colors = borrowed.of(grad_colors);
    context.rasterize_backward(args, saved, grads);

    // The image is linear in the colours.
    std::printf("mean of the image: %.6f\n", image.mean().item<double>());
    std::printf("from its gradient: %.6f\n", (grad_colors * colors).sum().item<double>());
}

} // namespace

int main() {
    try {
        render();
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
