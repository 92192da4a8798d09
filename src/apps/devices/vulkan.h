/* The Vulkan devices of `tern devices`. */
#ifndef TERN_APPS_DEVICES_VULKAN_H
#define TERN_APPS_DEVICES_VULKAN_H

#include "apps/app.h"

/* {"devices": [...], "problem": why there are none}; `measured` opens each and measures how fast it reads. */
json_t *tern_app_vulkan_json(bool measured);
void tern_app_print_vulkan(const json_t *vulkan);

#endif
