// The value of a constant expression of WGSL: integers, floats, booleans, names, + - * / %, parentheses, select().
const TOKEN = /\s*(?:(0[xX][0-9a-fA-F.]+(?:p[-+]?\d+)?|\d[\d.]*(?:e[-+]?\d+)?)([iuf]?)|([A-Za-z_]\w*)|([-+*/%(),]))/y;

function tokenize(text) {
    const tokens = [];
    for (TOKEN.lastIndex = 0; TOKEN.lastIndex < text.trimEnd().length;) {
        const at = TOKEN.lastIndex, match = TOKEN.exec(text);
        if (!match) throw new Error(`${text}: unexpected ${JSON.stringify(text.slice(at).trim()[0])}`);
        const [, number, suffix, word, mark] = match;
        tokens.push(number !== undefined ? {number, suffix} : {word, mark});
    }
    return tokens;
}

// A float of WGSL may be hexadecimal with a binary exponent.
function numberOf(text) {
    const match = /^0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)p([-+]?\d+)$/.exec(text);
    if (!match) return Number(text);
    return parseInt(match[1] + match[2], 16) * 2 ** (Number(match[3]) - 4 * match[2].length);
}

class Expression {
    constructor(text, names) {
        this.text = text;
        this.tokens = tokenize(text);
        this.names = names;
        this.at = 0;
    }
    fail(message) {
        throw new Error(`${this.text}: ${message}`);
    }
    // Whether the next token is this mark; it is taken then.
    takes(mark) {
        if (this.tokens[this.at]?.mark !== mark) return false;
        this.at++;
        return true;
    }
    wants(mark) {
        if (!this.takes(mark)) this.fail(`${mark} expected`);
    }
    select() {
        const values = [];
        this.wants('(');
        for (let i = 0; i < 3; i++) {
            if (i > 0) this.wants(',');
            values.push(this.sum());
        }
        this.wants(')');
        return values[2] ? values[1] : values[0];
    }
    factor() {
        if (this.takes('-')) return -this.factor();
        if (this.takes('(')) {
            const value = this.sum();
            this.wants(')');
            return value;
        }
        const {number, word} = this.tokens[this.at++] ?? this.fail('a value expected');
        if (number !== undefined) return numberOf(number);
        if (word === 'true' || word === 'false') return word === 'true';
        if (word === 'select') return this.select();
        return this.names.get(word) ?? this.fail(`${word}: a name that is not known`);
    }
    product() {
        let value = this.factor();
        for (;;) {
            if (this.takes('*')) value *= this.factor();
            else if (this.takes('/')) value = this.quotient(value, this.factor());
            else if (this.takes('%')) value %= this.factor();
            else return value;
        }
    }
    quotient(a, b) {
        return Number.isInteger(a) && Number.isInteger(b) ? Math.trunc(a / b) : a / b;
    }
    sum() {
        let value = this.product();
        for (;;) {
            if (this.takes('+')) value += this.product();
            else if (this.takes('-')) value -= this.product();
            else return value;
        }
    }
}

// The value of the expression; names is a Map from names to values.
export function evaluate(text, names) {
    const expression = new Expression(text, names), value = expression.sum();
    if (expression.at < expression.tokens.length) expression.fail('the end expected');
    return value;
}
