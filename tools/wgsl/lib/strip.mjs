// A kernel's text as it goes to browsers: without comments, indentation and empty lines. Lines for subgroups alone
// begin with a mark in place of their comment.
export const SUBGROUPS_MARK = '~';

function stripLine(line) {
    const code = line.replace(/\/\/.*$/, '').trim();
    return code && /\/\/ subgroups only\s*$/.test(line) ? SUBGROUPS_MARK + code : code;
}

export function strip(source) {
    if (source.includes('/*')) throw new Error('a comment /* */: comments // expected');
    return source.split('\n').map(stripLine).filter(Boolean).join('\n');
}
