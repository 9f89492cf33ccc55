/* A CUDA device through the CUDA Runtime, which is linked statically, so that the program also
 * starts without a driver.  The Runtime and the library both use the device's primary context,
 * and share memory, streams and events. */
#include "device.h"
#include "text.h"

#include <cuda_runtime_api.h>

static bool check(const device_memory *device, cudaError_t result, const char *function) {
    return result == cudaSuccess ||
           fail("cuda:%d: %s: %s", device->where.device_id, function, cudaGetErrorString(result));
}

/* Calls a function of the Runtime; false after fail(). */
#define CALL(device, function, ...) check(device, function(__VA_ARGS__), #function)

/* By default the pool frees its memory at every wait, and the next run must allocate it again.
 * Some virtual GPUs have no pools. */
static bool keep_pool(device_memory *device) {
    int pools = 0;
    cudaMemPool_t pool;
    unsigned long long all = ~0ull;
    if (!CALL(device, cudaDeviceGetAttribute, &pools, cudaDevAttrMemoryPoolsSupported,
              device->where.device_id))
        return false;
    device->pools = pools != 0;
    if (!device->pools) return true;
    return CALL(device, cudaDeviceGetDefaultMemPool, &pool, device->where.device_id) &&
           CALL(device, cudaMemPoolSetAttribute, pool, cudaMemPoolAttrReleaseThreshold, &all);
}

static bool open_cuda(device_memory *device) {
    cudaStream_t stream = NULL;
    cudaEvent_t begin = NULL, end = NULL;
    bool good = CALL(device, cudaSetDevice, device->where.device_id) && keep_pool(device) &&
                CALL(device, cudaStreamCreateWithFlags, &stream, cudaStreamNonBlocking) &&
                CALL(device, cudaEventCreate, &begin) && CALL(device, cudaEventCreate, &end);
    device->stream = stream;
    device->begin = begin;
    device->end = end;
    return good;
}

static void close_cuda(device_memory *device) {
    if (device->stream) {
        (void)cudaStreamSynchronize(device->stream);
        (void)cudaStreamDestroy(device->stream);
    }
    if (device->begin) (void)cudaEventDestroy(device->begin);
    if (device->end) (void)cudaEventDestroy(device->end);
}

/* The Runtime aligns memory to at least 256 bytes. */
static void *alloc_cuda(device_memory *device, size_t bytes) {
    void *data = NULL;
    if (bytes == 0) bytes = 1;
    cudaError_t result =
        device->pools ? cudaMallocAsync(&data, bytes, device->stream) : cudaMalloc(&data, bytes);
    if (result == cudaSuccess) return data;
    (void)cudaGetLastError();
    return NULL;
}

static void free_cuda(device_memory *device, void *data) {
    if (device->pools)
        (void)cudaFreeAsync(data, device->stream);
    else
        (void)cudaFree(data);
}

static bool clear_cuda(device_memory *device, void *data, size_t bytes) {
    return CALL(device, cudaMemsetAsync, data, 0, bytes, device->stream);
}

/* From pageable memory the call returns when the source has been read. */
static bool to_device_cuda(device_memory *device, void *to, const void *from, size_t bytes) {
    return CALL(device, cudaMemcpyAsync, to, from, bytes, cudaMemcpyHostToDevice, device->stream);
}

static bool to_host_cuda(device_memory *device, void *to, const void *from, size_t bytes) {
    return CALL(device, cudaMemcpyAsync, to, from, bytes, cudaMemcpyDeviceToHost, device->stream) &&
           CALL(device, cudaStreamSynchronize, device->stream);
}

static bool start_cuda(device_memory *device) {
    return CALL(device, cudaEventRecord, device->begin, device->stream);
}

static bool stop_cuda(device_memory *device, double *milliseconds) {
    float passed = 0;
    bool good = CALL(device, cudaEventRecord, device->end, device->stream) &&
                CALL(device, cudaEventSynchronize, device->end) &&
                CALL(device, cudaEventElapsedTime, &passed, device->begin, device->end);
    *milliseconds = (double)passed;
    return good;
}

const struct cuda_functions device_cuda_functions = {
    .version = CUDART_VERSION,
    .open = open_cuda,
    .close = close_cuda,
    .alloc = alloc_cuda,
    .free = free_cuda,
    .clear = clear_cuda,
    .to_device = to_device_cuda,
    .to_host = to_host_cuda,
    .start = start_cuda,
    .stop = stop_cuda,
};
