#define LANES      16
#define FIT_GROUPS tern_signed_fit__groups_avx512
#include "quant/signed_groups.inc"
