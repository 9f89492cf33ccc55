// What a C++ library that bundles CUB and Thrust shows to the process: weak templates, and
// statics that are unique across libraries, in these namespaces.
namespace thrust {
inline namespace THRUST_200500_NS {
template <typename T> T *allocate(T *) {
    static T memory;
    return &memory;
}
} // namespace THRUST_200500_NS
} // namespace thrust

namespace cub {
inline namespace CUB_200500_NS {
template <typename T> struct DeviceRadixSort {
    static int launches;
    static int SortKeys(T *keys) {
        return keys == thrust::allocate(keys) ? ++launches : -1;
    }
};
template <typename T> int DeviceRadixSort<T>::launches = 0;
template <typename T> void EmptyKernel() {
    DeviceRadixSort<T>::launches = 0;
}
template struct DeviceRadixSort<float>;
template void EmptyKernel<float>();
} // namespace CUB_200500_NS
} // namespace cub

// 1, 2, .. on each call, if no other library has these.
extern "C" int other_sorts() {
    float keys;
    return cub::DeviceRadixSort<float>::SortKeys(thrust::allocate(&keys));
}
