/* The powers of 3 by which the bytes of a TQ1_0 block are multiplied. */
#include "backend/cpu/ternary/tq1_0.h"

#define TWO(n)     (n), (n)
#define EIGHT(n)   TWO(n), TWO(n), TWO(n), TWO(n)
#define SIXTEEN(n) EIGHT(n), EIGHT(n)

_Alignas(64) const uint16_t tern_cpu__tq1_0_powers[128] = {
    SIXTEEN(1), SIXTEEN(3), SIXTEEN(9), SIXTEEN(27), SIXTEEN(81), EIGHT(1), EIGHT(3),
    EIGHT(9),   EIGHT(27),  EIGHT(81),  TWO(1),      TWO(3),      TWO(9),   TWO(27),
};
