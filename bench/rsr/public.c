/* The kernels of the public RSR code, from a shared library that was built elsewhere, on the matrices and with the
 * clock of the other tables.
 *
 * Its kernels take a vector of f32 and n numbers of columns for each block, of which the groups are runs. Version 3.1
 * has a list of rows and signs for each group, version 3.3 two masks. */
#include "rsr/public.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

typedef void lists_fn(const uint16_t *perm, const uint16_t *ends, const int32_t *first_row, const int8_t *rows,
                      const int8_t *signs, const int32_t *first_group, const float *x, float *y, int cols, int k,
                      int n_blocks);
typedef void masks_fn(const uint16_t *perm, const uint16_t *ends, const uint16_t *pos, const uint16_t *neg,
                      const int32_t *first_group, const float *x, float *y, int cols, int k, int n_blocks);

/* The arrays that the kernels read. */
enum { PERM, ENDS, POS, NEG, FIRST_ROW, ROWS, SIGNS, FIRST_GROUP, N_ARRAYS };

typedef struct product {
    lists_fn *lists;
    masks_fn *masks;
    int cols, k, n_blocks;
    size_t at[N_ARRAYS], bytes; /* of one copy */
    uint8_t *data;
} product;

static const char *const symbols[] = {"rsr_ternary_gemv_v3_1", "rsr_ternary_gemv_v3_3"};

static void multiply(void *context, size_t copy)
{
    const product *p = context;
    const void *a[N_ARRAYS];
    float *y = (float *)(void *)work.y[0];
    for (int i = 0; i < N_ARRAYS; i++) a[i] = p->data + copy * p->bytes + p->at[i];
    if (p->lists)
        p->lists(a[PERM], a[ENDS], a[FIRST_ROW], a[ROWS], a[SIGNS], a[FIRST_GROUP], work.x_f32, y, p->cols, p->k,
                 p->n_blocks);
    else p->masks(a[PERM], a[ENDS], a[POS], a[NEG], a[FIRST_GROUP], work.x_f32, y, p->cols, p->k, p->n_blocks);
}

/* Columns without a group, which the public code sums up too; their group is the first of a block. */
static uint32_t other_columns(const rsr_groups *g, uint32_t block, uint16_t *perm)
{
    static bool taken[COLD_MAX_COLS];
    uint32_t n = 0;
    memset(taken, 0, g->cols);
    for (uint32_t i = g->first_column[block]; i < g->first_column[block + 1]; i++) taken[g->perm[i]] = true;
    for (uint32_t c = 0; c < g->cols; c++)
        if (!taken[c]) perm[n++] = (uint16_t)c;
    return n;
}

static void append_group(void *const a[N_ARRAYS], uint32_t at, uint16_t end, uint16_t pos, uint16_t neg, uint32_t k)
{
    int32_t *first_row = a[FIRST_ROW], row = first_row[at];
    ((uint16_t *)a[ENDS])[at] = end;
    ((uint16_t *)a[POS])[at] = pos;
    ((uint16_t *)a[NEG])[at] = neg;
    for (uint32_t r = 0; r < k; r++) {
        const int sign = (pos >> r & 1) - (neg >> r & 1);
        if (!sign) continue;
        ((int8_t *)a[ROWS])[row] = (int8_t)r;
        ((int8_t *)a[SIGNS])[row++] = (int8_t)sign;
    }
    first_row[at + 1] = row;
}

static void fill(const rsr_groups *g, void *const a[N_ARRAYS])
{
    uint32_t n_groups = 0;
    for (uint32_t b = 0; b < g->n_blocks; b++) {
        uint16_t *perm = (uint16_t *)a[PERM] + (size_t)b * g->cols;
        const uint32_t n = other_columns(g, b, perm), first = g->first_column[b];
        memcpy(perm + n, g->perm + first, (g->first_column[b + 1] - first) * sizeof *perm);
        ((int32_t *)a[FIRST_GROUP])[2 * b] = (int32_t)n_groups;
        if (n) append_group(a, n_groups++, (uint16_t)n, 0, 0, g->k);
        for (uint32_t i = g->first_group[b]; i < g->first_group[b + 1]; i++)
            append_group(a, n_groups++, (uint16_t)(n + g->groups[i].end), g->groups[i].pos, g->groups[i].neg, g->k);
        ((int32_t *)a[FIRST_GROUP])[2 * b + 1] = (int32_t)n_groups;
    }
}

/* Copies of the arrays, and what one product reads of them. */
static size_t open_product(product *p, const rsr_groups *g, size_t *n_copies)
{
    const size_t n = g->first_group[g->n_blocks] + g->n_blocks;
    const size_t sizes[N_ARRAYS] = {[PERM] = 2 * (size_t)g->n_blocks * g->cols,
                                    [ENDS] = 2 * n,
                                    [POS] = 2 * n,
                                    [NEG] = 2 * n,
                                    [FIRST_ROW] = 4 * (n + 1),
                                    [ROWS] = n * g->k,
                                    [SIGNS] = n * g->k,
                                    [FIRST_GROUP] = 8 * (size_t)g->n_blocks};
    void *a[N_ARRAYS];
    tern_error err = {0};
    p->cols = (int)g->cols, p->k = (int)g->k, p->n_blocks = (int)g->n_blocks, p->bytes = 0;
    for (int i = 0; i < N_ARRAYS; i++) {
        p->at[i] = p->bytes;
        p->bytes += (sizes[i] + 63) / 64 * 64;
    }
    uint8_t *one = tern_calloc(p->bytes, 1);
    if (!one) cold_check(tern_fail_alloc(&err, p->bytes), &err);
    for (int i = 0; i < N_ARRAYS; i++) a[i] = one + p->at[i];
    fill(g, a);
    const size_t entries = (size_t)((int32_t *)a[FIRST_ROW])[n] * 2;
    const size_t read = sizes[PERM] + sizes[ENDS] + sizes[FIRST_GROUP] +
                        (p->lists ? sizes[FIRST_ROW] + entries : sizes[POS] + sizes[NEG]);
    *n_copies = cold_n_copies(read);
    p->data = cold_copies(one, p->bytes, *n_copies);
    tern_free(one);
    return read;
}

/* Sums of so few int8 numbers are exact in f32. */
static void check_product(product *p, const matrix *m)
{
    const float *y = (const float *)(const void *)work.y[0];
    multiply(p, 0);
    for (uint32_t r = 0; r < m->rows; r++) {
        int32_t sum = 0;
        for (uint32_t c = 0; c < m->cols; c++) sum += m->codes[(size_t)r * m->cols + c] * work.x_i8[c];
        if (y[r] == (float)sum) continue;
        fprintf(stderr, "row %u: %g found, %d expected\n", r, (double)y[r], sum);
        exit(1);
    }
}

/* One row: a kernel by its address, of version 3.1 or 3.3. */
static void print_kernel(void *address, const char *symbol, uint32_t k, void (*set_threads)(int), const matrix *m,
                         const cold_options *o)
{
    const union {
        void *address;
        lists_fn *lists;
        masks_fn *masks;
    } kernel = {address};
    const bool lists = strcmp(symbol, symbols[0]) == 0;
    product p = {.lists = lists ? kernel.lists : NULL, .masks = lists ? NULL : kernel.masks};
    rsr_groups g;
    tern_error err = {0};
    size_t n_copies;
    double us[2];
    const tern_rsr_source source = matrix_source(m);
    cold_check(rsr_groups_build(&g, &source, &(tern_rsr_options){.k = k, .pool = o->pools[1]}, &err), &err);
    cold_progress("%u x %u: %s, k %u", m->rows, m->cols, symbol, k);
    const size_t bytes = open_product(&p, &g, &n_copies);
    check_product(&p, m);
    for (int i = 0; i < 2; i++) {
        if (set_threads) set_threads((int)o->n_threads[i]);
        us[i] = cold_time(o->passes, n_copies, multiply, &p);
    }
    cold_progress(NULL);
    printf("| %u x %u | %s, k %u | %.0f | %.0f | %.2f | |\n", m->rows, m->cols, symbol, k, us[0], us[1],
           8.0 * (double)bytes / ((double)m->rows * m->cols));
    fflush(stdout);
    tern_free_aligned(p.data);
    rsr_groups_deinit(&g);
}

void print_public(const char *path, const matrix *m, const cold_options *o)
{
    void *library = dlopen(path, RTLD_NOW); /* never closed: OpenMP keeps threads in it */
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    const union {
        void *address;
        void (*set)(int);
    } threads = {dlsym(library, "omp_set_num_threads")};
    int n = 0;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *address = dlsym(library, symbols[i]);
        for (uint32_t k = 4; address && k <= 6; k++, n++) print_kernel(address, symbols[i], k, threads.set, m, o);
    }
    if (n) return;
    fprintf(stderr, "%s: neither %s nor %s found\n", path, symbols[0], symbols[1]);
    exit(1);
}
