/**
 * `npm run paths`: the files of `src/` that one warm message goes through, from its file in `inbox/` to its reply in
 * `outbox/`. A real daemon serves a scratch workspace in this process with a model on loopback, and V8's coverage finds
 * the files of which a function ran between the first reply and the second. Threads and child processes are not
 * counted.
 */
import * as fs from 'node:fs';
import { Session } from 'node:inspector/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runDaemon } from '../src/main/run-daemon.ts';
import { openEndpoint } from './bench/endpoint.ts';

const SRC = fileURLToPath(new URL('../src/', import.meta.url));
/** After its reply a session syncs, saves its snapshot and becomes idle. */
const REST_MS = 1500;
const REPLY_WITHIN_MS = 30_000;

const root = fs.mkdtempSync(join(tmpdir(), 'agentd-paths-'));
const session = join(root, '.sessions/demo');
const endpoint = await openEndpoint();
const daemon = await runDaemon({
  root,
  configFile: 'agentd.json',
  flags: { name: 'paths', base_url: endpoint.url },
  logLevel: 'error',
  env: { ...process.env, OPENAI_API_KEY: 'none' },
  onLost: (why) => {
    throw why;
  },
});
const inspector = new Session();
inspector.connect();
try {
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  await answered('1.md');
  await filesRun();
  await sleep(REST_MS);
  const idle = new Set(await filesRun());
  await answered('2.md');
  report(await filesRun(), idle);
} finally {
  inspector.disconnect();
  await daemon.stop();
  endpoint.close();
  fs.rmSync(root, { recursive: true, force: true });
}

/** Drops a message, and resolves once it is answered and the session is idle again. */
async function answered(name: string): Promise<void> {
  fs.mkdirSync(join(session, 'inbox'), { recursive: true });
  fs.writeFileSync(join(session, `.${name}`), 'How many files are there?');
  fs.renameSync(join(session, `.${name}`), join(session, 'inbox', name));
  const end = performance.now() + REPLY_WITHIN_MS;
  while (!fs.existsSync(join(session, 'outbox', name))) {
    if (performance.now() > end) throw new Error(`no reply to ${name} within ${REPLY_WITHIN_MS / 1000} s`);
    await sleep(20);
  }
  await sleep(REST_MS);
}

/** The files of which a function ran since the last call, in order. */
async function filesRun(): Promise<string[]> {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  const run = result.filter(({ functions }) => functions.some(({ ranges }) => ranges.some(({ count }) => count > 0)));
  const paths = run.flatMap(({ url }) => (url.startsWith('file:') ? [fileURLToPath(url)] : []));
  return [...new Set(paths.filter((path) => path.startsWith(SRC)).map((path) => relative(SRC, path)))].sort();
}

function roomOf(path: string): string {
  return path.split('/')[0] ?? '';
}

function report(files: readonly string[], idle: ReadonlySet<string>): void {
  for (const room of new Set(files.map(roomOf))) {
    const own = files.filter((path) => roomOf(path) === room);
    console.log(`${room} (${own.length})\n  ${own.join('\n  ')}`);
  }
  const alsoIdle = files.filter((path) => idle.has(path)).length;
  console.log(`\n${files.length} files; ${alsoIdle} of them also run in an idle daemon within ${REST_MS / 1000} s`);
}
