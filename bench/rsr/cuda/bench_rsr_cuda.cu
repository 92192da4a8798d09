// RSR on an NVIDIA GPU beside Tern's product of ternary weights (linear/ternary_vec.cu): every variant checked against
// a plain product, then a table by shape and k. Weights are in no cache: copies take turns.
//
// Usage: bench_rsr_cuda [check | table | forms]   (all without a word)
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backend/cuda/linear/common.cuh"
#include "multiply.cuh"

enum { COPIES_BYTES = 160 << 20, MOST_COPIES = 64, PLAIN_THREADS = 128 };

void cuda_check(int e, const char *what, int line)
{
    if (e == 0) return;
    fprintf(stderr, "line %d: %s: %s\n", line, what, cudaGetErrorString((cudaError_t)e));
    exit(1);
}

template <typename T> static T *device(size_t n)
{
    void *p = NULL;
    CUDA(cudaMalloc(&p, n * sizeof(T)));
    return (T *)p;
}

static uint32_t hash(uint64_t i, uint32_t seed)
{
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
    x ^= x >> 32, x *= 0xD6E8FEB86659FD93ull, x ^= x >> 32;
    return (uint32_t)x;
}

struct matrix {
    uint32_t rows, cols;
    std::vector<int8_t> codes;
    int8_t *on_device, *x;
    float *x_f32;
    int *y, *expected;
    float *y_f32;
};

// binary: 0 and 1. A share of the columns of some blocks are zeros alone.
static matrix matrix_of(uint32_t rows, uint32_t cols, bool binary, uint32_t seed)
{
    matrix m = {rows, cols, std::vector<int8_t>((size_t)rows * cols)};
    for (size_t i = 0; i < m.codes.size(); i++)
        m.codes[i] = (int8_t)(binary ? hash(i, seed) & 1 : (int)(hash(i, seed) % 3) - 1);
    std::vector<int8_t> x(cols);
    std::vector<float> x_f32(cols);
    for (uint32_t c = 0; c < cols; c++) x[c] = (int8_t)hash(c, seed + 1), x_f32[c] = x[c];
    m.on_device = device<int8_t>(m.codes.size()), m.x = device<int8_t>((cols + 127) / 128 * 128),
    m.x_f32 = device<float>(cols);
    m.y = device<int>(rows), m.y_f32 = device<float>(rows), m.expected = device<int>(rows);
    CUDA(cudaMemset(m.x, 0, (cols + 127) / 128 * 128));
    CUDA(cudaMemcpy(m.on_device, m.codes.data(), m.codes.size(), cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(m.x, x.data(), cols, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(m.x_f32, x_f32.data(), cols * sizeof(float), cudaMemcpyHostToDevice));
    return m;
}

static void matrix_free(matrix *m)
{
    void *const all[] = {m->on_device, m->x, m->x_f32, m->y, m->y_f32, m->expected};
    for (void *p : all) CUDA(cudaFree(p));
}

static __global__ void plain(const int8_t *codes, uint32_t cols, const int8_t *x, int *y)
{
    __shared__ int sums[PLAIN_THREADS / 32];
    int sum = 0;
    for (uint32_t c = threadIdx.x; c < cols; c += PLAIN_THREADS) sum += codes[(size_t)blockIdx.x * cols + c] * x[c];
    sum = __reduce_add_sync(~0u, sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int i = 1; i < PLAIN_THREADS / 32; i++) sum += sums[i];
    y[blockIdx.x] = sum;
}

// ---- the variants
template <typename X, typename SUM> struct variant {
    const char *name;
    bool ternary; // takes -1 as well
    void (*run)(const rsr_matrix &m, const X *x, SUM *y, cudaStream_t s);
};
#define VARIANTS(X, SUM)                                                                                               \
    {                                                                                                                  \
        {"4.10", true, binary_4_10<X, SUM>}, {"5.7", false, binary_5_7<X, SUM>}, {"5.8", false, binary_5_8<X, SUM>},   \
            {"5.9", false, binary_5_9<X, SUM>}, {"5.10", false, binary_5_10<X, SUM>},                                  \
            {"ternary 2.0", true, ternary_2_0<X, SUM>},                                                                \
    }
static const variant<int8_t, int> of_int8[] = VARIANTS(int8_t, int);
static const variant<float, float> of_f32[] = VARIANTS(float, float);

static int n_checked, n_wrong;

// Inputs are whole numbers, and sums small enough for f32 to have them exactly where SUM is float.
template <typename X, typename SUM, size_t N>
static void check_all(const matrix &m, const rsr_matrix &r, bool binary, const variant<X, SUM> (&variants)[N],
                      const X *x, SUM *y)
{
    std::vector<int> wanted(m.rows);
    std::vector<SUM> got(m.rows);
    CUDA(cudaMemcpy(wanted.data(), m.expected, m.rows * sizeof(int), cudaMemcpyDeviceToHost));
    for (const variant<X, SUM> &v : variants) {
        if (!binary && !v.ternary) continue;
        CUDA(cudaMemset(y, 0xff, m.rows * sizeof(SUM)));
        v.run(r, x, y, 0);
        CUDA(cudaDeviceSynchronize());
        CUDA(cudaMemcpy(got.data(), y, m.rows * sizeof(SUM), cudaMemcpyDeviceToHost));
        uint32_t wrong = 0;
        for (uint32_t i = 0; i < m.rows; i++) wrong += !(got[i] == (SUM)wanted[i]);
        n_checked++;
        if (!wrong) continue;
        n_wrong++;
        printf("%s, %s, %u x %u, k %u: %u of %u rows are wrong\n", v.name,
               std::is_same<X, float>::value ? "f32" : "int8", m.rows, m.cols, r.k, wrong, m.rows);
    }
}

static void check(uint32_t rows, uint32_t cols)
{
    for (int binary = 0; binary < 2; binary++) {
        matrix m = matrix_of(rows, cols, binary, rows + cols);
        plain<<<rows, PLAIN_THREADS>>>(m.on_device, cols, m.x, m.expected);
        for (uint32_t k = 1; k <= MOST_K; k++) {
            rsr_matrix r = rsr_make(m.on_device, rows, cols, k);
            check_all(m, r, binary, of_int8, m.x, m.y);
            check_all(m, r, binary, of_f32, m.x_f32, m.y_f32);
            rsr_free(&r);
        }
        matrix_free(&m);
    }
}

static int check_shapes(void)
{
    static const uint32_t shapes[][2] = {{64, 64},   {1, 1},      {7, 33},     {100, 1000},
                                         {256, 257}, {96, 40000}, {33, 65535}, {48, 32769}};
    for (const auto &s : shapes) check(s[0], s[1]);
    printf("%d products, %d wrong\n", n_checked, n_wrong);
    return n_wrong != 0;
}

// ---- times
struct timer {
    cudaStream_t stream;
    cudaEvent_t from, to;
};

// Microseconds of each of n launches in a graph, the best of five.
template <typename Launch> static double time_of(const timer &t, int n, Launch launch)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    double best = 1e30;
    CUDA(cudaStreamBeginCapture(t.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < n; i++) launch(i);
    CUDA(cudaStreamEndCapture(t.stream, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 6; i++) {
        float ms;
        CUDA(cudaEventRecord(t.from, t.stream));
        CUDA(cudaGraphLaunch(exec, t.stream));
        CUDA(cudaEventRecord(t.to, t.stream));
        CUDA(cudaEventSynchronize(t.to));
        CUDA(cudaEventElapsedTime(&ms, t.from, t.to));
        if (i && ms * 1e3 / n < best) best = ms * 1e3 / n;
    }
    CUDA(cudaGraphExecDestroy(exec));
    CUDA(cudaGraphDestroy(graph));
    return best;
}

static int copies_of(size_t bytes)
{
    const size_t n = COPIES_BYTES / bytes + 1;
    return n > MOST_COPIES ? MOST_COPIES : (int)n;
}

// Tern's product of one int8 row: I2_S groups (the values do not matter for its time).
static double time_product(const timer &t, const matrix &m)
{
    const uint32_t row_bytes = (m.cols + 127) / 128 * 32;
    const size_t bytes = (size_t)m.rows * row_bytes;
    const int copies = copies_of(bytes);
    uint8_t *weights = device<uint8_t>(bytes * copies);
    float *scales = device<float>(1);
    int *sums = device<int>(1);
    CUDA(cudaMemset(weights, 0x59, bytes * copies));
    CUDA(cudaMemset(scales, 0, sizeof *scales));
    CUDA(cudaMemset(sums, 0, sizeof *sums));
    const tern_cuda_product_device d = {.capability = 90, .multiprocessors = 132};
    const double us = time_of(t, copies, [&](int i) {
        Linear l = {};
        l.n_parts = 1;
        l.parts[0] = {weights + bytes * i, NULL, NULL, 1.0f, m.rows};
        l.cols = m.cols, l.row_bytes = row_bytes, l.n = l.usual = l.times = 1, l.q8 = true;
        l.x = m.x, l.x_stride = (m.cols + 127) / 128 * 128, l.x_scales = scales, l.x_sums = sums;
        l.out = m.y_f32, l.out_stride = m.rows;
        CUDA(tern_cuda_ternary_vec(&l, &d, t.stream));
    });
    CUDA(cudaFree(weights));
    CUDA(cudaFree(scales));
    CUDA(cudaFree(sums));
    return us;
}

template <typename X, typename SUM>
static double time_variant(const timer &t, const matrix &m, const rsr_matrix &r, const variant<X, SUM> &v, const X *x,
                           SUM *y)
{
    const int copies = copies_of(rsr_bytes(&r));
    std::vector<rsr_matrix> all;
    for (int i = 0; i < copies; i++) all.push_back(rsr_make(m.on_device, m.rows, m.cols, r.k));
    const double us = time_of(t, copies, [&](int i) { v.run(all[i], x, y, t.stream); });
    for (rsr_matrix &one : all) rsr_free(&one);
    return us;
}

static void print_table(const timer &t)
{
    static const uint32_t shapes[][2] = {{1024, 1024}, {2048, 2048}, {4096, 4096},  {8192, 8192}, {16384, 16384},
                                         {3840, 2560}, {2560, 2560}, {13824, 2560}, {2560, 6912}};
    printf("\n| ternary, us | Tern's product | int8, k 2 | 4 | 6 | 8 | f32, k 2 | 4 | 6 | 8 | bits a weight, k 4 | "
           "made in ms, k 4 |\n"
           "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (const auto &s : shapes) {
        matrix m = matrix_of(s[0], s[1], false, 3);
        double bits = 0, made = 0, us[8];
        printf("| %u x %u | %.1f |", s[0], s[1], time_product(t, m));
        for (uint32_t k = 2; k <= 8; k += 2) {
            float ms;
            CUDA(cudaEventRecord(t.from, 0));
            rsr_matrix r = rsr_make(m.on_device, m.rows, m.cols, k);
            CUDA(cudaEventRecord(t.to, 0));
            CUDA(cudaEventSynchronize(t.to));
            CUDA(cudaEventElapsedTime(&ms, t.from, t.to));
            us[k / 2 - 1] = time_variant(t, m, r, of_int8[5], m.x, m.y);
            us[k / 2 + 3] = time_variant(t, m, r, of_f32[5], m.x_f32, m.y_f32);
            if (k == 4) bits = 8.0 * (double)rsr_bytes(&r) / m.rows / m.cols, made = ms;
            rsr_free(&r);
        }
        for (double u : us) printf(" %.1f |", u);
        printf(" %.2f | %.1f |\n", bits, made);
        fflush(stdout);
        matrix_free(&m);
    }
}

// The binary variants, and the ladder that they are.
static void print_forms(const timer &t)
{
    static const uint32_t shapes[][2] = {{2560, 2560}, {8192, 8192}};
    printf("\n| binary, int8, us | k | 4.10 | 5.7 | 5.8 | 5.9 | 5.10 | as ternary 2.0 "
           "|\n|---|---|---|---|---|---|---|---|\n");
    for (const auto &s : shapes) {
        matrix m = matrix_of(s[0], s[1], true, 3);
        for (uint32_t k = 2; k <= 16; k += k < 12 ? 2 : 4) {
            rsr_matrix r = rsr_make(m.on_device, m.rows, m.cols, k);
            printf("| %u x %u | %u |", s[0], s[1], k);
            for (const auto &v : of_int8) printf(" %.1f |", time_variant(t, m, r, v, m.x, m.y));
            printf("\n");
            fflush(stdout);
            rsr_free(&r);
        }
        matrix_free(&m);
    }
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    cudaDeviceProp device;
    timer t;
    CUDA(cudaGetDeviceProperties(&device, 0));
    printf("%s\n", device.name);
    CUDA(cudaStreamCreateWithFlags(&t.stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&t.from));
    CUDA(cudaEventCreate(&t.to));
    int status = 0;
    if (!*what || !strcmp(what, "check")) status = check_shapes();
    if (!*what || !strcmp(what, "table")) print_table(t);
    if (!*what || !strcmp(what, "forms")) print_forms(t);
    return status;
}
