/**
 * `npm run cast`: records `npm run demo` for the front page. Everything shown is printed by the real programs; only the
 * scratch path and the port are replaced, so that two recordings differ in little but their times.
 */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { asciicast } from './cast/asciicast.ts';
import { film, still } from './cast/picture.ts';
import { type Line, record } from './cast/record.ts';
import { wrap } from './cast/terminal.ts';

const AGENTCTL = fileURLToPath(new URL('../dist/agentctl.js', import.meta.url));
const SCRATCH = /\S*\/agentd-demo-\w+/g;
const over = new AbortController();

let workspace = '';
let watching: Promise<Line[]> | undefined;
const demo = await record(['--import', 'tsx', 'scripts/demo.ts'], {
  onLine(text) {
    workspace ||= text.match(SCRATCH)?.[0] ?? '';
    if (workspace) watching ??= watchFromTheStart();
  },
});
over.abort();
const watched = (await watching) ?? [];
cutWhilePaused(join(workspace, '.sessions', 'demo', 'events.jsonl'));
const shown = await record(agentctl('show', 'demo'));
rmSync(workspace, { recursive: true });

const killed = await recordExample('kill-9.sh');
const passedOn = await recordExample('cluster-kill.sh');

const paused = watched.findIndex(({ text }) => text.startsWith('■ paused'));
if (paused < 0) throw new Error('agentctl watch never saw the run pause; is the machine very busy? Try again');
write('docs/demo.cast', asciicast('npm run demo', typed('npm run demo', demo)));
write('docs/demo.svg', film('npm run demo', typed('npm run demo', demo)));
write('docs/show.svg', still('agentctl show', typed('agentctl show demo', shown)));
write('docs/kill.svg', still('kill -9 in the middle of a command', typed('sh examples/kill-9.sh', killed)));
const cluster = typed('sh examples/cluster-kill.sh', passedOn);
write('docs/cluster.cast', asciicast('agentd --cluster-dev, and kill -9 of a worker', cluster));
write('docs/cluster.svg', film('agentd --cluster-dev, and kill -9 of a worker', cluster));
write('docs/watch.svg', still('agentctl watch', typed('agentctl watch demo --follow', watched.slice(0, paused + 1))));

function agentctl(...args: string[]): string[] {
  return [AGENTCTL, ...args, '--workspace', workspace];
}

/** Runs an example with the programs just built. */
async function recordExample(name: string): Promise<Line[]> {
  const folder = mkdtempSync(join(tmpdir(), 'agentd-demo-'));
  try {
    for (const program of ['agentctl', 'agentd']) symlinkSync(resolve(`dist/${program}.js`), join(folder, program));
    const env = { ...process.env, PATH: `${folder}:${process.env['PATH']}` };
    mkdirSync(join(folder, 'ws'), { mode: 0o700 });
    return await record([`examples/${name}`, join(folder, 'ws')], { program: 'sh', env });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Creates the session, so that it can be watched before the demo drops its task. */
function watchFromTheStart(): Promise<Line[]> {
  mkdirSync(join(workspace, '.sessions', 'demo', 'inbox'), { recursive: true });
  return record(agentctl('watch', 'demo', '--follow'), { signal: over.signal });
}

/** Removes the events after the pause, so that `show` prints what it printed while the run was paused. */
function cutWhilePaused(path: string): void {
  const events = readFileSync(path, 'utf8').split('\n');
  const answered = events.findIndex((event) => event.includes('"type":"reply.published"'));
  if (answered < 0) throw new Error('the event log has no published reply, so the demo did not pause half-way');
  writeFileSync(path, `${events.slice(0, answered + 1).join('\n')}\n`);
}

/** The lines as a terminal of our width shows them, below the typed command. */
function typed(command: string, lines: Line[]): Line[] {
  const printed = lines.map(({ at, text }) => ({
    at,
    text: text.replaceAll(SCRATCH, '/tmp/agentd-demo').replace(/(127\.0\.0\.1):\d+/g, '$1:8080'),
  }));
  return [{ at: 0, text: `\u001b[1m$ ${command}\u001b[0m` }, ...printed].flatMap(({ at, text }) =>
    wrap(text).map((row) => ({ at, text: row })),
  );
}

function write(path: string, text: string): void {
  writeFileSync(path, text);
  console.log(`wrote ${path} (${Math.ceil(text.length / 1024)} KB)`);
}
