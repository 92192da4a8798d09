/* Sleeping until a 32-bit word changes: futex on Linux, a condition variable elsewhere. */
#ifndef TERN_BASE_PARK_H
#define TERN_BASE_PARK_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *word is `seen`; may return early. The check and falling asleep are one step, seen from tern_park__wake.
 */
void tern_park__wait(_Atomic uint32_t *word, uint32_t seen);
/* Wakes all that sleep on word. The change of *word must come first. */
void tern_park__wake(_Atomic uint32_t *word);

#endif
