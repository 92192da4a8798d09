/** Texts that tokenizers differ on, and random ones from fixed seeds. */

/** Numbers from 0 to 1 that depend on the seed alone (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export const TEXTS = [
  '',
  ' ',
  '  ',
  '\t',
  '\n',
  '\n\n\n',
  ' \n \n\t\n',
  '\r\n\r\n x\r\n',
  'a',
  ' a',
  '  a  b   c    d     e',
  'Hello, world! How are you today?',
  'The river froze in the night; by morning, children were skating on it.',
  "I'm, you're, he'll, we've, they'd, it's, DON'T, SHE'LL, O'Brien's, 'tis, rock 'n' roll",
  "'s 't 're 'S 'RE''''s",
  '0 1 12 123 1234 12345 123456 1234567 3.14159 1,000,000 0x1F 1e-9 ½ ² Ⅳ ٣ ४ 五',
  'camelCase PascalCase snake_case SCREAMING_CASE kebab-case iOS HTTPServer XMLHttpRequest2',
  'int main(void)\n{\n\tfor (int i = 0; i < 10; i++) printf("%d\\n", i);\n\treturn 0;\n}\n',
  'def f(x):\n    """Doc."""\n    return [y ** 2 for y in x if y % 2 == 0]  # squares\n\n\nclass A:\n        pass\n',
  '{"key": [1, 2.5, null, true], "nested": {"a": "b\\u00e9"}}\n<div class="x">&amp;</div>\n',
  '# Title\n\n* item **bold** _it_\n  1. one\n\n| a | b |\n|---|---|\n\n```sh\n$ ls -la | grep x > /dev/null\n```\n',
  'https://example.org/path/to?query=1&other=%20#fragment user@example.org C:\\Users\\x',
  '!!! ??? ... ---- ____ ==== //// :-) ;-) <3 -> => != <= >= && || :: @@ $$ %% ^^ ** ~~ ``',
  'Ångström naïve café Straße ŒUVRE fiancée coöperate Ђорђе İstanbul ıspanak ǅ ǆ ﬁ ﬂ',
  'cafe\u0301 A\u030a o\u0308\u0323 \u1e9b\u0323 \u0301x \u2126 \u212b \ufb2a',
  'Быстрая лиса прыгает через забор. Ёлка, объём, Київ, Ђуро',
  'Η γρήγορη αλεπού πηδά πάνω από τον φράχτη. ΆΈΉ ΐ',
  'الثعلب السريع يقفز فوق السياج. مرحبًا ١٢٣ ، ؟ لا إله',
  'השועל המהיר קופץ מעל הגדר. שָׁלוֹם',
  'तेज़ लोमड़ी बाड़ पर कूदती है। क्षत्रिय ज्ञान श्री',
  'দ্রুত শিয়াল বেড়া লাফায়। தமிழ் எழுத்து தெலுగు ಕನ್ನಡ മലയാളം ગુજરાતી ਪੰਜਾਬੀ සිංහල',
  'จิ้งจอกเร็วกระโดดข้ามรั้ว ภาษาไทย ລາວ ខ្មែរ မြန်မာ བོད་ཡིག',
  '敏捷的狐狸跳过篱笆。今天天气很好，我们去公园吧！「你好」、世界——2024年3月',
  '素早い狐が柵を飛び越える。カタカナ、ひらがな、漢字、ｶﾀｶﾅ、ーー々〆〇',
  '빠른 여우가 울타리를 뛰어넘는다. 안녕하세요 한국어 ㅋㅋㅋ ᄒᆞᆫ글',
  'ქართული ანბანი Հայերեն ልብ ወለድ ᏣᎳᎩ ᐃᓄᒃᑎᑐᑦ Монгол ᠮᠣᠩᠭᠣᠯ ߒߞߏ',
  'Tiếng Việt có nhiều dấu: ấ ầ ẩ ẫ ậ ắ ằ ơ ư ỗ',
  '😀😃 👩‍👩‍👧‍👦 👍🏽 🇩🇪🇯🇵 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️ ☺︎ 1️⃣ ©™ 🤷🏿‍♀️ 🫠',
  '∀x∈ℝ: ⌈x⌉ = −⌊−x⌋, α∧¬β = ¬(¬α∨β), ∑ᵢ xᵢ² ≤ ∫ₐᵇ ƒ(t)dt 𝔘𝔫𝔦 𝒞 𝟘𝟙',
  '\u00a0nbsp\u2003em\u2009thin\u3000ideographic\u200bzero\u200djoin\u2060word\ufeffbom\u2028line\u2029para',
  'a\u0000b\u0001\u0002\u001b[31mred\u001b[0m\u007f\u0080\u009f\u00ad',
  '\ufffd\ufffe\uffff\ue000\uf8ff\u{1fffe}\u{10ffff}\u{f0000}',
  '𐍈𐎀𒀀𓀀𝐀𠀀𪛖🀄🃏',
  '▁ ▁▁ ▁a a▁b <0x0A> <0x41> <unk> <s>',
  'Ġthe Ċ ĉ Ģ ġ',
  'x'.repeat(300),
  ' '.repeat(77),
  '\n'.repeat(33) + '\t'.repeat(19),
  'ab'.repeat(150),
  '1'.repeat(100),
  '-'.repeat(129) + '=' .repeat(65)
];

const RANGES = [
  [0x20, 0x7e],
  [0x20, 0x7e],
  [0x09, 0x0d],
  [0x20, 0x20],
  [0x30, 0x39],
  [0x41, 0x7a],
  [0x00, 0x1f],
  [0x7f, 0xff],
  [0x100, 0x24f],
  [0x300, 0x36f],
  [0x370, 0x52f],
  [0x590, 0x6ff],
  [0x900, 0xdff],
  [0xe00, 0x109f],
  [0x1100, 0x11ff],
  [0x2000, 0x206f],
  [0x2100, 0x2bff],
  [0x3000, 0x30ff],
  [0x4e00, 0x9fff],
  [0xac00, 0xd7a3],
  [0xe000, 0xffff],
  [0x10000, 0x10fff],
  [0x1f300, 0x1faff],
  [0x20000, 0x2ffff],
  [0xe0000, 0x10ffff]
];

/** A string of characters from a few ranges. */
function randomText(next) {
  const ranges = Array.from({length: 1 + Math.floor(next() * 4)}, () => RANGES[Math.floor(next() * RANGES.length)]);
  let text = '';
  for (let left = Math.floor(next() * 60); left > 0; left--) {
    const [from, to] = ranges[Math.floor(next() * ranges.length)];
    text += String.fromCodePoint(from + Math.floor(next() * (to - from + 1)));
  }
  return text;
}

/** n random texts; with `pieces`, every other one is made of them. */
export function randomTexts(seed, n, pieces = []) {
  const next = random(seed);
  return Array.from({length: n}, (_, i) => {
    if (i % 2 || !pieces.length) return randomText(next);
    const length = 1 + Math.floor(next() * 12);
    return Array.from({length}, () => pieces[Math.floor(next() * pieces.length)]).join('');
  });
}
