// For finding kernels that read workgroup memory which they have not written: naga's clearing of it, which the build
// takes out, stays and stores NaNs and large numbers instead of zeros.
import {globalsOf, Op, StorageClass} from './spirv.mjs';

const WORDS = {[Op.TypeInt]: 0xa5a5a5a5, [Op.TypeFloat]: 0x7fc0a5a5};

class Poison {
    constructor(module) {
        this.module = module;
        this.globals = globalsOf(module);
        this.known = new Map();
        this.constants = [];
    }

    add(...instruction) {
        const id = this.module.header[3]++;
        this.constants.push([instruction[0], instruction[1], id, ...instruction.slice(2)]);
        return id;
    }

    composite(type, members) {
        return this.add(Op.ConstantComposite, type, ...members.map((member) => this.of(member)));
    }

    make(type) {
        const [op, , ...a] = this.globals.get(type);
        if (op === Op.TypeBool) return this.add(Op.ConstantTrue, type);
        if (op in WORDS) return this.add(Op.Constant, type, WORDS[op]);
        if (op === Op.TypeStruct) return this.composite(type, a);
        if (op === Op.TypeVector || op === Op.TypeMatrix) return this.composite(type, Array(a[1]).fill(a[0]));
        if (op === Op.TypeArray) return this.composite(type, Array(this.globals.get(a[1])[3]).fill(a[0]));
        throw new Error(`SPIR-V: no poison for type ${type} (opcode ${op})`);
    }

    // The id of the poisoned constant of a type.
    of(type) {
        if (!this.known.has(type)) this.known.set(type, this.make(type));
        return this.known.get(type);
    }
}

export function poisonWorkgroupMemory(module) {
    const poison = new Poison(module), {globals} = poison;
    const isShared = (id) => globals.get(id)?.[3] === StorageClass.Workgroup;
    const clears = ([op, to, value]) => op === Op.Store && isShared(to) && globals.get(value)?.[0] === Op.ConstantNull;
    for (const store of module.instructions.filter(clears)) store[2] = poison.of(globals.get(store[2])[1]);
    module.instructions.splice(module.instructions.findIndex((i) => i[0] === Op.Function), 0, ...poison.constants);
    return poison.known.size;
}
