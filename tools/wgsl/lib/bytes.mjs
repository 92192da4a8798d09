// Packing and unpacking of four bytes without 8-bit integers: naga would write them with SPIR-V's capability Int8,
// which not every device has (shaderInt8). For naga alone; WebGPU implementations have the built-in functions.
const FUNCTIONS = {
    unpack4xI8: `(v: u32) -> vec4<i32> {
    return bitcast<vec4<i32>>(vec4<u32>(v << 24u, v << 16u, v << 8u, v)) >> vec4<u32>(24u);
}`,
    unpack4xU8: '(v: u32) -> vec4<u32> { return vec4<u32>(v, v >> 8u, v >> 16u, v >> 24u) & vec4<u32>(255u); }',
    pack4xI8: `(v: vec4<i32>) -> u32 {
    let u = bitcast<vec4<u32>>(v) & vec4<u32>(255u);
    return u.x | (u.y << 8u) | (u.z << 16u) | (u.w << 24u);
}`,
    pack4xU8: `(v: vec4<u32>) -> u32 {
    let u = v & vec4<u32>(255u);
    return u.x | (u.y << 8u) | (u.z << 16u) | (u.w << 24u);
}`,
};

// The text with functions of its own in place of the built-in ones it calls; every line keeps its number.
export function withoutInt8(text) {
    const used = Object.keys(FUNCTIONS).filter((name) => new RegExp(`\\b${name}\\(`).test(text));
    const renamed = text.replace(/\b(un)?pack4x[IU]8\(/g, 'tern_$&');
    return [renamed, ...used.map((name) => `fn tern_${name}${FUNCTIONS[name]}`)].join('\n');
}
