#include "cpu/cpu.h"
#if GSC_HAVE_GPU
#include "gpu/gpu.h"
#endif

#include <stdio.h>

static const char *type_name(int32_t type) {
    switch (type) {
    case kDLCPU: return "cpu";
    case kDLCUDA: return "cuda";
    case kDLCUDAHost: return "cuda_host";
    case kDLROCM: return "rocm";
    case kDLCUDAManaged: return "cuda_managed";
    default: return NULL;
    }
}

const char *gsc__device_name(DLDevice device, char name[GSC__DEVICE_NAME_SIZE]) {
    int32_t type = (int32_t)device.device_type;
    const char *text = type_name(type);
    if (!text) {
        snprintf(name, GSC__DEVICE_NAME_SIZE, "device type %d:%d", type, device.device_id);
    } else if (device.device_id == 0 && type != kDLCUDA && type != kDLROCM) {
        snprintf(name, GSC__DEVICE_NAME_SIZE, "%s", text);
    } else {
        snprintf(name, GSC__DEVICE_NAME_SIZE, "%s:%d", text, device.device_id);
    }
    return name;
}

static gsc_status cuda_backend(const char *function, DLDevice device,
                               const gsc__backend **backend) {
#if GSC_HAVE_GPU
    gsc__gpu_device found;
    *backend = &gsc__gpu_backend;
    return gsc__gpu_device_query(function, device.device_id, &found);
#else
    char name[GSC__DEVICE_NAME_SIZE];
    *backend = NULL;
    return gsc__fail(GSC_ERROR_UNSUPPORTED,
                     "%s: device is %s, but this library was built for the CPU only: it has no "
                     "CUDA code",
                     function, gsc__device_name(device, name));
#endif
}

gsc_status gsc__device_backend(const char *function, DLDevice device,
                               const gsc__backend **backend) {
    char name[GSC__DEVICE_NAME_SIZE];
    switch ((int32_t)device.device_type) {
    case kDLCPU:
        if (device.device_id != 0) {
            return gsc__fail(GSC_ERROR_NO_DEVICE, "%s: device is %s, expected cpu", function,
                             gsc__device_name(device, name));
        }
        *backend = gsc__cpu_backend_choose();
        return GSC_OK;
    case kDLCUDA: return cuda_backend(function, device, backend);
    default:
        return gsc__fail(GSC_ERROR_UNSUPPORTED, "%s: device is %s, expected cpu or cuda", function,
                         gsc__device_name(device, name));
    }
}

gsc_status gsc_device_count(int32_t device_type, int32_t *count) {
    if (!count) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "device_count: count is NULL");
    *count = device_type == kDLCPU ? 1 : 0;
#if GSC_HAVE_GPU
    if (device_type == kDLCUDA) *count = gsc__gpu_device_count();
#endif
    return GSC_OK;
}

bool gsc__device_is_host(DLDevice memory) {
    int32_t type = (int32_t)memory.device_type;
    return type == kDLCPU || type == kDLCUDAHost;
}

/* Managed memory is everybody's, pinned memory the processor's.  A host device's id says
 * nothing; producers leave 0 or whatever they had. */
bool gsc__device_can_use(DLDevice device, DLDevice memory) {
    const bool managed = (int32_t)memory.device_type == kDLCUDAManaged;
    if (device.device_type == kDLCPU) return managed || gsc__device_is_host(memory);
    if (managed) return device.device_type == kDLCUDA;
    return memory.device_type == device.device_type && memory.device_id == device.device_id;
}
