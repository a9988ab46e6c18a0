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
/** Long enough that each timer of an idle daemon fires. */
const IDLE_MS = 12_000;
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
  await functionsRun();
  await sleep(IDLE_MS);
  const idle = await functionsRun();
  await answered('2.md');
  report(await functionsRun(), idle);
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

/** The functions that ran since the last call, as `<file> <function> <place>`. */
async function functionsRun(): Promise<Set<string>> {
  const { result } = await inspector.post('Profiler.takePreciseCoverage');
  const ours = result.filter(({ url }) => url.startsWith('file:') && fileURLToPath(url).startsWith(SRC));
  const names = ours.flatMap(({ url, functions }) =>
    functions
      .filter(({ ranges }) => ranges.some(({ count }) => count > 0))
      .map(
        ({ functionName, ranges }) => `${relative(SRC, fileURLToPath(url))} ${functionName} ${ranges[0]?.startOffset}`,
      ),
  );
  return new Set(names);
}

/** What timers run in an idle daemon is not the message's: a file counts if it ran a function that they do not run. */
function report(run: ReadonlySet<string>, idle: ReadonlySet<string>): void {
  const own = [...run].filter((name) => !idle.has(name)).map((name) => name.split(' ', 1)[0] ?? '');
  const paths = [...new Set(own)].sort();
  console.log(`${paths.join('\n')}\n${paths.length} files`);
}
