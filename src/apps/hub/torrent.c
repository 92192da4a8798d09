/* Pulling a torrent, and what a person sees of it. */
#include "apps/hub/torrent.h"

#include <string.h>

#include "apps/hub/hub.h"
#include "apps/progress.h"
#include "base/show.h"

#define FIELD(name) offsetof(tern_options, name)

const tern_flag tern_flags_torrent[] = {
    {"seed", 0, TERN_FLAG_BOOL, NULL, FIELD(seed_torrent), 0, 0, "Upload to others after the download, until Ctrl-C"},
    {"seed-ratio", 0, TERN_FLAG_F32, "N", FIELD(seed_ratio), 0, 1e6, "With --seed: until N times its bytes were given"},
    {"seed-time", 0, TERN_FLAG_U32, "MINUTES", FIELD(seed_minutes), 1, 1 << 24, "With --seed: for so long"},
    {"upload-limit", 0, TERN_FLAG_U32, "KIB", FIELD(upload_kib), 1, 1 << 20, "Limit the upload, in KiB a second"},
    {"timeout", 0, TERN_FLAG_U32, "SECONDS", FIELD(patience), 1, 1 << 24,
     "Give up when no data came for this time (default: never)"},
    {"peer", 0, TERN_FLAG_TEXTS, "ADDRESS:PORT", FIELD(peers), 0, 0, "A peer to ask besides; several times",
     .more = true},
    {"listen", 0, TERN_FLAG_TEXT, "ADDRESS:PORT", FIELD(listen), 0, 0,
     "Where peers reach this one; port 6881 of all addresses, or one behind it, when not given", .more = true},
    {"no-discovery", 0, TERN_FLAG_BOOL, NULL, FIELD(no_discovery), 0, 0,
     "Only the trackers, web seeds and peers that are named: neither the DHT nor the local network", .more = true},
    {0},
};

tern_status tern_app_torrent_check_unused(const tern_options *options, const char *what, tern_error *err)
{
    static const tern_options none;
    for (const tern_flag *f = tern_flags_torrent; f->name; f++) {
        const size_t bytes = f->kind == TERN_FLAG_BOOL    ? sizeof(bool)
                             : f->kind == TERN_FLAG_TEXTS ? sizeof(tern_texts)
                             : f->kind == TERN_FLAG_TEXT  ? sizeof(char *)
                                                          : sizeof(uint32_t);
        if (memcmp((const char *)options + f->field, (const char *)&none + f->field, bytes) != 0)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s: %s found, a magnet link or a .torrent file expected",
                             f->name, tern_show_z(what).text);
    }
    return TERN_OK;
}

/* The progress shown, and when to stop. */
typedef struct showing {
    const tern_options *options;
    tern_progress bar;
    char label[160], name[80];
    uint64_t bytes, fetched;
    double moved, began_seeding; /* seconds */
    tern_torrent_stage stage;
    bool begun, here, whole, waits; /* `waits`: for what does not come, which was said */
} showing;

enum { QUIET_SECONDS = 20 }; /* without data, until a note reports it */

static void on_begin(void *context, const char *name, size_t n_files, uint64_t bytes, bool here)
{
    showing *s = context;
    char size[16];
    s->bytes = bytes;
    s->here = here;
    snprintf(s->name, sizeof s->name, "%.60s", tern_show_z(name).text);
    tern_progress_end(&s->bar);
    if (!s->options->quiet)
        tern_app_say("%s: %zu files, %s%s\n", s->name, n_files, tern_app_bytes(bytes, size), here ? ", all here" : "");
}

/* "Pulling NAME, 3 peers, 2.1 MB/s". */
static void write_label(showing *s, tern_torrent_stage stage, const tern_torrent_state *state)
{
    char rate[16], given[16];
    tern_app_bytes(stage == TERN_TORRENT_SEEDING ? state->sent_rate : state->rate, rate);
    const char *peers = state->peers == 1 ? "" : "s";
    switch (stage) {
    case TERN_TORRENT_ASKING:
        snprintf(s->label, sizeof s->label, "Asking what the link is, %u peer%s", state->peers, peers);
        break;
    case TERN_TORRENT_CHECKING:
    case TERN_TORRENT_SUMMING: snprintf(s->label, sizeof s->label, "Checking %s", s->name); break;
    case TERN_TORRENT_FETCHING:
        snprintf(s->label, sizeof s->label, "Pulling %s, %u peer%s, %s/s", s->name, state->peers, peers, rate);
        break;
    case TERN_TORRENT_SEEDING:
        snprintf(s->label, sizeof s->label, "Giving %s, %u peer%s, %s/s, %s", s->name, state->peers, peers, rate,
                 tern_app_bytes(state->sent, given));
        break;
    }
}

static void on_note(void *context, const char *words)
{
    showing *s = context;
    tern_progress_end(&s->bar);
    if (!s->options->quiet) fprintf(stderr, "%s: %s\n", s->name[0] ? s->name : "torrent", tern_show_z(words).text);
}

static void note_waiting(showing *s, double seconds, const tern_torrent_state *state)
{
    char words[160];
    if (s->waits || seconds < QUIET_SECONDS) return;
    s->waits = true;
    snprintf(words, sizeof words, "no data came for %d seconds, from %u peer%s; goes on until --timeout or Ctrl-C",
             QUIET_SECONDS, state->peers, state->peers == 1 ? "" : "s");
    on_note(s, words);
}

static tern_status check_patience(showing *s, tern_torrent_stage stage, const tern_torrent_state *state,
                                  tern_error *err)
{
    const uint32_t patience = s->options->patience;
    const double now = tern_app_seconds();
    const bool moved = state->fetched != s->fetched || stage == TERN_TORRENT_CHECKING || stage == TERN_TORRENT_SUMMING;
    if (moved || s->moved == 0) s->moved = now;
    s->waits = s->waits && !moved;
    s->fetched = state->fetched;
    note_waiting(s, now - s->moved, state);
    if (!patience || now - s->moved < patience) return TERN_OK;
    return tern_fail(err, TERN_IO, "no data came for %u seconds (--timeout), from %u peer%s; the received data is kept",
                     patience, state->peers, state->peers == 1 ? "" : "s");
}

/* The part of --seed-ratio or --seed-time that is done, the larger of the two; 1: all. */
static float seeded(const showing *s, const tern_torrent_state *state)
{
    const tern_options *o = s->options;
    const double minutes = (tern_app_seconds() - s->began_seeding) / 60, given = (double)state->sent;
    const double time = o->seed_minutes ? minutes / o->seed_minutes : 0;
    const double ratio = o->seed_ratio > 0 ? given / ((double)o->seed_ratio * (double)s->bytes) : 0;
    return (float)(time > ratio ? time : ratio);
}

static tern_status on_progress(void *context, tern_torrent_stage stage, float done, const tern_torrent_state *state,
                               tern_error *err)
{
    showing *s = context;
    if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
    if (stage == TERN_TORRENT_SEEDING) {
        done = seeded(s, state);
        if (done >= 1) return tern_fail(err, TERN_CANCELLED, "enough was given");
    } else TERN_TRY(check_patience(s, stage, state, err));
    if (s->options->quiet) return TERN_OK;
    if (!s->begun || stage != s->stage) {
        tern_progress_end(&s->bar);
        s->bar = (tern_progress){.label = s->label};
        s->begun = true;
        s->stage = stage;
    }
    write_label(s, stage, state);
    return tern_progress_update(&s->bar, done) ? TERN_OK : tern_app_fail_interrupted(err);
}

/* The path comes when all is there, and not when the seeding ends. */
static void on_whole(void *context, const char *package)
{
    showing *s = context;
    tern_progress_end(&s->bar);
    s->whole = true;
    s->began_seeding = tern_app_seconds();
    if (s->options->json || !s->options->seed_torrent) return;
    tern_app_write_text(package, strlen(package));
    tern_app_write("\n", 1);
    tern_app_flushed();
    if (!s->options->quiet) tern_app_say("%s is given to whoever asks; Ctrl-C ends it\n", s->name);
}

static tern_status report(const showing *s, const char *what, const tern_torrent_pulled *pulled, tern_error *err)
{
    const char *path = pulled->package.text;
    if (s->options->json)
        return tern_app_print_json(
            json_pack("{s:o, s:o, s:s, s:s, s:o, s:I}", "link", tern_app_json_text(what, strlen(what)), "name",
                      tern_app_json_text(pulled->name, strlen(pulled->name)), "info_hash", pulled->v1, "info_hash_v2",
                      pulled->v2, "path", tern_app_json_text(path, strlen(path)), "bytes", (json_int_t)pulled->bytes),
            err);
    if (s->options->seed_torrent) return TERN_OK;
    tern_app_write_text(path, strlen(path));
    tern_app_write("\n", 1);
    return TERN_OK;
}

tern_status tern_app_torrent_pull(const tern_options *o, const char *what, tern_error *err)
{
    showing s = {.options = o};
    tern_hub hub;
    tern_torrent_pulled pulled;
    if ((o->seed_ratio > 0 || o->seed_minutes) && !o->seed_torrent)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--seed-ratio and --seed-time need --seed, which was not given");
    TERN_TRY(tern_app_hub(&hub, err));
    const tern_torrent_wish wish = {.hub = &hub,
                                    .what = what,
                                    .peers = o->peers.items,
                                    .n_peers = o->peers.n,
                                    .listen = o->listen,
                                    .no_discovery = o->no_discovery,
                                    .seed = o->seed_torrent,
                                    .upload_limit = (uint64_t)o->upload_kib << 10,
                                    .context = &s,
                                    .begin = on_begin,
                                    .progress = on_progress,
                                    .whole = on_whole,
                                    .note = on_note};
    const tern_status status = tern_torrent_pull(&wish, &pulled, err);
    tern_progress_end(&s.bar);
    if (status == TERN_CANCELLED) fputs("\nWhat has come stays; the same command goes on from there.\n", stderr);
    if (status != TERN_OK) return status;
    if (s.whole) tern_app_take_interrupt(); /* it ended the seeding, which is not a failure */
    return report(&s, what, &pulled, err);
}
