/* Whole products for one type of inputs X and of sums Y: included once for each, with NAME(what), STEP and KERNEL, the
 * types of what multiplies one unit. */

/* Of signs the binary matrix was multiplied. */
static void NAME(finish)(tern_rsr_kind kind, uint32_t rows, uint32_t cols, const X *x, Y *y)
{
    Y total = 0;
    if (kind != TERN_RSR_SIGNS) return;
    for (uint32_t c = 0; c < cols; c++) total += x[c];
    for (uint32_t r = 0; r < rows; r++) y[r] = 2 * y[r] - total;
}

/* Rows that fill up the last block are left out. */
static void NAME(add_block)(uint32_t row, uint32_t rows, uint32_t k, const Y *sums, Y *y)
{
    for (uint32_t r = 0; r < k && row + r < rows; r++) y[row + r] += sums[r];
}

void NAME(groups)(const tern_rsr_groups *g, const tern_cpu__rsr_lists *lists, STEP *step, const X *x, Y *room, Y *y)
{
    memset(y, 0, g->rows * sizeof *y);
    for (uint32_t u = 0; u < g->n_blocks * g->n_panels; u++) {
        const tern_cpu__rsr_block b = tern_cpu__rsr_block_of(g, lists, u);
        Y sums[TERN_RSR_MAX_K] = {0};
        step(&b, x + (size_t)(u % g->n_panels) * g->panel_cols, room, sums);
        NAME(add_block)(u / g->n_panels * g->k, g->rows, g->k, sums, y);
    }
    NAME(finish)(g->kind, g->rows, g->cols, x, y);
}

void NAME(slices)(const tern_rsr_slices *s, KERNEL kernel, const X *x, X *room, Y *y)
{
    memset(y, 0, s->rows * sizeof *y);
    for (uint32_t panel = 0; panel < s->n_panels; panel++) {
        const uint32_t width = tern_rsr_panel_width(s->cols, s->panel_cols, panel);
        memcpy(room, x + (size_t)panel * s->panel_cols, width * sizeof *x);
        memset(room + width, 0, 4 * sizeof *x);
        for (uint32_t block = 0; block < s->n_blocks; block++) {
            const tern_rsr_unit unit = tern_rsr_unit_of(s, block * s->n_panels + panel);
            Y sums[TERN_RSR_MAX_K] = {0};
            kernel(&unit, room, sums);
            NAME(add_block)(block * s->k, s->rows, s->k, sums, y);
        }
    }
    NAME(finish)(s->kind, s->rows, s->cols, x, y);
}

#undef NAME
#undef STEP
#undef KERNEL
#undef X
#undef Y
