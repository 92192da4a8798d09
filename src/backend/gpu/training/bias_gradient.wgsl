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
//
// GROUPED, with a route: the rows are those that group_rows.wesl has put together by expert, in their order, in one
// tile for each expert, and the sums are added to the expert's row of the gradient.
//
//   groups     (ceil(cols / COLUMNS), most tiles)
//   scratch    the gradient, [experts][cols]
//   params     what group_rows.wesl wrote
override WORKGROUP: u32 = 256;
override COLUMNS: u32 = 32;
override ROWS: u32 = 64;
override GROUPED: bool = false;

override LANES: u32 = WORKGROUP / COLUMNS;

struct P {
    cols: u32,
    count_word: u32,
    dy_first: u32,
    dy_stride: u32,
    parts_word: u32,
    rows_first: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> scratch: array<f32>;

var<workgroup> partial: array<f32, WORKGROUP>;

// Row t of a tile whose rows begin at `first` in the list.
fn row_at(first: u32, t: u32) -> u32 {
    if (GROUPED) {
        return params[p.rows_first + first + t];
    }
    return t;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * COLUMNS + local % COLUMNS;
    var begin = group.y * ROWS;
    var end = 0u;
    var first = 0u;
    var to = group.y;
    if (!GROUPED) {
        end = min(begin + ROWS, params[p.count_word]);
    } else if (group.y < params[0]) {
        begin = 0u;
        to = params[4u * group.y + 4u];
        first = params[4u * group.y + 5u];
        end = params[4u * group.y + 6u];
    }
    var sum = 0.0;
    if (c < p.cols) {
        for (var t = begin + local / COLUMNS; t < end; t += LANES) {
            sum += dy[p.dy_first + row_at(first, t) * p.dy_stride + c];
        }
    }
    partial[local] = sum;
    workgroupBarrier();
    if (local < COLUMNS && c < p.cols) {
        for (var i = 1u; i < LANES; i++) {
            sum += partial[i * COLUMNS + local];
        }
        let at = p.parts_word + to * p.cols + c;
        if (!GROUPED) {
            scratch[at] = sum;
        } else if (end > 0u) {
            scratch[at] += sum;
        }
    }
}
