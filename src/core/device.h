/* The device types that this build knows: their backends, their number, their names. */
#ifndef GSC_DEVICE_H
#define GSC_DEVICE_H

#include "backend.h"

enum { GSC__DEVICE_NAME_SIZE = 32 };
/* "cpu", "cuda:0", "device type 7:0"; returns name. */
const char *gsc__device_name(DLDevice device, char name[GSC__DEVICE_NAME_SIZE]);

/* The backend for a device that exists and that this build has code for. */
gsc_status gsc__device_backend(const char *function, DLDevice device, const gsc__backend **backend);

/* Whether memory of device `memory` can be used by a context on `device`. */
bool gsc__device_can_use(DLDevice device, DLDevice memory);
/* Whether it is the processor's memory, pinned or not; managed memory is not, as a kernel
 * may be writing it. */
bool gsc__device_is_host(DLDevice memory);

#endif
