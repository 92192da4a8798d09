/* The two ends of the model: cross-entropy with its gradient, and the embedding's. */
#include <math.h>

#include "ops/ref/backward.h"

void tern_ref_embed_backward(const int32_t *ids, uint32_t n, uint32_t cols, const float *dy, size_t dy_stride,
                             float *dtable)
{
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t c = 0; c < cols; c++) dtable[(size_t)ids[t] * cols + c] += dy[t * dy_stride + c];
}

uint32_t tern_ref_count_labels(const int32_t *labels, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < n; t++) count += labels[t] >= 0;
    return count;
}

/* z[i] = exp(z[i] - most); their sum in lanes and tree. */
static float exponentials(float *z, uint32_t n, float most)
{
    float lanes[TERN_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        z[i] = tern_ref_exp(z[i] - most);
        lanes[i % TERN_LANES] += z[i];
    }
    for (size_t half = TERN_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    return lanes[0];
}

float tern_ref_cross_entropy(float *z, uint32_t n_vocab, int32_t label, float weight)
{
    if (label < 0 || (uint32_t)label >= n_vocab) {
        for (uint32_t i = 0; i < n_vocab; i++) z[i] = 0;
        return 0;
    }
    float most = z[0], wanted = z[label];
    for (uint32_t i = 1; i < n_vocab; i++) most = fmaxf(most, z[i]);
    float sum = exponentials(z, n_vocab, most);
    const float r = 1 / sum;
    for (uint32_t i = 0; i < n_vocab; i++) z[i] = weight * (z[i] * r - (i == (uint32_t)label ? 1.0f : 0.0f));
    return (float)(log((double)sum) + (double)most - (double)wanted);
}
