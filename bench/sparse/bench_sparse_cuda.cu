// Whether a token on an NVIDIA GPU gains from the lists that the CPU skips weights by (decision 38): the feed-forward
// network of BitNet 2B4T with a squared ReLU, dense (linear/ternary_vec.cu: gate and up in one kernel, int8, down), and
// by lists (gate, rows of up whose gate is open, columns of down whose input is not 0). Integers of both ways are
// compared with the host's. Weights are in no cache: copies take turns.
//
// Usage: bench_sparse_cuda
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backend/cuda/linear/common.cuh"

enum { HIDDEN = 2560, FFN = 6912, ROW = HIDDEN / 4, COPIES = 12, WARPS = 8, ROWS_OF_THREAD = 16, SPLITS = 132 };
enum { COLUMN_THREADS = HIDDEN / ROWS_OF_THREAD, REPEATS = 6 };

#define CUDA(call) check((int)(call), #call, __LINE__)
static void check(int e, const char *what, int line)
{
    if (e == 0) return;
    fprintf(stderr, "line %d: %s: %s\n", line, what, cudaGetErrorString((cudaError_t)e));
    exit(1);
}

static uint32_t hash(uint64_t i, uint32_t seed)
{
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xD1B54A32D192ED03ull;
    x ^= x >> 32, x *= 0xD6E8FEB86659FD93ull, x ^= x >> 32;
    return (uint32_t)x;
}

// What both ways share of a layer. Codes: w + 1 in two bits, columns (of down_columns rows) in order.
struct Layer {
    uint8_t *gate, *up, *down_columns; // [FFN][ROW]
    const int8_t *x;                   // [HIDDEN]
    float threshold;                   // gates up to it are closed
    float *gates, *h;                  // [FFN]
    uint32_t *open, *columns;          // lists
    uint32_t *counts;                  // of open, of columns; the bits of the largest |h|
    int8_t *q;                         // [FFN]
    int *y;                            // [HIDDEN]
};

// ---- by lists

static __device__ int row_product(const uint8_t *row, const int8_t *x)
{
    const uint32_t lane = threadIdx.x % 32;
    int sum = 0;
    for (uint32_t i = lane; i < ROW / 16; i += 32) {
        const uint4 v = stream16(row + i * 16);
        const uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const uint4 xs = *(const uint4 *)(x + i * 64 + k * 16);
            // codes 0, 4, 8, ... of a word lie in its bits 0, 8, 16, 24: x is in that order
            sum = __dp4a((int)(words[k] & 0x03030303u), (int)xs.x, sum);
            sum = __dp4a((int)(words[k] >> 2 & 0x03030303u), (int)xs.y, sum);
            sum = __dp4a((int)(words[k] >> 4 & 0x03030303u), (int)xs.z, sum);
            sum = __dp4a((int)(words[k] >> 6 & 0x03030303u), (int)xs.w, sum);
        }
    }
    return __reduce_add_sync(~0u, sum);
}

static __global__ void __launch_bounds__(WARPS * 32) gate_rows(Layer l, int less)
{
    const uint32_t r = blockIdx.x * WARPS + threadIdx.x / 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    tern_follow();
    if (i < HIDDEN) l.y[i] = 0;
    if (i == 0) l.counts[1] = l.counts[2] = 0;
    if (r >= FFN) return;
    const float g = (float)(row_product(l.gate + (size_t)r * ROW, l.x) - less);
    if (threadIdx.x % 32) return;
    l.gates[r] = g - l.threshold;
    if (g > l.threshold) l.open[atomicAdd(&l.counts[0], 1)] = r;
}

static __global__ void __launch_bounds__(WARPS * 32) up_rows(Layer l, int less)
{
    tern_follow();
    const uint32_t n = __ldcg(&l.counts[0]);
    for (uint32_t i = blockIdx.x * WARPS + threadIdx.x / 32; i < n; i += gridDim.x * WARPS) {
        const uint32_t r = l.open[i];
        const float g = l.gates[r], h = g * g * (float)(row_product(l.up + (size_t)r * ROW, l.x) - less);
        if (threadIdx.x % 32) continue;
        l.h[r] = h;
        atomicMax(&l.counts[2], __float_as_uint(fabsf(h)));
    }
}

static __global__ void __launch_bounds__(256) to_int8(Layer l)
{
    tern_follow();
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= __ldcg(&l.counts[0])) return;
    const uint32_t r = l.open[i];
    const int q = (int)rintf(l.h[r] * (127.0f / __uint_as_float(__ldcg(&l.counts[2]))));
    l.q[r] = (int8_t)q;
    if (q) l.columns[atomicAdd(&l.counts[1], 1)] = r;
}

// A thread has 16 rows of down, a block a share of the columns.
static __global__ void __launch_bounds__(COLUMN_THREADS) down_columns(Layer l)
{
    tern_follow();
    const uint32_t n = __ldcg(&l.counts[1]);
    int sums[ROWS_OF_THREAD] = {};
    if (blockIdx.x == 0 && threadIdx.x == 0) l.counts[0] = 0;
    for (uint32_t i = blockIdx.x; i < n; i += gridDim.x) {
        const uint32_t c = l.columns[i], codes = ((const uint32_t *)(l.down_columns + (size_t)c * ROW))[threadIdx.x];
        const int q = l.q[c];
#pragma unroll
        for (int k = 0; k < ROWS_OF_THREAD; k++) sums[k] += ((int)(codes >> 2 * k & 3) - 1) * q;
    }
    for (int k = 0; k < ROWS_OF_THREAD; k++) atomicAdd(&l.y[threadIdx.x * ROWS_OF_THREAD + k], sums[k]);
}

static void run_lists(const Layer &l, int less, cudaStream_t s)
{
    CUDA(tern_launch(gate_rows, (FFN + WARPS - 1) / WARPS, WARPS * 32, 0, s, l, less));
    CUDA(tern_launch(up_rows, 2 * SPLITS, WARPS * 32, 0, s, l, less));
    CUDA(tern_launch(to_int8, (FFN + 255) / 256, 256, 0, s, l));
    CUDA(tern_launch(down_columns, SPLITS, COLUMN_THREADS, 0, s, l));
}

// ---- dense: the values do not matter for its time

static __global__ void __launch_bounds__(1024) quantize(const float *h, int8_t *q)
{
    __shared__ float room[32];
    tern_follow();
    float most = 1e-5f;
    for (uint32_t i = threadIdx.x; i < FFN; i += 1024) most = fmaxf(most, fabsf(h[i]));
    most = tern_block_max(most, room);
    for (uint32_t i = threadIdx.x; i < FFN; i += 1024) q[i] = (int8_t)rintf(h[i] * (127.0f / most));
}

// x's scale and sum are those of a zero.
struct Zeros {
    float *scale;
    int *sum;
};

static Linear product(const uint8_t *w, uint32_t parts, uint32_t rows, uint32_t cols, const int8_t *x, Zeros zeros,
                      float *out)
{
    Linear l = {};
    l.n_parts = parts, l.gated = parts > 1, l.activation = TERN_ACT_RELU2;
    for (uint32_t i = 0; i < parts; i++) l.parts[i] = {w + (size_t)i * rows * (cols / 4), NULL, NULL, 1.0f, rows};
    l.cols = cols, l.row_bytes = cols / 4, l.n = l.usual = l.times = l.x_times = l.n_experts = 1, l.q8 = true;
    l.x = x, l.x_stride = cols, l.x_scales = zeros.scale, l.x_sums = zeros.sum, l.out = out, l.out_stride = rows;
    return l;
}

static void run_dense(const Layer &l, const Linear &gate_up, const Linear &down, cudaStream_t s)
{
    const tern_cuda_product_device d = {.capability = 90, .multiprocessors = 132};
    CUDA(tern_cuda_ternary_vec(&gate_up, &d, s));
    CUDA(tern_launch(quantize, 1, 1024, 0, s, l.h, l.q));
    CUDA(tern_cuda_ternary_vec(&down, &d, s));
}

// Microseconds of a layer, the best of REPEATS runs of COPIES layers.
template <typename Run> static double time_of(cudaStream_t s, Run run)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    double best = 1e30;
    CUDA(cudaEventCreate(&from));
    CUDA(cudaEventCreate(&to));
    CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < COPIES; i++) run(i);
    CUDA(cudaStreamEndCapture(s, &graph));
    CUDA(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < REPEATS; i++) {
        float ms;
        CUDA(cudaEventRecord(from, s));
        CUDA(cudaGraphLaunch(exec, s));
        CUDA(cudaEventRecord(to, s));
        CUDA(cudaEventSynchronize(to));
        CUDA(cudaEventElapsedTime(&ms, from, to));
        if (i) best = std::min(best, ms * 1e3 / COPIES);
    }
    return best;
}

// ---- the host's

static int code_of(const std::vector<uint8_t> &w, size_t row, uint32_t c)
{
    return (w[row * ROW + c / 4] >> c % 4 * 2 & 3) - 1;
}

// Column c of row_product's x: bytes of a word are every fourth code.
static uint32_t place_of(uint32_t c)
{
    return c / 16 * 16 + c % 4 * 4 + c % 16 / 4;
}

static std::vector<float> dense_rows(const std::vector<uint8_t> &w, const std::vector<int8_t> &x)
{
    std::vector<float> y(FFN);
    for (uint32_t r = 0; r < FFN; r++) {
        int sum = 0;
        for (uint32_t c = 0; c < HIDDEN; c++) sum += code_of(w, r, c) * x[c];
        y[r] = (float)sum;
    }
    return y;
}

static std::vector<uint8_t> random_codes(uint32_t seed)
{
    std::vector<uint8_t> w((size_t)FFN * ROW);
    for (size_t i = 0; i < w.size(); i++) {
        const uint32_t h = hash(i, seed);
        for (int k = 0; k < 4; k++) w[i] |= (uint8_t)((h >> 8 * k) % 3 << 2 * k);
    }
    return w;
}

template <typename T> static T *device(const std::vector<T> &v, size_t copies = 1)
{
    T *p;
    CUDA(cudaMalloc(&p, v.size() * copies * sizeof(T)));
    for (size_t i = 0; i < copies; i++)
        CUDA(cudaMemcpy(p + i * v.size(), v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

int main(void)
{
    const std::vector<uint8_t> w[3] = {random_codes(1), random_codes(2), random_codes(3)};
    std::vector<int8_t> x(HIDDEN), ordered(HIDDEN);
    int less = 0, wrong = 0;
    for (uint32_t c = 0; c < HIDDEN; c++) x[c] = (int8_t)(hash(c, 9) % 255 - 127), less += x[c];
    for (uint32_t c = 0; c < HIDDEN; c++) ordered[place_of(c)] = x[c];
    const std::vector<float> gates = dense_rows(w[0], x), ups = dense_rows(w[1], x);
    uint8_t *weights[3], *both = device(w[0], 2 * COPIES);
    for (int i = 0; i < 3; i++) weights[i] = device(w[i], COPIES);
    Layer l = {};
    l.x = device(ordered);
    l.gates = device(std::vector<float>(FFN)), l.h = device(std::vector<float>(FFN));
    l.open = device(std::vector<uint32_t>(FFN)), l.columns = device(std::vector<uint32_t>(FFN));
    l.counts = device(std::vector<uint32_t>(3)), l.q = device(std::vector<int8_t>(FFN));
    l.y = device(std::vector<int>(HIDDEN));
    float *out = device(std::vector<float>(FFN));
    const Zeros zeros = {device(std::vector<float>(1)), device(std::vector<int>(1))};
    cudaStream_t s;
    CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    cudaDeviceProp properties;
    CUDA(cudaGetDeviceProperties(&properties, 0));
    const size_t matrix = (size_t)FFN * ROW;
    const double dense = time_of(s, [&](int i) {
        run_dense(l, product(both + 2 * matrix * i, 2, FFN, HIDDEN, l.x, zeros, out),
                  product(weights[2] + matrix * i, 1, HIDDEN, FFN, l.q, zeros, out), s);
    });
    printf("%s\n\n| gates closed | columns of down that are 0 | dense, us a layer | by lists |\n|---|---|---|---|\n",
           properties.name);
    for (float share : {0.5f, 0.75f, 0.9f}) {
        std::vector<float> sorted = gates;
        std::sort(sorted.begin(), sorted.end());
        l.threshold = sorted[(size_t)(share * (FFN - 1))];
        const auto layer = [&](int i) {
            Layer at = l;
            at.gate = weights[0] + matrix * i, at.up = weights[1] + matrix * i, at.down_columns = weights[2] + matrix * i;
            return at;
        };
        const double us = time_of(s, [&](int i) { run_lists(layer(i), less, s); });
        std::vector<int> y(HIDDEN), wanted(HIDDEN);
        CUDA(cudaMemcpy(y.data(), l.y, HIDDEN * sizeof(int), cudaMemcpyDeviceToHost));
        float most = 0;
        std::vector<float> h(FFN);
        for (uint32_t r = 0; r < FFN; r++) {
            const float g = gates[r] - l.threshold;
            h[r] = g > 0 ? g * g * ups[r] : 0;
            most = std::max(most, fabsf(h[r]));
        }
        uint32_t zeros = 0;
        for (uint32_t r = 0; r < FFN; r++) {
            const int q = (int)rintf(h[r] * (127.0f / most));
            zeros += q == 0;
            for (uint32_t i = 0; q && i < HIDDEN; i++) wanted[i] += code_of(w[2], r, i) * q;
        }
        for (uint32_t i = 0; i < HIDDEN; i++) wrong += y[i] != wanted[i];
        printf("| %.2f | %.2f | %.2f | %.2f |\n", share, (double)zeros / FFN, dense, us);
    }
    if (wrong) printf("%d sums are wrong\n", wrong);
    return wrong != 0;
}
