// Nearest neighbours of a point cloud from C++17, in views of std::vector.
//
//     c++ -std=c++17 neighbours.cpp $(pkg-config --cflags --libs gsplat_c) -o neighbours
//     ./neighbours
#include <gsplat_c.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <random>
#include <vector>

namespace {

// A vector's memory and its shape, while the vector lives and keeps its size.
class tensor {
  public:
    template <typename T>
    tensor(std::vector<T> &data, std::uint8_t code, std::initializer_list<std::int64_t> shape)
        : shape_(shape) {
        view_.data = data.data();
        view_.device = DLDevice{kDLCPU, 0};
        view_.ndim = static_cast<std::int32_t>(shape_.size());
        view_.dtype = DLDataType{code, 8 * sizeof(T), 1};
        view_.shape = shape_.data();
    }
    tensor(const tensor &) = delete;
    tensor &operator=(const tensor &) = delete;
    const DLTensor *view() const {
        return &view_;
    }

  private:
    std::vector<std::int64_t> shape_;
    DLTensor view_{};
};

} // namespace

int main() {
    constexpr int n = 20000, k = 3;
    std::vector<float> points(3 * n), distances2(n * k);
    std::vector<std::int32_t> indices(n * k);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(0, 1);
    for (float &coordinate : points) coordinate = uniform(random);

    try {
        const gsplat_c::context context(DLDevice{kDLCPU, 0});
        const tensor points_view(points, kDLFloat, {n, 3});
        const tensor indices_view(indices, kDLInt, {n, k});
        const tensor distances_view(distances2, kDLFloat, {n, k});
        gsplat_c::knn_args args;
        args.k = k;
        args.points = points_view.view();
        args.indices = indices_view.view();
        args.distances2 = distances_view.view();
        context.knn(args);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }

    double sum = 0;
    for (std::size_t i = 0; i < n; i++) sum += std::sqrt(static_cast<double>(distances2[i * k]));
    std::printf("%d points, nearest neighbour at %.4f on average\n", n, sum / n);
    return 0;
}
