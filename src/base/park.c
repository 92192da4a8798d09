/* Sleeping until a 32-bit word changes: futex on Linux, a condition variable elsewhere. */
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
