// An RSR matrix on a GPU, and how it is made there: row blocks of k rows; in each the columns sorted by their pattern,
// equal ones a group; a group is one word. (docs/internals/rsr.md; checklist R-19 to R-27, R-37 to R-46)
#ifndef TERN_BENCH_RSR_CUDA_MATRIX_CUH
#define TERN_BENCH_RSR_CUDA_MATRIX_CUH

#include <cstdint>

enum { MOST_K = 16, MOST_COLS = 65535 };

// Where a group's columns begin in its block's permutation, how many they are, and the rows that their sum is added to
// and taken from. One load of 8 bytes.
struct group_word {
    uint16_t start, length, plus, minus;
};
static_assert(sizeof(group_word) == 8, "one load");

// The same of binary matrices, as 16 bytes.
struct group_four {
    int start, end, rows, unused;
};

// Device memory, all of it.
struct rsr_matrix {
    uint32_t k, rows, cols, blocks; // blocks = ceil(rows / k); rows beyond the last are zeros
    uint16_t *columns;              // [blocks][cols]
    uint32_t *first;                // [blocks + 1]: the first group of each block
    group_word *words;              // [groups]; columns of zeros alone are in none
    group_four *fours;              // [groups]
    uint32_t *starts, *masks;       // [groups], [groups]: plus | minus << 16
    uint32_t groups;
};

// codes: device, [rows][cols] of -1, 0, 1; k 1 to MOST_K, cols at most MOST_COLS. Ends the program when CUDA fails.
rsr_matrix rsr_make(const int8_t *codes, uint32_t rows, uint32_t cols, uint32_t k);
void rsr_free(rsr_matrix *m);
// Of columns, words and block starts: what a product of `words` reads.
size_t rsr_bytes(const rsr_matrix *m);

void cuda_check(int e, const char *what, int line);
#define CUDA(call) cuda_check((int)(call), #call, __LINE__)

#endif
