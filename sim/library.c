/* library -- looks functions up by name. */
#include "library.h"

#include <dlfcn.h>
#include <string.h>

/* Copied as bytes: C has no conversion from an object's address to a function's. */
const char *mr_library_find(void *library, const mr_call *calls, size_t n, void *out)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, calls[i].symbol);
        if (!found) return calls[i].symbol;
        memcpy((char *)out + calls[i].offset, &found, sizeof found);
    }
    return NULL;
}
