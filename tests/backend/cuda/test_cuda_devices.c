/* For which devices a module has code, by the capabilities that it was compiled for. No device is asked. */
#include "support/test.h"

#include "backend/cuda/cuda_internal.h"

static void capabilities_of_a_module(void **state)
{
    (void)state;
    static const struct {
        const char *capabilities;
        uint32_t major, minor;
        bool has;
    } rows[] = {
        /* code runs on later minor numbers of its major one */
        {"80 90a 100", 8, 0, true},
        {"80 90a 100", 8, 9, true},
        {"86 90a 100", 8, 0, false},
        /* with a letter, on that device alone, as PTX too */
        {"80 90a 100", 9, 0, true},
        {"90a", 9, 0, true},
        {"90a", 8, 9, false},
        {"90a", 10, 0, false},
        {"80 90a", 12, 0, false},
        /* of the last one there is PTX, for all later devices */
        {"80 90a 100", 12, 1, true},
        {"80 90a 100", 10, 3, true},
        {"100 120", 9, 0, false},
        {"89", 9, 0, true},
        {"80 120", 9, 0, false},
        {"", 9, 0, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (tern_cuda__has_code(rows[i].capabilities, rows[i].major, rows[i].minor) != rows[i].has)
            fail_msg("\"%s\" on %u.%u: %d expected", rows[i].capabilities, rows[i].major, rows[i].minor, rows[i].has);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(capabilities_of_a_module)};

TEST_GROUP(cuda_devices, "", tests);
