/* What the static command has in the place of shared libraries: nothing that could be loaded, and no TLS. */
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>

/* The C library's own would want, at run time, the shared libraries of the very version that the program was linked
 * with. What asks for a GPU's driver hears that there is none. */
void *dlopen(const char *path, int flags);
void *dlsym(void *library, const char *name);
int dlclose(void *library);
char *dlerror(void);

void *dlopen(const char *path, int flags)
{
    (void)path;
    (void)flags;
    return NULL;
}

void *dlsym(void *library, const char *name)
{
    (void)library;
    (void)name;
    return NULL;
}

int dlclose(void *library)
{
    (void)library;
    return -1;
}

char *dlerror(void)
{
    static char words[] = "a static program loads no libraries";
    return words;
}

/* Nor is there a list of users, which the C library reads through shared libraries (NSS): libedit asks for the home
 * folder behind "~". */
struct passwd *getpwent(void)
{
    return NULL;
}

void setpwent(void)
{
}

void endpwent(void)
{
}

struct passwd *getpwuid(uid_t id)
{
    (void)id;
    return NULL;
}

static int no_user(struct passwd **result)
{
    *result = NULL;
    return ENOENT;
}

int getpwnam_r(const char *name, struct passwd *user, char *bytes, size_t n, struct passwd **result)
{
    (void)name, (void)user, (void)bytes, (void)n;
    return no_user(result);
}

int getpwuid_r(uid_t id, struct passwd *user, char *bytes, size_t n, struct passwd **result)
{
    (void)id, (void)user, (void)bytes, (void)n;
    return no_user(result);
}

/* libmicrohttpd's functions of HTTPS, which nothing calls without MHD_USE_TLS: `tern serve --tls-cert` is refused.
 * GnuTLS itself cannot be linked, for Debian has no static p11-kit. */
int gnutls_global_init(void);
void gnutls_global_deinit(void);

int gnutls_global_init(void)
{
    return 0;
}

void gnutls_global_deinit(void)
{
}

#define ABSENT(name)                                                                                                   \
    _Noreturn void gnutls_##name(void);                                                                                \
    void gnutls_##name(void)                                                                                           \
    {                                                                                                                  \
        abort();                                                                                                       \
    }
/* clang-format off */
ABSENT(alpn_set_protocols) ABSENT(bye) ABSENT(certificate_allocate_credentials) ABSENT(certificate_free_credentials)
ABSENT(certificate_server_set_request) ABSENT(certificate_set_dh_params)
ABSENT(certificate_set_retrieve_function2) ABSENT(certificate_set_retrieve_function3)
ABSENT(certificate_set_x509_key_mem) ABSENT(certificate_set_x509_key_mem2) ABSENT(certificate_set_x509_trust_mem)
ABSENT(cipher_get) ABSENT(credentials_set) ABSENT(deinit) ABSENT(dh_params_deinit) ABSENT(dh_params_import_pkcs3)
ABSENT(dh_params_init) ABSENT(handshake) ABSENT(init) ABSENT(malloc) ABSENT(priority_deinit) ABSENT(priority_init)
ABSENT(priority_set) ABSENT(protocol_get_version) ABSENT(psk_allocate_server_credentials)
ABSENT(psk_free_server_credentials) ABSENT(psk_set_server_credentials_function) ABSENT(record_check_pending)
ABSENT(record_get_direction) ABSENT(record_recv) ABSENT(record_send) ABSENT(session_get_ptr) ABSENT(session_set_ptr)
ABSENT(strerror) ABSENT(transport_set_int2)
