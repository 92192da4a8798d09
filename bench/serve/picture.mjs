// Draws what load.mjs measured: tokens a second, the time to the first token and between tokens, over the clients.
const WIDTH = 340, HEIGHT = 240, LEFT = 52, TOP = 34, RIGHT = 14, BOTTOM = 40, LEGEND = 26;
const COLOURS = ['#b3311a', '#17567f', '#3f7d20', '#7a4fa3', '#8a6d00', '#51606c'];
const PANELS = [
    ['Tokens a second', (row) => [row.rate]],
    ['First token, ms: p50, p95', (row) => row.first.slice(0, 2)],
    ['Between tokens, ms: p50, p95', (row) => row.between.slice(0, 2)],
];

const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const words = (x, y, text, more = '') => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${more}>${escape(text)}</text>`;

/** A round number not below `most`: 1, 2 or 5 times a power of ten. */
export function roundUp(most) {
    const power = 10 ** Math.floor(Math.log10(most > 0 ? most : 1));
    return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= most);
}

function panel([title, values], servers, at) {
    const all = servers.flatMap((s) => s.rows.flatMap(values)).filter(Number.isFinite);
    const clients = servers[0].rows.map((row) => row.clients);
    const top = roundUp(Math.max(0, ...all)), inner = WIDTH - LEFT - RIGHT;
    const x = (i) => at + LEFT + (inner * i) / Math.max(clients.length - 1, 1);
    const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / top;
    const parts = [words(at + LEFT, 20, title, 'class="title"')];
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
        const line = y(top * part).toFixed(1);
        parts.push(`<line x1="${at + LEFT}" x2="${at + WIDTH - RIGHT}" y1="${line}" y2="${line}"/>`);
        parts.push(words(at + LEFT - 6, y(top * part) + 4, String(Number((top * part).toPrecision(3))),
            'text-anchor="end"'));
    }
    clients.forEach((n, i) => parts.push(words(x(i), HEIGHT - BOTTOM + 16, String(n), 'text-anchor="middle"')));
    parts.push(words(at + LEFT + inner / 2, HEIGHT - 8, 'clients', 'text-anchor="middle"'));
    servers.forEach((server, k) => values(server.rows[0]).forEach((_, which) => {
        const points = server.rows.map((row, i) => [x(i), y(values(row)[which])])
            .filter((point) => point.every(Number.isFinite)).map((p) => p.map((n) => n.toFixed(1)).join());
        const dash = which ? ' stroke-dasharray="5 4"' : '';
        parts.push(`<polyline points="${points.join(' ')}" stroke="${COLOURS[k % COLOURS.length]}"${dash}/>`);
    }));
    return parts.join('\n');
}

/** An SVG; a dashed line is the higher percentile. @param {{name: string, rows: any[]}[]} servers */
export function picture(servers) {
    const width = WIDTH * PANELS.length, height = HEIGHT + LEGEND;
    const legend = servers.map((server, k) => words(LEFT + 180 * k, height - 10, server.name,
        `class="title" style="fill: ${COLOURS[k % COLOURS.length]}"`));
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"
viewBox="0 0 ${width} ${height}">
<style>text { font: 12px sans-serif; fill: #51606c } .title { font-weight: bold; fill: #13202b }
line { stroke: #c9d3da } polyline { fill: none; stroke-width: 2 }</style>
<rect width="100%" height="100%" fill="#ffffff"/>
${PANELS.map((one, i) => panel(one, servers, i * WIDTH)).join('\n')}
${legend.join('\n')}
</svg>
`;
}
