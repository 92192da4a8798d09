// GATE (src/ops/op.h): y[t][c] = act(gate[t][c]) * up[t][c], rows of f32.
//
//   ACT 0, relu2  r = max(gate, 0) (0 for NaN), y = r * r * up
//   ACT 1, silu   y = gate / (1 + e^-gate) * up
//   ACT 2, gelu   y = gate / (1 + e^-w) * up, w = 2 sqrt(2 / pi) (gate + 0.044715 gate^3): the tanh form
//   groups        (ceil(cols / WORKGROUP), most rows)
//   gate, up, y   rows of gate_stride, up_stride, y_stride floats, from gate_first, up_first, y_first
//   params        word count_word holds the number of rows
override WORKGROUP: u32 = 256;
override ACT: u32 = 0;

struct P {
    cols: u32,
    count_word: u32,
    gate_first: u32,
    gate_stride: u32,
    up_first: u32,
    up_stride: u32,
    y_first: u32,
    y_stride: u32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> gate: array<f32>;
@group(0) @binding(3) var<storage, read_write> up: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;

// e^-g must not pass 2^126: devices may divide by more as if it were infinite, or not at all.
fn silu(g: f32) -> f32 {
    return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}

// Beyond +-20 it is g or 0, but for g^3 that overflows.
fn gelu(g: f32) -> f32 {
    let h = clamp(g, -20.0, 20.0);
    let w = (h + h * h * h * 0.044715) * 1.5957691216;
    return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}

fn activated(g: f32) -> f32 {
    if (ACT == 1u) {
        return silu(g);
    }
    if (ACT == 2u) {
        return gelu(g);
    }
    let r = select(0.0, g, g > 0.0);
    return r * r;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * WORKGROUP + local;
    let t = group.y;
    if (t >= params[p.count_word] || c >= p.cols) {
        return;
    }
    let g = gate[p.gate_first + t * p.gate_stride + c];
    y[p.y_first + t * p.y_stride + c] = activated(g) * up[p.up_first + t * p.up_stride + c];
}
