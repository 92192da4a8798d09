/* Sleeping until a 32-bit word changes: futex on Linux, its like in WebAssembly, a condition variable elsewhere. */
#include "base/park.h"

#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

void tern_park__wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void tern_park__wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#elif defined(__EMSCRIPTEN_PTHREADS__)
#include <limits.h>

/* Not on a page's own thread, which must not sleep: the core runs in a worker, or under Node. */
void tern_park__wait(_Atomic uint32_t *word, uint32_t seen)
{
    __builtin_wasm_memory_atomic_wait32((int *)(void *)word, (int)seen, -1);
}

void tern_park__wake(_Atomic uint32_t *word)
{
    __builtin_wasm_memory_atomic_notify((int *)(void *)word, INT_MAX);
}
#else
#include <pthread.h>

/* One pair for all words: a wake-up that was meant for another word is an early return. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

void tern_park__wait(_Atomic uint32_t *word, uint32_t seen)
{
    pthread_mutex_lock(&lock);
    if (atomic_load(word) == seen) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

void tern_park__wake(_Atomic uint32_t *word)
{
    (void)word;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
#endif
