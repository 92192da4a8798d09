/* What the tests of tern tune share. */
#include "apps/tune_cases.h"

char *tune_choices_path; /* tune.json in a cache folder of this test's own */

int tune_set_up(void **state)
{
    (void)state;
    static char folder[4096], path[4200];
    snprintf(folder, sizeof folder, "%s", test_scratch("tune-cache"));
    snprintf(path, sizeof path, "%s/tern/tune.json", folder);
    tune_choices_path = path;
    setenv("XDG_CACHE_HOME", folder, 1);
    remove(tune_choices_path);
    return 0;
}
