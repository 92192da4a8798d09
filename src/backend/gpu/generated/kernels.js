// Made by tools/wgsl (`make shaders`) from src/backend/gpu; do not edit. "~" begins lines for subgroups alone.
export const kernels = {
add: `override WORKGROUP: u32 = 256;
struct P {
cols: u32,
count_word: u32,
a_first: u32,
a_stride: u32,
b_first: u32,
b_stride: u32,
out_first: u32,
out_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> a: array<f32>;
@group(0) @binding(3) var<storage, read_write> b: array<f32>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let c = group.x * WORKGROUP + local;
let t = group.y;
if (t >= params[p.count_word] || c >= p.cols) {
return;
}
result[p.out_first + t * p.out_stride + c] = a[p.a_first + t * p.a_stride + c] + b[p.b_first + t * p.b_stride + c];
}`,
add_parts: `override WORKGROUP: u32 = 128;
struct P {
cols: u32,
parts: u32,
parts_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> scratch: array<f32>;
@group(0) @binding(2) var<storage, read_write> dg: array<f32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
let c = id.x;
if (c >= p.cols) {
return;
}
var sum = scratch[p.parts_word + c];
for (var i = 1u; i < p.parts; i++) {
sum += scratch[p.parts_word + i * p.cols + c];
}
dg[c] += sum;
}`,
attention_combine: `override WORKGROUP: u32 = 128;
struct P {
head_dim: u32,
n_kv_heads: u32,
group: u32,
head_blocks: u32,
heads: u32,
count_word: u32,
positions_word: u32,
split_bits: u32,
min_span: u32,
partials: u32,
out_first: u32,
out_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
var<workgroup> maxima: array<f32, 32>;
var<workgroup> sums: array<f32, 32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let head = group.x;
let t = group.y;
let n = select(0u, params[p.positions_word + t] + 1u, t < params[p.count_word]);
let splits = 1u << p.split_bits;
let span = max(p.min_span, (n + splits - 1u) >> p.split_bits);
let spans = select(0u, (n + span - 1u) / span, n > span);
let kv_head = head / p.group;
let in_group = head - kv_head * p.group;
let block = in_group / p.heads;
let stride = p.heads * (p.head_dim + 8u);
let item = (t * p.n_kv_heads + kv_head) * p.head_blocks + block;
let first = p.partials + item * splits * stride + (in_group - block * p.heads) * (p.head_dim + 8u);
if (local < spans) {
maxima[local] = bitcast<f32>(scratch[first + local * stride + p.head_dim]);
sums[local] = bitcast<f32>(scratch[first + local * stride + p.head_dim + 1u]);
}
workgroupBarrier();
var highest = -3.4028234e38;
for (var s = 0u; s < spans; s++) {
highest = max(highest, maxima[s]);
}
var total = 0.0;
for (var s = 0u; s < spans; s++) {
total += exp2(maxima[s] - highest) * sums[s];
}
for (var c = local; c < select(0u, p.head_dim, spans > 0u); c += WORKGROUP) {
var sum = 0.0;
for (var s = 0u; s < spans; s++) {
sum += exp2(maxima[s] - highest) * bitcast<f32>(scratch[first + s * stride + c]);
}
result[p.out_first + t * p.out_stride + head * p.head_dim + c] = sum / total;
}
}`,
attention_decode: `~enable subgroups;
override WORKGROUP: u32 = 128;
override TEAM: u32 = 16;
override VECS: u32 = 1;
override HEADS: u32 = 1;
override UNROLL: u32 = 2;
override F16: bool = true;
override SUBGROUPS: u32 = 0;
override TEAMS: u32 = WORKGROUP / TEAM;
struct P {
head_dim: u32,
n_kv_heads: u32,
group: u32,
head_blocks: u32,
count_word: u32,
positions_word: u32,
sequences_word: u32,
pages_word: u32,
max_pages: u32,
x_first: u32,
x_stride: u32,
k_first: u32,
v_first: u32,
out_first: u32,
out_stride: u32,
scale: f32,
split_bits: u32,
min_span: u32,
fused: u32,
adjacent: u32,
merge: u32,
partials: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> table: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> result: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> scratch: array<atomic<u32>>;
const NOTHING: f32 = -3.4028234e38;
var<workgroup> visible_and_table: vec2<u32>;
var<workgroup> dots: array<f32, WORKGROUP * UNROLL * HEADS * (1u - SUBGROUPS) + 1u>;
var<workgroup> team_m: array<f32, TEAMS * HEADS>;
var<workgroup> team_l: array<f32, TEAMS * HEADS>;
var<workgroup> team_acc: array<vec4<f32>, WORKGROUP * HEADS * VECS * 2u>;
var<workgroup> is_last: u32;
var<private> q: array<vec4<f32>, 8>;
var<private> acc: array<vec4<f32>, 8>;
var<private> m: array<f32, 4>;
var<private> l: array<f32, 4>;
var<private> held: array<vec4<u32>, 16>;
var<private> keys: array<vec4<f32>, 8>;
var<private> values: array<vec4<f32>, 8>;
var<private> new_keys: array<vec4<f32>, 8>;
var<private> new_values: array<vec4<f32>, 8>;
var<private> scores: array<f32, 16>;
struct Block {
low: vec4<f32>,
high: vec4<f32>,
}
fn halves(bits: vec4<u32>) -> Block {
let low = vec4<f32>(unpack2x16float(bits.x), unpack2x16float(bits.y));
return Block(low, vec4<f32>(unpack2x16float(bits.z), unpack2x16float(bits.w)));
}
fn packed(b: Block) -> vec4<u32> {
let low = vec2<u32>(pack2x16float(b.low.xy), pack2x16float(b.low.zw));
return vec4<u32>(low, pack2x16float(b.high.xy), pack2x16float(b.high.zw));
}
fn rounded(b: Block) -> Block {
return halves(packed(b) | vec4<u32>(p.fused >> 1u));
}
fn block_of(lane: u32, i: u32) -> u32 {
return min(lane + TEAM * i, p.head_dim / 8u - 1u);
}
fn is_live(lane: u32, i: u32) -> bool {
return (lane + TEAM * i) * 8u < p.head_dim;
}
struct Angles {
cosines: vec4<f32>,
sines: vec4<f32>,
}
fn angles_of(position: u32, c: u32) -> Angles {
let quads = p.head_dim / 4u;
let adjacent = p.adjacent != 0u;
let upper = c * 8u >= p.head_dim;
let k = 2u * select(c, c - quads / 2u, upper);
let t0 = table[position * quads + select(k, c, adjacent)];
let t1 = table[position * quads + select(k + 1u, c, adjacent)];
let sines = vec4<f32>(t0.yw, t1.yw);
return Angles(select(vec4<f32>(t0.xz, t1.xz), t0.xxzz, adjacent),
select(select(-sines, sines, upper), vec4<f32>(-t0.y, t0.y, -t0.w, t0.w), adjacent));
}
fn partner_of(c: u32) -> u32 {
let half = p.head_dim / 8u;
return select(select(c + half, c - half, c >= half), c, p.adjacent != 0u);
}
fn rotated(start: u32, c: u32, angles: Angles) -> vec4<f32> {
let other = x[start + partner_of(c)];
return x[start + c] * angles.cosines + select(other, other.yxwz, p.adjacent != 0u) * angles.sines;
}
fn load_queries(row: u32, n_heads: u32, lane: u32) {
for (var h = 0u; h < HEADS; h++) {
let start = row + min(h, n_heads - 1u) * (p.head_dim / 4u);
for (var i = 0u; i < VECS; i++) {
let quad = 2u * block_of(lane, i);
q[(h * VECS + i) * 2u] = x[start + quad] * p.scale;
q[(h * VECS + i) * 2u + 1u] = x[start + quad + 1u] * p.scale;
}
}
}
fn load_token(row: u32, first_head: u32, n_heads: u32, kv_head: u32, lane: u32, position: u32) {
let quads = p.head_dim / 4u;
let k_start = row + p.k_first + kv_head * quads;
let v_start = row + p.v_first + kv_head * quads;
for (var i = 0u; i < VECS; i++) {
let quad = 2u * block_of(lane, i);
let low = angles_of(position, quad);
let high = angles_of(position, quad + 1u);
for (var h = 0u; h < HEADS; h++) {
let start = row + p.x_first + (first_head + min(h, n_heads - 1u)) * quads;
q[(h * VECS + i) * 2u] = rotated(start, quad, low) * p.scale;
q[(h * VECS + i) * 2u + 1u] = rotated(start, quad + 1u, high) * p.scale;
}
var k = Block(rotated(k_start, quad, low), rotated(k_start, quad + 1u, high));
var v = Block(x[v_start + quad], x[v_start + quad + 1u]);
if (F16) {
k = rounded(k);
v = rounded(v);
}
new_keys[2u * i] = k.low;
new_keys[2u * i + 1u] = k.high;
new_values[2u * i] = v.low;
new_values[2u * i + 1u] = v.high;
}
}
fn store_token(slot: u32, lane: u32) {
for (var i = 0u; i < VECS; i++) {
if (is_live(lane, i)) {
let k = Block(new_keys[2u * i], new_keys[2u * i + 1u]);
let v = Block(new_values[2u * i], new_values[2u * i + 1u]);
if (F16) {
let block = slot * (p.head_dim / 8u) + block_of(lane, i);
k_cache[block] = packed(k);
v_cache[block] = packed(v);
} else {
let quad = slot * (p.head_dim / 4u) + 2u * block_of(lane, i);
k_cache[quad] = bitcast<vec4<u32>>(k.low);
k_cache[quad + 1u] = bitcast<vec4<u32>>(k.high);
v_cache[quad] = bitcast<vec4<u32>>(v.low);
v_cache[quad + 1u] = bitcast<vec4<u32>>(v.high);
}
}
}
}
fn slot_of(first_entry: u32, j: u32, kv_head: u32) -> u32 {
return (params[first_entry + (j >> 5u)] * p.n_kv_heads + kv_head) * 32u + (j & 31u);
}
fn fetch(first_entry: u32, base: u32, last: u32, kv_head: u32, team: u32, lane: u32) {
var slots: array<u32, 4>;
for (var u = 0u; u < UNROLL; u++) {
slots[u] = slot_of(first_entry, min(base + u * TEAMS + team, last - 1u), kv_head);
}
for (var u = 0u; u < UNROLL; u++) {
for (var i = 0u; i < VECS; i++) {
let at = (u * VECS + i) * 4u;
if (F16) {
let block = slots[u] * (p.head_dim / 8u) + block_of(lane, i);
held[at] = k_cache[block];
held[at + 2u] = v_cache[block];
} else {
let quad = slots[u] * (p.head_dim / 4u) + 2u * block_of(lane, i);
held[at] = k_cache[quad];
held[at + 1u] = k_cache[quad + 1u];
held[at + 2u] = v_cache[quad];
held[at + 3u] = v_cache[quad + 1u];
}
}
}
}
fn take() {
for (var b = 0u; b < UNROLL * VECS; b++) {
var k = Block(bitcast<vec4<f32>>(held[4u * b]), bitcast<vec4<f32>>(held[4u * b + 1u]));
var v = Block(bitcast<vec4<f32>>(held[4u * b + 2u]), bitcast<vec4<f32>>(held[4u * b + 3u]));
if (F16) {
k = halves(held[4u * b]);
v = halves(held[4u * b + 2u]);
}
keys[2u * b] = k.low;
keys[2u * b + 1u] = k.high;
values[2u * b] = v.low;
values[2u * b + 1u] = v.high;
}
}
fn take_token() {
for (var i = 0u; i < 2u * VECS; i++) {
keys[i] = new_keys[i];
values[i] = new_values[i];
}
}
fn over_team(mine: f32) -> f32 {
var s = mine;
~if (TEAM > 16u) {
~s += subgroupShuffleXor(s, 16u);
~}
~if (TEAM > 8u) {
~s += subgroupShuffleXor(s, 8u);
~}
~if (TEAM > 4u) {
~s += subgroupShuffleXor(s, 4u);
~}
~s += subgroupShuffleXor(s, 2u);
~s += subgroupShuffleXor(s, 1u);
return s;
}
fn score(n: u32, local: u32, lane: u32) {
for (var u = 0u; u < n; u++) {
for (var h = 0u; h < HEADS; h++) {
var s = 0.0;
for (var i = 0u; i < VECS; i++) {
let a = (h * VECS + i) * 2u;
let b = (u * VECS + i) * 2u;
let sum = q[a] * keys[b] + q[a + 1u] * keys[b + 1u];
s += select(0.0, (sum.x + sum.y) + (sum.z + sum.w), is_live(lane, i));
}
scores[u * HEADS + h] = over_team(s);
}
}
if (SUBGROUPS == 0u) {
workgroupBarrier();
for (var i = 0u; i < n * HEADS; i++) {
dots[i * WORKGROUP + local] = scores[i];
}
workgroupBarrier();
for (var i = 0u; i < n * HEADS; i++) {
var s = 0.0;
for (var k = 0u; k < TEAM; k++) {
s += dots[i * WORKGROUP + local - lane + k];
}
scores[i] = s;
}
}
}
fn accumulate(n: u32, visible: u32) {
for (var h = 0u; h < HEADS; h++) {
var highest = m[h];
for (var u = 0u; u < n; u++) {
let s = scores[u * HEADS + h];
highest = select(highest, s, (visible & (1u << u)) != 0u && s > highest);
}
let c = exp2(m[h] - highest);
m[h] = highest;
l[h] *= c;
for (var i = 0u; i < 2u * VECS; i++) {
acc[h * VECS * 2u + i] *= c;
}
for (var u = 0u; u < n; u++) {
let e = select(0.0, exp2(scores[u * HEADS + h] - highest), (visible & (1u << u)) != 0u);
l[h] += e;
for (var i = 0u; i < 2u * VECS; i++) {
acc[h * VECS * 2u + i] += e * values[u * VECS * 2u + i];
}
}
}
}
fn put_states(team: u32, lane: u32) {
for (var h = 0u; h < HEADS; h++) {
if (lane == 0u) {
team_m[h * TEAMS + team] = m[h];
team_l[h * TEAMS + team] = l[h];
}
for (var i = 0u; i < VECS; i++) {
let at = (h * TEAMS + team) * TEAM * VECS * 2u + (lane + TEAM * i) * 2u;
team_acc[at] = acc[(h * VECS + i) * 2u];
team_acc[at + 1u] = acc[(h * VECS + i) * 2u + 1u];
}
}
}
struct Merged {
sum: vec4<f32>,
m: f32,
l: f32,
}
fn merged(h: u32, c: u32) -> Merged {
var r = Merged(vec4<f32>(), team_m[h * TEAMS], 0.0);
for (var i = 1u; i < TEAMS; i++) {
r.m = max(r.m, team_m[h * TEAMS + i]);
}
for (var i = 0u; i < TEAMS; i++) {
let at = h * TEAMS + i;
let f = exp2(team_m[at] - r.m);
r.l += f * team_l[at];
r.sum += f * team_acc[at * TEAM * VECS * 2u + c];
}
return r;
}
fn write_result(row: u32, n_heads: u32, local: u32) {
for (var h = 0u; h < n_heads; h++) {
for (var c = local; c * 4u < p.head_dim; c += WORKGROUP) {
let r = merged(h, c);
result[row + h * (p.head_dim / 4u) + c] = r.sum / r.l;
}
}
}
fn write_partial(state: u32, n_heads: u32, local: u32) {
for (var h = 0u; h < n_heads; h++) {
let at = state + h * (p.head_dim + 8u);
for (var c = local; c * 4u < p.head_dim; c += WORKGROUP) {
let r = merged(h, c);
for (var i = 0u; i < 4u; i++) {
atomicStore(&scratch[at + 4u * c + i], bitcast<u32>(r.sum[i]));
}
if (c == 0u) {
atomicStore(&scratch[at + p.head_dim], bitcast<u32>(r.m));
atomicStore(&scratch[at + p.head_dim + 1u], bitcast<u32>(r.l));
}
}
}
}
fn scratch_quad(at: u32) -> vec4<f32> {
let low = vec2<u32>(atomicLoad(&scratch[at]), atomicLoad(&scratch[at + 1u]));
return bitcast<vec4<f32>>(vec4<u32>(low, atomicLoad(&scratch[at + 2u]), atomicLoad(&scratch[at + 3u])));
}
fn load_partial(state: u32, n_heads: u32, lane: u32, there: bool) {
for (var h = 0u; h < HEADS; h++) {
m[h] = NOTHING;
l[h] = 0.0;
let at = state + h * (p.head_dim + 8u);
let live = there && h < n_heads;
if (live) {
m[h] = bitcast<f32>(atomicLoad(&scratch[at + p.head_dim]));
l[h] = bitcast<f32>(atomicLoad(&scratch[at + p.head_dim + 1u]));
}
for (var i = 0u; i < VECS; i++) {
let block = lane + TEAM * i;
var a = vec4<f32>();
var b = vec4<f32>();
if (live && is_live(lane, i)) {
a = scratch_quad(at + block * 8u);
b = scratch_quad(at + block * 8u + 4u);
}
acc[(h * VECS + i) * 2u] = a;
acc[(h * VECS + i) * 2u + 1u] = b;
}
}
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let t = group.z;
let kv_head = group.x / p.head_blocks;
let block = group.x - kv_head * p.head_blocks;
if (local == 0u) {
let there = t < params[p.count_word];
let position = params[p.positions_word + t];
let first_entry = p.pages_word + params[p.sequences_word + t] * p.max_pages;
visible_and_table = vec2<u32>(select(0u, position + 1u, there), first_entry);
is_last = 0u;
}
let now = workgroupUniformLoad(&visible_and_table);
let n = now.x;
let splits = 1u << p.split_bits;
let span = max(p.min_span, (n + splits - 1u) >> p.split_bits);
let first = group.y * span;
if (first < n) {
let position = n - 1u;
let end = min(n, first + span);
let first_head = kv_head * p.group + block * HEADS;
let n_heads = min(HEADS, p.group - block * HEADS);
let team = local / TEAM;
let lane = local % TEAM;
for (var h = 0u; h < HEADS; h++) {
m[h] = NOTHING;
l[h] = 0.0;
for (var i = 0u; i < 2u * VECS; i++) {
acc[h * VECS * 2u + i] = vec4<f32>();
}
}
let row = t * p.x_stride;
let owns_new = p.fused != 0u && end == n;
let last = select(end, position, owns_new);
let new_slot = slot_of(now.y, position, kv_head);
if (first < last) {
fetch(now.y, first, last, kv_head, team, lane);
}
if (p.fused != 0u) {
load_token(row, first_head, n_heads, kv_head, lane, position);
} else {
load_queries(row + p.x_first + first_head * (p.head_dim / 4u), n_heads, lane);
}
if (owns_new && block == 0u && team == 0u) {
store_token(new_slot, lane);
}
for (var base = first; base < last; base += TEAMS * UNROLL) {
var visible = 0u;
for (var u = 0u; u < UNROLL; u++) {
visible |= select(0u, 1u << u, base + u * TEAMS + team < last);
}
take();
if (base + TEAMS * UNROLL < last) {
fetch(now.y, base + TEAMS * UNROLL, last, kv_head, team, lane);
}
score(UNROLL, local, lane);
accumulate(UNROLL, visible);
}
if (owns_new) {
take_token();
score(1u, local, lane);
accumulate(1u, select(0u, 1u, team == 0u));
}
put_states(team, lane);
workgroupBarrier();
let out_row = p.out_first + t * p.out_stride + first_head * (p.head_dim / 4u);
let state_words = HEADS * (p.head_dim + 8u);
let item = t * p.n_kv_heads * p.head_blocks + group.x;
let states = p.partials + item * splits * state_words;
if (span >= n) {
write_result(out_row, n_heads, local);
} else {
write_partial(states + group.y * state_words, n_heads, local);
}
if (span < n && p.merge != 0u) {
let spans = (n + span - 1u) / span;
storageBarrier();
if (local == 0u) {
is_last = u32(atomicAdd(&scratch[item], 1u) == spans - 1u);
}
if (workgroupUniformLoad(&is_last) != 0u) {
storageBarrier();
load_partial(states + team * state_words, n_heads, lane, team < spans);
put_states(team, lane);
workgroupBarrier();
write_result(out_row, n_heads, local);
if (local == 0u) {
atomicStore(&scratch[item], 0u);
}
}
}
}
}`,
attention_tiled: `~enable subgroups;
override WORKGROUP: u32 = 128;
override ROWS: u32 = 32;
override DIM: u32 = 128;
override KEYS: u32 = 32;
override F16: bool = true;
override SUBGROUPS: u32 = 0;
override KEY_LANES: u32 = KEYS / 4u;
override ROW_LANES: u32 = WORKGROUP / KEY_LANES;
override SCORE_ROWS: u32 = (ROWS + ROW_LANES - 1u) / ROW_LANES;
override SUM_LANES: u32 = DIM / 8u;
override SUM_STEP: u32 = WORKGROUP / SUM_LANES;
override SUM_ROWS: u32 = ROWS / SUM_STEP;
override TILE_STRIDE: u32 = DIM / 4u + 1u;
override SCORE_STRIDE: u32 = KEY_LANES + 1u;
override HELD_F16: u32 = KEYS * DIM / 8u / WORKGROUP;
override HELD_F32: u32 = KEYS * DIM / 4u / WORKGROUP;
struct P {
head_dim: u32,
n_kv_heads: u32,
group: u32,
head_blocks: u32,
heads: u32,
tokens: u32,
count_word: u32,
positions_word: u32,
sequences_word: u32,
pages_word: u32,
max_pages: u32,
x_first: u32,
x_stride: u32,
out_first: u32,
out_stride: u32,
scale: f32,
tiles: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> result: array<vec4<f32>>;
const NOTHING: f32 = -3.4028234e38;
struct Run {
end: u32,
last: u32,
least: u32,
table: u32,
}
var<workgroup> tile: array<vec4<f32>, KEYS * TILE_STRIDE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>;
var<workgroup> row_visible: array<u32, ROWS>;
var<workgroup> row_scale: array<f32, ROWS>;
var<workgroup> positions: array<u32, ROWS>;
var<workgroup> sequences: array<u32, ROWS>;
var<workgroup> n_tokens: u32;
var<workgroup> run_end: atomic<u32>;
var<workgroup> run_last: atomic<u32>;
var<workgroup> run_least: atomic<u32>;
var<workgroup> run: Run;
fn row_of(k: u32) -> u32 {
return (k & 3u) * KEY_LANES + (k >> 2u);
}
fn slot_of(table: u32, j: u32, kv_head: u32) -> u32 {
return (params[table + (j >> 5u)] * p.n_kv_heads + kv_head) * 32u + (j & 31u);
}
var<private> held: array<vec4<u32>, 8>;
fn fetch(values: bool, table: u32, base: u32, last: u32, kv_head: u32, local: u32) {
if (F16) {
for (var i = 0u; i < HELD_F16; i++) {
let item = local + WORKGROUP * i;
let slot = slot_of(table, min(base + item / (DIM / 8u), last - 1u), kv_head);
let at = slot * (p.head_dim / 8u) + min(item % (DIM / 8u), p.head_dim / 8u - 1u);
if (values) {
held[i] = v_cache[at];
} else {
held[i] = k_cache[at];
}
}
} else {
for (var i = 0u; i < HELD_F32; i++) {
let item = local + WORKGROUP * i;
let slot = slot_of(table, min(base + item / (DIM / 4u), last - 1u), kv_head);
let at = slot * (p.head_dim / 4u) + min(item % (DIM / 4u), p.head_dim / 4u - 1u);
if (values) {
held[i] = v_cache[at];
} else {
held[i] = k_cache[at];
}
}
}
}
fn put(local: u32) {
if (F16) {
for (var i = 0u; i < HELD_F16; i++) {
let item = local + WORKGROUP * i;
let at = row_of(item / (DIM / 8u)) * TILE_STRIDE + 2u * (item % (DIM / 8u));
tile[at] = vec4<f32>(unpack2x16float(held[i].x), unpack2x16float(held[i].y));
tile[at + 1u] = vec4<f32>(unpack2x16float(held[i].z), unpack2x16float(held[i].w));
}
} else {
for (var i = 0u; i < HELD_F32; i++) {
let item = local + WORKGROUP * i;
tile[row_of(item / (DIM / 4u)) * TILE_STRIDE + item % (DIM / 4u)] = bitcast<vec4<f32>>(held[i]);
}
}
}
fn find_run(start: u32, n: u32, local: u32) -> Run {
if (local == 0u) {
atomicStore(&run_end, n);
atomicStore(&run_last, 0u);
atomicStore(&run_least, 0xffffffffu);
}
workgroupBarrier();
if (local > start && local < n) {
if (sequences[local] != sequences[start]) {
atomicMin(&run_end, local);
}
}
workgroupBarrier();
let end = atomicLoad(&run_end);
if (local < ROWS) {
let t = local / p.heads;
let token = select(0u, t, t < n);
let visible = select(0u, positions[token] + 1u, token >= start && token < end);
row_visible[local] = visible;
atomicMax(&run_last, visible);
atomicMin(&run_least, visible);
}
workgroupBarrier();
if (local == 0u) {
run = Run(end, atomicLoad(&run_last), atomicLoad(&run_least), p.pages_word + sequences[start] * p.max_pages);
}
return workgroupUniformLoad(&run);
}
fn row_start(row: u32, n: u32, first: u32, stride: u32, first_token: u32, first_head: u32) -> u32 {
let t = row / p.heads;
let inside = t < n;
let h = min(first_head + row - t * p.heads, p.n_kv_heads * p.group - 1u);
return first + (first_token + select(0u, t, inside)) * stride + select(first_head, h, inside) * (p.head_dim / 4u);
}
var<private> m: array<f32, 4>;
var<private> l: array<f32, 4>;
fn soften_row(row: u32, base: u32) {
let visible = row_visible[row];
var highest = m[0];
for (var i = 0u; i < KEY_LANES; i++) {
let s = scores[row * SCORE_STRIDE + i];
for (var k = 0u; k < 4u; k++) {
if (base + 4u * i + k < visible && s[k] > highest) {
highest = s[k];
}
}
}
let c = exp2(m[0] - highest);
var sum = 0.0;
for (var i = 0u; i < KEY_LANES; i++) {
let sees = (vec4<u32>(base + 4u * i) + vec4<u32>(0u, 1u, 2u, 3u)) < vec4<u32>(visible);
let e = select(vec4<f32>(), exp2(scores[row * SCORE_STRIDE + i] - highest), sees);
scores[row * SCORE_STRIDE + i] = e;
sum += (e.x + e.y) + (e.z + e.w);
}
row_scale[row] = c;
m[0] = highest;
l[0] = l[0] * c + sum;
}
fn soften_lanes(i: u32, row: u32, key_lane: u32, base: u32, s: vec4<f32>) {
let visible = vec4<u32>(row_visible[row]);
let sees = (vec4<u32>(base + 4u * key_lane) + vec4<u32>(0u, 1u, 2u, 3u)) < visible;
var highest = m[i];
for (var k = 0u; k < 4u; k++) {
highest = select(highest, s[k], sees[k] && s[k] > highest);
}
~if (KEY_LANES > 8u) {
~highest = max(highest, subgroupShuffleXor(highest, 8u));
~}
~if (KEY_LANES > 4u) {
~highest = max(highest, subgroupShuffleXor(highest, 4u));
~}
~highest = max(highest, subgroupShuffleXor(highest, 2u));
~highest = max(highest, subgroupShuffleXor(highest, 1u));
let e = select(vec4<f32>(), exp2(s - highest), sees);
var sum = (e.x + e.y) + (e.z + e.w);
~if (KEY_LANES > 8u) {
~sum += subgroupShuffleXor(sum, 8u);
~}
~if (KEY_LANES > 4u) {
~sum += subgroupShuffleXor(sum, 4u);
~}
~sum += subgroupShuffleXor(sum, 2u);
~sum += subgroupShuffleXor(sum, 1u);
let c = exp2(m[i] - highest);
m[i] = highest;
l[i] = l[i] * c + sum;
scores[row * SCORE_STRIDE + key_lane] = e;
if (key_lane == 0u) {
row_scale[row] = c;
}
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let first_token = (p.tiles - 1u - group.y) * p.tokens;
let kv_head = group.x / p.head_blocks;
let block = group.x - kv_head * p.head_blocks;
let first_head = kv_head * p.group + block * p.heads;
if (local == 0u) {
let count = params[p.count_word];
n_tokens = min(p.tokens, select(0u, count - first_token, count > first_token));
}
let n = workgroupUniformLoad(&n_tokens);
if (local < n) {
positions[local] = params[p.positions_word + first_token + local];
sequences[local] = params[p.sequences_word + first_token + local];
}
let key_lane = local % KEY_LANES;
let score_row = local / KEY_LANES;
let sum_lane = local % SUM_LANES;
let sum_row = local / SUM_LANES;
var q_start: array<u32, 4>;
for (var i = 0u; i < SCORE_ROWS; i++) {
q_start[i] = row_start(score_row + ROW_LANES * i, n, p.x_first, p.x_stride, first_token, first_head);
}
var acc: array<vec4<f32>, 16>;
for (var i = 0u; i < 2u * SUM_ROWS; i++) {
acc[i] = vec4<f32>();
}
for (var i = 0u; i < 4u; i++) {
m[i] = NOTHING;
l[i] = 0.0;
}
var start = 0u;
while (start < n) {
let now = find_run(start, n, local);
fetch(false, now.table, 0u, now.last, kv_head, local);
for (var base = 0u; base < now.last; base += KEYS) {
put(local);
workgroupBarrier();
fetch(true, now.table, base, now.last, kv_head, local);
var s: array<vec4<f32>, 16>;
for (var i = 0u; i < 4u * SCORE_ROWS; i++) {
s[i] = vec4<f32>();
}
for (var c = 0u; c < p.head_dim / 4u; c += 2u) {
for (var e = 0u; e < 2u; e++) {
let k0 = tile[key_lane * TILE_STRIDE + c + e];
let k1 = tile[(KEY_LANES + key_lane) * TILE_STRIDE + c + e];
let k2 = tile[(2u * KEY_LANES + key_lane) * TILE_STRIDE + c + e];
let k3 = tile[(3u * KEY_LANES + key_lane) * TILE_STRIDE + c + e];
for (var i = 0u; i < SCORE_ROWS; i++) {
let q = x[q_start[i] + c + e];
s[4u * i] += q * k0;
s[4u * i + 1u] += q * k1;
s[4u * i + 2u] += q * k2;
s[4u * i + 3u] += q * k3;
}
}
}
for (var i = 0u; i < SCORE_ROWS; i++) {
let row = score_row + ROW_LANES * i;
let a = vec4<f32>(s[4u * i].x, s[4u * i + 1u].x, s[4u * i + 2u].x, s[4u * i + 3u].x);
let b = vec4<f32>(s[4u * i].y, s[4u * i + 1u].y, s[4u * i + 2u].y, s[4u * i + 3u].y);
let d = vec4<f32>(s[4u * i].z, s[4u * i + 1u].z, s[4u * i + 2u].z, s[4u * i + 3u].z);
let e = vec4<f32>(s[4u * i].w, s[4u * i + 1u].w, s[4u * i + 2u].w, s[4u * i + 3u].w);
let sum = ((a + b) + (d + e)) * p.scale;
if (SUBGROUPS == 1u) {
soften_lanes(i, row, key_lane, base, sum);
} else if (row < ROWS) {
scores[row * SCORE_STRIDE + key_lane] = sum;
}
}
workgroupBarrier();
put(local);
if (SUBGROUPS == 0u && local < ROWS) {
soften_row(local, base);
}
workgroupBarrier();
fetch(false, now.table, base + KEYS, now.last, kv_head, local);
for (var i = 0u; i < SUM_ROWS; i++) {
let c = row_scale[sum_row + SUM_STEP * i];
acc[2u * i] *= c;
acc[2u * i + 1u] *= c;
}
var weights: array<vec4<f32>, 8>;
if (base + KEYS <= now.least) {
for (var kq = 0u; kq < KEY_LANES; kq++) {
for (var i = 0u; i < SUM_ROWS; i++) {
weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + kq];
}
for (var k = 0u; k < 4u; k++) {
let v0 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + sum_lane];
let v1 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + SUM_LANES + sum_lane];
for (var i = 0u; i < SUM_ROWS; i++) {
let e = weights[i][k];
acc[2u * i] += e * v0;
acc[2u * i + 1u] += e * v1;
}
}
}
} else {
for (var kq = 0u; kq < KEY_LANES; kq++) {
for (var i = 0u; i < SUM_ROWS; i++) {
weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + kq];
}
for (var k = 0u; k < 4u; k++) {
let v0 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + sum_lane];
let v1 = tile[(k * KEY_LANES + kq) * TILE_STRIDE + SUM_LANES + sum_lane];
for (var i = 0u; i < SUM_ROWS; i++) {
let e = weights[i][k];
acc[2u * i] += select(e * v0, vec4<f32>(), e == 0.0);
acc[2u * i + 1u] += select(e * v1, vec4<f32>(), e == 0.0);
}
}
}
}
workgroupBarrier();
}
start = now.end;
}
if (SUBGROUPS == 0u && local < ROWS) {
row_scale[local] = l[0];
}
for (var i = 0u; i < SCORE_ROWS * SUBGROUPS; i++) {
if (key_lane == 0u) {
row_scale[score_row + ROW_LANES * i] = l[i];
}
}
workgroupBarrier();
for (var i = 0u; i < SUM_ROWS; i++) {
let row = sum_row + SUM_STEP * i;
let t = row / p.heads;
let h = row - t * p.heads;
if (t < n && block * p.heads + h < p.group) {
let at = row_start(row, n, p.out_first, p.out_stride, first_token, first_head);
if (sum_lane * 4u < p.head_dim) {
result[at + sum_lane] = acc[2u * i] / row_scale[row];
}
if ((SUM_LANES + sum_lane) * 4u < p.head_dim) {
result[at + SUM_LANES + sum_lane] = acc[2u * i + 1u] / row_scale[row];
}
}
}
}`,
bandwidth: `override WORKGROUP: u32 = 256;
override LOADS: u32 = 16;
struct P {
never: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read> data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let first = group.x * (WORKGROUP * LOADS) + local;
var sum = vec4<u32>(0u);
for (var i = 0u; i < LOADS; i++) {
sum ^= data[first + i * WORKGROUP];
}
if (all(sum == vec4<u32>(p.never))) {
result[0] = 1u;
}
}`,
column_factors: `override LANES: u32 = 64;
struct P {
cols: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
scales_word: u32,
first: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> q: array<f32>;
@group(0) @binding(4) var<storage, read_write> factors: array<f32>;
var<workgroup> most: array<vec4<f32>, LANES * 4u>;
@compute @workgroup_size(LANES * 4u)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let c = group.x * 16u + local % 4u * 4u;
let count = params[p.count_word];
var largest = vec4<f32>();
if (c < p.cols) {
for (var t = local / 4u; t < count; t += LANES) {
var values = x[p.x_first + t * p.x_stride + c / 4u];
if (p.scales_word != 0u) {
values *= q[p.scales_word + t];
}
largest = max(largest, abs(values));
}
}
most[local] = largest;
for (var n = LANES / 2u; n > 0u; n /= 2u) {
workgroupBarrier();
if (local < n * 4u) {
most[local] = max(most[local], most[local + n * 4u]);
}
}
if (local < 4u) {
for (var i = 0u; i < 4u; i++) {
if (c + i < p.cols) {
let exponent = clamp(bitcast<u32>(most[local][i]) >> 23u, 29u, 254u);
factors[p.first + c + i] = bitcast<f32>((268u - exponent) << 23u);
}
}
}
}`,
cross_entropy: `~enable subgroups;
override WORKGROUP: u32 = 256;
const LOADS = 8u;
const LEAST: f32 = -3.4028234e38;
const NAN_BITS = 0x7fc00000u;
const MINUS_INFINITY = 0xff800000u;
struct P {
cols: u32,
count_word: u32,
z_first: u32,
z_stride: u32,
losses_first: u32,
losses_stride: u32,
labels_word: u32,
weight_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> z: array<u32>;
@group(0) @binding(3) var<storage, read_write> losses: array<u32>;
var<workgroup> most: array<f32, WORKGROUP>;
var<workgroup> sums: array<f32, WORKGROUP>;
var<workgroup> spoiled: atomic<u32>;
fn workgroup_max(value: f32, local: u32, lanes: u32) -> f32 {
var all = value;
~all = subgroupMax(value);
if ((local & (lanes - 1u)) == 0u) {
most[local] = all;
}
workgroupBarrier();
for (var half = WORKGROUP / 2u; half >= lanes; half >>= 1u) {
if (local < half && (local & (lanes - 1u)) == 0u) {
most[local] = max(most[local], most[local + half]);
}
workgroupBarrier();
}
return most[0];
}
fn workgroup_sum(value: f32, local: u32, lanes: u32) -> f32 {
var all = value;
~all = subgroupAdd(value);
if ((local & (lanes - 1u)) == 0u) {
sums[local] = all;
}
workgroupBarrier();
for (var half = WORKGROUP / 2u; half >= lanes; half >>= 1u) {
if (local < half && (local & (lanes - 1u)) == 0u) {
sums[local] += sums[local + half];
}
workgroupBarrier();
}
return sums[0];
}
fn is_spoiled(bits: u32) -> bool {
return (bits & 0x7fffffffu) > 0x7f800000u || bits == 0x7f800000u;
}
fn logit(bits: u32) -> f32 {
return bitcast<f32>(select(bits, bitcast<u32>(LEAST), (bits & 0x7f800000u) == 0x7f800000u));
}
fn exponential(bits: u32, m: f32) -> f32 {
return select(exp(logit(bits) - m), 0.0, bits == MINUS_INFINITY);
}
@compute @workgroup_size(WORKGROUP)
fn main(
~@builtin(subgroup_size) subgroup_lanes: u32,
@builtin(workgroup_id) group: vec3<u32>,
@builtin(local_invocation_index) local: u32,
) {
var lanes = 1u;
~lanes = subgroup_lanes;
let t = group.x;
let row = p.z_first + t * p.z_stride;
let present = t < params[p.count_word];
let label = params[p.labels_word + select(0u, t, present)];
let masked = label >= p.cols;
let read = select(0u, p.cols, present && !masked);
if (local == 0u) {
atomicStore(&spoiled, 0u);
}
let writes = local == label % WORKGROUP;
var wanted = 0u;
if (read > 0u && writes) {
wanted = z[row + label];
}
workgroupBarrier();
var m = LEAST;
var l = 0.0;
var bad = false;
for (var base = local; base < read; base += LOADS * WORKGROUP) {
var bits: array<u32, LOADS>;
for (var i = 0u; i < LOADS; i++) {
bits[i] = MINUS_INFINITY;
if (base + i * WORKGROUP < read) {
bits[i] = z[row + base + i * WORKGROUP];
}
}
var highest = m;
for (var i = 0u; i < LOADS; i++) {
bad = bad || is_spoiled(bits[i]);
highest = max(highest, logit(bits[i]));
}
var sum = 0.0;
for (var i = 0u; i < LOADS; i++) {
sum += exponential(bits[i], highest);
}
l = l * exp(m - highest) + sum;
m = highest;
}
if (bad) {
atomicOr(&spoiled, 1u);
}
let largest = workgroup_max(m, local, lanes);
let sum = workgroup_sum(l * exp(m - largest), local, lanes);
let nothing = atomicLoad(&spoiled) != 0u || sum == 0.0;
let weight = bitcast<f32>(params[p.weight_word]);
for (var c = local; c < read; c += WORKGROUP) {
let g = weight * (exponential(z[row + c], largest) / sum - select(0.0, 1.0, c == label));
z[row + c] = select(bitcast<u32>(g), NAN_BITS, nothing);
}
for (var c = local; c < select(0u, p.cols, present && masked); c += WORKGROUP) {
z[row + c] = 0u;
}
if (writes && present) {
var loss = bitcast<u32>(log(sum) + (largest - logit(wanted)));
loss = select(loss, 0x7f800000u, wanted == MINUS_INFINITY);
loss = select(loss, NAN_BITS, nothing);
losses[p.losses_first + t * p.losses_stride] = select(loss, 0u, masked);
}
}`,
dots: `override WORKGROUP: u32 = 256;
struct P {
never: u32,
rounds: u32,
factor: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
var a = vec4<i32>(i32(id.x)) + vec4<i32>(1, 2, 3, 4);
var b = a + vec4<i32>(4);
for (var i = 0u; i < p.rounds; i++) {
a.x += dot4I8Packed(u32(a.x), p.factor);
a.y += dot4I8Packed(u32(a.y), p.factor);
a.z += dot4I8Packed(u32(a.z), p.factor);
a.w += dot4I8Packed(u32(a.w), p.factor);
b.x += dot4I8Packed(u32(b.x), p.factor);
b.y += dot4I8Packed(u32(b.y), p.factor);
b.z += dot4I8Packed(u32(b.z), p.factor);
b.w += dot4I8Packed(u32(b.w), p.factor);
}
let sum = a + b;
if (u32(sum.x + sum.y + sum.z + sum.w) == p.never) {
result[0] = 1u;
}
}`,
embed: `override FORMAT: u32 = 2;
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
let r = params[p.ids_word + t] - p.first_row;
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
}`,
embed_backward: `override WORKGROUP: u32 = 256;
const WORDS = 256u;
struct P {
cols: u32,
count_word: u32,
ids_word: u32,
first_id: u32,
n_ids: u32,
dy_first: u32,
dy_stride: u32,
segments: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<f32>;
@group(0) @binding(3) var<storage, read_write> dw: array<f32>;
var<workgroup> seen: array<atomic<u32>, WORDS>;
var<workgroup> earlier: atomic<u32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let t = group.x;
let n = params[p.count_word];
let id = params[p.ids_word + t];
let row = id - p.first_id;
let mine = t < n && id >= p.first_id && row < p.n_ids;
if (local == 0u) {
atomicStore(&earlier, 0u);
}
workgroupBarrier();
if (mine) {
var found = false;
for (var i = local; i < t; i += WORKGROUP) {
found = found || params[p.ids_word + i] == id;
}
if (found) {
atomicOr(&earlier, 1u);
}
}
workgroupBarrier();
let first = mine && atomicLoad(&earlier) == 0u;
for (var segment = t / (32u * WORDS); segment < p.segments; segment++) {
let base = segment * 32u * WORDS;
for (var i = local; i < WORDS; i += WORKGROUP) {
atomicStore(&seen[i], 0u);
}
workgroupBarrier();
if (first) {
for (var i = local; i < min(n - min(base, n), 32u * WORDS); i += WORKGROUP) {
if (base + i >= t && params[p.ids_word + base + i] == id) {
atomicOr(&seen[i >> 5u], 1u << (i & 31u));
}
}
}
workgroupBarrier();
if (first) {
let start = (max(t, base) - base) >> 5u;
let end = min((n - min(base, n) + 31u) >> 5u, WORDS);
for (var c = local; c < p.cols; c += WORKGROUP) {
var sum = dw[row * p.cols + c];
for (var i = start; i < end; i++) {
var bits = atomicLoad(&seen[i]);
while (bits != 0u) {
let other = base + 32u * i + countTrailingZeros(bits);
bits &= bits - 1u;
sum += dy[p.dy_first + other * p.dy_stride + c];
}
}
dw[row * p.cols + c] = sum;
}
}
workgroupBarrier();
}
}`,
fmas: `override WORKGROUP: u32 = 256;
struct P {
never: u32,
rounds: u32,
factor: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
let factor = vec4<f32>(p.factor);
let plus = vec4<f32>(f32(id.x), 1.0, 2.0, 3.0);
var a = plus;
var b = plus + vec4<f32>(1.0);
var c = plus + vec4<f32>(2.0);
var d = plus + vec4<f32>(3.0);
var e = plus + vec4<f32>(4.0);
var f = plus + vec4<f32>(5.0);
var g = plus + vec4<f32>(6.0);
var h = plus + vec4<f32>(7.0);
for (var i = 0u; i < p.rounds; i++) {
a = fma(a, factor, plus);
b = fma(b, factor, plus);
c = fma(c, factor, plus);
d = fma(d, factor, plus);
e = fma(e, factor, plus);
f = fma(f, factor, plus);
g = fma(g, factor, plus);
h = fma(h, factor, plus);
}
let sum = a + b + c + d + e + f + g + h;
if (bitcast<u32>(sum.x + sum.y + sum.z + sum.w) == p.never) {
result[0] = 1u;
}
}`,
gate: `override WORKGROUP: u32 = 256;
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
fn silu(g: f32) -> f32 {
return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}
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
}`,
gate_backward: `override WORKGROUP: u32 = 256;
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
fn sigmoid(g: f32) -> f32 {
return select(1.0 / (1.0 + exp(-max(g, -87.0))), 0.0, g < -87.0);
}
fn activated(g: f32) -> vec2<f32> {
if (ACT == 1u) {
let s = sigmoid(g);
return vec2<f32>(g * s, s * (1.0 + g * (1.0 - s)));
}
if (ACT == 2u) {
let h = clamp(g, -20.0, 20.0);
let s = sigmoid(2.0 * GELU_A * (h + GELU_B * h * h * h));
return vec2<f32>(g * s, s + h * s * (1.0 - s) * (2.0 * GELU_A * (1.0 + 3.0 * GELU_B * h * h)));
}
let r = select(0.0, g, g > 0.0);
return vec2<f32>(r * r, r + r);
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let c = group.x * WORKGROUP + local;
let t = group.y;
if (t >= params[p.count_word] || c >= p.cols) {
return;
}
let a = activated(gate[p.gate_first + t * p.gate_stride + c]);
let d = dy[p.dy_first + t * p.dy_stride + c];
let u = up[p.up_first + t * p.up_stride + c];
dup[p.dup_first + t * p.dup_stride + c] = d * a.x;
dgate[p.dgate_first + t * p.dgate_stride + c] = (d * u) * a.y;
}`,
gather: `override WORKGROUP: u32 = 256;
struct P {
cols: u32,
count_word: u32,
outputs_word: u32,
x_first: u32,
x_stride: u32,
y_first: u32,
y_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let c = group.x * WORKGROUP + local;
let i = group.y;
if (i >= params[p.count_word] || c >= p.cols) {
return;
}
y[p.y_first + i * p.y_stride + c] = x[p.x_first + params[p.outputs_word + i] * p.x_stride + c];
}`,
kv_write: `override WORKGROUP: u32 = 128;
override F16: bool = true;
struct P {
pairs: u32,
n_kv_heads: u32,
count_word: u32,
positions_word: u32,
sequences_word: u32,
pages_word: u32,
max_pages: u32,
k_first: u32,
k_stride: u32,
v_first: u32,
v_stride: u32,
together: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> k: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read_write> v: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<u32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let t = group.y;
let item = group.x * WORKGROUP + local;
if (t >= params[p.count_word] || item >= p.n_kv_heads * p.pairs) {
return;
}
let head = item / p.pairs;
let position = params[p.positions_word + t];
let page = params[p.pages_word + params[p.sequences_word + t] * p.max_pages + (position >> 5u)];
let at = ((page * p.n_kv_heads + head) * 32u + (position & 31u)) * p.pairs + item - head * p.pairs;
let key = k[p.k_first + t * p.k_stride + item];
let v_at = p.v_first + t * p.v_stride + item;
var value: vec2<f32>;
if (p.together == 1u) {
value = k[v_at];
} else {
value = v[v_at];
}
if (F16) {
k_cache[at] = pack2x16float(key);
v_cache[at] = pack2x16float(value);
} else {
k_cache[2u * at] = bitcast<u32>(key.x);
k_cache[2u * at + 1u] = bitcast<u32>(key.y);
v_cache[2u * at] = bitcast<u32>(value.x);
v_cache[2u * at + 1u] = bitcast<u32>(value.y);
}
}`,
linear_dense_mat: `override FORMAT: u32 = 2;
override ROW_THREADS: u32 = 16;
override TOKEN_THREADS: u32 = 8;
const COLUMNS: u32 = 16u;
override X_STRIDE: u32 = 2u * TOKEN_THREADS + 1u;
struct P {
rows: u32,
cols: u32,
row_vectors: u32,
count_word: u32,
max_tokens: u32,
x_first: u32,
x_stride: u32,
result_first: u32,
result_stride: u32,
residual_first: u32,
residual_stride: u32,
epilogue: u32,
cols_of_part: u32,
part_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;
var<workgroup> n_tokens: u32;
var<workgroup> w_tile: array<vec4<f32>, COLUMNS * 2u * ROW_THREADS>;
var<workgroup> x_tile: array<vec4<f32>, COLUMNS * X_STRIDE>;
fn pair_at(row: u32, byte: u32) -> vec2<u32> {
let v = weights[row + byte / 16u];
return select(v.xy, v.zw, (byte & 8u) != 0u);
}
fn word_at(row: u32, byte: u32) -> u32 {
return weights[row + byte / 16u][byte / 4u % 4u];
}
fn half_at(row: u32, byte: u32) -> f32 {
let pair = unpack2x16float(word_at(row, byte));
return select(pair.x, pair.y, (byte & 2u) != 0u);
}
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
let head = weights[row + block / 16u];
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
let low = weights[row + c / 4u];
var high = vec4<u32>();
if (c + 4u < p.cols) {
high = weights[row + c / 4u + 1u];
}
return mat2x4<f32>(bitcast<vec4<f32>>(low), bitcast<vec4<f32>>(high));
}
fn f16s(row: u32, c: u32) -> mat2x4<f32> {
let v = weights[row + c / 8u];
let low = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
return mat2x4<f32>(low, vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)));
}
fn bf16s(row: u32, c: u32) -> mat2x4<f32> {
let v = weights[row + c / 8u];
let even = bitcast<vec4<f32>>(v << vec4<u32>(16u));
let odd = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
return mat2x4<f32>(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w);
}
fn eight(row: u32, c: u32) -> mat2x4<f32> {
switch (FORMAT) {
case 1u: { return f32s(row, c); }
case 2u: { return f16s(row, c); }
case 3u: { return bf16s(row, c); }
case 4u: { return q8_0(row, c); }
case 5u: { return q6_k(row, c); }
default: { return q4_k(row, c); }
}
}
fn silu(g: f32) -> f32 {
return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}
fn gelu(g: f32) -> f32 {
let h = clamp(g, -20.0, 20.0);
let w = (h + h * h * h * 0.044715) * 1.5957691216;
return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}
fn finish(t: u32, row: u32, part: u32, sum: f32) {
let at = part + p.result_first + t * p.result_stride + row;
if (p.epilogue == 0u) {
result[at] = sum;
} else if (p.epilogue == 1u) {
result[at] = residual[p.residual_first + t * p.residual_stride + row] + sum;
} else {
let held = result[at];
if (p.epilogue == 2u) {
result[at] = held + sum;
} else if (p.epilogue == 3u) {
let positive = select(0.0, held, held > 0.0);
result[at] = positive * positive * sum;
} else if (p.epilogue == 4u) {
result[at] = silu(held) * sum;
} else {
result[at] = gelu(held) * sum;
}
}
}
fn load_weights(first: u32, c: u32, local: u32) {
let tile = 8u * ROW_THREADS;
for (var i = local; i < tile * COLUMNS / 8u; i += ROW_THREADS * TOKEN_THREADS) {
let row = i % tile;
let piece = i / tile * 8u;
var values = mat2x4<f32>();
if (c + piece < p.cols) {
values = eight(min(first + row, p.rows - 1u) * p.row_vectors, c + piece);
}
let at = piece * (tile / 4u) + row / 4u;
w_tile[at][row % 4u] = values[0].x;
w_tile[at + tile / 4u][row % 4u] = values[0].y;
w_tile[at + tile / 2u][row % 4u] = values[0].z;
w_tile[at + tile / 4u * 3u][row % 4u] = values[0].w;
w_tile[at + tile][row % 4u] = values[1].x;
w_tile[at + tile / 4u * 5u][row % 4u] = values[1].y;
w_tile[at + tile / 2u * 3u][row % 4u] = values[1].z;
w_tile[at + tile / 4u * 7u][row % 4u] = values[1].w;
}
}
fn load_x(first: u32, count: u32, c: u32, local: u32) {
for (var i = local; i < 2u * TOKEN_THREADS * COLUMNS; i += ROW_THREADS * TOKEN_THREADS) {
let token = i / (COLUMNS / 4u);
let four = i % (COLUMNS / 4u) * 4u;
var values = vec4<f32>();
if (c + four < p.cols) {
values = x[p.x_first + min(first + token, count - 1u) * p.x_stride + (c + four) / 4u];
}
let at = four * X_STRIDE + token / 4u;
x_tile[at][token % 4u] = values.x;
x_tile[at + X_STRIDE][token % 4u] = values.y;
x_tile[at + 2u * X_STRIDE][token % 4u] = values.z;
x_tile[at + 3u * X_STRIDE][token % 4u] = values.w;
}
}
fn finish_four(t: u32, count: u32, row: u32, part: u32, sums: vec4<f32>) {
if (t >= count) {
return;
}
for (var i = 0u; i < 4u; i++) {
if (row + i < p.rows) {
finish(t, row + i, part, sums[i]);
}
}
}
@compute @workgroup_size(ROW_THREADS * TOKEN_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
if (local == 0u) {
n_tokens = params[p.count_word];
}
let count = workgroupUniformLoad(&n_tokens);
let first_row = group.x * 8u * ROW_THREADS;
let first_token = group.y * 8u * TOKEN_THREADS;
if (first_token >= count) {
return;
}
let row_thread = local % ROW_THREADS;
let token_thread = local / ROW_THREADS;
var low0 = vec4<f32>();
var high0 = vec4<f32>();
var low1 = vec4<f32>();
var high1 = vec4<f32>();
var low2 = vec4<f32>();
var high2 = vec4<f32>();
var low3 = vec4<f32>();
var high3 = vec4<f32>();
var low4 = vec4<f32>();
var high4 = vec4<f32>();
var low5 = vec4<f32>();
var high5 = vec4<f32>();
var low6 = vec4<f32>();
var high6 = vec4<f32>();
var low7 = vec4<f32>();
var high7 = vec4<f32>();
let first_col = group.z * p.cols_of_part;
let end = min(first_col + p.cols_of_part, p.cols);
for (var c = first_col; c < end; c += COLUMNS) {
load_weights(first_row, c, local);
load_x(first_token, count, c, local);
workgroupBarrier();
for (var k = 0u; k < COLUMNS; k++) {
let w0 = w_tile[k * 2u * ROW_THREADS + row_thread];
let w1 = w_tile[k * 2u * ROW_THREADS + ROW_THREADS + row_thread];
let x0 = x_tile[k * X_STRIDE + token_thread];
let x1 = x_tile[k * X_STRIDE + TOKEN_THREADS + token_thread];
low0 += w0 * x0.x;
high0 += w1 * x0.x;
low1 += w0 * x0.y;
high1 += w1 * x0.y;
low2 += w0 * x0.z;
high2 += w1 * x0.z;
low3 += w0 * x0.w;
high3 += w1 * x0.w;
low4 += w0 * x1.x;
high4 += w1 * x1.x;
low5 += w0 * x1.y;
high5 += w1 * x1.y;
low6 += w0 * x1.z;
high6 += w1 * x1.z;
low7 += w0 * x1.w;
high7 += w1 * x1.w;
}
workgroupBarrier();
}
let row = first_row + 4u * row_thread;
let part = group.z * p.part_stride;
let t = first_token + 4u * token_thread;
finish_four(t + 0u, count, row, part, low0);
finish_four(t + 0u, count, row + 4u * ROW_THREADS, part, high0);
finish_four(t + 1u, count, row, part, low1);
finish_four(t + 1u, count, row + 4u * ROW_THREADS, part, high1);
finish_four(t + 2u, count, row, part, low2);
finish_four(t + 2u, count, row + 4u * ROW_THREADS, part, high2);
finish_four(t + 3u, count, row, part, low3);
finish_four(t + 3u, count, row + 4u * ROW_THREADS, part, high3);
finish_four(t + 4u * TOKEN_THREADS + 0u, count, row, part, low4);
finish_four(t + 4u * TOKEN_THREADS + 0u, count, row + 4u * ROW_THREADS, part, high4);
finish_four(t + 4u * TOKEN_THREADS + 1u, count, row, part, low5);
finish_four(t + 4u * TOKEN_THREADS + 1u, count, row + 4u * ROW_THREADS, part, high5);
finish_four(t + 4u * TOKEN_THREADS + 2u, count, row, part, low6);
finish_four(t + 4u * TOKEN_THREADS + 2u, count, row + 4u * ROW_THREADS, part, high6);
finish_four(t + 4u * TOKEN_THREADS + 3u, count, row, part, low7);
finish_four(t + 4u * TOKEN_THREADS + 3u, count, row + 4u * ROW_THREADS, part, high7);
}`,
linear_dw: `override Q8: bool = false;
override ROW_THREADS: u32 = 16;
override COL_THREADS: u32 = 8;
const DEPTH: u32 = 16u;
override DY_LOADS: u32 = 2u * DEPTH / COL_THREADS;
override X_LOADS: u32 = 2u * DEPTH / ROW_THREADS;
struct P {
rows: u32,
cols: u32,
count_word: u32,
dy_first: u32,
dy_stride: u32,
x_first: u32,
x_stride: u32,
scales_word: u32,
tokens_of_part: u32,
part_stride: u32,
adds: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> q: array<u32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;
var<workgroup> dy_tile: array<vec4<f32>, DEPTH * 2u * ROW_THREADS>;
var<workgroup> x_tile: array<vec4<f32>, DEPTH * 2u * COL_THREADS>;
fn signed_bytes(v: u32) -> vec4<f32> {
return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}
fn fetch_dy(first: u32, t: u32, end: u32, i: u32) -> vec4<f32> {
let token = t + i / (2u * ROW_THREADS);
let r = first + i % (2u * ROW_THREADS) * 4u;
var values = vec4<f32>();
if (token < end && r < p.rows) {
values = dy[p.dy_first + token * p.dy_stride + r / 4u];
if (Q8) {
values *= bitcast<f32>(q[p.scales_word + token]);
}
}
return values;
}
fn fetch_x(first: u32, t: u32, end: u32, i: u32) -> vec4<f32> {
let token = t + i / (2u * COL_THREADS);
let c = first + i % (2u * COL_THREADS) * 4u;
var values = vec4<f32>();
if (token < end && c < p.cols) {
if (Q8) {
values = signed_bytes(q[token * p.x_stride + c / 4u]);
} else {
values = x[p.x_first + token * p.x_stride + c / 4u];
}
}
return values;
}
fn finish_four(r: u32, c: u32, part: u32, sums: vec4<f32>) {
if (r >= p.rows) {
return;
}
for (var i = 0u; i < 4u; i++) {
if (c + i < p.cols) {
let at = part + r * p.cols + c + i;
var sum = sums[i];
if (p.adds != 0u) {
sum += result[at];
}
result[at] = sum;
}
}
}
@compute @workgroup_size(ROW_THREADS * COL_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let first_col = group.x * 8u * COL_THREADS;
let first_row = group.y * 8u * ROW_THREADS;
let first_token = group.z * p.tokens_of_part;
let last = first_token + p.tokens_of_part;
let end = min(params[p.count_word], last);
let step = ROW_THREADS * COL_THREADS;
let col_thread = local % COL_THREADS;
let row_thread = local / COL_THREADS;
var y0 = vec4<f32>();
var y1 = vec4<f32>();
var y2 = vec4<f32>();
var y3 = vec4<f32>();
var x0 = vec4<f32>();
var x1 = vec4<f32>();
if (DY_LOADS <= 4u) {
y0 = fetch_dy(first_row, first_token, end, local);
y1 = fetch_dy(first_row, first_token, end, local + step);
}
if (DY_LOADS == 4u) {
y2 = fetch_dy(first_row, first_token, end, local + 2u * step);
y3 = fetch_dy(first_row, first_token, end, local + 3u * step);
}
if (X_LOADS == 2u) {
x0 = fetch_x(first_col, first_token, end, local);
x1 = fetch_x(first_col, first_token, end, local + step);
}
var low0 = vec4<f32>();
var high0 = vec4<f32>();
var low1 = vec4<f32>();
var high1 = vec4<f32>();
var low2 = vec4<f32>();
var high2 = vec4<f32>();
var low3 = vec4<f32>();
var high3 = vec4<f32>();
var low4 = vec4<f32>();
var high4 = vec4<f32>();
var low5 = vec4<f32>();
var high5 = vec4<f32>();
var low6 = vec4<f32>();
var high6 = vec4<f32>();
var low7 = vec4<f32>();
var high7 = vec4<f32>();
for (var t = first_token; t < last; t += DEPTH) {
workgroupBarrier();
if (DY_LOADS <= 4u) {
dy_tile[local] = y0;
dy_tile[local + step] = y1;
} else {
for (var i = 0u; i < DY_LOADS; i++) {
dy_tile[local + i * step] = fetch_dy(first_row, t, end, local + i * step);
}
}
if (DY_LOADS == 4u) {
dy_tile[local + 2u * step] = y2;
dy_tile[local + 3u * step] = y3;
}
if (X_LOADS == 2u) {
x_tile[local] = x0;
x_tile[local + step] = x1;
} else {
for (var i = 0u; i < X_LOADS; i++) {
x_tile[local + i * step] = fetch_x(first_col, t, end, local + i * step);
}
}
workgroupBarrier();
if (DY_LOADS <= 4u) {
y0 = fetch_dy(first_row, t + DEPTH, end, local);
y1 = fetch_dy(first_row, t + DEPTH, end, local + step);
}
if (DY_LOADS == 4u) {
y2 = fetch_dy(first_row, t + DEPTH, end, local + 2u * step);
y3 = fetch_dy(first_row, t + DEPTH, end, local + 3u * step);
}
if (X_LOADS == 2u) {
x0 = fetch_x(first_col, t + DEPTH, end, local);
x1 = fetch_x(first_col, t + DEPTH, end, local + step);
}
for (var k = 0u; k < DEPTH; k++) {
let v0 = x_tile[k * 2u * COL_THREADS + col_thread];
let v1 = x_tile[k * 2u * COL_THREADS + COL_THREADS + col_thread];
let d0 = dy_tile[k * 2u * ROW_THREADS + row_thread];
let d1 = dy_tile[k * 2u * ROW_THREADS + ROW_THREADS + row_thread];
low0 += v0 * d0.x;
high0 += v1 * d0.x;
low1 += v0 * d0.y;
high1 += v1 * d0.y;
low2 += v0 * d0.z;
high2 += v1 * d0.z;
low3 += v0 * d0.w;
high3 += v1 * d0.w;
low4 += v0 * d1.x;
high4 += v1 * d1.x;
low5 += v0 * d1.y;
high5 += v1 * d1.y;
low6 += v0 * d1.z;
high6 += v1 * d1.z;
low7 += v0 * d1.w;
high7 += v1 * d1.w;
}
}
let part = group.z * p.part_stride;
let c = first_col + 4u * col_thread;
let far = c + 4u * COL_THREADS;
let r = first_row + 4u * row_thread;
let low = r + 4u * ROW_THREADS;
finish_four(r, c, part, low0);
finish_four(r, far, part, high0);
finish_four(r + 1u, c, part, low1);
finish_four(r + 1u, far, part, high1);
finish_four(r + 2u, c, part, low2);
finish_four(r + 2u, far, part, high2);
finish_four(r + 3u, c, part, low3);
finish_four(r + 3u, far, part, high3);
finish_four(low, c, part, low4);
finish_four(low, far, part, high4);
finish_four(low + 1u, c, part, low5);
finish_four(low + 1u, far, part, high5);
finish_four(low + 2u, c, part, low6);
finish_four(low + 2u, far, part, high6);
finish_four(low + 3u, c, part, low7);
finish_four(low + 3u, far, part, high7);
}`,
linear_dx: `override FORMAT: u32 = 0;
override TOKEN_THREADS: u32 = 16;
override COL_THREADS: u32 = 8;
const DEPTH: u32 = 16u;
override DY_LOADS: u32 = 2u * DEPTH / COL_THREADS;
override DY_STRIDE: u32 = 2u * TOKEN_THREADS + 1u;
struct P {
rows: u32,
cols: u32,
row_vectors: u32,
count_word: u32,
max_tokens: u32,
dy_first: u32,
dy_stride: u32,
result_first: u32,
result_stride: u32,
residual_first: u32,
residual_stride: u32,
epilogue: u32,
rows_of_part: u32,
part_stride: u32,
row_scales: u32,
scale: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dy: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;
var<workgroup> dy_tile: array<vec4<f32>, DEPTH * DY_STRIDE>;
var<workgroup> w_tile: array<vec4<f32>, DEPTH * 2u * COL_THREADS>;
fn pair_at(row: u32, byte: u32) -> vec2<u32> {
let v = weights[row + byte / 16u];
return select(v.xy, v.zw, (byte & 8u) != 0u);
}
fn word_at(row: u32, byte: u32) -> u32 {
return weights[row + byte / 16u][byte / 4u % 4u];
}
fn half_at(row: u32, byte: u32) -> f32 {
let pair = unpack2x16float(word_at(row, byte));
return select(pair.x, pair.y, (byte & 2u) != 0u);
}
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
let head = weights[row + block / 16u];
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
let low = weights[row + c / 4u];
var high = vec4<u32>();
if (c + 4u < p.cols) {
high = weights[row + c / 4u + 1u];
}
return mat2x4<f32>(bitcast<vec4<f32>>(low), bitcast<vec4<f32>>(high));
}
fn f16s(row: u32, c: u32) -> mat2x4<f32> {
let v = weights[row + c / 8u];
let low = vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
return mat2x4<f32>(low, vec4<f32>(unpack2x16float(v.z), unpack2x16float(v.w)));
}
fn bf16s(row: u32, c: u32) -> mat2x4<f32> {
let v = weights[row + c / 8u];
let even = bitcast<vec4<f32>>(v << vec4<u32>(16u));
let odd = bitcast<vec4<f32>>(v & vec4<u32>(0xffff0000u));
return mat2x4<f32>(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w);
}
fn codes(v: u32) -> vec4<f32> {
return bytes(v & 0x03030303u) - vec4<f32>(1.0);
}
fn ternary(row: u32, c: u32, r: u32) -> mat2x4<f32> {
let words = pair_at(row, c / 128u * 32u + c % 32u) >> vec2<u32>(6u - c % 128u / 32u * 2u);
let values = mat2x4<f32>(codes(words.x), codes(words.y));
if (p.row_scales == 0u) {
return values;
}
let word = p.row_scales + r;
return values * bitcast<f32>(weights[word / 4u][word % 4u]);
}
fn eight(r: u32, c: u32) -> mat2x4<f32> {
let row = r * p.row_vectors;
switch (FORMAT) {
case 0u: { return ternary(row, c, r); }
case 1u: { return f32s(row, c); }
case 2u: { return f16s(row, c); }
case 3u: { return bf16s(row, c); }
case 4u: { return q8_0(row, c); }
case 5u: { return q6_k(row, c); }
default: { return q4_k(row, c); }
}
}
fn fetch_dy(first: u32, r: u32, end: u32, i: u32) -> vec4<f32> {
let at = r + i % 4u * 4u;
var values = vec4<f32>();
if (at < end) {
values = dy[p.dy_first + min(first + i / 4u, p.max_tokens - 1u) * p.dy_stride + at / 4u];
}
return values;
}
fn store_dy(i: u32, values: vec4<f32>) {
let at = i % 4u * 4u * DY_STRIDE + i / 16u;
let lane = i / 4u % 4u;
dy_tile[at][lane] = values.x;
dy_tile[at + DY_STRIDE][lane] = values.y;
dy_tile[at + 2u * DY_STRIDE][lane] = values.z;
dy_tile[at + 3u * DY_STRIDE][lane] = values.w;
}
fn fetch_w(first: u32, r: u32, end: u32, i: u32) -> mat2x4<f32> {
let row = r + i / COL_THREADS;
let c = first + i % COL_THREADS * 8u;
var values = mat2x4<f32>();
if (row < end && c < p.cols) {
values = eight(row, c);
}
return values;
}
fn store_w(i: u32, values: mat2x4<f32>) {
let at = i / COL_THREADS * 2u * COL_THREADS + i % COL_THREADS * 2u;
w_tile[at] = values[0];
w_tile[at + 1u] = values[1];
}
fn finish(t: u32, c: u32, sum: f32) {
let at = p.result_first + t * p.result_stride + c;
if (p.epilogue == 0u) {
result[at] = sum;
} else if (p.epilogue == 1u) {
result[at] = residual[p.residual_first + t * p.residual_stride + c] + sum;
} else {
result[at] += sum;
}
}
fn finish_four(t: u32, count: u32, c: u32, part: u32, sums: vec4<f32>) {
if (t >= count) {
return;
}
for (var i = 0u; i < 4u; i++) {
if (c + i < p.cols) {
finish(t, c + i + part, select(sums[i], sums[i] * p.scale, FORMAT == 0u));
}
}
}
@compute @workgroup_size(TOKEN_THREADS * COL_THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let first_col = group.x * 8u * COL_THREADS;
let first_token = group.y * 8u * TOKEN_THREADS;
let first_row = group.z * p.rows_of_part;
let end = min(first_row + p.rows_of_part, p.rows);
let step = TOKEN_THREADS * COL_THREADS;
let col_thread = local % COL_THREADS;
let token_thread = local / COL_THREADS;
var y0 = vec4<f32>();
var y1 = vec4<f32>();
var y2 = vec4<f32>();
var y3 = vec4<f32>();
if (DY_LOADS <= 4u) {
y0 = fetch_dy(first_token, first_row, end, local);
y1 = fetch_dy(first_token, first_row, end, local + step);
}
if (DY_LOADS == 4u) {
y2 = fetch_dy(first_token, first_row, end, local + 2u * step);
y3 = fetch_dy(first_token, first_row, end, local + 3u * step);
}
var w0 = fetch_w(first_col, first_row, end, local);
var low0 = vec4<f32>();
var high0 = vec4<f32>();
var low1 = vec4<f32>();
var high1 = vec4<f32>();
var low2 = vec4<f32>();
var high2 = vec4<f32>();
var low3 = vec4<f32>();
var high3 = vec4<f32>();
var low4 = vec4<f32>();
var high4 = vec4<f32>();
var low5 = vec4<f32>();
var high5 = vec4<f32>();
var low6 = vec4<f32>();
var high6 = vec4<f32>();
var low7 = vec4<f32>();
var high7 = vec4<f32>();
for (var r = first_row; r < end; r += DEPTH) {
workgroupBarrier();
if (DY_LOADS <= 4u) {
store_dy(local, y0);
store_dy(local + step, y1);
} else {
for (var i = 0u; i < DY_LOADS; i++) {
store_dy(local + i * step, fetch_dy(first_token, r, end, local + i * step));
}
}
if (DY_LOADS == 4u) {
store_dy(local + 2u * step, y2);
store_dy(local + 3u * step, y3);
}
store_w(local, w0);
workgroupBarrier();
if (DY_LOADS <= 4u) {
y0 = fetch_dy(first_token, r + DEPTH, end, local);
y1 = fetch_dy(first_token, r + DEPTH, end, local + step);
}
if (DY_LOADS == 4u) {
y2 = fetch_dy(first_token, r + DEPTH, end, local + 2u * step);
y3 = fetch_dy(first_token, r + DEPTH, end, local + 3u * step);
}
w0 = fetch_w(first_col, r + DEPTH, end, local);
for (var k = 0u; k < DEPTH; k++) {
let v0 = w_tile[k * 2u * COL_THREADS + col_thread];
let v1 = w_tile[k * 2u * COL_THREADS + COL_THREADS + col_thread];
let d0 = dy_tile[k * DY_STRIDE + token_thread];
let d1 = dy_tile[k * DY_STRIDE + TOKEN_THREADS + token_thread];
low0 += v0 * d0.x;
high0 += v1 * d0.x;
low1 += v0 * d0.y;
high1 += v1 * d0.y;
low2 += v0 * d0.z;
high2 += v1 * d0.z;
low3 += v0 * d0.w;
high3 += v1 * d0.w;
low4 += v0 * d1.x;
high4 += v1 * d1.x;
low5 += v0 * d1.y;
high5 += v1 * d1.y;
low6 += v0 * d1.z;
high6 += v1 * d1.z;
low7 += v0 * d1.w;
high7 += v1 * d1.w;
}
}
let count = params[p.count_word];
let part = group.z * p.part_stride;
let c = first_col + 4u * col_thread;
let far = c + 4u * COL_THREADS;
let t = first_token + 4u * token_thread;
let late = t + 4u * TOKEN_THREADS;
finish_four(t, count, c, part, low0);
finish_four(t, count, far, part, high0);
finish_four(t + 1u, count, c, part, low1);
finish_four(t + 1u, count, far, part, high1);
finish_four(t + 2u, count, c, part, low2);
finish_four(t + 2u, count, far, part, high2);
finish_four(t + 3u, count, c, part, low3);
finish_four(t + 3u, count, far, part, high3);
finish_four(late, count, c, part, low4);
finish_four(late, count, far, part, high4);
finish_four(late + 1u, count, c, part, low5);
finish_four(late + 1u, count, far, part, high5);
finish_four(late + 2u, count, c, part, low6);
finish_four(late + 2u, count, far, part, high6);
finish_four(late + 3u, count, c, part, low7);
finish_four(late + 3u, count, far, part, high7);
}`,
linear_float_vec: `~enable subgroups;
override FORMAT: u32 = 2;
override WORKGROUP: u32 = 128;
override LANES: u32 = 8;
override ROWS: u32 = 4;
override TOKENS: u32 = 1;
override SUBGROUPS: bool = false;
override PARTIALS: u32 = 128;
struct P {
rows: u32,
cols: u32,
row_vectors: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
result_first: u32,
result_stride: u32,
residual_first: u32,
residual_stride: u32,
epilogue: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;
var<workgroup> partials: array<vec4<f32>, PARTIALS>;
struct Starts {
rows: vec4<u32>,
tokens: vec4<u32>,
}
struct Sums {
t0: vec4<f32>,
t1: vec4<f32>,
t2: vec4<f32>,
t3: vec4<f32>,
}
fn piece(row: u32, at: u32, narrow: bool) -> mat2x4<f32> {
if (FORMAT == 1u) {
let low = weights[row + 2u * at];
var high = vec4<u32>();
if (!narrow) {
high = weights[row + 2u * at + 1u];
}
return mat2x4<f32>(bitcast<vec4<f32>>(low), bitcast<vec4<f32>>(high));
}
let w = weights[row + at];
if (FORMAT == 2u) {
let low = vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
return mat2x4<f32>(low, vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w)));
}
let even = bitcast<vec4<f32>>(w << vec4<u32>(16u));
let odd = bitcast<vec4<f32>>(w & vec4<u32>(0xffff0000u));
return mat2x4<f32>(even.x, odd.x, even.y, odd.y, even.z, odd.z, even.w, odd.w);
}
fn products(
w0: mat2x4<f32>,
w1: mat2x4<f32>,
w2: mat2x4<f32>,
w3: mat2x4<f32>,
token: u32,
at: u32,
narrow: bool,
) -> vec4<f32> {
let low = x[token + 2u * at];
var high = vec4<f32>();
if (!narrow) {
high = x[token + 2u * at + 1u];
}
var sums = vec4<f32>();
sums.x = dot(w0[0], low) + dot(w0[1], high);
if (ROWS >= 2u) {
sums.y = dot(w1[0], low) + dot(w1[1], high);
}
if (ROWS == 4u) {
sums.z = dot(w2[0], low) + dot(w2[1], high);
sums.w = dot(w3[0], low) + dot(w3[1], high);
}
return sums;
}
fn add(sums: Sums, start: Starts, at: u32, narrow: bool) -> Sums {
let w0 = piece(start.rows.x, at, narrow);
var w1 = mat2x4<f32>();
var w2 = mat2x4<f32>();
var w3 = mat2x4<f32>();
if (ROWS >= 2u) {
w1 = piece(start.rows.y, at, narrow);
}
if (ROWS == 4u) {
w2 = piece(start.rows.z, at, narrow);
w3 = piece(start.rows.w, at, narrow);
}
var s = sums;
s.t0 += products(w0, w1, w2, w3, start.tokens.x, at, narrow);
if (TOKENS == 4u) {
s.t1 += products(w0, w1, w2, w3, start.tokens.y, at, narrow);
s.t2 += products(w0, w1, w2, w3, start.tokens.z, at, narrow);
s.t3 += products(w0, w1, w2, w3, start.tokens.w, at, narrow);
}
return s;
}
fn silu(g: f32) -> f32 {
return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}
fn gelu(g: f32) -> f32 {
let h = clamp(g, -20.0, 20.0);
let w = (h + h * h * h * 0.044715) * 1.5957691216;
return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}
fn finish(t: u32, row: u32, sum: f32) {
let at = p.result_first + t * p.result_stride + row;
if (p.epilogue == 0u) {
result[at] = sum;
} else if (p.epilogue == 1u) {
result[at] = residual[p.residual_first + t * p.residual_stride + row] + sum;
} else {
let held = result[at];
if (p.epilogue == 2u) {
result[at] = held + sum;
} else if (p.epilogue == 3u) {
let positive = select(0.0, held, held > 0.0);
result[at] = positive * positive * sum;
} else if (p.epilogue == 4u) {
result[at] = silu(held) * sum;
} else {
result[at] = gelu(held) * sum;
}
}
}
fn total(sums: vec4<f32>, local: u32, token: u32) -> f32 {
let lane = local % LANES;
if (SUBGROUPS) {
var sum = sums;
~for (var apart = LANES / 2u; apart > 0u; apart >>= 1u) {
~sum += subgroupShuffleXor(sum, apart);
~}
return select(select(sum.w, sum.z, lane == 2u), select(sum.y, sum.x, lane == 0u), lane < 2u);
}
partials[token * WORKGROUP + local] = sums;
workgroupBarrier();
var sum = 0.0;
if (lane < ROWS) {
for (var i = 0u; i < LANES; i++) {
sum += partials[token * WORKGROUP + local - lane + i][lane];
}
}
return sum;
}
@compute @workgroup_size(WORKGROUP)
fn main(
@builtin(workgroup_id) group: vec3<u32>,
@builtin(num_workgroups) groups: vec3<u32>,
@builtin(local_invocation_index) local: u32,
) {
let lane = local % LANES;
let first = ((group.z * groups.x + group.x) * (WORKGROUP / LANES) + local / LANES) * ROWS;
let t = group.y * TOKENS;
let count = params[p.count_word];
var sums = Sums();
if (t < count && first < p.rows) {
let rows = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.rows - 1u));
let tokens = min(vec4<u32>(t) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
let start = Starts(rows * p.row_vectors, p.x_first + tokens * p.x_stride);
let pieces = p.cols / 8u;
var at = lane;
for (; at + LANES < pieces; at += 2u * LANES) {
sums = add(sums, start, at, false);
sums = add(sums, start, at + LANES, false);
}
if (at < pieces) {
sums = add(sums, start, at, false);
}
if (lane == 0u && 8u * pieces < p.cols) {
sums = add(sums, start, pieces, true);
}
}
let sum0 = total(sums.t0, local, 0u);
let mine = lane < ROWS && first + lane < p.rows;
if (mine && t < count) {
finish(t, first + lane, sum0);
}
if (TOKENS == 4u) {
let sum1 = total(sums.t1, local, 1u);
let sum2 = total(sums.t2, local, 2u);
let sum3 = total(sums.t3, local, 3u);
if (mine && t + 1u < count) {
finish(t + 1u, first + lane, sum1);
}
if (mine && t + 2u < count) {
finish(t + 2u, first + lane, sum2);
}
if (mine && t + 3u < count) {
finish(t + 3u, first + lane, sum3);
}
}
}`,
linear_parts: `override WORKGROUP: u32 = 128;
struct P {
rows: u32,
cols: u32,
count_word: u32,
n_parts: u32,
part_stride: u32,
result_first: u32,
result_stride: u32,
residual_first: u32,
residual_stride: u32,
epilogue: u32,
row_groups: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> parts: array<f32>;
@group(0) @binding(3) var<storage, read_write> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> result: array<f32>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let i = (group.y * p.row_groups + group.x) * WORKGROUP + local;
let t = i / p.cols;
let c = i % p.cols;
var rows = p.rows;
if (rows == 0u) {
rows = params[p.count_word];
}
if (t >= rows) {
return;
}
var sum = 0.0;
for (var part = 0u; part < p.n_parts; part++) {
sum += parts[part * p.part_stride + i];
}
let at = p.result_first + t * p.result_stride + c;
if (p.epilogue == 1u) {
sum += residual[p.residual_first + t * p.residual_stride + c];
} else if (p.epilogue == 2u) {
sum += result[at];
}
result[at] = sum;
}`,
linear_quant_vec: `~enable subgroups;
override FORMAT: u32 = 4;
override WORKGROUP: u32 = 128;
override LANES: u32 = 8;
override ROWS: u32 = 4;
override TOKENS: u32 = 1;
override SUBGROUPS: bool = false;
override PARTIALS: u32 = 128;
struct P {
rows: u32,
cols: u32,
row_vectors: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
result_first: u32,
result_stride: u32,
residual_first: u32,
residual_stride: u32,
epilogue: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> weights: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> result: array<f32>;
var<workgroup> partials: array<vec4<f32>, PARTIALS>;
struct Starts {
rows: vec4<u32>,
tokens: vec4<u32>,
}
struct Sums {
t0: vec4<f32>,
t1: vec4<f32>,
t2: vec4<f32>,
t3: vec4<f32>,
}
struct Unit {
a: vec4<u32>,
b: vec4<u32>,
c: vec4<u32>,
scales: vec4<u32>,
d: f32,
}
fn half_at(row: u32, byte: u32) -> f32 {
let pair = unpack2x16float(weights[row + byte / 16u][byte / 4u % 4u]);
return select(pair.x, pair.y, (byte & 2u) != 0u);
}
fn load(row: u32, u: u32) -> Unit {
var unit: Unit;
if (FORMAT == 4u) {
unit.a = weights[row + u];
unit.d = half_at(row, p.cols + u / 2u * 2u);
} else if (FORMAT == 5u) {
let block = row + u / 4u * 13u;
let side = u / 2u % 2u;
unit.a = weights[block + 4u * side + u % 2u];
unit.b = weights[block + 4u * side + 2u + u % 2u];
unit.c = weights[block + 8u + 2u * side + u % 2u];
unit.scales = weights[block + 12u];
unit.d = half_at(row, p.cols / 256u * 208u + u / 4u * 2u);
} else {
unit.a = weights[row + u / 8u * 9u + 1u + u % 8u];
unit.b = weights[row + u / 8u * 9u];
}
return unit;
}
struct Sixteen {
values: mat4x4<f32>,
scale: f32,
}
fn bytes(v: u32) -> vec4<f32> {
return vec4<f32>((vec4<u32>(v) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u));
}
fn signed_bytes(v: u32) -> vec4<f32> {
return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}
fn bytes_of(v: vec4<u32>) -> mat4x4<f32> {
return mat4x4<f32>(bytes(v.x), bytes(v.y), bytes(v.z), bytes(v.w));
}
fn part_of(unit: Unit, u: u32, part: u32) -> Sixteen {
if (FORMAT == 4u) {
let v = unit.a;
return Sixteen(mat4x4<f32>(signed_bytes(v.x), signed_bytes(v.y), signed_bytes(v.z), signed_bytes(v.w)), unit.d);
}
if (FORMAT == 5u) {
var low = unit.a;
if (part % 2u == 1u) {
low = unit.b;
}
let nibbles = (low >> vec4<u32>(part / 2u * 4u)) & vec4<u32>(0x0f0f0f0fu);
let high = ((unit.c >> vec4<u32>(part * 2u)) & vec4<u32>(0x03030303u)) << vec4<u32>(4u);
let index = u / 2u % 2u * 8u + part * 2u + u % 2u;
let scale = extractBits(bitcast<i32>(unit.scales[index / 4u]), index % 4u * 8u, 8u);
let middle = vec4<f32>(32.0);
return Sixteen(bytes_of(nibbles | high) - mat4x4<f32>(middle, middle, middle, middle), unit.d * f32(scale));
}
let group = u % 8u / 2u * 2u + part;
let shift = group % 4u * 8u;
var scale = (unit.b.y >> shift) & 63u;
var least = (unit.b.z >> shift) & 63u;
if (group >= 4u) {
scale = ((unit.b.w >> shift) & 15u) | (((unit.b.y >> (shift + 6u)) & 3u) << 4u);
least = ((unit.b.w >> (shift + 4u)) & 15u) | (((unit.b.z >> (shift + 6u)) & 3u) << 4u);
}
let ds = unpack2x16float(unit.b.x);
let values = bytes_of((unit.a >> vec4<u32>(part * 4u)) & vec4<u32>(0x0f0f0f0fu)) * (ds.x * f32(scale));
let minus = vec4<f32>(ds.y * f32(least));
return Sixteen(values - mat4x4<f32>(minus, minus, minus, minus), 1.0);
}
fn column_of(u: u32, part: u32) -> u32 {
if (FORMAT == 4u) {
return 4u * u;
}
if (FORMAT == 5u) {
return u / 2u * 32u + part * 8u + u % 2u * 4u;
}
return u / 2u * 16u + part * 8u + u % 2u * 4u;
}
fn product(w: Sixteen, x0: vec4<f32>, x1: vec4<f32>, x2: vec4<f32>, x3: vec4<f32>) -> f32 {
let four = w.values[0] * x0 + w.values[1] * x1 + w.values[2] * x2 + w.values[3] * x3;
return (four.x + four.y + (four.z + four.w)) * w.scale;
}
fn products(w0: Sixteen, w1: Sixteen, w2: Sixteen, w3: Sixteen, at: u32) -> vec4<f32> {
let x0 = x[at];
let x1 = x[at + 1u];
let x2 = x[at + 2u];
let x3 = x[at + 3u];
var sums = vec4<f32>();
sums.x = product(w0, x0, x1, x2, x3);
if (ROWS >= 2u) {
sums.y = product(w1, x0, x1, x2, x3);
}
if (ROWS == 4u) {
sums.z = product(w2, x0, x1, x2, x3);
sums.w = product(w3, x0, x1, x2, x3);
}
return sums;
}
fn add_part(sums: Sums, start: Starts, u0: Unit, u1: Unit, u2: Unit, u3: Unit, u: u32, part: u32) -> Sums {
let w0 = part_of(u0, u, part);
var w1: Sixteen;
var w2: Sixteen;
var w3: Sixteen;
if (ROWS >= 2u) {
w1 = part_of(u1, u, part);
}
if (ROWS == 4u) {
w2 = part_of(u2, u, part);
w3 = part_of(u3, u, part);
}
let at = start.tokens + column_of(u, part);
var s = sums;
s.t0 += products(w0, w1, w2, w3, at.x);
if (TOKENS == 4u) {
s.t1 += products(w0, w1, w2, w3, at.y);
s.t2 += products(w0, w1, w2, w3, at.z);
s.t3 += products(w0, w1, w2, w3, at.w);
}
return s;
}
fn add(sums: Sums, start: Starts, u: u32) -> Sums {
let u0 = load(start.rows.x, u);
var u1: Unit;
var u2: Unit;
var u3: Unit;
if (ROWS >= 2u) {
u1 = load(start.rows.y, u);
}
if (ROWS == 4u) {
u2 = load(start.rows.z, u);
u3 = load(start.rows.w, u);
}
var s = add_part(sums, start, u0, u1, u2, u3, u, 0u);
if (FORMAT >= 5u) {
s = add_part(s, start, u0, u1, u2, u3, u, 1u);
}
if (FORMAT == 5u) {
s = add_part(s, start, u0, u1, u2, u3, u, 2u);
s = add_part(s, start, u0, u1, u2, u3, u, 3u);
}
return s;
}
fn silu(g: f32) -> f32 {
return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}
fn gelu(g: f32) -> f32 {
let h = clamp(g, -20.0, 20.0);
let w = (h + h * h * h * 0.044715) * 1.5957691216;
return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}
fn finish(t: u32, row: u32, sum: f32) {
let at = p.result_first + t * p.result_stride + row;
if (p.epilogue == 0u) {
result[at] = sum;
} else if (p.epilogue == 1u) {
result[at] = residual[p.residual_first + t * p.residual_stride + row] + sum;
} else {
let held = result[at];
if (p.epilogue == 2u) {
result[at] = held + sum;
} else if (p.epilogue == 3u) {
let positive = select(0.0, held, held > 0.0);
result[at] = positive * positive * sum;
} else if (p.epilogue == 4u) {
result[at] = silu(held) * sum;
} else {
result[at] = gelu(held) * sum;
}
}
}
fn total(sums: vec4<f32>, local: u32, token: u32) -> f32 {
let lane = local % LANES;
if (SUBGROUPS) {
var sum = sums;
~for (var apart = LANES / 2u; apart > 0u; apart >>= 1u) {
~sum += subgroupShuffleXor(sum, apart);
~}
return select(select(sum.w, sum.z, lane == 2u), select(sum.y, sum.x, lane == 0u), lane < 2u);
}
partials[token * WORKGROUP + local] = sums;
workgroupBarrier();
var sum = 0.0;
if (lane < ROWS) {
for (var i = 0u; i < LANES; i++) {
sum += partials[token * WORKGROUP + local - lane + i][lane];
}
}
return sum;
}
@compute @workgroup_size(WORKGROUP)
fn main(
@builtin(workgroup_id) group: vec3<u32>,
@builtin(num_workgroups) groups: vec3<u32>,
@builtin(local_invocation_index) local: u32,
) {
let lane = local % LANES;
let first = ((group.z * groups.x + group.x) * (WORKGROUP / LANES) + local / LANES) * ROWS;
let t = group.y * TOKENS;
let count = params[p.count_word];
var sums = Sums();
if (t < count && first < p.rows) {
let rows = min(vec4<u32>(first) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(p.rows - 1u));
let tokens = min(vec4<u32>(t) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(count - 1u));
let start = Starts(rows * p.row_vectors, p.x_first + tokens * p.x_stride);
var columns = 16u;
if (FORMAT >= 5u) {
columns = select(32u, 64u, FORMAT == 5u);
}
let units = p.cols / columns;
for (var u = lane; u < units; u += LANES) {
sums = add(sums, start, u);
}
}
let sum0 = total(sums.t0, local, 0u);
let mine = lane < ROWS && first + lane < p.rows;
if (mine && t < count) {
finish(t, first + lane, sum0);
}
if (TOKENS == 4u) {
let sum1 = total(sums.t1, local, 1u);
let sum2 = total(sums.t2, local, 2u);
let sum3 = total(sums.t3, local, 3u);
if (mine && t + 1u < count) {
finish(t + 1u, first + lane, sum1);
}
if (mine && t + 2u < count) {
finish(t + 2u, first + lane, sum2);
}
if (mine && t + 3u < count) {
finish(t + 3u, first + lane, sum3);
}
}
}`,
linear_ternary_f32: `override GATED: bool = false;
override WORKGROUP: u32 = 128;
override LANES: u32 = 8;
struct P {
count_word: u32,
cols: u32,
chunks: u32,
flags: u32,
rows: u32,
x_first: u32,
x_stride: u32,
row_scales: u32,
scale0: f32,
scale1: f32,
residual_first: u32,
residual_stride: u32,
out_first: u32,
out_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read> w0: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> w1: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<f32>;
var<workgroup> sums: array<vec2<f32>, WORKGROUP>;
fn four(row: u32, c: u32, codes: u32) -> f32 {
var sum = 0.0;
for (var i = 0u; i < 4u; i++) {
let code = (codes >> (8u * i)) & 3u;
if (c + i < p.cols && code != 1u) {
sum += select(x[row + c + i], -x[row + c + i], code == 0u);
}
}
return sum;
}
fn chunk(row: u32, at: u32, w: vec4<u32>) -> f32 {
var sum = 0.0;
for (var e = 0u; e < 4u; e++) {
let c = (at >> 1u) * 128u + (at & 1u) * 16u + e * 4u;
for (var q = 0u; q < 4u; q++) {
sum += four(row, c + q * 32u, w[e] >> (6u - 2u * q));
}
}
return sum;
}
fn silu(g: f32) -> f32 {
return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}
fn gelu(g: f32) -> f32 {
let h = clamp(g, -20.0, 20.0);
let w = (h + h * h * h * 0.044715) * 1.5957691216;
return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}
fn activation(gate: f32, up: f32) -> f32 {
if ((p.flags & 2u) != 0u) {
return silu(gate) * up;
}
if ((p.flags & 8u) != 0u) {
return gelu(gate) * up;
}
let r = select(0.0, gate, gate > 0.0);
return r * r * up;
}
fn scaled(r: u32, sum: vec2<f32>) -> f32 {
let word = p.row_scales + r;
var y = sum.x * select(bitcast<f32>(w0[word >> 2u][word & 3u]), p.scale0, p.row_scales == 0u);
if (GATED) {
y = activation(y, sum.y * select(bitcast<f32>(w1[word >> 2u][word & 3u]), p.scale1, p.row_scales == 0u));
}
return y;
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let t = group.y;
let lane = local % LANES;
let r = group.x * (WORKGROUP / LANES) + local / LANES;
let used = t < params[p.count_word] && r < p.rows;
let row = p.x_first + t * p.x_stride;
var sum = vec2<f32>();
if (used) {
for (var c = lane; c < p.chunks; c += LANES) {
sum.x += chunk(row, c, w0[r * p.chunks + c]);
if (GATED) {
sum.y += chunk(row, c, w1[r * p.chunks + c]);
}
}
}
sums[local] = sum;
workgroupBarrier();
if (lane != 0u || !used) {
return;
}
for (var i = 1u; i < LANES; i++) {
sum += sums[local + i];
}
let at = p.out_first + t * p.out_stride + r;
var y = scaled(r, sum);
if ((p.flags & 1u) != 0u) {
y += residual[p.residual_first + t * p.residual_stride + r];
} else if ((p.flags & 4u) != 0u) {
y += result[at];
}
result[at] = y;
}`,
linear_ternary_mat: `override GATED: bool = false;
override WORKGROUP: u32 = 128;
override TILE_ROWS: u32 = 64;
override TILE_TOKENS: u32 = 64;
override ROW_STRIDE: u32 = TILE_ROWS / 8u;
override TOKEN_STRIDE: u32 = TILE_TOKENS / 4u;
override W_LOADS: u32 = TILE_ROWS * 2u / WORKGROUP;
struct P {
count_word: u32,
max_rows: u32,
n_groups: u32,
x_stride: u32,
scales_word: u32,
sums_word: u32,
w_stride: u32,
row_scales: u32,
rows0: u32,
rows1: u32,
rows2: u32,
tiles0: u32,
tiles1: u32,
scale0: f32,
scale1: f32,
scale2: f32,
out_first: u32,
out_stride: u32,
residual_first: u32,
residual_stride: u32,
flags: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> w0: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> w1: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> w2: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> residual: array<f32>;
@group(0) @binding(7) var<storage, read_write> result: array<f32>;
var<workgroup> w_tile: array<vec4<u32>, TILE_ROWS * 8u>;
var<workgroup> x_tile: array<vec4<u32>, TILE_TOKENS * 8u>;
fn load_w(part: u32, at: u32) -> vec4<u32> {
if (part == 0u) {
return w0[at];
}
if (part == 1u) {
return w1[at];
}
return w2[at];
}
fn x_word(word: u32) -> u32 {
return x[word >> 2u][word & 3u];
}
fn weight_scale(part: u32, r: u32) -> f32 {
if (p.row_scales == 0u) {
return select(select(p.scale2, p.scale1, part == 1u), p.scale0, part == 0u);
}
let word = p.row_scales + r;
return bitcast<f32>(load_w(part, word >> 2u)[word & 3u]);
}
struct Tile {
part: u32,
first: u32,
rows: u32,
col: u32,
}
fn tile_of(group: u32) -> Tile {
let height = select(TILE_ROWS, TILE_ROWS / 2u, GATED);
if (!GATED && group >= p.tiles1) {
return Tile(2u, (group - p.tiles1) * height, p.rows2, p.rows0 + p.rows1);
}
if (!GATED && group >= p.tiles0) {
return Tile(1u, (group - p.tiles0) * height, p.rows1, p.rows0);
}
return Tile(0u, group * height, p.rows0, 0u);
}
struct Source {
part: u32,
at: u32,
to: u32,
key: u32,
}
fn source_of(tile: Tile, i: u32) -> Source {
let m = i >> 1u;
let half = i & 1u;
var part = tile.part;
var r = tile.first + m;
if (GATED && m >= TILE_ROWS / 2u) {
part = 1u;
r -= TILE_ROWS / 2u;
}
return Source(part, min(r, tile.rows - 1u) * p.w_stride + half, m * 8u, ((m % ROW_STRIDE) & 7u) ^ half);
}
fn store_codes(s: Source, w: vec4<u32>) {
let mask = vec4<u32>(0x03030303u);
w_tile[s.to + s.key] = (w >> vec4<u32>(6u)) & mask;
w_tile[s.to + (s.key ^ 2u)] = (w >> vec4<u32>(4u)) & mask;
w_tile[s.to + (s.key ^ 4u)] = (w >> vec4<u32>(2u)) & mask;
w_tile[s.to + (s.key ^ 6u)] = w & mask;
}
fn x_at(first_token: u32, i: u32) -> u32 {
return min(first_token + (i >> 3u), p.max_rows - 1u) * p.x_stride + (i & 7u);
}
fn store_x(i: u32, v: vec4<u32>) {
let t = i >> 3u;
x_tile[t * 8u + ((i & 7u) ^ ((t % TOKEN_STRIDE) & 7u))] = v;
}
fn mac(c: i32, a: vec4<u32>, b: vec4<u32>) -> i32 {
return dot4I8Packed(a.w, b.w) + (dot4I8Packed(a.z, b.z) + (dot4I8Packed(a.y, b.y) + (dot4I8Packed(a.x, b.x) + c)));
}
fn mac4(c: vec4<i32>, a0: vec4<u32>, a1: vec4<u32>, a2: vec4<u32>, a3: vec4<u32>, b: vec4<u32>) -> vec4<i32> {
return vec4<i32>(mac(c.x, a0, b), mac(c.y, a1, b), mac(c.z, a2, b), mac(c.w, a3, b));
}
fn silu(g: f32) -> f32 {
return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}
fn gelu(g: f32) -> f32 {
let h = clamp(g, -20.0, 20.0);
let w = (h + h * h * h * 0.044715) * 1.5957691216;
return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}
fn activation(gate: f32, up: f32) -> f32 {
if ((p.flags & 2u) != 0u) {
return silu(gate) * up;
}
if ((p.flags & 8u) != 0u) {
return gelu(gate) * up;
}
let r = select(0.0, gate, gate > 0.0);
return r * r * up;
}
fn put(t: u32, col: u32, y: f32) {
let at = p.out_first + t * p.out_stride + col;
var v = y;
if ((p.flags & 1u) != 0u) {
v += residual[p.residual_first + t * p.residual_stride + col];
} else if ((p.flags & 4u) != 0u) {
v += result[at];
}
result[at] = v;
}
fn put_row(tile: Tile, t: u32, r: u32, dot: i32, inverse: f32) {
if (r < tile.rows) {
put(t, tile.col + r, f32(dot) * (inverse * weight_scale(tile.part, r)));
}
}
fn put_gated(tile: Tile, t: u32, r: u32, gate: i32, up: i32, inverse: f32) {
if (r < tile.rows) {
put(t, r, activation(f32(gate) * (inverse * weight_scale(0u, r)), f32(up) * (inverse * weight_scale(1u, r))));
}
}
fn put_token(tile: Tile, t: u32, count: u32, r: u32, low: vec4<i32>, high: vec4<i32>) {
if (t >= count) {
return;
}
let inverse = bitcast<f32>(x_word(p.scales_word + t));
let sum = vec4<i32>(bitcast<i32>(x_word(p.sums_word + t)));
let a = low - sum;
let b = high - sum;
if (GATED) {
put_gated(tile, t, r, a.x, b.x, inverse);
put_gated(tile, t, r + ROW_STRIDE, a.y, b.y, inverse);
put_gated(tile, t, r + 2u * ROW_STRIDE, a.z, b.z, inverse);
put_gated(tile, t, r + 3u * ROW_STRIDE, a.w, b.w, inverse);
return;
}
put_row(tile, t, r, a.x, inverse);
put_row(tile, t, r + ROW_STRIDE, a.y, inverse);
put_row(tile, t, r + 2u * ROW_STRIDE, a.z, inverse);
put_row(tile, t, r + 3u * ROW_STRIDE, a.w, inverse);
put_row(tile, t, r + 4u * ROW_STRIDE, b.x, inverse);
put_row(tile, t, r + 5u * ROW_STRIDE, b.y, inverse);
put_row(tile, t, r + 6u * ROW_STRIDE, b.z, inverse);
put_row(tile, t, r + 7u * ROW_STRIDE, b.w, inverse);
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
if (local == 0u) {
w_tile[0] = vec4<u32>(params[p.count_word]);
}
let count = workgroupUniformLoad(&w_tile[0]).x;
let first_token = group.y * TILE_TOKENS;
if (first_token >= count) {
return;
}
let tile = tile_of(group.x);
let s0 = source_of(tile, local);
let s1 = source_of(tile, local + WORKGROUP * (W_LOADS - 1u));
let x0 = x_at(first_token, local);
let x1 = x_at(first_token, local + WORKGROUP);
let x2 = x_at(first_token, local + 2u * WORKGROUP);
let x3 = x_at(first_token, local + 3u * WORKGROUP);
let ty = local % ROW_STRIDE;
let tx = local / ROW_STRIDE;
let row_key = ty & 7u;
let token_key = tx & 7u;
var c0 = vec4<i32>();
var c1 = vec4<i32>();
var c2 = vec4<i32>();
var c3 = vec4<i32>();
var d0 = vec4<i32>();
var d1 = vec4<i32>();
var d2 = vec4<i32>();
var d3 = vec4<i32>();
var v0: vec4<u32>;
var v1: vec4<u32>;
var u0: vec4<u32>;
var u1: vec4<u32>;
var u2: vec4<u32>;
var u3: vec4<u32>;
for (var g = 0u; g <= p.n_groups; g++) {
if (g > 0u) {
workgroupBarrier();
store_codes(s0, v0);
if (W_LOADS > 1u) { store_codes(s1, v1); }
store_x(local, u0);
store_x(local + WORKGROUP, u1);
store_x(local + 2u * WORKGROUP, u2);
store_x(local + 3u * WORKGROUP, u3);
workgroupBarrier();
}
if (g < p.n_groups) {
v0 = load_w(s0.part, s0.at + g * 2u);
if (W_LOADS > 1u) { v1 = load_w(s1.part, s1.at + g * 2u); }
u0 = x[x0 + g * 8u];
u1 = x[x1 + g * 8u];
u2 = x[x2 + g * 8u];
u3 = x[x3 + g * 8u];
}
if (g > 0u) {
for (var k = 0u; k < 8u; k++) {
let wk = ty * 8u + (k ^ row_key);
let xk = tx * 8u + (k ^ token_key);
let a0 = w_tile[wk];
let a1 = w_tile[wk + ROW_STRIDE * 8u];
let a2 = w_tile[wk + ROW_STRIDE * 16u];
let a3 = w_tile[wk + ROW_STRIDE * 24u];
let a4 = w_tile[wk + ROW_STRIDE * 32u];
let a5 = w_tile[wk + ROW_STRIDE * 40u];
let a6 = w_tile[wk + ROW_STRIDE * 48u];
let a7 = w_tile[wk + ROW_STRIDE * 56u];
let b0 = x_tile[xk];
let b1 = x_tile[xk + TOKEN_STRIDE * 8u];
let b2 = x_tile[xk + TOKEN_STRIDE * 16u];
let b3 = x_tile[xk + TOKEN_STRIDE * 24u];
c0 = mac4(c0, a0, a1, a2, a3, b0);
c1 = mac4(c1, a0, a1, a2, a3, b1);
c2 = mac4(c2, a0, a1, a2, a3, b2);
c3 = mac4(c3, a0, a1, a2, a3, b3);
d0 = mac4(d0, a4, a5, a6, a7, b0);
d1 = mac4(d1, a4, a5, a6, a7, b1);
d2 = mac4(d2, a4, a5, a6, a7, b2);
d3 = mac4(d3, a4, a5, a6, a7, b3);
}
}
}
let t = first_token + tx;
let r = tile.first + ty;
put_token(tile, t, count, r, c0, d0);
put_token(tile, t + TOKEN_STRIDE, count, r, c1, d1);
put_token(tile, t + 2u * TOKEN_STRIDE, count, r, c2, d2);
put_token(tile, t + 3u * TOKEN_STRIDE, count, r, c3, d3);
}`,
linear_ternary_vec: `~enable subgroups;
override NORM: bool = false;
override GATED: bool = false;
override PARTS: u32 = 3;
override WORKGROUP: u32 = 256;
override LANES: u32 = 8;
override CHUNKS: u32 = 4;
override FIXED: u32 = 0;
override WHOLE: bool = false;
override SKIP: bool = true;
override BLOCKS: u32 = 1;
override CLUSTER: u32 = 1;
override XCHUNKS: u32 = 240;
override UNITS: u32 = 4;
override POOL: u32 = WORKGROUP / CLUSTER;
struct P {
count_word: u32,
cols: u32,
chunks: u32,
padded: u32,
flags: u32,
eps: f32,
x_first: u32,
x_stride: u32,
scales_word: u32,
sums_word: u32,
rows0: u32,
rows1: u32,
rows2: u32,
block1: u32,
block2: u32,
scale0: f32,
scale1: f32,
scale2: f32,
row_scales0: u32,
row_scales1: u32,
row_scales2: u32,
residual_first: u32,
residual_stride: u32,
out_first: u32,
out_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> w0: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> w1: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read> w2: array<vec4<u32>>;
@group(0) @binding(7) var<storage, read_write> residual: array<f32>;
@group(0) @binding(8) var<storage, read_write> result: array<f32>;
var<workgroup> xs: array<vec4<u32>, 4 * XCHUNKS>;
var<workgroup> pool: array<vec2<u32>, POOL>;
var<workgroup> code_sum: atomic<i32>;
struct Block {
c0: vec4<u32>,
c1: vec4<u32>,
c2: vec4<u32>,
c3: vec4<u32>,
c4: vec4<u32>,
c5: vec4<u32>,
c6: vec4<u32>,
c7: vec4<u32>,
}
fn n_chunks() -> u32 {
if (FIXED != 0u) {
return FIXED;
}
return p.chunks;
}
fn within(c: u32) -> u32 {
if (FIXED == LANES * CHUNKS) {
return c;
}
return min(c, n_chunks() - 1u);
}
fn chunk0(at: u32, c: u32) -> vec4<u32> {
return w0[at + within(c)];
}
fn chunk1(at: u32, c: u32) -> vec4<u32> {
return w1[at + within(c)];
}
fn chunk2(at: u32, c: u32) -> vec4<u32> {
return w2[at + within(c)];
}
fn block0(at: u32, c: u32) -> Block {
var b: Block;
b.c0 = chunk0(at, c);
if (CHUNKS > 1u) { b.c1 = chunk0(at, c + LANES); }
if (CHUNKS > 2u) { b.c2 = chunk0(at, c + 2u * LANES); }
if (CHUNKS > 3u) { b.c3 = chunk0(at, c + 3u * LANES); }
if (CHUNKS > 4u) { b.c4 = chunk0(at, c + 4u * LANES); }
if (CHUNKS > 5u) { b.c5 = chunk0(at, c + 5u * LANES); }
if (CHUNKS > 6u) { b.c6 = chunk0(at, c + 6u * LANES); }
if (CHUNKS > 7u) { b.c7 = chunk0(at, c + 7u * LANES); }
return b;
}
fn block1(at: u32, c: u32) -> Block {
var b: Block;
b.c0 = chunk1(at, c);
if (CHUNKS > 1u) { b.c1 = chunk1(at, c + LANES); }
if (CHUNKS > 2u) { b.c2 = chunk1(at, c + 2u * LANES); }
if (CHUNKS > 3u) { b.c3 = chunk1(at, c + 3u * LANES); }
if (CHUNKS > 4u) { b.c4 = chunk1(at, c + 4u * LANES); }
if (CHUNKS > 5u) { b.c5 = chunk1(at, c + 5u * LANES); }
if (CHUNKS > 6u) { b.c6 = chunk1(at, c + 6u * LANES); }
if (CHUNKS > 7u) { b.c7 = chunk1(at, c + 7u * LANES); }
return b;
}
fn block2(at: u32, c: u32) -> Block {
var b: Block;
b.c0 = chunk2(at, c);
if (CHUNKS > 1u) { b.c1 = chunk2(at, c + LANES); }
if (CHUNKS > 2u) { b.c2 = chunk2(at, c + 2u * LANES); }
if (CHUNKS > 3u) { b.c3 = chunk2(at, c + 3u * LANES); }
if (CHUNKS > 4u) { b.c4 = chunk2(at, c + 4u * LANES); }
if (CHUNKS > 5u) { b.c5 = chunk2(at, c + 5u * LANES); }
if (CHUNKS > 6u) { b.c6 = chunk2(at, c + 6u * LANES); }
if (CHUNKS > 7u) { b.c7 = chunk2(at, c + 7u * LANES); }
return b;
}
struct Blocks {
a: Block,
b: Block,
}
fn blocks(part: u32, first: u32, c: u32) -> Blocks {
var two: Blocks;
if (PARTS == 1u || part == 0u) {
two.a = block0(first, c);
if (GATED) {
two.b = block1(first, c);
}
} else if (part == 1u) {
two.a = block1(first, c);
} else {
two.a = block2(first, c);
}
return two;
}
struct Sums {
a: vec4<i32>,
b: vec4<i32>,
}
fn multiply(sum: vec4<i32>, w: vec4<u32>, x0: vec4<u32>, x1: vec4<u32>, x2: vec4<u32>, x3: vec4<u32>) -> vec4<i32> {
return multiply_word(multiply_word(multiply_word(multiply_word(sum, w.x, x0), w.y, x1), w.z, x2), w.w, x3);
}
fn multiply_word(sum: vec4<i32>, w: u32, q: vec4<u32>) -> vec4<i32> {
return vec4<i32>(sum.x + dot4I8Packed(q.x, (w >> 6u) & 0x03030303u), sum.y + dot4I8Packed(q.y, w & 0x30303030u),
sum.z + dot4I8Packed(q.z, w & 0x0c0c0c0cu), sum.w + dot4I8Packed(q.w, w & 0x03030303u));
}
fn multiply_chunk(s: Sums, a: vec4<u32>, b: vec4<u32>, c: u32) -> Sums {
let x0 = xs[c];
let x1 = xs[XCHUNKS + c];
let x2 = xs[2u * XCHUNKS + c];
let x3 = xs[3u * XCHUNKS + c];
var r = s;
r.a = multiply(s.a, a, x0, x1, x2, x3);
if (GATED) {
r.b = multiply(s.b, b, x0, x1, x2, x3);
}
return r;
}
fn multiply_blocks(sums: Sums, w: Blocks, c: u32, done: u32) -> Sums {
var s = multiply_chunk(sums, w.a.c0, w.b.c0, c);
let left = select(CHUNKS * LANES, n_chunks() - done, SKIP);
if (CHUNKS > 1u && left > LANES) { s = multiply_chunk(s, w.a.c1, w.b.c1, c + LANES); }
if (CHUNKS > 2u && left > 2u * LANES) { s = multiply_chunk(s, w.a.c2, w.b.c2, c + 2u * LANES); }
if (CHUNKS > 3u && left > 3u * LANES) { s = multiply_chunk(s, w.a.c3, w.b.c3, c + 3u * LANES); }
if (CHUNKS > 4u && left > 4u * LANES) { s = multiply_chunk(s, w.a.c4, w.b.c4, c + 4u * LANES); }
if (CHUNKS > 5u && left > 5u * LANES) { s = multiply_chunk(s, w.a.c5, w.b.c5, c + 5u * LANES); }
if (CHUNKS > 6u && left > 6u * LANES) { s = multiply_chunk(s, w.a.c6, w.b.c6, c + 6u * LANES); }
if (CHUNKS > 7u && left > 7u * LANES) { s = multiply_chunk(s, w.a.c7, w.b.c7, c + 7u * LANES); }
return s;
}
fn joined(s: vec4<i32>) -> i32 {
return s.x + (s.y >> 4u) + (s.z >> 2u) + s.w;
}
fn row_sums(mine: vec2<i32>, local: u32) -> vec2<i32> {
var sum = mine;
if (CLUSTER > 1u) {
~if (LANES > 16u) { sum += subgroupShuffleXor(sum, 16u); }
~if (LANES > 8u) { sum += subgroupShuffleXor(sum, 8u); }
~if (LANES > 4u) { sum += subgroupShuffleXor(sum, 4u); }
~if (LANES > 2u) { sum += subgroupShuffleXor(sum, 2u); }
~if (LANES > 1u) { sum += subgroupShuffleXor(sum, 1u); }
} else {
pool[local] = bitcast<vec2<u32>>(mine);
workgroupBarrier();
for (var i = 1u; i < LANES; i++) {
sum += bitcast<vec2<i32>>(pool[(local + i) % WORKGROUP]);
}
}
return sum;
}
struct Unit {
q0: vec4<f32>,
q1: vec4<f32>,
q2: vec4<f32>,
q3: vec4<f32>,
}
struct Normed {
y: Unit,
squares: f32,
top: f32,
}
fn largest(v: vec4<f32>) -> f32 {
let a = abs(v);
return max(max(a.x, a.y), max(a.z, a.w));
}
fn normed_unit(before: Normed, row: u32, unit: u32) -> Normed {
let at = (unit >> 3u) * 32u + (unit & 7u);
let n = p.cols >> 2u;
let at0 = min(at, n - 1u);
let at1 = min(at + 8u, n - 1u);
let at2 = min(at + 16u, n - 1u);
let at3 = min(at + 24u, n - 1u);
let raw0 = x[row + at0];
let raw1 = x[row + at1];
let raw2 = x[row + at2];
let raw3 = x[row + at3];
let norm_weight0 = norm_weight[at0];
let norm_weight1 = norm_weight[at1];
let norm_weight2 = norm_weight[at2];
let norm_weight3 = norm_weight[at3];
let zero = vec4<f32>();
let x0 = select(zero, bitcast<vec4<f32>>(raw0), at < n);
let x1 = select(zero, bitcast<vec4<f32>>(raw1), at + 8u < n);
let x2 = select(zero, bitcast<vec4<f32>>(raw2), at + 16u < n);
let x3 = select(zero, bitcast<vec4<f32>>(raw3), at + 24u < n);
let y = Unit(x0 * norm_weight0, x1 * norm_weight1, x2 * norm_weight2, x3 * norm_weight3);
let top = max(max(largest(y.q0), largest(y.q1)), max(largest(y.q2), largest(y.q3)));
let squares = (dot(x0, x0) + dot(x1, x1)) + (dot(x2, x2) + dot(x3, x3));
return Normed(y, before.squares + squares, max(before.top, top));
}
fn joined_pair(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
return vec2<f32>(a.x + b.x, max(a.y, b.y));
}
fn pool_stride(first: u32) -> vec2<f32> {
var both = bitcast<vec2<f32>>(pool[first]);
for (var i = first + 16u; i < POOL; i += 16u) {
both = with_entry(both, i);
}
return both;
}
fn with_entry(both: vec2<f32>, i: u32) -> vec2<f32> {
return joined_pair(both, bitcast<vec2<f32>>(pool[i]));
}
fn pool_start() -> vec2<f32> {
var both = bitcast<vec2<f32>>(pool[0]);
if (POOL > 1u) { both = with_entry(both, 1u); }
if (POOL > 2u) { both = with_entry(with_entry(both, 2u), 3u); }
if (POOL > 4u) { both = with_entry(with_entry(with_entry(with_entry(both, 4u), 5u), 6u), 7u); }
if (POOL > 8u) {
both = with_entry(with_entry(with_entry(with_entry(both, 8u), 9u), 10u), 11u);
both = with_entry(with_entry(with_entry(with_entry(both, 12u), 13u), 14u), 15u);
}
return both;
}
fn sum_and_top(squares: f32, top: f32, local: u32) -> vec2<f32> {
var mine = vec2<f32>(squares, top);
~if (CLUSTER > 16u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 16u)); }
~if (CLUSTER > 8u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 8u)); }
~if (CLUSTER > 4u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 4u)); }
~if (CLUSTER > 2u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 2u)); }
~if (CLUSTER > 1u) { mine = joined_pair(mine, subgroupShuffleXor(mine, 1u)); }
if (local % CLUSTER == 0u) {
pool[local / CLUSTER] = bitcast<vec2<u32>>(mine);
}
if (local == 0u) {
atomicStore(&code_sum, 0);
}
workgroupBarrier();
if (POOL > 16u) {
if (local < 16u) {
pool[local] = bitcast<vec2<u32>>(pool_stride(local));
}
workgroupBarrier();
}
return pool_start();
}
fn int8_word(v: vec4<f32>, norm: f32, scale: f32) -> u32 {
let i = vec4<i32>(round(v * norm * scale));
let b = bitcast<vec4<u32>>(i) & vec4<u32>(0xffu);
return b.x | (b.y << 8u) | (b.z << 16u) | (b.w << 24u);
}
struct Scaling {
norm: f32,
scale: f32,
mask: vec4<u32>,
}
fn scaling_of(squares: f32, top: f32) -> Scaling {
let real = (bitcast<u32>(squares) & 0x7f800000u) != 0x7f800000u;
let norm = select(0.0, 1.0 / sqrt(squares / f32(p.cols) + p.eps), real);
let most = select(0.0, top * norm, real);
return Scaling(norm, 7.9375 / max(0.0625 * most, 6.25e-7), vec4<u32>(select(0u, 0xffffffffu, real)));
}
fn store_unit(unit: u32, y: Unit, by: Scaling) -> i32 {
let words = by.mask & vec4<u32>(int8_word(y.q0, by.norm, by.scale), int8_word(y.q1, by.norm, by.scale),
int8_word(y.q2, by.norm, by.scale), int8_word(y.q3, by.norm, by.scale));
let ones = 0x01010101u;
if (unit < 4u * XCHUNKS) {
xs[(unit & 3u) * XCHUNKS + (unit >> 2u)] = words;
}
return dot4I8Packed(words.x, ones) + dot4I8Packed(words.y, ones) + dot4I8Packed(words.z, ones) +
dot4I8Packed(words.w, ones);
}
struct Row {
inverse: f32,
sum: i32,
}
fn make_row(t: u32, local: u32, leader: bool) -> Row {
let row = p.x_first + t * p.x_stride;
var n: Normed;
if (UNITS > 1u || local < 4u * n_chunks()) {
n = normed_unit(n, row, local);
}
let y0 = n.y;
if (UNITS > 1u) { n = normed_unit(n, row, local + WORKGROUP); }
let y1 = n.y;
if (UNITS > 2u) { n = normed_unit(n, row, local + 2u * WORKGROUP); }
let y2 = n.y;
if (UNITS > 3u) { n = normed_unit(n, row, local + 3u * WORKGROUP); }
let y3 = n.y;
if (UNITS * WORKGROUP < 4u * XCHUNKS) {
for (var unit = local + UNITS * WORKGROUP; unit < 4u * p.padded; unit += WORKGROUP) {
n = normed_unit(n, row, unit);
}
}
let both = sum_and_top(n.squares, n.top, local);
let by = scaling_of(both.x, both.y);
var sum = 0;
if (UNITS > 1u || local < 4u * XCHUNKS) {
sum = store_unit(local, y0, by);
}
if (UNITS > 1u) { sum += store_unit(local + WORKGROUP, y1, by); }
if (UNITS > 2u) { sum += store_unit(local + 2u * WORKGROUP, y2, by); }
if (UNITS > 3u) { sum += store_unit(local + 3u * WORKGROUP, y3, by); }
if (UNITS * WORKGROUP < 4u * XCHUNKS) {
for (var unit = local + UNITS * WORKGROUP; unit < 4u * p.padded; unit += WORKGROUP) {
sum += store_unit(unit, normed_unit(Normed(), row, unit).y, by);
}
}
~sum = subgroupAdd(sum);
if (leader) {
atomicAdd(&code_sum, sum);
}
workgroupBarrier();
return Row(1.0 / by.scale, atomicLoad(&code_sum));
}
fn x_word(word: u32) -> u32 {
return x[word >> 2u][word & 3u];
}
fn copy_row(t: u32, local: u32) -> Row {
for (var c = local; c < p.padded; c += WORKGROUP) {
let at = t * p.x_stride + (within(c) >> 1u) * 8u + (within(c) & 1u);
let mask = vec4<u32>(select(0u, 0xffffffffu, c < n_chunks()));
let q0 = x[at] & mask;
let q1 = x[at + 2u] & mask;
let q2 = x[at + 4u] & mask;
let q3 = x[at + 6u] & mask;
xs[c] = vec4<u32>(q0.x, q1.x, q2.x, q3.x);
xs[XCHUNKS + c] = vec4<u32>(q0.y, q1.y, q2.y, q3.y);
xs[2u * XCHUNKS + c] = vec4<u32>(q0.z, q1.z, q2.z, q3.z);
xs[3u * XCHUNKS + c] = vec4<u32>(q0.w, q1.w, q2.w, q3.w);
}
let row = Row(bitcast<f32>(x_word(p.scales_word + t)), bitcast<i32>(x_word(p.sums_word + t)));
workgroupBarrier();
return row;
}
struct Place {
part: u32,
rows: u32,
col: u32,
lane: u32,
r: u32,
first: u32,
}
fn with_row(place: Place, r: u32) -> Place {
var q = place;
q.r = r;
let last = select(place.rows - 1u, 0xffffffffu, WHOLE);
q.first = min(r, last) * n_chunks();
return q;
}
fn place_of(group: u32, local: u32) -> Place {
var q = Place(0u, p.rows0, 0u, local % LANES, 0u, 0u);
var block = group;
if (PARTS > 1u && group >= p.block2) {
q.part = 2u;
block -= p.block2;
q.rows = p.rows2;
q.col = p.rows0 + p.rows1;
} else if (PARTS > 1u && group >= p.block1) {
q.part = 1u;
block -= p.block1;
q.rows = p.rows1;
q.col = p.rows0;
}
return with_row(q, block * BLOCKS * (WORKGROUP / LANES) + local / LANES);
}
fn moved(place: Place) -> Place {
return with_row(place, place.r + WORKGROUP / LANES);
}
fn word0(word: u32) -> f32 {
return bitcast<f32>(w0[word >> 2u][word & 3u]);
}
fn word1(word: u32) -> f32 {
return bitcast<f32>(w1[word >> 2u][word & 3u]);
}
fn word2(word: u32) -> f32 {
return bitcast<f32>(w2[word >> 2u][word & 3u]);
}
fn weight_scale(part: u32, r: u32) -> f32 {
var scale = p.scale0;
if (part == 0u) {
if (p.row_scales0 != 0u) { scale = word0(p.row_scales0 + r); }
} else if (part == 1u) {
scale = p.scale1;
if (p.row_scales1 != 0u) { scale = word1(p.row_scales1 + r); }
} else {
scale = p.scale2;
if (p.row_scales2 != 0u) { scale = word2(p.row_scales2 + r); }
}
return scale;
}
fn silu(g: f32) -> f32 {
return select(g / (1.0 + exp(-max(g, -87.0))), -0.0, g < -87.0);
}
fn gelu(g: f32) -> f32 {
let h = clamp(g, -20.0, 20.0);
let w = (h + h * h * h * 0.044715) * 1.5957691216;
return select(g / (1.0 + exp(-max(w, -87.0))), -0.0, w < -87.0);
}
fn activation(gate: f32, up: f32) -> f32 {
if ((p.flags & 2u) != 0u) {
return silu(gate) * up;
}
if ((p.flags & 8u) != 0u) {
return gelu(gate) * up;
}
let r = select(0.0, gate, gate > 0.0);
return r * r * up;
}
fn addend(place: Place, t: u32) -> f32 {
let col = place.col + place.r;
var v = 0.0;
if (!GATED && place.lane == 0u && place.r < place.rows) {
if ((p.flags & 1u) != 0u) {
v = residual[p.residual_first + t * p.residual_stride + col];
} else if ((p.flags & 4u) != 0u) {
v = result[p.out_first + t * p.out_stride + col];
}
}
return v;
}
fn finish(place: Place, w: Blocks, row: Row, plus: f32, t: u32, count: u32, local: u32) {
let step = LANES * CHUNKS;
var c = place.lane;
var sums = multiply_blocks(Sums(), w, c, 0u);
if (FIXED != step) {
for (var done = step; done < n_chunks(); done += step) {
c += step;
sums = multiply_blocks(sums, blocks(place.part, place.first, c), c, done);
}
}
let dots = row_sums(vec2<i32>(joined(sums.a), joined(sums.b)), local);
let r = place.r;
if (place.lane == 0u && r < place.rows && t < count) {
let at = p.out_first + t * p.out_stride + place.col + r;
let a = f32(dots.x - row.sum) * (row.inverse * weight_scale(place.part, r));
if (GATED) {
result[at] = activation(a, f32(dots.y - row.sum) * (row.inverse * weight_scale(1u, r)));
} else {
result[at] = a + plus;
}
}
}
@compute @workgroup_size(WORKGROUP)
fn main(
~@builtin(subgroup_invocation_id) invocation: u32,
@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
var leader = true;
~leader = invocation == 0u;
let t = group.y;
var place = place_of(group.x, local);
var w = blocks(place.part, place.first, place.lane);
var plus = addend(place, t);
let count = params[p.count_word];
var row: Row;
if (NORM) {
row = make_row(t, local, leader);
} else {
row = copy_row(t, local);
}
finish(place, w, row, plus, t, count, local);
for (var i = 1u; i < BLOCKS; i++) {
if (CLUSTER == 1u) {
workgroupBarrier();
}
place = moved(place);
w = blocks(place.part, place.first, place.lane);
plus = addend(place, t);
finish(place, w, row, plus, t, count, local);
}
}`,
quantize: `~enable subgroups;
override WORKGROUP: u32 = 256;
override ALIGN: u32 = 4;
override DIRECT: bool = false;
override NORM: bool = true;
override FAKE: bool = false;
const KEPT = 8u;
const HEADS = 16u;
const SLOTS = 16u;
struct P {
cols: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
row_words: u32,
scales_word: u32,
sums_word: u32,
eps: f32,
blend_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> q8: array<u32>;
var<workgroup> partial: array<f32, WORKGROUP>;
var<workgroup> heads: array<f32, HEADS>;
fn workgroup_sum(value: f32, local: u32, lanes: u32, region: u32) -> f32 {
var all = value;
~all = subgroupAdd(value);
if (DIRECT) {
if ((local & 15u) == 0u) {
partial[region * SLOTS + (local >> 4u)] = select(0.0, all, (local & (lanes - 1u)) == 0u);
}
workgroupBarrier();
all = 0.0;
for (var i = 0u; i < SLOTS; i++) {
all = all + partial[region * SLOTS + i];
}
return all;
}
if ((local & (lanes - 1u)) == 0u) {
partial[local >> countTrailingZeros(lanes)] = all;
}
workgroupBarrier();
if (local < HEADS) {
all = 0.0;
for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
all = all + partial[i];
}
heads[local] = all;
}
workgroupBarrier();
all = 0.0;
for (var i = 0u; i < HEADS; i++) {
all = all + heads[i];
}
return all;
}
fn workgroup_max(value: f32, local: u32, lanes: u32, region: u32) -> f32 {
var all = value;
~all = subgroupMax(value);
if (DIRECT) {
if ((local & 15u) == 0u) {
partial[region * SLOTS + (local >> 4u)] = select(0.0, all, (local & (lanes - 1u)) == 0u);
}
workgroupBarrier();
all = 0.0;
for (var i = 0u; i < SLOTS; i++) {
all = max(all, partial[region * SLOTS + i]);
}
return all;
}
if ((local & (lanes - 1u)) == 0u) {
partial[local >> countTrailingZeros(lanes)] = all;
}
workgroupBarrier();
if (local < HEADS) {
all = 0.0;
for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
all = max(all, partial[i]);
}
heads[local] = all;
}
workgroupBarrier();
all = 0.0;
for (var i = 0u; i < HEADS; i++) {
all = max(all, heads[i]);
}
return all;
}
fn x1(i: u32) -> f32 {
return x[i >> 2u][i & 3u];
}
fn norm_weight1(c: u32) -> f32 {
return norm_weight[c >> 2u][c & 3u];
}
fn x4(row: u32, c: u32, cols: u32) -> vec4<f32> {
let i = row + c;
var v = vec4<f32>();
if (ALIGN == 4u) {
if (c < cols) {
v = x[i >> 2u];
}
} else {
if (c < cols) { v.x = x1(i); }
if (c + 1u < cols) { v.y = x1(i + 1u); }
if (c + 2u < cols) { v.z = x1(i + 2u); }
if (c + 3u < cols) { v.w = x1(i + 3u); }
}
return v;
}
fn norm_weight4(c: u32, cols: u32) -> vec4<f32> {
var v = vec4<f32>();
if (!NORM) {
return v;
}
if (ALIGN == 4u) {
if (c < cols) {
v = norm_weight[c >> 2u];
}
} else {
if (c < cols) { v.x = norm_weight1(c); }
if (c + 1u < cols) { v.y = norm_weight1(c + 1u); }
if (c + 2u < cols) { v.z = norm_weight1(c + 2u); }
if (c + 3u < cols) { v.w = norm_weight1(c + 3u); }
}
return v;
}
fn is_finite(v: f32) -> bool {
return (bitcast<u32>(v) & 0x7f800000u) != 0x7f800000u;
}
fn finite(v: vec4<f32>) -> vec4<f32> {
let bits = bitcast<vec4<u32>>(v);
let size = bits & vec4<u32>(0x7fffffffu);
let largest = (bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f7fffffu);
let held = select(bits, largest, size == vec4<u32>(0x7f800000u));
return bitcast<vec4<f32>>(select(held, vec4<u32>(), size > vec4<u32>(0x7f800000u)));
}
fn normed(v: vec4<f32>, r: f32, g: vec4<f32>) -> vec4<f32> {
if (NORM) {
return finite((v * r) * g);
}
return finite(v);
}
fn most_of(v: vec4<f32>) -> f32 {
let a = abs(v);
return max(max(a.x, a.y), max(a.z, a.w));
}
fn remainder(q: f32, b: f32, a: f32) -> f32 {
let e = (1.0 + 0x1p-12f) * f32(min(p.cols, 1u));
let fused = fma(e, e, -1.0 - 0x1p-11f) != 0.0;
return select(0.0, fma(-q, b, a), fused);
}
fn divided(a: f32, b: f32) -> f32 {
let q = a / b;
return q + remainder(q, b, a) * (1.0 / b);
}
fn root(a: f32) -> f32 {
let q = sqrt(a);
return q + remainder(q, q, a) * (0.5 / q);
}
fn quantized(v: vec4<f32>, scale: f32) -> vec4<i32> {
return clamp(vec4<i32>(round(v * scale)), vec4<i32>(-128), vec4<i32>(127));
}
fn blend(t: u32, c: u32, v: vec4<f32>, q: vec4<i32>, inv_scale: f32, share: f32) {
let y = v + share * (vec4<f32>(q) * inv_scale - v);
let at = p.scales_word + t * p.sums_word + c;
for (var i = 0u; i < 4u; i++) {
if (c + i < p.cols) {
q8[at + i] = bitcast<u32>(y[i]);
}
}
}
fn sum_of(q: vec4<i32>) -> f32 {
return f32(q.x + q.y + q.z + q.w);
}
@compute @workgroup_size(WORKGROUP)
fn main(
~@builtin(subgroup_size) subgroup_lanes: u32,
@builtin(workgroup_id) group: vec3<u32>,
@builtin(local_invocation_index) local: u32,
) {
var lanes = 1u;
~lanes = subgroup_lanes;
let t = group.x;
let row = (p.x_first + t * p.x_stride) * ALIGN;
let rest = 4u * (KEPT * WORKGROUP + local);
let present = t < params[p.count_word];
let words = select(0u, p.row_words, present);
var kept: array<vec4<f32>, KEPT>;
var norm_weights: array<vec4<f32>, KEPT>;
for (var i = 0u; i < KEPT; i++) {
let c = 4u * (i * WORKGROUP + local);
kept[i] = x4(row, c, p.cols);
if (NORM) {
norm_weights[i] = norm_weight4(c, p.cols);
}
}
var r = 0.0;
if (NORM) {
var squares = 0.0;
for (var i = 0u; i < KEPT; i++) {
squares += dot(kept[i], kept[i]);
}
for (var c = rest; c < p.cols; c += 4u * WORKGROUP) {
let v = x4(row, c, p.cols);
squares += dot(v, v);
}
let sum = workgroup_sum(squares, local, lanes, 0u);
r = divided(1.0, root(divided(sum, f32(p.cols)) + p.eps));
r = select(0.0, r, is_finite(sum));
}
var most = 1e-5;
for (var i = 0u; i < KEPT; i++) {
kept[i] = normed(kept[i], r, norm_weights[i]);
most = max(most, most_of(kept[i]));
}
for (var c = rest; c < p.cols; c += 4u * WORKGROUP) {
most = max(most, most_of(normed(x4(row, c, p.cols), r, norm_weight4(c, p.cols))));
}
let largest = workgroup_max(most, local, lanes, 1u);
let down = select(1.0, 0x1p-64f, largest > 0x1p100f);
let scale = divided(127.0, largest * down) * down;
if (FAKE) {
let share = bitcast<f32>(params[p.blend_word]);
let inv_scale = divided(1.0, scale);
for (var c = 4u * local; c < select(0u, p.cols, present); c += 4u * WORKGROUP) {
let v = x4(row, c, p.cols);
blend(t, c, v, quantized(finite(v), scale), inv_scale, share);
}
return;
}
var sum = 0.0;
for (var i = 0u; i < KEPT; i++) {
let word = i * WORKGROUP + local;
let q = quantized(kept[i], scale);
sum += sum_of(q);
if (word < words) {
q8[t * p.row_words + word] = pack4xI8(q);
}
}
for (var word = KEPT * WORKGROUP + local; word < words; word += WORKGROUP) {
let c = 4u * word;
let q = quantized(normed(x4(row, c, p.cols), r, norm_weight4(c, p.cols)), scale);
sum += sum_of(q);
q8[t * p.row_words + word] = pack4xI8(q);
}
sum = workgroup_sum(sum, local, lanes, 2u);
if (local == 0u && present) {
q8[p.scales_word + t] = bitcast<u32>(divided(1.0, scale));
q8[p.sums_word + t] = bitcast<u32>(i32(sum));
}
}`,
requantize_blend: `override WORKGROUP: u32 = 128;
struct P {
n: u32,
row: u32,
bf16: u32,
blend_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> master: array<u32>;
@group(0) @binding(3) var<storage, read_write> rule: array<f32>;
@group(0) @binding(4) var<storage, read_write> weight: array<u32>;
fn held_bits(bits: u32) -> f32 {
let size = bits & 0x7fffffffu;
var held = select(bits, 0u, size < 0x01000000u);
held = select(held, (bits & 0x80000000u) | 0x7f7fffffu, size >= 0x7f800000u);
return bitcast<f32>(select(held, 0u, size > 0x7f800000u));
}
fn held(x: f32) -> f32 {
return held_bits(bitcast<u32>(x));
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let i = group.y * p.row + group.x * WORKGROUP + local;
if (i >= p.n) {
return;
}
var bits = 0u;
if (p.bf16 == 0u) {
bits = master[i];
} else {
bits = (master[i >> 1u] >> ((i & 1u) * 16u)) << 16u;
}
let w = held_bits(bits);
let v = w * rule[1];
let ternary = (f32(v > rule[2]) - f32(v < -rule[2])) * rule[0];
let blend = held_bits(params[p.blend_word]);
let moved = held(w + held(blend * held(ternary - w)));
weight[i] = bitcast<u32>(select(moved, ternary, blend >= 1.0));
}`,
requantize_codes: `override WORKGROUP: u32 = 128;
struct P {
rows: u32,
cols: u32,
row_words: u32,
row: u32,
bf16: u32,
first_word: u32,
scales_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> master: array<u32>;
@group(0) @binding(2) var<storage, read_write> rule: array<f32>;
@group(0) @binding(3) var<storage, read_write> weight: array<u32>;
fn number(i: u32) -> f32 {
var bits = 0u;
if (p.bf16 == 0u) {
bits = master[i];
} else {
bits = (master[i >> 1u] >> ((i & 1u) * 16u)) << 16u;
}
let size = bits & 0x7fffffffu;
let largest = (bits & 0x80000000u) | 0x7f7fffffu;
return bitcast<f32>(select(select(bits, largest, size >= 0x7f800000u), 0u, size > 0x7f800000u));
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let i = group.y * p.row + group.x * WORKGROUP + local;
let r = i / p.row_words;
let word = i - r * p.row_words;
if (r >= p.rows) {
return;
}
let factor = rule[1];
let bound = rule[2];
let first = (word >> 3u) * 128u + (word & 7u) * 4u;
var codes = 0u;
for (var quarter = 0u; quarter < 4u; quarter++) {
for (var k = 0u; k < 4u; k++) {
let c = first + quarter * 32u + k;
var code = 1u;
if (c < p.cols) {
let v = number(r * p.cols + c) * factor;
code = 1u + u32(v > bound) - u32(v < -bound);
}
codes |= code << (k * 8u + 6u - quarter * 2u);
}
}
weight[p.first_word + i] = codes;
if (word == 0u) {
weight[p.scales_word + r] = bitcast<u32>(rule[0]);
}
}`,
requantize_magnitudes: `override WORKGROUP: u32 = 128;
override SUM: bool = false;
struct P {
n: u32,
stride: u32,
bf16: u32,
clamp: f32,
scale_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> master: array<u32>;
@group(0) @binding(2) var<storage, read_write> weight: array<u32>;
@group(0) @binding(3) var<storage, read_write> totals: array<atomic<u32>>;
var<workgroup> partial: array<vec2<u32>, WORKGROUP>;
fn held_bits(bits: u32) -> u32 {
let size = bits & 0x7fffffffu;
var held = select(bits, 0u, size < 0x01000000u);
held = select(held, (bits & 0x80000000u) | 0x7f7fffffu, size >= 0x7f800000u);
return select(held, 0u, size > 0x7f800000u);
}
fn sum(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
let low = a.x + b.x;
return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn units(bits: u32, exponent: u32) -> u32 {
let down = exponent - ((bits >> 23u) & 255u);
let digits = ((bits & 0x7fffffu) | 0x800000u) << 8u;
let half = (digits >> ((down - 1u) & 31u)) & 1u;
let whole = select(digits >> (down & 31u), 0u, down > 31u);
let rounded = whole + select(half, 0u, down == 0u);
return select(rounded, 0u, (bits & 0x7fffffffu) == 0u || down > 32u);
}
fn cut(bits: u32, most: u32) -> u32 {
return (bits & 0x80000000u) | min(bits & 0x7fffffffu, most);
}
fn nearest(bits: u32) -> u32 {
return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}
fn numbers(i: u32) -> vec2<u32> {
let word = master[i];
if (p.bf16 == 0u) {
return vec2<u32>(held_bits(word), 0u);
}
return vec2<u32>(held_bits(word << 16u), select(0u, held_bits(word & 0xffff0000u), 2u * i + 1u < p.n));
}
fn clamped(i: u32, most: u32) -> vec2<u32> {
let was = numbers(i);
let bits = vec2<u32>(cut(was.x, most), cut(was.y, most));
if (p.bf16 == 0u) {
master[i] = bits.x;
return bits;
}
let halves = vec2<u32>(nearest(bits.x), nearest(bits.y));
master[i] = halves.x | (halves.y << 16u);
return vec2<u32>(held_bits(halves.x << 16u), held_bits(halves.y << 16u));
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let words = (p.n >> p.bf16) + (p.n & p.bf16);
var total = vec2<u32>();
var most = 0u;
var exponent = 0u;
if (SUM) {
exponent = atomicLoad(&totals[0]);
} else if (p.clamp > 0.0) {
most = held_bits(bitcast<u32>(p.clamp * bitcast<f32>(held_bits(weight[p.scale_word]))));
}
for (var i = group.x * WORKGROUP + local; i < words; i += p.stride) {
if (SUM) {
let w = numbers(i);
total = sum(total, vec2<u32>(units(w.x, exponent), 0u));
total = sum(total, vec2<u32>(units(w.y, exponent), 0u));
} else {
var w = vec2<u32>();
if (most > 0u) {
w = clamped(i, most);
} else {
w = numbers(i);
}
total.x = max(total.x, max(w.x & 0x7fffffffu, w.y & 0x7fffffffu));
}
}
partial[local] = total;
workgroupBarrier();
for (var half = WORKGROUP / 2u; half > 0u; half >>= 1u) {
if (local < half) {
let other = partial[local + half];
if (SUM) {
partial[local] = sum(partial[local], other);
} else {
partial[local] = max(partial[local], other);
}
}
workgroupBarrier();
}
if (local == 0u) {
let all = partial[0];
if (SUM) {
atomicAdd(&totals[1], all.x & 0xffffu);
atomicAdd(&totals[2], all.x >> 16u);
atomicAdd(&totals[3], all.y);
} else {
atomicMax(&totals[0], all.x >> 23u);
}
}
}`,
requantize_scale: `struct P {
n: u32,
threshold: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> totals: array<u32>;
@group(0) @binding(2) var<storage, read_write> rule: array<u32>;
const LEAST_SCALE = 0x3727c5acu;
fn mean_bits(low: u32, high: u32, exponent: u32) -> u32 {
if ((low | high) == 0u) {
return LEAST_SCALE;
}
var quotient = 0u;
var rest = 0u;
var bit = 63;
while (quotient < 0x1000000u) {
let word = select(low, high, bit > 31);
let next = select(0u, (word >> (u32(bit) & 31u)) & 1u, bit >= 0);
let carry = rest >> 31u;
rest = (rest << 1u) | next;
let goes = carry != 0u || rest >= p.n;
rest -= select(0u, p.n, goes);
quotient = (quotient << 1u) | u32(goes);
bit--;
}
var left = rest;
if (bit > 31) {
left |= low | (high & ((2u << (u32(bit) & 31u)) - 1u));
} else if (bit >= 0) {
left |= low & ((2u << (u32(bit) & 31u)) - 1u);
}
let more = u32(left != 0u);
var digits = quotient >> 1u;
digits += quotient & (more | digits) & 1u;
let bits = (i32(exponent) + bit - 7) * 0x800000 + i32(digits);
return u32(max(bits, i32(LEAST_SCALE)));
}
fn inverse_bits(b_bits: u32) -> u32 {
let b_digits = (b_bits & 0x7fffffu) | 0x800000u;
let less = select(1u, 0u, b_digits == 0x800000u);
let top = 0x800000u << less;
let divisor = f32(b_digits);
var q = u32(f32(top) / divisor * 8388608.0);
var rest = bitcast<i32>((top << 23u) - q * b_digits);
let more = i32(floor(f32(rest) / divisor + 0.5));
q += bitcast<u32>(more);
rest = 2 * (rest - more * i32(b_digits));
q += u32(rest > i32(b_digits)) - u32(rest < -i32(b_digits));
let exponent = 254 - i32(b_bits >> 23u) - i32(less);
let bits = (exponent - 1) * 0x800000 + i32(q);
return select(u32(bits), 0u, bits < 0x01000000);
}
fn product_bits(a: f32, b: u32) -> u32 {
let bits = bitcast<u32>(a * bitcast<f32>(b));
return select(min(bits, 0x7f7fffffu), 0u, bits < 0x01000000u);
}
@compute @workgroup_size(1)
fn main() {
let low = totals[1] + (totals[2] << 16u);
let carry = (totals[2] >> 16u) + select(0u, 1u, low < totals[1]);
let scale = mean_bits(low, totals[3] + carry, totals[0]);
let by_threshold = p.threshold > 0.0;
rule[0] = scale;
rule[1] = select(inverse_bits(scale), 0x3f800000u, by_threshold);
rule[2] = select(0x3f000000u, product_bits(p.threshold, scale), by_threshold);
for (var i = 0u; i < 4u; i++) {
totals[i] = 0u;
}
}`,
rms_norm: `~enable subgroups;
override WORKGROUP: u32 = 256;
override ALIGN: u32 = 4;
override DIRECT: bool = false;
const KEPT = 8u;
const HEADS = 16u;
const SLOTS = 16u;
struct P {
cols: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
y_first: u32,
y_stride: u32,
eps: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> norm_weight: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
var<workgroup> partial: array<f32, WORKGROUP>;
var<workgroup> heads: array<f32, HEADS>;
fn workgroup_sum(value: f32, local: u32, lanes: u32, region: u32) -> f32 {
var all = value;
~all = subgroupAdd(value);
if (DIRECT) {
if ((local & 15u) == 0u) {
partial[region * SLOTS + (local >> 4u)] = select(0.0, all, (local & (lanes - 1u)) == 0u);
}
workgroupBarrier();
all = 0.0;
for (var i = 0u; i < SLOTS; i++) {
all = all + partial[region * SLOTS + i];
}
return all;
}
if ((local & (lanes - 1u)) == 0u) {
partial[local >> countTrailingZeros(lanes)] = all;
}
workgroupBarrier();
if (local < HEADS) {
all = 0.0;
for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
all = all + partial[i];
}
heads[local] = all;
}
workgroupBarrier();
all = 0.0;
for (var i = 0u; i < HEADS; i++) {
all = all + heads[i];
}
return all;
}
fn x1(i: u32) -> f32 {
return x[i >> 2u][i & 3u];
}
fn norm_weight1(c: u32) -> f32 {
return norm_weight[c >> 2u][c & 3u];
}
fn x4(row: u32, c: u32, cols: u32) -> vec4<f32> {
let i = row + c;
var v = vec4<f32>();
if (ALIGN == 4u) {
if (c < cols) {
v = x[i >> 2u];
}
} else {
if (c < cols) { v.x = x1(i); }
if (c + 1u < cols) { v.y = x1(i + 1u); }
if (c + 2u < cols) { v.z = x1(i + 2u); }
if (c + 3u < cols) { v.w = x1(i + 3u); }
}
return v;
}
fn norm_weight4(c: u32, cols: u32) -> vec4<f32> {
var v = vec4<f32>();
if (ALIGN == 4u) {
if (c < cols) {
v = norm_weight[c >> 2u];
}
} else {
if (c < cols) { v.x = norm_weight1(c); }
if (c + 1u < cols) { v.y = norm_weight1(c + 1u); }
if (c + 2u < cols) { v.z = norm_weight1(c + 2u); }
if (c + 3u < cols) { v.w = norm_weight1(c + 3u); }
}
return v;
}
fn store(row: u32, c: u32, cols: u32, v: vec4<f32>) {
let i = row + c;
if (c < cols) { y[i] = v.x; }
if (c + 1u < cols) { y[i + 1u] = v.y; }
if (c + 2u < cols) { y[i + 2u] = v.z; }
if (c + 3u < cols) { y[i + 3u] = v.w; }
}
@compute @workgroup_size(WORKGROUP)
fn main(
~@builtin(subgroup_size) subgroup_lanes: u32,
@builtin(workgroup_id) group: vec3<u32>,
@builtin(local_invocation_index) local: u32,
) {
var lanes = 1u;
~lanes = subgroup_lanes;
let t = group.x;
let x_row = (p.x_first + t * p.x_stride) * ALIGN;
let y_row = (p.y_first + t * p.y_stride) * ALIGN;
let rest = 4u * (KEPT * WORKGROUP + local);
let written = select(0u, p.cols, t < params[p.count_word]);
var kept: array<vec4<f32>, KEPT>;
var norm_weights: array<vec4<f32>, KEPT>;
var squares = 0.0;
for (var i = 0u; i < KEPT; i++) {
let c = 4u * (i * WORKGROUP + local);
kept[i] = x4(x_row, c, p.cols);
norm_weights[i] = norm_weight4(c, p.cols);
}
for (var i = 0u; i < KEPT; i++) {
squares += dot(kept[i], kept[i]);
}
for (var c = rest; c < p.cols; c += 4u * WORKGROUP) {
let v = x4(x_row, c, p.cols);
squares += dot(v, v);
}
let r = inverseSqrt(workgroup_sum(squares, local, lanes, 0u) / f32(p.cols) + p.eps);
for (var i = 0u; i < KEPT; i++) {
store(y_row, 4u * (i * WORKGROUP + local), written, (kept[i] * r) * norm_weights[i]);
}
for (var c = rest; c < written; c += 4u * WORKGROUP) {
store(y_row, c, written, (x4(x_row, c, p.cols) * r) * norm_weight4(c, p.cols));
}
}`,
rms_norm_backward: `~enable subgroups;
override WORKGROUP: u32 = 256;
const DX = 1u;
const RESIDUAL = 2u;
const KEEP = 4u;
struct P {
cols: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
dy_first: u32,
dy_stride: u32,
residual_first: u32,
residual_stride: u32,
dx_first: u32,
dx_stride: u32,
eps: f32,
flags: u32,
scratch_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read> norm_weight: array<f32>;
@group(0) @binding(4) var<storage, read_write> dy: array<f32>;
@group(0) @binding(5) var<storage, read_write> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> dx: array<f32>;
@group(0) @binding(7) var<storage, read_write> scratch: array<f32>;
var<workgroup> partial: array<vec2<f32>, WORKGROUP>;
fn workgroup_sum(value: vec2<f32>, local: u32, lanes: u32) -> vec2<f32> {
var all = value;
~all = vec2<f32>(subgroupAdd(value.x), subgroupAdd(value.y));
if ((local & (lanes - 1u)) == 0u) {
partial[local] = all;
}
workgroupBarrier();
for (var half = WORKGROUP / 2u; half >= lanes; half >>= 1u) {
if (local < half && (local & (lanes - 1u)) == 0u) {
partial[local] += partial[local + half];
}
workgroupBarrier();
}
return partial[0];
}
@compute @workgroup_size(WORKGROUP)
fn main(
~@builtin(subgroup_size) subgroup_lanes: u32,
@builtin(workgroup_id) group: vec3<u32>,
@builtin(local_invocation_index) local: u32,
) {
var lanes = 1u;
~lanes = subgroup_lanes;
let t = group.x;
let x_row = p.x_first + t * p.x_stride;
let dy_row = p.dy_first + t * p.dy_stride;
let present = t < params[p.count_word];
var sums = vec2<f32>();
for (var c = local; c < p.cols; c += WORKGROUP) {
let v = x[x_row + c];
sums += vec2<f32>(v * v, (dy[dy_row + c] * norm_weight[c]) * v);
}
sums = workgroup_sum(sums, local, lanes);
let r = 1.0 / sqrt(sums.x / f32(p.cols) + p.eps);
let k = r * r * r * (sums.y / f32(p.cols));
if (present && local == 0u && (p.flags & KEEP) != 0u) {
scratch[p.scratch_word + t] = r;
}
let written = select(0u, p.cols, present && (p.flags & DX) != 0u);
for (var c = local; c < written; c += WORKGROUP) {
var d = (dy[dy_row + c] * norm_weight[c]) * r - x[x_row + c] * k;
if ((p.flags & RESIDUAL) != 0u) {
d += residual[p.residual_first + t * p.residual_stride + c];
}
dx[p.dx_first + t * p.dx_stride + c] = d;
}
}`,
rms_norm_weight_gradient: `override WORKGROUP: u32 = 256;
override COLUMNS: u32 = 32;
override ROWS: u32 = 64;
override LANES: u32 = WORKGROUP / COLUMNS;
struct P {
cols: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
dy_first: u32,
dy_stride: u32,
scratch_word: u32,
parts_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> dy: array<f32>;
@group(0) @binding(4) var<storage, read_write> scratch: array<f32>;
var<workgroup> partial: array<f32, WORKGROUP>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let c = group.x * COLUMNS + local % COLUMNS;
let end = min((group.y + 1u) * ROWS, params[p.count_word]);
var sum = 0.0;
if (c < p.cols) {
for (var t = group.y * ROWS + local / COLUMNS; t < end; t += LANES) {
sum += dy[p.dy_first + t * p.dy_stride + c] * (x[p.x_first + t * p.x_stride + c] * scratch[p.scratch_word + t]);
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
}`,
rope: `override WORKGROUP: u32 = 128;
struct P {
quads: u32,
n_heads: u32,
adjacent: u32,
count_word: u32,
positions_word: u32,
x_first: u32,
x_stride: u32,
direction: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let t = group.y;
let item = group.x * WORKGROUP + local;
if (t >= params[p.count_word] || item >= p.n_heads * p.quads) {
return;
}
let head = item / p.quads;
let k = item - head * p.quads;
let start = p.x_first + t * p.x_stride + head * p.quads * 2u;
let halves = p.adjacent == 0u;
let first = start + select(2u * k, k, halves);
let second = start + select(2u * k + 1u, p.quads + k, halves);
let angles = (params[p.positions_word + t] * p.quads + k) * 2u;
let t0 = table[angles] * vec2<f32>(1.0, p.direction);
let t1 = table[angles + 1u] * vec2<f32>(1.0, p.direction);
let u = x[first];
let w = x[second];
if (halves) {
let c = vec2<f32>(t0.x, t1.x);
let s = vec2<f32>(t0.y, t1.y);
x[first] = u * c - w * s;
x[second] = w * c + u * s;
} else {
x[first] = vec2<f32>(u.x * t0.x - u.y * t0.y, u.y * t0.x + u.x * t0.y);
x[second] = vec2<f32>(w.x * t1.x - w.y * t1.y, w.y * t1.x + w.x * t1.y);
}
}`,
rope_kv: `override WORKGROUP: u32 = 128;
override F16: bool = true;
struct P {
quads: u32,
n_heads: u32,
n_kv_heads: u32,
adjacent: u32,
count_word: u32,
positions_word: u32,
sequences_word: u32,
pages_word: u32,
max_pages: u32,
x_first: u32,
x_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> qkv: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<u32>;
fn put_k(at: u32, x: vec2<f32>) {
if (F16) {
k_cache[at] = pack2x16float(x);
} else {
k_cache[2u * at] = bitcast<u32>(x.x);
k_cache[2u * at + 1u] = bitcast<u32>(x.y);
}
}
fn put_v(at: u32, x: vec2<f32>) {
if (F16) {
v_cache[at] = pack2x16float(x);
} else {
v_cache[2u * at] = bitcast<u32>(x.x);
v_cache[2u * at + 1u] = bitcast<u32>(x.y);
}
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let t = group.y;
let item = group.x * WORKGROUP + local;
if (t >= params[p.count_word] || item >= (p.n_heads + 2u * p.n_kv_heads) * p.quads) {
return;
}
let head = item / p.quads;
let k = item - head * p.quads;
let start = p.x_first + t * p.x_stride + head * p.quads * 2u;
let halves = p.adjacent == 0u;
let first = select(2u * k, k, halves);
let second = select(2u * k + 1u, p.quads + k, halves);
let position = params[p.positions_word + t];
var u = qkv[start + first];
var w = qkv[start + second];
if (head < p.n_heads + p.n_kv_heads) {
let angles = (position * p.quads + k) * 2u;
let t0 = table[angles];
let t1 = table[angles + 1u];
if (halves) {
let c = vec2<f32>(t0.x, t1.x);
let s = vec2<f32>(t0.y, t1.y);
let rotated = u * c - w * s;
w = w * c + u * s;
u = rotated;
} else {
u = vec2<f32>(u.x * t0.x - u.y * t0.y, u.y * t0.x + u.x * t0.y);
w = vec2<f32>(w.x * t1.x - w.y * t1.y, w.y * t1.x + w.x * t1.y);
}
qkv[start + first] = u;
qkv[start + second] = w;
}
if (head >= p.n_heads) {
let values = head >= p.n_heads + p.n_kv_heads;
let kv_head = head - p.n_heads - select(0u, p.n_kv_heads, values);
let page = params[p.pages_word + params[p.sequences_word + t] * p.max_pages + (position >> 5u)];
let at = ((page * p.n_kv_heads + kv_head) * 32u + (position & 31u)) * p.quads * 2u;
if (values) {
put_v(at + first, u);
put_v(at + second, w);
} else {
put_k(at + first, u);
put_k(at + second, w);
}
}
}`,
row_factors: `override WORKGROUP: u32 = 256;
struct P {
cols: u32,
x_first: u32,
x_stride: u32,
scales_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> scales: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> factors: array<f32>;
var<workgroup> most: array<f32, WORKGROUP>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
var largest = vec4<f32>();
for (var c = local * 4u; c < p.cols; c += WORKGROUP * 4u) {
var values = x[p.x_first + group.x * p.x_stride + c / 4u];
if (p.scales_word != 0u) {
values *= scales[(p.scales_word + c) / 4u];
}
largest = max(largest, abs(values));
}
most[local] = max(max(largest.x, largest.y), max(largest.z, largest.w));
for (var n = WORKGROUP / 2u; n > 0u; n /= 2u) {
workgroupBarrier();
if (local < n) {
most[local] = max(most[local], most[local + n]);
}
}
if (local == 0u) {
let exponent = clamp(bitcast<u32>(most[0]) >> 23u, 29u, 254u);
factors[group.x] = bitcast<f32>((268u - exponent) << 23u);
}
}`,
sample_choose: `~enable subgroups;
override WORKGROUP: u32 = 256;
override DIRECT: bool = false;
const FRONT = 4u;
const HEADS = 16u;
const SLOTS = 16u;
const NONE = 0xffffffffu;
const RUN = 8u;
const MAX_SLICES = 1024u;
const MAX_TOP_K = 64u;
const N_DONE = 0u;
const N_WANTED = 1u;
const TOP_K = 2u;
const TEMPERATURE = 3u;
const TOP_P = 4u;
const MIN_P = 5u;
const N_ENDS = 6u;
const END_IDS = 8u;
const DRAWS = 24u;
struct P {
n_vocab: u32,
n_slices: u32,
counts_word: u32,
sampler_word: u32,
ids_word: u32,
positions_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> slices: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> tokens: array<u32>;
var<workgroup> partial: array<vec2<u32>, WORKGROUP>;
var<workgroup> heads: array<vec2<u32>, HEADS>;
var<workgroup> fronts: array<vec2<u32>, MAX_SLICES>;
var<workgroup> wanted: u32;
var<workgroup> settings: array<u32, DRAWS>;
var<workgroup> uniform_draw: f32;
var<workgroup> ids: array<u32, MAX_TOP_K>;
var<workgroup> xs: array<f32, MAX_TOP_K>;
var<workgroup> weights: array<f32, MAX_TOP_K>;
var<workgroup> drawn: atomic<u32>;
var<workgroup> largest: atomic<u32>;
fn key(bits: u32) -> u32 {
let size = bits & 0x7fffffffu;
if (size > 0x7f800000u || bits == 0xff800000u) {
return 0u;
}
if (size == 0u) {
return 0x80000000u;
}
return select(min(bits, 0x7f7fffffu) | 0x80000000u, ~bits, bits >= 0x80000000u);
}
fn logit_of(order: u32) -> f32 {
return bitcast<f32>(select(~order, order & 0x7fffffffu, order >= 0x80000000u));
}
fn better(a: vec2<u32>, b: vec2<u32>) -> bool {
return a.x > b.x || (a.x == b.x && a.y < b.y);
}
fn subgroup_best(mine: vec2<u32>) -> vec2<u32> {
var best = mine;
~best.x = subgroupMax(mine.x);
~best.y = subgroupMin(select(NONE, mine.y, mine.x == best.x));
return best;
}
fn workgroup_best(mine: vec2<u32>, local: u32, lanes: u32, round: u32) -> vec2<u32> {
var best = subgroup_best(mine);
if (DIRECT) {
let places = (round & 1u) * SLOTS;
if ((local & 15u) == 0u) {
partial[places + (local >> 4u)] = best;
}
workgroupBarrier();
return subgroup_best(partial[places + (local & 15u)]);
}
if ((local & (lanes - 1u)) == 0u) {
partial[local >> countTrailingZeros(lanes)] = best;
}
workgroupBarrier();
if (local < HEADS) {
best = vec2<u32>(0u, NONE);
for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
let other = partial[i];
if (better(other, best)) {
best = other;
}
}
heads[local] = best;
}
workgroupBarrier();
best = heads[0];
for (var i = 1u; i < HEADS; i++) {
let other = heads[i];
if (better(other, best)) {
best = other;
}
}
return best;
}
fn next_of(slice: u32, last: vec2<u32>) -> vec2<u32> {
let second = slices[slice * FRONT + 1u];
let third = slices[slice * FRONT + 2u];
let fourth = slices[slice * FRONT + 3u];
if (second.x == 0u || better(last, second)) {
return second;
}
if (third.x == 0u || better(last, third)) {
return third;
}
if (fourth.x == 0u || better(last, fourth)) {
return fourth;
}
var best = vec2<u32>(0u, NONE);
var first = slice * RUN;
while (first < p.n_vocab) {
for (var id = first; id < min(first + RUN, p.n_vocab); id++) {
let candidate = vec2<u32>(key(logits[id]), id);
if (better(last, candidate) && better(candidate, best)) {
best = candidate;
}
}
first += RUN * p.n_slices;
}
return best;
}
fn best_of_mine(local: u32) -> vec2<u32> {
var best = vec2<u32>(0u, NONE);
for (var s = local; s < p.n_slices; s += WORKGROUP) {
let candidate = fronts[s];
if (better(candidate, best)) {
best = candidate;
}
}
return best;
}
fn exponential(x: f32) -> f32 {
let n = round(x * 0x1.715476p+0f);
let r = (x - n * 0x1.62p-1f) - n * 0x1.c85fe0p-10f;
var e = ((0x1.6d110ep-10f * r + 0x1.120b72p-7f) * r + 0x1.55551ap-5f) * r + 0x1.5554dcp-3f;
e = ((e * r + 0.5) * r + 1.0) * r + 1.0;
return bitcast<f32>(bitcast<u32>(e) + (bitcast<u32>(i32(n)) << 23u));
}
fn real(word: u32) -> f32 {
return bitcast<f32>(settings[word]);
}
fn kept_weight(i: u32, n: u32) -> f32 {
var before = 0.0;
var total = 0.0;
var most = 0.0;
for (var j = 0u; j < n; j++) {
let first = xs[j] > xs[i] || (xs[j] == xs[i] && ids[j] < ids[i]);
before += select(0.0, weights[j], first);
total += weights[j];
most = max(most, weights[j]);
}
let inside = real(TOP_P) >= 1.0 || before <= real(TOP_P) * total;
return select(0.0, weights[i], inside && weights[i] >= real(MIN_P) * most);
}
fn draw(i: u32, n: u32, u: f32) {
var upto = 0.0;
var total = 0.0;
for (var j = 0u; j < n; j++) {
upto += select(0.0, weights[j], ids[j] <= ids[i]);
total += weights[j];
}
if (weights[i] > 0.0) {
atomicMax(&largest, ids[i]);
if (upto > u * total) {
atomicMin(&drawn, ids[i]);
}
}
}
fn cut_and_draw(local: u32, n: u32) {
var x = 0.0;
if (local < n) {
let temperature = max(real(TEMPERATURE), 1e-30);
x = max(0.5 * xs[local] - 0.5 * xs[0], -50.0 * temperature) / (0.5 * temperature);
}
workgroupBarrier();
if (local < n) {
xs[local] = x;
weights[local] = select(0.0, exponential(max(x, -87.3)), x >= -87.3);
}
workgroupBarrier();
var weight = 0.0;
if (local < n) {
weight = kept_weight(local, n);
}
workgroupBarrier();
if (local < n) {
weights[local] = weight;
}
workgroupBarrier();
if (local < n) {
draw(local, n, uniform_draw);
}
workgroupBarrier();
}
fn is_end(token: u32) -> bool {
var found = false;
for (var i = 0u; i < settings[N_ENDS]; i++) {
found = found || settings[END_IDS + i] == token;
}
return found;
}
fn finish(token: u32, position: u32) {
let done = settings[N_DONE] + 1u;
params[p.sampler_word + N_DONE] = done;
tokens[0] = done;
tokens[done] = token;
params[p.ids_word] = token;
params[p.positions_word] = position;
if (done >= settings[N_WANTED] || is_end(token)) {
params[p.counts_word] = 0u;
params[p.counts_word + 1u] = 0u;
}
}
@compute @workgroup_size(WORKGROUP)
fn main(
~@builtin(subgroup_size) subgroup_lanes: u32,
@builtin(local_invocation_index) local: u32,
) {
var lanes = 1u;
~lanes = subgroup_lanes;
var position = 0u;
if (local == 0u) {
for (var i = 0u; i < DRAWS; i++) {
settings[i] = params[p.sampler_word + i];
}
position = params[p.positions_word] + 1u;
wanted = select(min(settings[TOP_K], MAX_TOP_K), 0u, params[p.counts_word + 1u] == 0u);
atomicStore(&drawn, NONE);
atomicStore(&largest, 0u);
}
for (var s = local; s < p.n_slices; s += WORKGROUP) {
fronts[s] = slices[s * FRONT];
}
var mine = best_of_mine(local);
let top_k = workgroupUniformLoad(&wanted);
if (top_k == 0u) {
return;
}
if (local == 0u && top_k > 1u) {
uniform_draw = bitcast<f32>(params[p.sampler_word + DRAWS + settings[N_DONE]]);
}
var n = 0u;
for (var round = 0u; round < top_k; round++) {
let best = workgroup_best(mine, local, lanes, round);
n += u32(best.x > 0u);
if (local == 0u) {
ids[round] = best.y;
xs[round] = logit_of(best.x);
}
if (best.x > 0u && mine.y == best.y && round + 1u < top_k) {
let slice = (best.y / RUN) % p.n_slices;
fronts[slice] = next_of(slice, best);
mine = best_of_mine(local);
}
}
workgroupBarrier();
if (top_k > 1u) {
cut_and_draw(local, n);
}
if (local == 0u) {
let from_draw = select(atomicLoad(&largest), atomicLoad(&drawn), atomicLoad(&drawn) != NONE);
finish(select(0u, select(ids[0], from_draw, top_k > 1u), n > 0u), position);
}
}`,
sample_slices: `~enable subgroups;
override WORKGROUP: u32 = 256;
override DIRECT: bool = false;
const FRONT = 4u;
const HEADS = 16u;
const SLOTS = 16u;
const NONE = 0xffffffffu;
const RUN = 8u;
struct P {
n_vocab: u32,
n_slices: u32,
counts_word: u32,
sampler_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> logits: array<u32>;
@group(0) @binding(3) var<storage, read_write> slices: array<vec2<u32>>;
var<workgroup> partial: array<vec2<u32>, WORKGROUP>;
var<workgroup> heads: array<vec2<u32>, HEADS>;
var<workgroup> wanted: u32;
fn key(bits: u32) -> u32 {
let size = bits & 0x7fffffffu;
if (size > 0x7f800000u || bits == 0xff800000u) {
return 0u;
}
if (size == 0u) {
return 0x80000000u;
}
return select(min(bits, 0x7f7fffffu) | 0x80000000u, ~bits, bits >= 0x80000000u);
}
fn better(a: vec2<u32>, b: vec2<u32>) -> bool {
return a.x > b.x || (a.x == b.x && a.y < b.y);
}
fn subgroup_best(mine: vec2<u32>) -> vec2<u32> {
var best = mine;
~best.x = subgroupMax(mine.x);
~best.y = subgroupMin(select(NONE, mine.y, mine.x == best.x));
return best;
}
fn workgroup_best(mine: vec2<u32>, local: u32, lanes: u32, round: u32) -> vec2<u32> {
var best = subgroup_best(mine);
if (DIRECT) {
let places = (round & 1u) * SLOTS;
if ((local & 15u) == 0u) {
partial[places + (local >> 4u)] = best;
}
workgroupBarrier();
return subgroup_best(partial[places + (local & 15u)]);
}
if ((local & (lanes - 1u)) == 0u) {
partial[local >> countTrailingZeros(lanes)] = best;
}
workgroupBarrier();
if (local < HEADS) {
best = vec2<u32>(0u, NONE);
for (var i = local; i < (WORKGROUP >> countTrailingZeros(lanes)); i += HEADS) {
let other = partial[i];
if (better(other, best)) {
best = other;
}
}
heads[local] = best;
}
workgroupBarrier();
best = heads[0];
for (var i = 1u; i < HEADS; i++) {
let other = heads[i];
if (better(other, best)) {
best = other;
}
}
return best;
}
@compute @workgroup_size(WORKGROUP)
fn main(
~@builtin(subgroup_size) subgroup_lanes: u32,
@builtin(workgroup_id) group: vec3<u32>,
@builtin(local_invocation_index) local: u32,
) {
var lanes = 1u;
~lanes = subgroup_lanes;
if (local == 0u) {
wanted = select(select(1u, FRONT, params[p.sampler_word + 2u] > 1u), 0u, params[p.counts_word + 1u] == 0u);
}
let slice = group.x;
let first = ((local / RUN) * p.n_slices + slice) * RUN + local % RUN;
var mine = vec2<u32>(0u, NONE);
if (first < p.n_vocab) {
mine = vec2<u32>(key(logits[first]), first);
}
let n = workgroupUniformLoad(&wanted);
var last = vec2<u32>(NONE, NONE);
for (var round = 0u; round < n; round++) {
var best = vec2<u32>(0u, NONE);
if (better(last, mine)) {
best = mine;
}
var id = first + WORKGROUP * p.n_slices;
while (id < p.n_vocab) {
let candidate = vec2<u32>(key(logits[id]), id);
if (better(last, candidate) && better(candidate, best)) {
best = candidate;
}
id += WORKGROUP * p.n_slices;
}
last = workgroup_best(best, local, lanes, round);
if (local == 0u) {
slices[slice * FRONT + round] = last;
}
}
}`,
scale: `override WORKGROUP: u32 = 256;
override DROPOUT: bool = false;
struct P {
cols: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
out_first: u32,
out_stride: u32,
factor: f32,
least: u32,
seed_word: u32,
stream: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<f32>;
@group(0) @binding(3) var<storage, read_write> result: array<f32>;
fn mix(v: u32) -> u32 {
var h = v;
h ^= h >> 16u;
h *= 0x85ebca6bu;
h ^= h >> 13u;
h *= 0xc2b2ae35u;
return h ^ (h >> 16u);
}
fn random_bits(seed: u32, index: u32) -> u32 {
return mix(mix(index + 0x9e3779b9u) ^ mix(seed + 0x7f4a7c15u));
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let c = group.x * WORKGROUP + local;
let t = group.y;
if (t >= params[p.count_word] || c >= p.cols) {
return;
}
let v = x[p.x_first + t * p.x_stride + c];
var y = v * p.factor;
if (DROPOUT) {
let bits = random_bits(params[p.seed_word] + p.stream, t * p.cols + c);
y = select(0.0, y, bits >= p.least);
}
result[p.out_first + t * p.out_stride + c] = y;
}`,
sum_heads: `override WORKGROUP: u32 = 128;
struct P {
quads: u32,
n_kv_heads: u32,
splits: u32,
count_word: u32,
dk_first: u32,
dk_stride: u32,
dv_first: u32,
dv_stride: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> dk_parts: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dv_parts: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> dk: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> dv: array<vec4<f32>>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let t = group.y;
let item = group.x * WORKGROUP + local;
if (t >= params[p.count_word] || item >= p.n_kv_heads * p.quads) {
return;
}
let h = item / p.quads;
let quad = item - h * p.quads;
let first = (t * p.n_kv_heads + h) * p.splits * p.quads + quad;
var k_sum = vec4<f32>();
var v_sum = vec4<f32>();
for (var i = 0u; i < p.splits; i++) {
k_sum += dk_parts[first + i * p.quads];
v_sum += dv_parts[first + i * p.quads];
}
dk[p.dk_first + t * p.dk_stride + item] = k_sum;
dv[p.dv_first + t * p.dv_stride + item] = v_sum;
}`,
sum_squares: `override SQUARES: bool = true;
struct P {
n: u32,
row: u32,
out_first: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> sums: array<u32>;
const RUN = 4096u;
const LANES = 128u;
const INFINITE = 0x7f800000u;
var<workgroup> lanes: array<u32, LANES>;
fn square(bits: u32) -> u32 {
let v = bitcast<f32>(select(bits & 0x7fffffffu, 0u, (bits & INFINITE) == INFINITE));
let s = bitcast<u32>(v * v);
return select(select(min(s, INFINITE), 0u, s < 0x01000000u), INFINITE, (bits & INFINITE) == INFINITE);
}
fn sum(a: u32, b: u32) -> u32 {
let finite = max(a, b) < INFINITE;
let s = bitcast<u32>(bitcast<f32>(select(0u, a, finite)) + bitcast<f32>(select(0u, b, finite)));
return select(INFINITE, min(s, INFINITE), finite);
}
@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let run = group.y * p.row + group.x;
var lane = 0u;
for (var k = 0u; k < RUN / LANES; k++) {
let at = run * RUN + k * LANES + local;
var bits = 0u;
if (at < p.n) {
bits = x[at];
}
if (SQUARES) {
bits = square(bits);
}
lane = sum(lane, bits);
}
lanes[local] = lane;
workgroupBarrier();
for (var half = LANES / 2u; half > 0u; half >>= 1u) {
if (local < half) {
lanes[local] = sum(lanes[local], lanes[local + half]);
}
workgroupBarrier();
}
if (local == 0u && run * RUN < p.n) {
sums[p.out_first + run] = lanes[0];
}
}`,
update: `override WORKGROUP: u32 = 128;
override ADAMW: bool = true;
struct P {
n: u32,
first: u32,
row: u32,
training_word: u32,
seed: u32,
decays: u32,
w_type: u32,
m_type: u32,
v_type: u32,
m_scales: u32,
v_scales: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> gradient: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> w4: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> w1: array<u32>;
@group(0) @binding(5) var<storage, read_write> m4: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> m1: array<u32>;
@group(0) @binding(7) var<storage, read_write> v4: array<vec4<u32>>;
@group(0) @binding(8) var<storage, read_write> v1: array<u32>;
const F32 = 1u;
const BF16 = 2u;
const BITS8 = 3u;
const STATE_STEP = 0x1.020408p-7f;
const SQUARE_STEP = 0x1.010102p-8f;
const HEADS = 8u;
var<workgroup> partial: array<vec2<u32>, WORKGROUP>;
var<workgroup> heads: array<vec2<u32>, WORKGROUP / 8u>;
fn held_bits(bits: vec4<u32>) -> vec4<f32> {
let size = bits & vec4<u32>(0x7fffffffu);
var held = select(bits, vec4<u32>(), size < vec4<u32>(0x01000000u));
held = select(held, (bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f7fffffu), size >= vec4<u32>(0x7f800000u));
return bitcast<vec4<f32>>(select(held, vec4<u32>(), size > vec4<u32>(0x7f800000u)));
}
fn held(x: vec4<f32>) -> vec4<f32> {
let bits = bitcast<vec4<u32>>(x);
let size = bits & vec4<u32>(0x7fffffffu);
let finite = min(size, vec4<u32>(0x7f7fffffu)) | (bits & vec4<u32>(0x80000000u));
return bitcast<vec4<f32>>(select(finite, vec4<u32>(), size < vec4<u32>(0x01000000u)));
}
fn product(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
return held(x * y);
}
fn quotient(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
let a_bits = bitcast<vec4<u32>>(a);
let b_bits = bitcast<vec4<u32>>(b);
let a_digits = (a_bits & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u);
let b_digits = (b_bits & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u);
let less = vec4<u32>(a_digits < b_digits);
let top = a_digits << less;
let inverse = 1.0 / vec4<f32>(b_digits);
var q = vec4<u32>(vec4<f32>(top) * inverse * 8388608.0);
var rest = bitcast<vec4<i32>>((top << vec4<u32>(23u)) - q * b_digits);
let more = vec4<i32>(floor(vec4<f32>(rest) * inverse + 0.5));
q += bitcast<vec4<u32>>(more);
rest = 2 * (rest - more * bitcast<vec4<i32>>(b_digits));
q += vec4<u32>(rest > bitcast<vec4<i32>>(b_digits)) - vec4<u32>(rest < -bitcast<vec4<i32>>(b_digits));
let exponent = bitcast<vec4<i32>>(((a_bits >> vec4<u32>(23u)) & vec4<u32>(255u)) + 127u) -
bitcast<vec4<i32>>((b_bits >> vec4<u32>(23u)) + less);
let bits = (min(exponent, vec4<i32>(254)) - 1) * 0x800000 + bitcast<vec4<i32>>(q);
let large = (exponent > vec4<i32>(254)) | (bits > vec4<i32>(0x7f7fffff)) | (b_bits == vec4<u32>());
var size = select(bitcast<vec4<u32>>(bits), vec4<u32>(0x7f7fffffu), large);
let small = ((bits < vec4<i32>(0x01000000)) & !large) | ((a_bits & vec4<u32>(0x7fffffffu)) == vec4<u32>());
size = select(size | (a_bits & vec4<u32>(0x80000000u)), vec4<u32>(), small);
return bitcast<vec4<f32>>(size);
}
fn root(a: vec4<f32>) -> vec4<f32> {
let bits = bitcast<vec4<u32>>(a);
let odd = (bits >> vec4<u32>(23u)) & vec4<u32>(1u);
let shift = vec4<u32>(24u) - odd;
let digits = (bits & vec4<u32>(0x7fffffu)) | vec4<u32>(0x800000u);
let x = vec4<f32>(digits << (vec4<u32>(2u) - odd));
let inverse = inverseSqrt(x);
var q = vec4<u32>(x * inverse * 2048.0);
let rest = bitcast<vec4<i32>>((digits << shift) - q * q);
q += bitcast<vec4<u32>>(vec4<i32>(floor(vec4<f32>(rest) * inverse * 0x1p-12f + 0.5)));
let last = bitcast<vec4<i32>>((digits << shift) - q * q);
let whole = bitcast<vec4<i32>>(q);
q += vec4<u32>(last > whole) - vec4<u32>(last <= -whole);
let exponent = ((bits >> vec4<u32>(23u)) + 126u + odd) >> vec4<u32>(1u);
let positive = (bits != vec4<u32>()) & (bits < vec4<u32>(0x80000000u));
return bitcast<vec4<f32>>(select(vec4<u32>(), ((exponent - 1u) << vec4<u32>(23u)) + q, positive));
}
fn mixed(bits: vec4<u32>) -> vec4<u32> {
var h = bits;
h ^= h >> vec4<u32>(16u);
h *= 0x85ebca6bu;
h ^= h >> vec4<u32>(13u);
h *= 0xc2b2ae35u;
return h ^ (h >> vec4<u32>(16u));
}
fn random_bits(seed: u32, index: vec4<u32>) -> vec4<u32> {
return mixed(mixed(index + 0x9e3779b9u) ^ mixed(vec4<u32>(seed + 0x7f4a7c15u)));
}
fn factor(word: u32) -> vec4<f32> {
return held_bits(vec4<u32>(params[p.training_word + word]));
}
fn from_bf16(a: u32, b: u32) -> vec4<u32> {
return vec4<u32>(a << 16u, a & 0xffff0000u, b << 16u, b & 0xffff0000u);
}
fn to_bf16(bits: vec4<u32>) -> vec2<u32> {
return vec2<u32>((bits.x >> 16u) | (bits.y & 0xffff0000u), (bits.z >> 16u) | (bits.w & 0xffff0000u));
}
fn stochastic(x: vec4<f32>, random: vec4<u32>) -> vec2<u32> {
let bits = bitcast<vec4<u32>>(x);
let up = bits + (random & vec4<u32>(0xffffu));
let infinite = (up & vec4<u32>(0x7f800000u)) == vec4<u32>(0x7f800000u);
return to_bf16(select(up, (bits & vec4<u32>(0x80000000u)) | vec4<u32>(0x7f7f0000u), infinite));
}
fn nearest(x: vec4<f32>) -> vec2<u32> {
let bits = bitcast<vec4<u32>>(x);
return to_bf16(bits + 0x7fffu + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u)));
}
fn bytes_of(word: u32) -> vec4<u32> {
return (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
}
fn word_of(bytes: vec4<u32>) -> u32 {
return (bytes.x & 255u) | ((bytes.y & 255u) << 8u) | ((bytes.z & 255u) << 16u) | (bytes.w << 24u);
}
fn from_m8(word: u32, scale: vec4<f32>) -> vec4<f32> {
let signed_bytes = bitcast<vec4<i32>>(bytes_of(word) << vec4<u32>(24u)) >> vec4<u32>(24u);
let r = vec4<f32>(signed_bytes) * STATE_STEP;
return product(product(abs(r), r), scale);
}
fn square_of(code: vec4<u32>) -> vec4<f32> {
let r = vec4<f32>(code) * SQUARE_STEP;
let square = product(r, r);
return product(square, square);
}
fn to_m8(x: vec4<f32>, scale: f32) -> u32 {
let code = vec4<i32>(round(127.0 * root(quotient(abs(x), vec4<f32>(scale)))));
return word_of(bitcast<vec4<u32>>(select(code, -code, x < vec4<f32>())));
}
fn to_v8(x: vec4<f32>, scale: f32, random: vec4<u32>) -> u32 {
let y = quotient(x, vec4<f32>(scale));
let code = vec4<u32>(255.0 * root(root(y)));
let a = square_of(code);
let gap = held(square_of(code + 1u) - a);
let draw = product(vec4<f32>(random >> vec4<u32>(16u)) * 0x1p-16f, gap);
let rounded = clamp(code + vec4<u32>(draw < held(y - a)), vec4<u32>(1u), vec4<u32>(255u));
return word_of(select(vec4<u32>(), rounded, bitcast<vec4<i32>>(x) > vec4<i32>()));
}
fn load_w(i: u32) -> vec4<f32> {
if (p.w_type == F32) {
return held_bits(w4[i]);
}
return held_bits(from_bf16(w1[2u * i], w1[2u * i + 1u]));
}
fn load_m(i: u32) -> vec4<f32> {
if (p.m_type == F32) {
return held_bits(m4[i]);
} else if (p.m_type == BF16) {
return held_bits(from_bf16(m1[2u * i], m1[2u * i + 1u]));
} else if (p.m_type == BITS8) {
return from_m8(m1[i], held_bits(vec4<u32>(m1[p.m_scales + (i >> 6u)])));
}
return vec4<f32>();
}
fn load_v(i: u32) -> vec4<f32> {
if (p.v_type == F32) {
return held_bits(v4[i]);
} else if (p.v_type == BF16) {
return held_bits(from_bf16(v1[2u * i], v1[2u * i + 1u]));
} else if (p.v_type == BITS8) {
return product(square_of(bytes_of(v1[i])), held_bits(vec4<u32>(v1[p.v_scales + (i >> 6u)])));
}
return vec4<f32>();
}
fn most_of(x: vec4<f32>) -> u32 {
let size = bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu);
return max(max(size.x, size.y), max(size.z, size.w));
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let i = group.y * p.row + group.x * WORKGROUP + local;
let index = vec4<u32>(4u * i) + vec4<u32>(0u, 1u, 2u, 3u);
let present = index.x < p.n;
var w = vec4<f32>();
var m = vec4<f32>();
var v = vec4<f32>();
if (present) {
let inside = index < vec4<u32>(p.n);
let g = product(held_bits(select(vec4<u32>(), gradient[i], inside)), factor(3u));
gradient[i] = vec4<u32>();
w = select(vec4<f32>(), load_w(i), inside);
m = select(vec4<f32>(), load_m(i), inside);
v = select(vec4<f32>(), load_v(i), inside);
if (ADAMW) {
m = held(m + product(factor(5u), held(g - m)));
v = held(product(v, factor(6u)) + product(product(factor(7u), g), g));
let size = held(quotient(root(v), factor(8u)) + factor(9u));
let step = product(factor(10u), quotient(m, size));
let keep = select(vec4<f32>(1.0), factor(4u), p.decays != 0u);
w = held(product(w, keep) - step);
} else {
let decay = select(vec4<f32>(), factor(13u), p.decays != 0u);
var d = held(g + product(decay, w));
if (p.m_type != 0u) {
d = held(product(factor(12u), m) + d);
m = d;
}
w = held(w - product(factor(11u), d));
}
}
let seed = params[p.training_word + 2u] + p.seed;
var scales = vec2<u32>();
if (p.m_type == BITS8 || p.v_type == BITS8) {
partial[local] = vec2<u32>(most_of(m), most_of(v));
workgroupBarrier();
storageBarrier();
if ((local & 63u) < HEADS) {
for (var k = 0u; k < 8u; k++) {
scales = max(scales, partial[(local & ~63u) + (local & 7u) * 8u + k]);
}
heads[(local >> 6u) * HEADS + (local & 7u)] = scales;
}
workgroupBarrier();
scales = vec2<u32>();
for (var k = 0u; k < HEADS; k++) {
scales = max(scales, heads[(local >> 6u) * HEADS + k]);
}
}
if (!present) {
return;
}
if (p.w_type == F32) {
w4[i] = bitcast<vec4<u32>>(w);
} else {
let words = stochastic(w, random_bits(seed, index + p.first));
w1[2u * i] = words.x;
w1[2u * i + 1u] = words.y;
}
if (p.m_type == F32) {
m4[i] = bitcast<vec4<u32>>(m);
} else if (p.m_type == BF16) {
let words = nearest(m);
m1[2u * i] = words.x;
m1[2u * i + 1u] = words.y;
} else if (p.m_type == BITS8) {
m1[i] = to_m8(m, bitcast<f32>(scales.x));
if ((local & 63u) == 0u) {
m1[p.m_scales + (i >> 6u)] = scales.x;
}
}
if (p.v_type == F32) {
v4[i] = bitcast<vec4<u32>>(v);
} else if (p.v_type == BF16) {
let words = stochastic(v, random_bits(~seed, index + p.first) >> vec4<u32>(16u));
v1[2u * i] = words.x;
v1[2u * i + 1u] = words.y;
} else if (p.v_type == BITS8) {
v1[i] = to_v8(v, bitcast<f32>(scales.y), random_bits(~seed, index + p.first));
if ((local & 63u) == 0u) {
v1[p.v_scales + (i >> 6u)] = scales.y;
}
}
}`,
varlen_attention: `override WORKGROUP: u32 = 256;
override ROWS: u32 = 64;
override KEYS: u32 = 64;
override DIM: u32 = 128;
override STEP: u32 = 4;
override STRIDE: u32 = STEP + 1u;
override TILE: u32 = (ROWS + KEYS) * STRIDE;
override KEY_LANES: u32 = KEYS / 4u;
override ROW_LANES: u32 = WORKGROUP / KEY_LANES;
override SCORE_ROWS: u32 = ROWS / ROW_LANES;
override SCORE_STRIDE: u32 = KEY_LANES + 1u;
override PARTS: u32 = WORKGROUP / ROWS;
override PART_QUADS: u32 = KEY_LANES / PARTS;
override SUM_STEP: u32 = WORKGROUP / 16u;
override SUM_ROWS: u32 = ROWS / SUM_STEP;
override SUM_QUADS: u32 = DIM / 64u;
override CHUNK: u32 = ROWS * 8u * STEP / DIM;
override HELD: u32 = TILE / STRIDE * STEP / WORKGROUP;
const NOTHING: f32 = -1e30;
const LOG2E: f32 = 1.4426950409;
struct P {
quads: u32,
n_heads: u32,
group: u32,
count_word: u32,
starts_word: u32,
q_first: u32,
q_stride: u32,
k_first: u32,
k_stride: u32,
v_first: u32,
v_stride: u32,
out_first: u32,
out_stride: u32,
statistics_first: u32,
statistics_stride: u32,
scale: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> k: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> statistics: array<f32>;
@group(0) @binding(6) var<storage, read_write> result: array<vec4<f32>>;
var<workgroup> tile: array<vec4<f32>, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>;
var<workgroup> parts: array<f32, 2u * WORKGROUP>;
var<workgroup> row_start: array<u32, ROWS>;
var<workgroup> row_scale: array<f32, ROWS>;
var<workgroup> range: vec2<u32>;
var<private> held: array<vec4<f32>, 4>;
fn key_of(r: u32) -> u32 {
return (r % KEY_LANES) * 4u + r / KEY_LANES;
}
fn fetch_pair(first: u32, base: u32, step: u32, end: u32, head: u32, kv_head: u32, local: u32) {
let last = max(end, 1u) - 1u;
for (var i = 0u; i < HELD; i++) {
let item = local + WORKGROUP * i;
let row = item / STEP;
let quad = step * STEP + item % STEP;
let c = min(quad, p.quads - 1u);
var t = first + row;
var value: vec4<f32>;
if (row < ROWS) {
value = q[p.q_first + min(t, last) * p.q_stride + head * p.quads + c];
} else {
t = base + key_of(row - ROWS);
value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + c];
}
held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
}
}
fn put_pair(local: u32) {
for (var i = 0u; i < HELD; i++) {
let item = local + WORKGROUP * i;
tile[(item / STEP) * STRIDE + item % STEP] = held[i];
}
}
fn fetch_values(first: u32, end: u32, kv_head: u32, local: u32) {
let last = max(end, 1u) - 1u;
for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) {
let item = local + WORKGROUP * i;
let t = first + item / (DIM / 4u);
let quad = item % (DIM / 4u);
let value = v[p.v_first + min(t, last) * p.v_stride + kv_head * p.quads + min(quad, p.quads - 1u)];
held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
}
}
fn put_values(local: u32) {
for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) {
tile[local + WORKGROUP * i] = held[i];
}
}
fn add_dot(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let head = group.x;
let kv_head = head / p.group;
let first = group.y * ROWS;
if (local == 0u) {
let n = params[p.count_word];
let start = params[p.starts_word + min(first, max(n, 1u) - 1u)];
range = select(vec2<u32>(), vec2<u32>(start, min(first + ROWS, n)), first < n);
}
let span = workgroupUniformLoad(&range);
let end = span.y;
if (local < ROWS) {
let t = first + local;
row_start[local] = select(0xffffffffu, params[p.starts_word + min(t, max(end, 1u) - 1u)], t < end);
}
let key_lane = local % KEY_LANES;
let score_row = local / KEY_LANES;
let part = local % PARTS;
let soft_row = local / PARTS;
let sum_lane = local % 16u;
let sum_row = local / 16u;
let steps = (p.quads + STEP - 1u) / STEP;
var m = NOTHING;
var l = 0.0;
var acc: array<vec4<f32>, 16>;
for (var i = 0u; i < 4u * SUM_ROWS; i++) {
acc[i] = vec4<f32>();
}
fetch_pair(first, span.x, 0u, end, head, kv_head, local);
for (var base = span.x; base < end; base += KEYS) {
var s: array<vec4<f32>, 4>;
for (var i = 0u; i < SCORE_ROWS; i++) {
s[i] = vec4<f32>();
}
for (var step = 0u; step < steps; step++) {
put_pair(local);
workgroupBarrier();
if (step + 1u < steps) {
fetch_pair(first, base, step + 1u, end, head, kv_head, local);
} else {
fetch_values(base, end, kv_head, local);
}
for (var c = 0u; c < STEP; c++) {
let k0 = tile[(ROWS + key_lane) * STRIDE + c];
let k1 = tile[(ROWS + KEY_LANES + key_lane) * STRIDE + c];
let k2 = tile[(ROWS + 2u * KEY_LANES + key_lane) * STRIDE + c];
let k3 = tile[(ROWS + 3u * KEY_LANES + key_lane) * STRIDE + c];
for (var i = 0u; i < SCORE_ROWS; i++) {
let a = tile[(score_row + ROW_LANES * i) * STRIDE + c];
s[i] = vec4<f32>(add_dot(a, k0, s[i].x), add_dot(a, k1, s[i].y), add_dot(a, k2, s[i].z),
add_dot(a, k3, s[i].w));
}
}
workgroupBarrier();
}
for (var i = 0u; i < SCORE_ROWS; i++) {
scores[(score_row + ROW_LANES * i) * SCORE_STRIDE + key_lane] = s[i] * p.scale;
}
workgroupBarrier();
var e: array<vec4<f32>, 4>;
var highest = NOTHING;
for (var i = 0u; i < PART_QUADS; i++) {
let quad = part + PARTS * i;
let j = vec4<u32>(base + 4u * quad) + vec4<u32>(0u, 1u, 2u, 3u);
let sees = (j >= vec4<u32>(row_start[soft_row])) & (j <= vec4<u32>(first + soft_row));
e[i] = select(vec4<f32>(NOTHING), scores[soft_row * SCORE_STRIDE + quad], sees);
highest = max(highest, max(max(e[i].x, e[i].y), max(e[i].z, e[i].w)));
}
parts[local] = highest;
workgroupBarrier();
highest = m;
for (var i = 0u; i < PARTS; i++) {
highest = max(highest, parts[soft_row * PARTS + i]);
}
var sum = 0.0;
for (var i = 0u; i < PART_QUADS; i++) {
let quad = part + PARTS * i;
let j = vec4<u32>(base + 4u * quad) + vec4<u32>(0u, 1u, 2u, 3u);
let sees = (j >= vec4<u32>(row_start[soft_row])) & (j <= vec4<u32>(first + soft_row));
e[i] = select(vec4<f32>(), exp2((e[i] - highest) * LOG2E), sees);
scores[soft_row * SCORE_STRIDE + quad] = e[i];
sum += (e[i].x + e[i].y) + (e[i].z + e[i].w);
}
let c = exp2((m - highest) * LOG2E);
m = highest;
l *= c;
parts[WORKGROUP + local] = sum;
if (part == 0u) {
row_scale[soft_row] = c;
}
for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
put_values(local);
workgroupBarrier();
if (chunk + CHUNK < KEYS) {
fetch_values(base + chunk + CHUNK, end, kv_head, local);
} else {
fetch_pair(first, base + KEYS, 0u, end, head, kv_head, local);
}
if (chunk == 0u) {
for (var i = 0u; i < SUM_ROWS; i++) {
for (var d = 0u; d < SUM_QUADS; d++) {
acc[4u * i + d] *= row_scale[sum_row + SUM_STEP * i];
}
}
}
for (var j = 0u; j < CHUNK; j += 4u) {
var weights: array<vec4<f32>, 4>;
for (var i = 0u; i < SUM_ROWS; i++) {
weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + (chunk + j) / 4u];
}
for (var n = 0u; n < 4u; n++) {
for (var d = 0u; d < SUM_QUADS; d++) {
let value = tile[(j + n) * (DIM / 4u) + sum_lane + 16u * d];
for (var i = 0u; i < SUM_ROWS; i++) {
acc[4u * i + d] = fma(vec4<f32>(weights[i][n]), value, acc[4u * i + d]);
}
}
}
}
workgroupBarrier();
}
for (var i = 0u; i < PARTS; i++) {
l += parts[WORKGROUP + soft_row * PARTS + i];
}
}
if (part == 0u) {
row_scale[soft_row] = l;
let t = first + soft_row;
if (t < end) {
let at = p.statistics_first + t * p.statistics_stride + head;
statistics[at] = m;
statistics[at + p.n_heads] = l;
}
}
workgroupBarrier();
for (var i = 0u; i < SUM_ROWS; i++) {
let row = sum_row + SUM_STEP * i;
for (var d = 0u; d < SUM_QUADS; d++) {
let quad = sum_lane + 16u * d;
if (first + row < end && quad < p.quads) {
result[p.out_first + (first + row) * p.out_stride + head * p.quads + quad] = acc[4u * i + d] / row_scale[row];
}
}
}
}`,
varlen_attention_delta: `override WORKGROUP: u32 = 128;
struct P {
quads: u32,
n_heads: u32,
count_word: u32,
out_first: u32,
out_stride: u32,
dout_first: u32,
dout_stride: u32,
statistics_first: u32,
statistics_stride: u32,
scratch_quad: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> out_rows: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> dout: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> statistics: array<f32>;
@group(0) @binding(5) var<storage, read_write> scratch: array<vec4<f32>>;
var<workgroup> partial: array<f32, WORKGROUP>;
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let head = group.x;
let t = group.y * (WORKGROUP / 8u) + local / 8u;
let present = t < params[p.count_word];
var sum = 0.0;
if (present) {
for (var c = local % 8u; c < p.quads; c += 8u) {
sum += dot(out_rows[p.out_first + t * p.out_stride + head * p.quads + c],
dout[p.dout_first + t * p.dout_stride + head * p.quads + c]);
}
}
partial[local] = sum;
workgroupBarrier();
if (present && local % 8u == 0u) {
for (var i = 1u; i < 8u; i++) {
sum += partial[local + i];
}
let at = p.statistics_first + t * p.statistics_stride + head;
scratch[p.scratch_quad + t * p.n_heads + head] =
vec4<f32>(statistics[at], 1.0 / statistics[at + p.n_heads], sum, 0.0);
}
}`,
varlen_attention_dkv: `override WORKGROUP: u32 = 256;
override ROWS: u32 = 64;
override KEYS: u32 = 64;
override DIM: u32 = 128;
override STEP: u32 = 4;
override STRIDE: u32 = STEP + 1u;
override TILE: u32 = (ROWS + KEYS) * STRIDE;
override KEY_LANES: u32 = KEYS / 4u;
override ROW_LANES: u32 = WORKGROUP / KEY_LANES;
override SCORE_ROWS: u32 = ROWS / ROW_LANES;
override SCORE_STRIDE: u32 = KEY_LANES + 1u;
override SUM_STEP: u32 = WORKGROUP / 16u;
override SUM_ROWS: u32 = ROWS / SUM_STEP;
override SUM_QUADS: u32 = DIM / 64u;
override CHUNK: u32 = ROWS * 8u * STEP / DIM;
override HELD: u32 = TILE / STRIDE * STEP / WORKGROUP;
const LOG2E: f32 = 1.4426950409;
struct P {
quads: u32,
n_heads: u32,
splits: u32,
heads: u32,
count_word: u32,
starts_word: u32,
q_first: u32,
q_stride: u32,
k_first: u32,
k_stride: u32,
v_first: u32,
v_stride: u32,
dout_first: u32,
dout_stride: u32,
dk_first: u32,
dk_stride: u32,
dv_first: u32,
dv_stride: u32,
scratch_quad: u32,
scale: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> k: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> dout: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> scratch: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> dk: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> dv: array<vec4<f32>>;
var<workgroup> tile: array<vec4<f32>, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>;
var<workgroup> starts: array<u32, KEYS>;
var<workgroup> row_statistics: array<vec4<f32>, KEYS>;
var<workgroup> blocks: atomic<u32>;
var<workgroup> range: vec2<u32>;
var<private> held: array<vec4<f32>, 4>;
fn row_of(r: u32) -> u32 {
return (r % KEY_LANES) * 4u + r / KEY_LANES;
}
fn fetch_pair(second: bool, first: u32, base: u32, step: u32, end: u32, head: u32, kv_head: u32, local: u32) {
let last = max(end, 1u) - 1u;
for (var i = 0u; i < HELD; i++) {
let item = local + WORKGROUP * i;
let row = item / STEP;
let quad = step * STEP + item % STEP;
let c = min(quad, p.quads - 1u);
let t = select(base + row_of(row - ROWS), first + row, row < ROWS);
var value: vec4<f32>;
if (row < ROWS) {
if (second) {
value = v[p.v_first + min(t, last) * p.v_stride + kv_head * p.quads + c];
} else {
value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + c];
}
} else {
if (second) {
value = dout[p.dout_first + min(t, last) * p.dout_stride + head * p.quads + c];
} else {
value = q[p.q_first + min(t, last) * p.q_stride + head * p.quads + c];
}
}
held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
}
}
fn put_pair(local: u32) {
for (var i = 0u; i < HELD; i++) {
let item = local + WORKGROUP * i;
tile[(item / STEP) * STRIDE + item % STEP] = held[i];
}
}
fn fetch_rows(second: bool, first: u32, end: u32, head: u32, local: u32) {
let last = max(end, 1u) - 1u;
for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) {
let item = local + WORKGROUP * i;
let t = first + item / (DIM / 4u);
let quad = item % (DIM / 4u);
let c = head * p.quads + min(quad, p.quads - 1u);
var value: vec4<f32>;
if (second) {
value = dout[p.dout_first + min(t, last) * p.dout_stride + c];
} else {
value = q[p.q_first + min(t, last) * p.q_stride + c];
}
held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
}
}
fn put_rows(local: u32) {
for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) {
tile[local + WORKGROUP * i] = held[i];
}
}
fn add_dot(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
fn multiply(sums: ptr<function, array<vec4<f32>, 4>>, score_row: u32, key_lane: u32) {
for (var c = 0u; c < STEP; c++) {
let b0 = tile[(ROWS + key_lane) * STRIDE + c];
let b1 = tile[(ROWS + KEY_LANES + key_lane) * STRIDE + c];
let b2 = tile[(ROWS + 2u * KEY_LANES + key_lane) * STRIDE + c];
let b3 = tile[(ROWS + 3u * KEY_LANES + key_lane) * STRIDE + c];
for (var i = 0u; i < SCORE_ROWS; i++) {
let a = tile[(score_row + ROW_LANES * i) * STRIDE + c];
let sum = (*sums)[i];
(*sums)[i] = vec4<f32>(add_dot(a, b0, sum.x), add_dot(a, b1, sum.y), add_dot(a, b2, sum.z),
add_dot(a, b3, sum.w));
}
}
}
fn accumulate(sums: ptr<function, array<vec4<f32>, 16>>, sum_row: u32, sum_lane: u32, from_quad: u32) {
for (var j = 0u; j < CHUNK; j += 4u) {
var weights: array<vec4<f32>, 4>;
for (var i = 0u; i < SUM_ROWS; i++) {
weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + from_quad + j / 4u];
}
for (var n = 0u; n < 4u; n++) {
for (var d = 0u; d < SUM_QUADS; d++) {
let value = tile[(j + n) * (DIM / 4u) + sum_lane + 16u * d];
for (var i = 0u; i < SUM_ROWS; i++) {
(*sums)[4u * i + d] = fma(vec4<f32>(weights[i][n]), value, (*sums)[4u * i + d]);
}
}
}
}
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let kv_head = group.x / p.splits;
let first = group.y * ROWS;
let first_head = group.x * p.heads;
if (local == 0u) {
atomicStore(&blocks, 0u);
range = vec2<u32>(params[p.count_word], 0u);
}
let n = workgroupUniformLoad(&range).x;
for (var t = first + local * KEYS; t < n; t += WORKGROUP * KEYS) {
if (params[p.starts_word + t] <= min(first + ROWS, n) - 1u) {
atomicMax(&blocks, (t - first) / KEYS + 1u);
}
}
workgroupBarrier();
if (local == 0u) {
range = vec2<u32>(first, min(first + atomicLoad(&blocks) * KEYS, n));
}
let end = workgroupUniformLoad(&range).y;
let key_lane = local % KEY_LANES;
let score_row = local / KEY_LANES;
let sum_lane = local % 16u;
let sum_row = local / 16u;
let steps = (p.quads + STEP - 1u) / STEP;
var k_sum: array<vec4<f32>, 16>;
var v_sum: array<vec4<f32>, 16>;
for (var i = 0u; i < 4u * SUM_ROWS; i++) {
k_sum[i] = vec4<f32>();
v_sum[i] = vec4<f32>();
}
fetch_pair(false, first, first, 0u, n, first_head, kv_head, local);
for (var head = first_head; head < first_head + p.heads; head++) {
for (var base = first; base < end; base += KEYS) {
if (local < KEYS) {
let t = min(base + local, n - 1u);
starts[local] = select(0xffffffffu, params[p.starts_word + t], base + local < n);
row_statistics[local] = scratch[p.scratch_quad + t * p.n_heads + head];
}
var s: array<vec4<f32>, 4>;
var d: array<vec4<f32>, 4>;
for (var i = 0u; i < SCORE_ROWS; i++) {
s[i] = vec4<f32>();
d[i] = vec4<f32>();
}
for (var step = 0u; step < steps; step++) {
put_pair(local);
workgroupBarrier();
if (step + 1u < steps) {
fetch_pair(false, first, base, step + 1u, n, head, kv_head, local);
} else {
fetch_pair(true, first, base, 0u, n, head, kv_head, local);
}
multiply(&s, score_row, key_lane);
workgroupBarrier();
}
for (var step = 0u; step < steps; step++) {
put_pair(local);
workgroupBarrier();
if (step + 1u < steps) {
fetch_pair(true, first, base, step + 1u, n, head, kv_head, local);
} else {
fetch_rows(true, base, n, head, local);
}
multiply(&d, score_row, key_lane);
workgroupBarrier();
}
for (var i = 0u; i < SCORE_ROWS; i++) {
let j = first + score_row + ROW_LANES * i;
for (var c = 0u; c < 4u; c++) {
let row = 4u * key_lane + c;
let st = row_statistics[row];
let e = exp2((s[i][c] * p.scale - st.x) * LOG2E) * st.y;
let sees = j >= starts[row] && j <= base + row;
s[i][c] = select(0.0, e, sees);
d[i][c] = select(0.0, e * (d[i][c] - st.z) * p.scale, sees);
}
scores[(score_row + ROW_LANES * i) * SCORE_STRIDE + key_lane] = s[i];
}
for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
put_rows(local);
workgroupBarrier();
if (chunk + CHUNK < KEYS) {
fetch_rows(true, base + chunk + CHUNK, n, head, local);
} else {
fetch_rows(false, base, n, head, local);
}
accumulate(&v_sum, sum_row, sum_lane, chunk / 4u);
workgroupBarrier();
}
for (var i = 0u; i < SCORE_ROWS; i++) {
scores[(score_row + ROW_LANES * i) * SCORE_STRIDE + key_lane] = d[i];
}
for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
put_rows(local);
workgroupBarrier();
if (chunk + CHUNK < KEYS) {
fetch_rows(false, base + chunk + CHUNK, n, head, local);
} else if (base + KEYS < end) {
fetch_pair(false, first, base + KEYS, 0u, n, head, kv_head, local);
} else {
fetch_pair(false, first, first, 0u, n, min(head + 1u, p.n_heads - 1u), kv_head, local);
}
accumulate(&k_sum, sum_row, sum_lane, chunk / 4u);
workgroupBarrier();
}
}
}
for (var i = 0u; i < SUM_ROWS; i++) {
let j = first + sum_row + SUM_STEP * i;
for (var c = 0u; c < SUM_QUADS; c++) {
let quad = sum_lane + 16u * c;
if (j < n && quad < p.quads) {
dk[p.dk_first + j * p.dk_stride + group.x * p.quads + quad] = k_sum[4u * i + c];
dv[p.dv_first + j * p.dv_stride + group.x * p.quads + quad] = v_sum[4u * i + c];
}
}
}
}`,
varlen_attention_dq: `override WORKGROUP: u32 = 256;
override ROWS: u32 = 64;
override KEYS: u32 = 64;
override DIM: u32 = 128;
override STEP: u32 = 4;
override STRIDE: u32 = STEP + 1u;
override TILE: u32 = (ROWS + KEYS) * STRIDE;
override KEY_LANES: u32 = KEYS / 4u;
override ROW_LANES: u32 = WORKGROUP / KEY_LANES;
override SCORE_ROWS: u32 = ROWS / ROW_LANES;
override SCORE_STRIDE: u32 = KEY_LANES + 1u;
override SUM_STEP: u32 = WORKGROUP / 16u;
override SUM_ROWS: u32 = ROWS / SUM_STEP;
override SUM_QUADS: u32 = DIM / 64u;
override CHUNK: u32 = ROWS * 8u * STEP / DIM;
override HELD: u32 = TILE / STRIDE * STEP / WORKGROUP;
const LOG2E: f32 = 1.4426950409;
struct P {
quads: u32,
n_heads: u32,
group: u32,
count_word: u32,
starts_word: u32,
q_first: u32,
q_stride: u32,
k_first: u32,
k_stride: u32,
v_first: u32,
v_stride: u32,
dout_first: u32,
dout_stride: u32,
dq_first: u32,
dq_stride: u32,
scratch_quad: u32,
scale: f32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> q: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> k: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> v: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> dout: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> scratch: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> dq: array<vec4<f32>>;
var<workgroup> tile: array<vec4<f32>, TILE>;
var<workgroup> scores: array<vec4<f32>, ROWS * SCORE_STRIDE>;
var<workgroup> row_start: array<u32, ROWS>;
var<workgroup> row_statistics: array<vec4<f32>, ROWS>;
var<workgroup> range: vec2<u32>;
var<private> held: array<vec4<f32>, 4>;
fn key_of(r: u32) -> u32 {
return (r % KEY_LANES) * 4u + r / KEY_LANES;
}
fn fetch_pair(second: bool, first: u32, base: u32, step: u32, end: u32, head: u32, kv_head: u32, local: u32) {
let last = max(end, 1u) - 1u;
for (var i = 0u; i < HELD; i++) {
let item = local + WORKGROUP * i;
let row = item / STEP;
let quad = step * STEP + item % STEP;
let c = min(quad, p.quads - 1u);
let t = select(base + key_of(row - ROWS), first + row, row < ROWS);
var value: vec4<f32>;
if (row < ROWS) {
if (second) {
value = dout[p.dout_first + min(t, last) * p.dout_stride + head * p.quads + c];
} else {
value = q[p.q_first + min(t, last) * p.q_stride + head * p.quads + c];
}
} else {
if (second) {
value = v[p.v_first + min(t, last) * p.v_stride + kv_head * p.quads + c];
} else {
value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + c];
}
}
held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
}
}
fn put_pair(local: u32) {
for (var i = 0u; i < HELD; i++) {
let item = local + WORKGROUP * i;
tile[(item / STEP) * STRIDE + item % STEP] = held[i];
}
}
fn fetch_keys(first: u32, end: u32, kv_head: u32, local: u32) {
let last = max(end, 1u) - 1u;
for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) {
let item = local + WORKGROUP * i;
let t = first + item / (DIM / 4u);
let quad = item % (DIM / 4u);
let value = k[p.k_first + min(t, last) * p.k_stride + kv_head * p.quads + min(quad, p.quads - 1u)];
held[i] = select(vec4<f32>(), value, t < end && quad < p.quads);
}
}
fn put_keys(local: u32) {
for (var i = 0u; i < CHUNK * DIM / 4u / WORKGROUP; i++) {
tile[local + WORKGROUP * i] = held[i];
}
}
fn add_dot(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
return fma(a.w, b.w, fma(a.z, b.z, fma(a.y, b.y, fma(a.x, b.x, sum))));
}
fn multiply(sums: ptr<function, array<vec4<f32>, 4>>, score_row: u32, key_lane: u32) {
for (var c = 0u; c < STEP; c++) {
let b0 = tile[(ROWS + key_lane) * STRIDE + c];
let b1 = tile[(ROWS + KEY_LANES + key_lane) * STRIDE + c];
let b2 = tile[(ROWS + 2u * KEY_LANES + key_lane) * STRIDE + c];
let b3 = tile[(ROWS + 3u * KEY_LANES + key_lane) * STRIDE + c];
for (var i = 0u; i < SCORE_ROWS; i++) {
let a = tile[(score_row + ROW_LANES * i) * STRIDE + c];
let sum = (*sums)[i];
(*sums)[i] = vec4<f32>(add_dot(a, b0, sum.x), add_dot(a, b1, sum.y), add_dot(a, b2, sum.z),
add_dot(a, b3, sum.w));
}
}
}
fn accumulate(sums: ptr<function, array<vec4<f32>, 16>>, sum_row: u32, sum_lane: u32, from_quad: u32) {
for (var j = 0u; j < CHUNK; j += 4u) {
var weights: array<vec4<f32>, 4>;
for (var i = 0u; i < SUM_ROWS; i++) {
weights[i] = scores[(sum_row + SUM_STEP * i) * SCORE_STRIDE + from_quad + j / 4u];
}
for (var n = 0u; n < 4u; n++) {
for (var d = 0u; d < SUM_QUADS; d++) {
let value = tile[(j + n) * (DIM / 4u) + sum_lane + 16u * d];
for (var i = 0u; i < SUM_ROWS; i++) {
(*sums)[4u * i + d] = fma(vec4<f32>(weights[i][n]), value, (*sums)[4u * i + d]);
}
}
}
}
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let head = group.x;
let kv_head = head / p.group;
let first = group.y * ROWS;
if (local == 0u) {
let n = params[p.count_word];
let start = params[p.starts_word + min(first, max(n, 1u) - 1u)];
range = select(vec2<u32>(), vec2<u32>(start, min(first + ROWS, n)), first < n);
}
let span = workgroupUniformLoad(&range);
let end = span.y;
if (local < ROWS) {
let t = min(first + local, max(end, 1u) - 1u);
row_start[local] = select(0xffffffffu, params[p.starts_word + t], first + local < end);
row_statistics[local] = scratch[p.scratch_quad + t * p.n_heads + head];
}
let key_lane = local % KEY_LANES;
let score_row = local / KEY_LANES;
let sum_lane = local % 16u;
let sum_row = local / 16u;
let steps = (p.quads + STEP - 1u) / STEP;
var acc: array<vec4<f32>, 16>;
for (var i = 0u; i < 4u * SUM_ROWS; i++) {
acc[i] = vec4<f32>();
}
fetch_pair(false, first, span.x, 0u, end, head, kv_head, local);
for (var base = span.x; base < end; base += KEYS) {
var s: array<vec4<f32>, 4>;
var d: array<vec4<f32>, 4>;
for (var i = 0u; i < SCORE_ROWS; i++) {
s[i] = vec4<f32>();
d[i] = vec4<f32>();
}
for (var step = 0u; step < steps; step++) {
put_pair(local);
workgroupBarrier();
if (step + 1u < steps) {
fetch_pair(false, first, base, step + 1u, end, head, kv_head, local);
} else {
fetch_pair(true, first, base, 0u, end, head, kv_head, local);
}
multiply(&s, score_row, key_lane);
workgroupBarrier();
}
for (var step = 0u; step < steps; step++) {
put_pair(local);
workgroupBarrier();
if (step + 1u < steps) {
fetch_pair(true, first, base, step + 1u, end, head, kv_head, local);
} else {
fetch_keys(base, end, kv_head, local);
}
multiply(&d, score_row, key_lane);
workgroupBarrier();
}
let j = vec4<u32>(base + 4u * key_lane) + vec4<u32>(0u, 1u, 2u, 3u);
for (var i = 0u; i < SCORE_ROWS; i++) {
let row = score_row + ROW_LANES * i;
let st = row_statistics[row];
let sees = (j >= vec4<u32>(row_start[row])) & (j <= vec4<u32>(first + row));
let e = exp2((s[i] * p.scale - st.x) * LOG2E) * st.y;
let ds = e * (d[i] - st.z) * p.scale;
scores[row * SCORE_STRIDE + key_lane] = select(vec4<f32>(), ds, sees);
}
for (var chunk = 0u; chunk < KEYS; chunk += CHUNK) {
put_keys(local);
workgroupBarrier();
if (chunk + CHUNK < KEYS) {
fetch_keys(base + chunk + CHUNK, end, kv_head, local);
} else {
fetch_pair(false, first, base + KEYS, 0u, end, head, kv_head, local);
}
accumulate(&acc, sum_row, sum_lane, chunk / 4u);
workgroupBarrier();
}
}
for (var i = 0u; i < SUM_ROWS; i++) {
let t = first + sum_row + SUM_STEP * i;
for (var n = 0u; n < SUM_QUADS; n++) {
let quad = sum_lane + 16u * n;
if (t < end && quad < p.quads) {
dq[p.dq_first + t * p.dq_stride + head * p.quads + quad] = acc[4u * i + n];
}
}
}
}`,
widen: `override Q8: bool = true;
override WORKGROUP: u32 = 128;
struct P {
cols: u32,
vectors: u32,
count_word: u32,
x_first: u32,
x_stride: u32,
scales_word: u32,
}
@group(0) @binding(0) var<uniform> p: P;
@group(0) @binding(1) var<storage, read_write> params: array<u32>;
@group(0) @binding(2) var<storage, read_write> x: array<u32>;
@group(0) @binding(3) var<storage, read_write> result: array<vec4<f32>>;
fn signed_bytes(v: u32) -> vec4<f32> {
return vec4<f32>((vec4<i32>(bitcast<i32>(v)) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u));
}
@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
let at = group.x * WORKGROUP + local;
let t = group.y;
if (at >= p.vectors || t >= params[p.count_word]) {
return;
}
var v = vec4<f32>();
if (Q8) {
v = signed_bytes(x[p.x_first + t * p.x_stride + at]) * bitcast<f32>(x[p.scales_word + t]);
} else {
for (var i = 0u; i < min(4u, p.cols - 4u * at); i++) {
v[i] = bitcast<f32>(x[p.x_first + t * p.x_stride + 4u * at + i]);
}
}
result[t * p.vectors + at] = v;
}`,
};
