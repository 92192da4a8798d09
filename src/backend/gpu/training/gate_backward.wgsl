// GATE_BACKWARD (src/ops/op.h): the gradients of y = act(gate) * up, rows of f32 (tern_ref_relu2_backward and the
// like).
//
//   ACT 0, relu2   r = max(gate, 0) (0 for NaN);  dgate = (dy * up) * (r + r);  dup = dy * (r * r)
//   ACT 1, silu    s = 1 / (1 + e^-gate);  dgate = (dy * up) * (s * (1 + gate * (1 - s)));  dup = dy * (gate * s)
//   ACT 2, gelu    the tanh form: act = gate * s, s = 1 / (1 + e^(-2 u)), u = sqrt(2 / pi) (gate + 0.044715 gate^3)
//   ACT 3, swiglu_oai  y = g * s * (u + 1), g = min(gate, limit), u = up within +-limit, s = 1 / (1 + e^(-1.702 g));
//                  dgate and dup are 0 where gate, or up, was cut
//   ACT 4, swiglu_clamped  y = g * s * u, s = 1 / (1 + e^-g), g and u as those
//   ACT 5, sigmoid  s = 1 / (1 + e^-gate);  dgate = (dy * up) * (s * (1 - s));  dup = dy * s
//   groups         (ceil(cols / WORKGROUP), most rows)
//   gate, up, dy, dgate, dup  rows of *_stride floats, from *_first
//   params         word count_word holds the number of rows, or of tokens, each of which has token_rows
override WORKGROUP: u32 = 256;
override ACT: u32 = 0;

struct P {
    cols: u32,
    count_word: u32,
    gate_first: u32,
    gate_stride: u32,
    up_first: u32,
    up_stride: u32,
    dy_first: u32,
    dy_stride: u32,
    dup_first: u32,
    dup_stride: u32,
    dgate_first: u32,
    dgate_stride: u32,
    token_rows: u32,
    limit: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> gate: array<f32>;
@group(0) @binding(3) var<storage, read_write> up: array<f32>;
@group(0) @binding(4) var<storage, read_write> dy: array<f32>;
@group(0) @binding(5) var<storage, read_write> dup: array<f32>;
@group(0) @binding(6) var<storage, read_write> dgate: array<f32>;

const GELU_A: f32 = 0.7978845608;
const GELU_B: f32 = 0.044715;

// e^-g must not pass 2^126: devices may divide by more as if it were infinite, or not at all.
fn sigmoid(g: f32) -> f32 {
    return select(1.0 / (1.0 + exp(-max(g, -87.0))), 0.0, g < -87.0);
}

// act(g) and its derivative.
fn activated(g: f32) -> vec2<f32> {
    if (ACT == 1u) {
        let s = sigmoid(g);
        return vec2<f32>(g * s, s * (1.0 + g * (1.0 - s)));
    }
    if (ACT == 2u) {
        // Beyond these s is 0 or 1 and its derivative 0, but for g^3 that overflow.
        let h = clamp(g, -20.0, 20.0);
        let s = sigmoid(2.0 * GELU_A * (h + GELU_B * h * h * h));
        return vec2<f32>(g * s, s + h * s * (1.0 - s) * (2.0 * GELU_A * (1.0 + 3.0 * GELU_B * h * h)));
    }
    if (ACT == 5u) {
        let s = sigmoid(g);
        return vec2<f32>(s, s * (1.0 - s));
    }
    let r = select(0.0, g, g > 0.0);
    return vec2<f32>(r * r, r + r);
}

// The gradients of gate and up, times dy.
fn gradients(g: f32, u: f32, d: f32) -> vec2<f32> {
    if (ACT == 3u || ACT == 4u) {
        let oai = ACT == 3u;
        let cut = select(g, p.limit, p.limit < g);
        let near = select(select(u, -p.limit, u < -p.limit), p.limit, p.limit < u);
        let w = select(1.0, 1.702, oai) * cut;
        let s = sigmoid(w);
        let dgate = d * (near + select(0.0, 1.0, oai)) * (s * (1.0 + w * (1.0 - s)));
        return vec2<f32>(select(dgate, 0.0, p.limit < g), select(d * (cut * s), 0.0, p.limit < abs(u)));
    }
    let a = activated(g);
    return vec2<f32>((d * u) * a.y, d * a.x);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = group.x * WORKGROUP + local;
    let t = group.y;
    if (t >= params[p.count_word] * p.token_rows || c >= p.cols) {
        return;
    }
    let g = gate[p.gate_first + t * p.gate_stride + c];
    let d = dy[p.dy_first + t * p.dy_stride + c];
    let u = up[p.up_first + t * p.up_stride + c];
    let made = gradients(g, u, d);
    dup[p.dup_first + t * p.dup_stride + c] = made.y;
    dgate[p.dgate_first + t * p.dgate_stride + c] = made.x;
}
