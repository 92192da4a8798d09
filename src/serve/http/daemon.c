/* libmicrohttpd: where it listens, and what it is told. */
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/show.h"
#include "serve/http/connection.h"
#include "serve/server.h"

enum { THREADS = 4, HEAD_BYTES = 32 << 10, BACKLOG = 512 };

/* Removes the socket of a server that was killed: a socket on which nobody listens, and nothing else. */
static void remove_stale(const char *path, const struct sockaddr_un *address)
{
    struct stat st;
    const int fd = lstat(path, &st) == 0 && S_ISSOCK(st.st_mode) ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) return;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 && errno == ECONNREFUSED) unlink(path);
    close(fd);
}

/* The socket at the path is this server's own once bind has made it. */
static bool bind_unix(tern_serve *s, const struct sockaddr_un *address)
{
    struct stat st;
    if (bind(s->listen_fd, (const struct sockaddr *)address, sizeof *address) != 0) return false;
    if (lstat(s->options.unix_path, &st) == 0) {
        s->socket_device = st.st_dev;
        s->socket_inode = st.st_ino;
    }
    return listen(s->listen_fd, BACKLOG) == 0;
}

static void remove_own(const tern_serve *s)
{
    struct stat st;
    if (s->socket_inode && lstat(s->options.unix_path, &st) == 0 && st.st_dev == s->socket_device &&
        st.st_ino == s->socket_inode)
        unlink(s->options.unix_path);
}

static tern_status listen_unix(tern_serve *s, tern_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = s->options.unix_path;
    if (strlen(path) >= sizeof address.sun_path)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--unix %s: at most %zu bytes expected", tern_show_z(path).text,
                         sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    remove_stale(path, &address);
    s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listen_fd >= 0 && bind_unix(s, &address)) return TERN_OK;
    if (errno == EADDRINUSE)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--unix %s exists (a running server's socket or another file): another name expected",
                         tern_show_z(path).text);
    return tern_fail(err, TERN_IO, "--unix %s: %s", tern_show_z(path).text, strerror(errno));
}

typedef union tern_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} tern_address;

static tern_status find_address(const tern_serve *s, tern_address *address, tern_error *err)
{
    const char *host = s->options.host ? s->options.host : "127.0.0.1";
    *address = (tern_address){0};
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons(s->options.port);
    } else if (inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons(s->options.port);
    } else {
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--host %s: a numeric address expected, such as 127.0.0.1 or ::", tern_show_z(host).text);
    }
    return TERN_OK;
}

static tern_status check_tls(const tern_serve_options *o, tern_error *err)
{
    if (!o->tls_cert != !o->tls_key)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--tls-cert and --tls-key: only one of them found, both expected");
    if (o->tls_cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return tern_fail(err, TERN_UNSUPPORTED, "--tls-cert: this libmicrohttpd has no TLS");
    return TERN_OK;
}

/* libmicrohttpd says no reason; an address in use is errno's, anything else with TLS its files'. */
static tern_status fail_listen(const tern_serve_options *o, tern_error *err)
{
    const int why = errno;
    if (o->tls_cert && why != EADDRINUSE && why != EACCES && why != EADDRNOTAVAIL)
        return tern_fail(err, TERN_MALFORMED,
                         "--tls-cert and --tls-key: a certificate and its key in PEM expected, no such pair found");
    return tern_fail(err, TERN_IO, "%s port %u: cannot listen on it: %s",
                     o->host ? tern_show_z(o->host).text : "127.0.0.1", o->port, strerror(why));
}

tern_status tern_serve__listen(tern_serve *s, tern_error *err)
{
    const tern_serve_options *o = &s->options;
    tern_address address = {0};
    TERN_TRY(check_tls(o, err));
    if (o->unix_path) TERN_TRY(listen_unix(s, err));
    else TERN_TRY(find_address(s, &address, err));
    const int fd = o->unix_path ? s->listen_fd : o->listen_fd;
    struct MHD_OptionItem items[4];
    size_t n = 0;
    if (o->tls_cert) {
        items[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->tls_cert};
        items[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->tls_key};
    }
    if (o->unix_path || fd > 0) items[n++] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, fd, NULL};
    else items[n++] = (struct MHD_OptionItem){MHD_OPTION_SOCK_ADDR, 0, &address.any};
    items[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
                           (o->tls_cert ? (unsigned)MHD_USE_TLS : 0) |
                           (address.any.sa_family == AF_INET6 ? (unsigned)MHD_USE_IPv6 : 0);
    errno = 0;
    s->daemon = MHD_start_daemon(
        flags, o->port, NULL, NULL, tern_connection_handle, s, MHD_OPTION_ARRAY, items, MHD_OPTION_THREAD_POOL_SIZE,
        (unsigned)THREADS, MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->limits.connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)s->limits.idle_seconds, MHD_OPTION_NOTIFY_COMPLETED, tern_connection_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, tern_connection_changed, s, MHD_OPTION_URI_LOG_CALLBACK, tern_connection_uri, s,
        MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)BACKLOG, MHD_OPTION_END);
    return s->daemon ? TERN_OK : fail_listen(o, err);
}

void tern_serve__close_daemon(tern_serve *s)
{
    if (s->daemon) MHD_stop_daemon(s->daemon);
    else if (s->listen_fd >= 0) close(s->listen_fd);
    s->daemon = NULL;
    remove_own(s);
    s->listen_fd = -1;
}

uint16_t tern_serve_port(const tern_serve *s)
{
    if (s->options.unix_path) return 0;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}
