/* device -- what follows from a device's numbers. */
#include "device.h"

uint64_t mr_device_capacity(const mr_device *device)
{
    return device->memory > device->context ? device->memory - device->context : 0;
}
