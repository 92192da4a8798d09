// What the C side must know of a kernel, read from its text: the fields of struct P, bindings, overrides, constants.
import {evaluate} from './evaluate.mjs';
import {bindingsOf, overridesOf} from './specialise.mjs';

const SCALARS = ['u32', 'i32', 'f32'];
const withoutComments = (text) => text.replace(/\/\/[^\n]*/g, '');

// [{name, type}] of struct P.
export function uniformOf(text, file) {
    const body = /\bstruct\s+P\s*\{([^}]*)\}/.exec(withoutComments(text))?.[1];
    if (body === undefined) throw new Error(`${file}: no struct P`);
    return body.split(',').map((field) => field.trim()).filter(Boolean).map((field) => {
        const [, name, type] = /^(\w+)\s*:\s*(\S+)$/.exec(field) ?? [];
        if (!SCALARS.includes(type))
            throw new Error(`${file}: struct P: ${field}: a type of ${SCALARS.join(', ')} expected`);
        return {name, type};
    });
}

// The values of names that stand for expressions, which may name others in any order: has get(name), as evaluate()
// wants.
class Values {
    constructor(expressions) {
        this.expressions = expressions; // a Map
        this.values = new Map();
    }
    get(name) {
        if (!this.values.has(name) && this.expressions.has(name)) {
            this.values.set(name, undefined); // if it names itself
            this.values.set(name, evaluate(this.expressions.get(name), this));
        }
        return this.values.get(name);
    }
}

const constantTexts = (text) =>
    [...withoutComments(text).matchAll(/^const\s+(\w+)\s*(?::\s*\w+\s*)?=\s*([^;]+);/gm)]
        .map(([, name, value]) => [name, value]);

// {NAME: value} of the module's constants that are scalars and do not follow from overrides.
export function constantsOf(text) {
    const texts = constantTexts(text), values = {};
    for (const [name] of texts) {
        try {
            values[name] = new Values(new Map(texts)).get(name);
        } catch {
            continue;
        }
    }
    return values;
}

// The value of every override, {KEY: value}, with those of `given` ({KEY: 'text'}) in place of the defaults.
export function overrideValues(text, file, given = {}) {
    const texts = overridesOf(text).map(({key, value}) => [key, given[key] ?? value])
        .filter(([, value]) => value !== undefined);
    const all = new Values(new Map([...constantTexts(text), ...texts])), values = {};
    for (const [key, value] of texts) {
        try {
            values[key] = all.get(key);
        } catch (error) {
            throw new Error(`${file}: override ${key} = ${error.message}`);
        }
        if (values[key] === undefined) throw new Error(`${file}: override ${key} = ${value}: it names itself`);
    }
    return values;
}

// {file, uniform, bindings: [name of binding 1, ...], overrides: [{key, type}], constants}
export function reflect(text, file) {
    return {
        file,
        uniform: uniformOf(text, file),
        bindings: bindingsOf(text).slice(1).map((b) => b.name),
        overrides: overridesOf(text).map(({key, type}) => ({key, type})),
        constants: constantsOf(text),
    };
}
