/* Waiting for the device in a WebAssembly test program, which Asyncify stops meanwhile; the product never does. */
#ifndef TERN_TESTS_SUPPORT_WEB_DEVICE_H
#define TERN_TESTS_SUPPORT_WEB_DEVICE_H

#include "backend/backend.h"

/* Makes a backend that never waits one that does: its reads and waits come back when they are done. Others stay as they
 * are. All backends of a program that are made so are of one kind. */
void test_make_waiting(tern_backend *backend);

#endif
