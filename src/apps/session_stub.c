/* Stands in for saving sessions until the library has it. */
#include "infer/session.h"

__attribute__((weak)) tern_status tern_session_save(const tern_session *session, const char *path, tern_error *err)
{
    (void)session;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: saving sessions is not in this build", path);
}

__attribute__((weak)) tern_status tern_session_restore(tern_session *session, const char *path, tern_error *err)
{
    (void)session;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: restoring sessions is not in this build", path);
}
