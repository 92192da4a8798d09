// Adapters of the bundled model for tests, trained on the spot.
import { execFileSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { program, root } from './server.mjs';

/** Trains an adapter on a text: its path, a name in the folder. */
export function trainAdapter(folder, name, text) {
    const out = join(folder, name), data = join(folder, `${name}.txt`);
    writeFileSync(data, text.repeat(4));
    execFileSync(program, ['finetune', '-m', join(root, 'models', 'stories.gguf'), '--data', data, '-o', out, '--lora',
        '2', '--steps', '2', '--lr', '0.05'], { stdio: 'ignore' });
    return existsSync(join(out, 'adapter_model.safetensors')) ? out : `${out}.gguf`;
}
