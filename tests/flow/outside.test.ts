import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';
import { odd } from '../tools/mcp-setup.ts';
import { hasSandbox } from '../tools/sandbox.ts';

const call = (name: string, args: object) => ({ name, args: JSON.stringify(args) });

type Process = { pid: number; parent: number; name: string; cwd: string; space: string; env: string };

/** A daemon and all that descends from it, as far as /proc tells. */
function familyOf(daemon: number): Process[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const known = all.map(Number).map(processAt);
  const family = new Set([daemon]);
  for (let size = 0; size < family.size; ) {
    size = family.size;
    for (const { pid, parent } of known) if (family.has(parent)) family.add(pid);
  }
  return known.filter(({ pid }) => family.has(pid));
}

function processAt(pid: number): Process {
  const readOr = (ask: () => string) => {
    try {
      return ask();
    } catch {
      return '';
    }
  };
  const text = (name: string) => readOr(() => readFileSync(`/proc/${pid}/${name}`, 'utf8'));
  const stat = text('stat');
  return {
    pid,
    parent: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]),
    name: text('cmdline').replaceAll('\0', ' '),
    cwd: readOr(() => readlinkSync(`/proc/${pid}/cwd`)),
    space: readOr(() => readlinkSync(`/proc/${pid}/ns/pid`)),
    env: text('environ').replaceAll('\0', '\n'),
  };
}

test.runIf(hasSandbox)(
  'nothing that runs outside of the sandbox is in work/ or looks there for programs, not even where the daemon was started there',
  async () => {
    const server = await modelServer([
      { text: '', calls: [call('shell', { command: 'sleep 120', background: true })] },
      { text: '', calls: [call('mcp__free__echo', { text: 'x' })] },
      { text: '', calls: [call('shell', { command: 'touch begun; sleep 120' })] },
      { text: 'Done.' },
    ]);
    const on = ground();
    on.config({
      ...{ sandbox: 'bwrap', approvals: 'auto' },
      mcpServers: { free: { command: odd().command, args: odd().args, sandbox: 'none' }, sandboxed: odd() },
    });
    const work = join(on.session('demo'), 'work');
    const bin = join(work, 'node_modules/.bin');
    mkdirSync(bin, { recursive: true });
    const ran = join(on.root, 'ran');
    for (const name of ['flock', 'perl', 'sh', 'bash', 'sleep', 'head', 'dd', 'bwrap', 'env', 'node', 'find'])
      writeFileSync(join(bin, name), `#!/bin/sh\necho ${name} >>'${ran}'\n`, { mode: 0o755 });
    on.wrap.push('/bin/sh', '-c', 'cd "$0" && export PATH="$1:.:$PATH" && shift && exec "$@"', work, bin);
    const daemon = await on.start(server.flags);
    on.sh('demo', 'mkdir -p inbox; echo "go" > inbox/1.md');
    await until(() => existsSync(join(work, 'begun')), 'the command');
    const own = readlinkSync('/proc/self/ns/pid');
    const outside = familyOf(daemon.process.pid ?? 0).filter(({ space }) => space === own);
    for (const program of ['agentd-fork-server', 'agentd-job', 'bwrap', 'mcp-server.mjs', 'agentd-guard'])
      expect(outside.filter(({ name }) => name.includes(program)).length, program).toBeGreaterThan(0);
    for (const { name, cwd, env } of outside) {
      // The daemon keeps the environment it was started with where /proc shows it; what it starts does not get it.
      const words = name.includes('--workspace') ? '' : env;
      expect(`${name.slice(0, 80)}: ${cwd} ${words}`).not.toContain('.sessions/demo/work');
    }
    expect(existsSync(ran), existsSync(ran) ? readFileSync(ran, 'utf8') : '').toBe(false);
  },
  60_000,
);
