import { spawn } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { setup } from '../support/agentctl.ts';
import { ground, until } from '../support/daemon.ts';
import { temporaryFolder } from '../support/temporary.ts';

/** What only some need, and what takes longer to load than the rest of a short command takes. */
const HEAVY =
  /node_modules\/(?:yargs|openai|playwright-core|linkedom|turndown|unpdf|@modelcontextprotocol|@agentclientprotocol|hono|@hono)\//;
/** What reads events and reduces them to a session's state; a session that has gone on since shows that these paths exist. */
const REDUCERS = /^src\/core\/reducers\//;
const EVENT_FORMATS = /^src\/protocol\/session\/event\.ts$/;
/** A file more is about a millisecond more; today it is 8 and, where something has to be reduced, 11. */
const MOST_FILES = 14;

test('status, list and send load neither yargs nor the client of the model, and few files', async () => {
  const { ctl, root } = setup();
  await ctl(['send', 'demo', 'hello']);
  for (const line of [['status'], ['list'], ['send', 'demo', 'again']]) {
    const { packages, files, sources } = await loadedBy('agentctl', ['--workspace', root, ...line]);
    expect(
      packages.filter((path) => HEAVY.test(path)),
      line[0],
    ).toEqual([]);
    expect(files.length, files.join('\n')).toBeLessThanOrEqual(MOST_FILES);
    expect(sources).toContain(`src/frontends/cli/commands/${line[0]}.ts`);
    expect(sources.filter((path) => REDUCERS.test(path) && line[0] === 'send')).toEqual([]);
  }
  const { packages } = await loadedBy('agentctl', ['--workspace', root, 'show', 'demo']);
  expect(packages.filter((path) => HEAVY.test(path))).toEqual([]);
});

test('an idle session is counted without loading the reducers; one with new events is reduced', async () => {
  const { ctl, root, serve, path } = setup();
  const { child, ended } = await serve('--model', 'runbook');
  expect((await ctl(['send', 'demo', '1. Say it: `echo hi`', '--wait'])).code).toBe(0);
  child.kill('SIGTERM');
  await ended;
  const status = () => loadedBy('agentctl', ['--workspace', root, 'status', '--json']);
  const snapshot = path('.sessions', 'demo', 'snapshot.json');
  expect(existsSync(snapshot)).toBe(true);
  const { child: again, ended: end } = await serve('--model', 'runbook');
  // The daemon says that the settings are valid. Without one, their schema is loaded to check them.
  const idle = await status();
  expect(JSON.parse(idle.out).sessions).toEqual({ total: 1, completed: 1 });
  expect(idle.sources.filter((file) => REDUCERS.test(file) || EVENT_FORMATS.test(file))).toEqual([]);

  // To where a snapshot of an earlier moment would leave it: the event log has gone on since.
  expect((await ctl(['send', 'demo', '1. Fail: `false`', '--wait'])).code).not.toBe(0);
  again.kill('SIGKILL');
  await end;
  const goneOn = await status();
  expect(JSON.parse(goneOn.out).sessions).toEqual({ total: 1, waiting: 1 });
  expect(goneOn.sources.some((file) => REDUCERS.test(file))).toBe(true);
  expect(goneOn.sources.some((file) => EVENT_FORMATS.test(file))).toBe(true);
});

test('agentd is ready without yargs, the client of the model, the browser, MCP and what reads web pages', async () => {
  const { root } = setup();
  const { packages } = await loadedBy('agentd', ['--workspace', root]);
  expect(packages.filter((path) => HEAVY.test(path))).toEqual([]);
  // What only sessions need is a file of its own, which is loaded when the daemon is ready.
  const daemon = readFileSync('dist/agentd/daemon.js', 'utf8');
  expect(daemon).toContain('// src/main/run-daemon.ts');
  expect(daemon).not.toMatch(/^\/\/ src\/(?:core\/(?:reducers|decide|intent)|engine\/loop|models|tools\/toolbox)\//m);
});

test('what an update of the program takes away for a moment is loaded once it is there again', async () => {
  const on = ground();
  const program = temporaryFolder('program');
  cpSync('package.json', join(program, 'package.json'));
  const isNeeded = (path: string) => !/\.map$|^dist\/(?:agentctl|library|web)/.test(path);
  cpSync('dist', join(program, 'dist'), { recursive: true, filter: isNeeded });
  const late = join(program, 'dist/agentd/open-session.js');
  renameSync(late, `${late}.away`);
  on.wrap.push('sh', '-c', `node="$1"; shift 2; exec "$node" ${join(program, 'dist/agentd.js')} "$@"`, 'sh');
  const daemon = await on.start(['--model', 'm', '--base-url', 'http://127.0.0.1:9']);
  on.sh('demo', 'mkdir -p inbox; echo /help > inbox/1.md');
  await until(() => daemon.stderr().includes('open-session.js'), 'the session to fail');
  renameSync(`${late}.away`, late);
  on.sh('demo', 'echo /help > inbox/2.md');
  expect(await on.file('demo', 'outbox/1.md')).toContain('/status');
});

test('every file that a built program finds by its own place is there', () => {
  const built = readdirSync('dist', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'));
  const wanted = built.flatMap((name) => {
    const file = resolve('dist', name);
    const found = readFileSync(file, 'utf8').matchAll(/new URL\("([^"]+)", import\.meta\.url\)/g);
    return Array.from(found, ([, path = '']) => fileURLToPath(new URL(path, pathToFileURL(file))));
  });
  expect(wanted.map((path) => path.split('/').at(-1) || path.split('/').at(-2))).toEqual(
    expect.arrayContaining(['agentd.js', 'docs', 'page-thread.mjs', 'schemas']),
  );
  expect(wanted.filter((path) => !existsSync(path))).toEqual([]);
});

/** Asked for, and done without, where a proxy wants Kerberos. */
const OPTIONAL = 'kerberos';
/** Installed by those who want what they are for. */
const PEERS = ['@chat-adapter/state-memory', 'chat', 'imapflow', 'mailparser', 'nodemailer', 'playwright-core'];

test('the built programs import no package but those that the browser tool and mail need; the library zod besides', () => {
  const { dependencies, peerDependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, object>;
  const imported = (of: (name: string) => boolean) => {
    const built = readdirSync('dist', { recursive: true, encoding: 'utf8' });
    const texts = built
      .filter((name) => /\.m?js$/.test(name) && !name.startsWith('web/') && of(name))
      .map((name) => readFileSync(resolve('dist', name), 'utf8'));
    const found = texts.flatMap((text) => [
      ...text.matchAll(/^(?:import|export) [^"'\n]*["']([^."'][^"']*)["'];$/gm),
      ...text.matchAll(/\bimport\(["']([^."'$][^"']*)["']\)/g),
    ]);
    const names = found.map(([, from = '']) => /^(?:@[^/]+\/)?[^/]+/.exec(from)?.[0] ?? from);
    return [...new Set(names)].filter((name) => !isBuiltin(name) && name !== OPTIONAL);
  };
  const isLibrary = (name: string) => name === 'index.js' || name.startsWith('library/');
  expect(imported((name) => !isLibrary(name)).sort()).toEqual(PEERS);
  expect(imported(isLibrary)).toEqual(['zod']);
  expect([dependencies, peerDependencies].map((names) => Object.keys(names ?? {}))).toEqual([['zod'], PEERS]);
});

test('each package that is inlined has its licence in the notices', () => {
  const built = readdirSync('dist', { recursive: true, encoding: 'utf8' }).filter((name) => /\.m?js$/.test(name));
  const packages = built.flatMap((name) =>
    Array.from(
      readFileSync(resolve('dist', name), 'utf8').matchAll(
        /^\/\/(?:#region)? node_modules\/((?:@[^/\n]+\/)?[^/\n]+)\//gm,
      ),
      ([, name = '']) => name,
    ),
  );
  const notices = readFileSync('dist/THIRD-PARTY-NOTICES.txt', 'utf8');
  expect(packages).toEqual(
    expect.arrayContaining(['zod', 'yargs', 'eventsource-parser', '@modelcontextprotocol/server']),
  );
  expect([...new Set(packages)].filter((name) => !notices.includes(`parts of ${name} `))).toEqual([]);
});

type Loaded = { out: string; packages: string[]; files: string[]; sources: string[] };

/**
 * Runs a built program to its end, agentd until it is ready. What it loaded: files of packages, inlined or not, files of dist, and
 * the sources that stand in those, each under its path.
 */
async function loadedBy(program: 'agentd' | 'agentctl', args: string[]): Promise<Loaded> {
  const reported =
    "export const load = (url, context, next) => { process._rawDebug('LOADS', url); return next(url, context); };";
  const hook = `import { register } from 'node:module'; register("data:text/javascript,${encodeURIComponent(reported)}");`;
  const preload = `data:text/javascript,${encodeURIComponent(hook)}`;
  const child = spawn(process.execPath, ['--import', preload, resolve(`dist/${program}.js`), ...args]);
  onTestFinished(() => void child.kill('SIGKILL'));
  let [out, err] = ['', ''];
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    if (out.startsWith('READY ')) child.kill('SIGTERM');
  });
  await new Promise((ended) => child.once('close', ended));
  const loaded = err
    .split('\n')
    .flatMap((line) => (line.startsWith('LOADS file:') ? [fileURLToPath(line.slice(6))] : []));
  const files = loaded.filter((path) => path.startsWith(resolve('dist')));
  const sources = files.flatMap((path) =>
    Array.from(
      readFileSync(path, 'utf8').matchAll(/^\/\/(?:#region)? (\S+\.[cm]?[jt]s)$/gm),
      ([, source = '']) => source,
    ),
  );
  const packages = [...loaded, ...sources].filter((path) => /(?:^|\/)node_modules\//.test(path));
  return { out, packages, files, sources };
}
