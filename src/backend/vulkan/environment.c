/* Adds the user's environment to the options, as the Vulkan loader reads variables of its own: the one place of the
 * library that reads it. */
#include <stdio.h>
#include <stdlib.h>

#include "backend/vulkan/device.h"
#include "base/alloc.h"

/* The values of a variable: nothing, "0", or anything else. */
static tern_vulkan_waits asked(const char *name)
{
    const char *value = getenv(name);
    return !value || !*value ? TERN_VULKAN_WAITS_DEFAULT : *value == '0' ? TERN_VULKAN_WAITS_OFF : TERN_VULKAN_WAITS_ON;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && *value != '0';
}

void tern_vulkan__environment(tern_vulkan_options *options)
{
    options->validation |= is_set("TERN_VULKAN_VALIDATION");
    options->staged |= is_set("TERN_VULKAN_STAGED");
    if (options->waits == TERN_VULKAN_WAITS_DEFAULT) options->waits = asked("TERN_VULKAN_WAITS");
}

char *tern_vulkan__cache_folder(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char path[4096];
    int n = -1;
    if (cache && *cache == '/') n = snprintf(path, sizeof path, "%s/tern", cache);
    else if (home && *home == '/') n = snprintf(path, sizeof path, "%s/.cache/tern", home);
    return n > 0 && (size_t)n < sizeof path ? tern_strdup(path) : NULL;
}
