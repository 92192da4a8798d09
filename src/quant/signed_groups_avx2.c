#define LANES      8
#define FIT_GROUPS tern_signed_fit__groups_avx2
#include "quant/signed_groups.inc"
