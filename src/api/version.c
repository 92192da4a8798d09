/* The library's version. */
#include "tern.h"

const char *tern_version(void)
{
    return TERN_VERSION;
}
