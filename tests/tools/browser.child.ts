import { openBrowsers } from '../../src/tools/handover/browsers.ts';

/** Stands for a daemon that is killed: opens a page in a profile, says so, and runs forever. */
const [folder = '', url = ''] = process.argv.slice(2);
const pool = openBrowsers({ env: process.env, log: () => undefined });
const tool = pool.toolFor(folder, () => ({ network: { allow_private: ['127.0.0.1'] } }));
const context = {
  work: '/nowhere',
  folder: '/nowhere',
  signal: new AbortController().signal,
  blob: async () => undefined,
};
await tool.call(JSON.stringify({ action: 'navigate', url }), context);
process.stdout.write('open\n');
setInterval(() => undefined, 1000);
