// BIAS_BACKWARD (src/ops/op.h), first dispatch: parts of the gradient, each of ROWS rows.
//
//   part[i][c] = sum over rows t of ROWS * i .. of dy[t][c]
//
//   groups     (ceil(cols / COLUMNS), parts); WORKGROUP / COLUMNS invocations share a column
//   dy         rows of dy_stride floats, from dy_first
//   scratch    from word parts_word the parts [parts][cols]
//   params     word count_word holds the number of rows
//
// The same bits each time: the order depends on the row alone.
override WORKGROUP: u32 = 256;
override COLUMNS: u32 = 32;
override ROWS: u32 = 64;

override LANES: u32 = WORKGROUP / COLUMNS;

struct P {
    cols: u32,
    count_word: u32,
    dy_first: u32,
    dy_stride: u32,
    parts_word: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> scratch: array<f32>;

var<workgroup> partial: array<f32, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * COLUMNS + local % COLUMNS;
    let end = min((group.y + 1u) * ROWS, params[p.count_word]);
    var sum = 0.0;
    if (c < p.cols) {
        for (var t = group.y * ROWS + local / COLUMNS; t < end; t += LANES) {
            sum += dy[p.dy_first + t * p.dy_stride + c];
        }
    }
    partial[local] = sum;
    workgroupBarrier();
    if (local < COLUMNS && c < p.cols) {
        for (var i = 1u; i < LANES; i++) {
            sum += partial[i * COLUMNS + local];
        }
        scratch[p.parts_word + group.y * p.cols + c] = sum;
    }
}
