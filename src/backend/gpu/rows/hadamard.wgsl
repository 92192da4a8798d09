// HADAMARD (src/ops/operands.h, src/ops/ref/rotated/hadamard.h): signs and a Hadamard transform of blocks, or with
// `inverse` the transform and then the signs.
//
//   groups  (ceil(cols / CHUNK), most rows): a workgroup for CHUNK columns of a row, which are whole blocks
//   x, y    rows of x_stride, y_stride floats, from x_first, y_first
//   signs   [cols] f32
//   params  word count_word holds the number of rows, or of tokens, each of which has token_rows
//
// An invocation has eight columns, `unit` apart, for the stages of three strides; then all of them exchange columns
// through workgroup memory. Stages in the order of the definition, so that the bits are those of the CPU.
override WORKGROUP: u32 = 128;

const CHUNK = 1024u; // 8 * WORKGROUP, and the longest block

struct P {
    cols: u32,
    block: u32,
    count_word: u32,
    x_first: u32,
    x_stride: u32,
    y_first: u32,
    y_stride: u32,
    token_rows: u32,
    head_dim: u32,
    n_groups: u32, // of heads; one head of all columns where their order stays
    group_heads: u32,
    inverse: u32,
    scale: f32, // 1 / sqrt(block)
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read> signs: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

var<workgroup> exchange: array<f32, CHUNK>;

// Columns 0 to 3 and 4 to 7 of an invocation.
var<private> low: vec4<f32>;
var<private> high: vec4<f32>;

// The column that goes to place c of the signs and the transform, which have the heads of a group side by side.
fn column_of(c: u32) -> u32 {
    let place = c / p.head_dim;
    let head = place % p.group_heads * p.n_groups + place / p.group_heads;
    return head * p.head_dim + c % p.head_dim;
}

// Stages of stride unit, 2 unit and 4 unit, as far as a block has them.
fn stages(unit: u32) {
    if (unit < p.block) {
        low = vec4<f32>(low.x + low.y, low.x - low.y, low.z + low.w, low.z - low.w);
        high = vec4<f32>(high.x + high.y, high.x - high.y, high.z + high.w, high.z - high.w);
    }
    if (2u * unit < p.block) {
        low = vec4<f32>(low.xy + low.zw, low.xy - low.zw);
        high = vec4<f32>(high.xy + high.zw, high.xy - high.zw);
    }
    last_stage(unit);
}

fn last_stage(unit: u32) {
    if (4u * unit < p.block) {
        let sum = low + high;
        high = low - high;
        low = sum;
    }
}

fn put(first: u32, unit: u32) {
    for (var i = 0u; i < 4u; i++) { // unroll
        exchange[first + i * unit] = low[i];
        exchange[first + (i + 4u) * unit] = high[i];
    }
    workgroupBarrier();
}

fn take(first: u32, unit: u32) {
    for (var i = 0u; i < 4u; i++) { // unroll
        low[i] = exchange[first + i * unit];
        high[i] = exchange[first + (i + 4u) * unit];
    }
}

// The first of the columns that invocation `local` has, `unit` apart.
fn first_of(local: u32, unit: u32) -> u32 {
    return local / unit * 8u * unit + local % unit;
}

// Column c of the row from float `row` of x; 0 beyond the columns.
fn load(row: u32, c: u32) -> f32 {
    if (c >= p.cols) {
        return 0.0;
    }
    if (p.inverse != 0u) {
        return x[row + c];
    }
    return signs[c] * x[row + column_of(c)];
}

fn store(row: u32, c: u32, v: f32) {
    if (c >= p.cols) {
        return;
    }
    if (p.inverse != 0u) {
        y[row + column_of(c)] = signs[c] * (v * p.scale);
    } else {
        y[row + c] = v * p.scale;
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let t = group.y;
    let first = group.x * CHUNK;
    let present = t < params[p.count_word] * p.token_rows;
    let x_row = p.x_first + t * p.x_stride;
    let y_row = p.y_first + t * p.y_stride;
    for (var i = 0u; i < CHUNK; i += WORKGROUP) { // unroll
        exchange[i + local] = load(x_row, first + i + local);
    }
    workgroupBarrier();
    for (var unit = 1u; unit < WORKGROUP; unit *= 8u) { // unroll
        take(first_of(local, unit), unit);
        stages(unit);
        put(first_of(local, unit), unit);
    }
    take(local, WORKGROUP);
    last_stage(WORKGROUP);
    if (!present) {
        return;
    }
    for (var i = 0u; i < 4u; i++) { // unroll
        store(y_row, first + i * WORKGROUP + local, low[i]);
        store(y_row, first + (i + 4u) * WORKGROUP + local, high[i]);
    }
}
