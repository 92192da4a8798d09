/* A server: its models, its connections, what it counts. */
#ifndef TERN_SERVE_SERVER_H
#define TERN_SERVE_SERVER_H

#include <sys/types.h>

#include <pthread.h>
#include <stdatomic.h>

#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/models/host.h"
#include "serve/models/list.h"
#include "serve/models/stored.h"
#include "serve/serve.h"
#include "serve/store/jobs.h"

struct MHD_Daemon;

enum { TERN_LINK_IDLE, TERN_LINK_READS, TERN_LINK_ANSWERS };

/* A connection; in a list, so that slow ones are found. */
typedef struct tern_link {
    struct tern_link *before, *next;
    int fd;
    double since; /* of its state */
    int state;
} tern_link;

struct tern_serve {
    tern_serve_options options;
    tern_serve_limits limits; /* none is 0 but tokens */
    tern_host_list hosts;
    tern_loras loras;   /* of the first model */
    tern_stored stored; /* conversations of responses */
    struct MHD_Daemon *daemon;
    int listen_fd;       /* of a unix socket; else -1 */
    dev_t socket_device; /* of that socket, once bound */
    ino_t socket_inode;  /* 0: none of this server's */
    tern_serve_log log;
    tern_metrics metrics;
    pthread_mutex_t store_lock; /* of the store's files */
    tern_jobs jobs;
    atomic_bool drains;
    atomic_uint running;  /* exchanges */
    pthread_mutex_t lock; /* of the list of connections */
    tern_link *links;
};

/* http/daemon.c: listens, and answers by the routes. */
tern_status tern_serve__listen(tern_serve *server, tern_error *err);
void tern_serve__close_daemon(tern_serve *server);

/* Seconds of a clock that only goes forward. */
double tern_serve_seconds(void);

#endif
