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
        if (!SCALARS.includes(type)) throw new Error(`${file}: struct P: ${field}: a type of ${SCALARS.join(', ')} expected`);
        return {name, type};
    });
}

// {NAME: value} of the module's integer constants whose values are literals or follow from those.
export function constantsOf(text) {
    const names = new Map();
    for (const [, name, value] of withoutComments(text).matchAll(/^const\s+(\w+)\s*(?::\s*\w+\s*)?=\s*([^;]+);/gm)) {
        try {
            names.set(name, evaluate(value, names));
        } catch {
            continue; // it follows from an override, or is no scalar
        }
    }
    return Object.fromEntries(names);
}

// The value of every override, {KEY: value}, with those of `given` ({KEY: 'text'}) in place of the defaults.
export function overrideValues(text, file, given = {}) {
    const names = new Map(Object.entries(constantsOf(text))), values = {};
    for (const {key, value} of overridesOf(text)) {
        const expression = given[key] ?? value;
        if (expression === undefined) continue;
        try {
            values[key] = evaluate(expression, names);
        } catch (error) {
            throw new Error(`${file}: override ${key} = ${error.message}`);
        }
        names.set(key, values[key]);
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
