// EMBED (src/ops/op.h): out[t] = row ids[t] of the table, decoded to f32.
//
//   groups     (ceil(cols / 8 / WORKGROUP), most tokens)
//   params     word count_word holds the number of tokens; from word ids_word on, their ids
//   table      rows [first_row, first_row + rows) of the table, row_vectors vectors of 16 bytes each, as
//              src/backend/gpu/gpu.h lays them out; tokens with other ids are another slice's
//   result     [tokens] rows of result_stride floats, from result_first
//
// An invocation decodes eight columns (or what is left of them). A ternary table has the scale of the tensor, or one
// for each row from word scales_word on (0: none).
override FORMAT: u32 = 2; // 0 ternary, 1 f32, 2 f16, 3 bf16, 4 q8_0, 5 q6_k, 6 q4_k
override WORKGROUP: u32 = 128;

struct P {
    first_row: u32,
    rows: u32,
    cols: u32,
    row_vectors: u32,
    count_word: u32,
    ids_word: u32,
    result_first: u32,
    result_stride: u32,
    scales_word: u32,
    scale: f32,
}

@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;

// Of a vector, the words of byte `byte` and the next: byte is a multiple of 8.
fn pair_at(row: u32, byte: u32) -> vec2<u32> {
    let v = table[row + byte / 16u];
    return select(v.xy, v.zw, (byte & 8u) != 0u);
}

fn word_at(row: u32, byte: u32) -> u32 {
    return table[row + byte / 16u][byte / 4u % 4u];
}

fn half_at(row: u32, byte: u32) -> f32 {
    let pair = unpack2x16float(word_at(row, byte));
    return select(pair.x, pair.y, (byte & 2u) != 0u);
}

// The bytes of a word, the lowest first. (unpack4xU8 would become 8-bit integers in SPIR-V, which not every device
// has.)
fn bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}

fn signed_bytes(v: u32) -> vec4<f32> {
    return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}

fn unsigned_bytes(v: vec2<u32>) -> mat2x4<f32> {
    return mat2x4<f32>(bytes(v.x), bytes(v.y));
}

fn minus(m: mat2x4<f32>, v: f32) -> mat2x4<f32> {
    return mat2x4<f32>(m[0] - vec4<f32>(v), m[1] - vec4<f32>(v));
}

fn ternary(row: u32, c: u32) -> mat2x4<f32> {
    let packed = pair_at(row, c / 128u * 32u + c % 32u);
    let codes = (packed >> vec2<u32>(6u - c % 128u / 32u * 2u)) & vec2<u32>(0x03030303u);
    return minus(unsigned_bytes(codes), 1.0);
}

fn q8_0(row: u32, c: u32) -> mat2x4<f32> {
    let v = pair_at(row, c);
    return mat2x4<f32>(signed_bytes(v.x), signed_bytes(v.y)) * half_at(row, p.cols + c / 32u * 2u);
}

fn q6_k(row: u32, c: u32) -> mat2x4<f32> {
    let block = c / 256u * 208u;
    let side = c % 256u / 128u;
    let part = c % 128u / 32u;
    let nibbles = pair_at(row, block + side * 64u + part % 2u * 32u + c % 32u) >> vec2<u32>(part / 2u * 4u);
    let low = nibbles & vec2<u32>(0x0f0f0f0fu);
    let high = (pair_at(row, block + 128u + side * 32u + c % 32u) >> vec2<u32>(part * 2u)) & vec2<u32>(0x03030303u);
    let scales = word_at(row, block + 192u + c % 256u / 16u);
    let scale = extractBits(bitcast<i32>(scales), c / 16u % 4u * 8u, 8u);
    let d = half_at(row, p.cols / 256u * 208u + c / 256u * 2u);
    return minus(unsigned_bytes(low | (high << vec2<u32>(4u))), 32.0) * (d * f32(scale));
}

fn q4_k(row: u32, c: u32) -> mat2x4<f32> {
    let block = c / 256u * 144u;
    let group = c % 256u / 32u;
    let head = table[row + block / 16u];
    let shift = group % 4u * 8u;
    var scale = (head.y >> shift) & 63u;
    var least = (head.z >> shift) & 63u;
    if (group >= 4u) {
        scale = ((head.w >> shift) & 15u) | (((head.y >> (shift + 6u)) & 3u) << 4u);
        least = ((head.w >> (shift + 4u)) & 15u) | (((head.z >> (shift + 6u)) & 3u) << 4u);
    }
    let nibbles = pair_at(row, block + 16u + group / 2u * 32u + c % 32u) >> vec2<u32>(group % 2u * 4u);
    let values = unsigned_bytes(nibbles & vec2<u32>(0x0f0f0f0fu));
    let ds = unpack2x16float(head.x);
    return minus(values * (ds.x * f32(scale)), ds.y * f32(least));
}

fn f32s(row: u32, c: u32) -> mat2x4<f32> {
    let low = table[row + c / 4u];
    var high = vec4<u32>();
    if (c + 4u < p.cols) {
        high = table[row + c / 4u + 1u];
    }
    return mat2x4<f32>(bitcast<vec4<f32>>(low), bitcast<vec4<f32>>(high));
}

fn f16s(row: u32, c: u32) -> mat2x4<f32> {
    let v = table[row + c / 8u];
    let low = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
    return mat2x4<f32>(low, vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)));
}

fn bf16s(row: u32, c: u32) -> mat2x4<f32> {
    let v = table[row + c / 8u];
    let even = bitcast<vec4<f32>>(v << vec4<u32>(16u));
    let odd = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
    return mat2x4<f32>(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w);
}

// Columns c .. c + 7 of the row that starts at vector `row`, c a multiple of 8.
fn eight(row: u32, c: u32) -> mat2x4<f32> {
    switch (FORMAT) {
        case 0u: { return ternary(row, c); }
        case 1u: { return f32s(row, c); }
        case 2u: { return f16s(row, c); }
        case 3u: { return bf16s(row, c); }
        case 4u: { return q8_0(row, c); }
        case 5u: { return q6_k(row, c); }
        default: { return q4_k(row, c); }
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let c = (group.x * WORKGROUP + local) * 8u;
    let t = group.y;
    if (c >= p.cols || t >= params[p.count_word]) {
        return;
    }
    let r = params[p.ids_word + t] - p.first_row; // wraps for rows before the slice
    if (r >= p.rows) {
        return;
    }
    var values = eight(r * p.row_vectors, c);
    if (FORMAT == 0u) {
        var scale = p.scale;
        if (p.scales_word != 0u) {
            let word = p.scales_word + r;
            scale = bitcast<f32>(table[word / 4u][word % 4u]);
        }
        values = values * scale;
    }
    let first = p.result_first + t * p.result_stride + c;
    for (var i = 0u; i < min(8u, p.cols - c); i++) {
        result[first + i] = values[i / 4u][i % 4u];
    }
}
