import { builtinTools, createToolbox, openSandbox } from '../../src/tools/index.ts';

// Runs one command in a folder as a daemon would that was started with a descriptor of something, and prints its result.
const [root = '', mode, command = ''] = process.argv.slice(2);
const of = openSandbox({ env: process.env, hidden: [root] });
const wish = { mode: mode === 'none' ? ('none' as const) : ('auto' as const), network: false };
const box = createToolbox(builtinTools({ readAlso: [], sandbox: { of, settings: () => wish } }));
const call = { name: 'shell', args: JSON.stringify({ command }) };
const context = { work: `${root}/work`, folder: `${root}/call`, signal: new AbortController().signal };
console.log((await box.run(call, { ...context, blob: async () => undefined })).text);
