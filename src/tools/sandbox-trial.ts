import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SandboxWish } from '../protocol/config.ts';
import { UserError } from '../protocol/errors.ts';
import { openSandbox } from './sandbox.ts';
import { ESCAPES, type Escape, type Stage } from './sandbox-escapes.ts';
import type { Program } from './sandbox-port.ts';
import { shell } from './shell.ts';

const TIMEOUT_S = 20;

/** What became of a try. `said`: the end of what it printed. */
export type Trial = { way: Escape; held: boolean; said: string };

/**
 * Tries every escape for real, in folders made for it and removed after: no workspace is touched. `mode: none` shows what those that are
 * harmless (`free`) do unheld. The others mount, make devices and fill the machine: without a fence none of them is ever run, not even
 * where "auto" would run a command. Throws UserError where there is no fence.
 */
export async function* tryToEscape(
  env: NodeJS.ProcessEnv,
  { mode, network }: SandboxWish,
  only: (way: Escape) => boolean = () => true,
): AsyncGenerator<Trial> {
  const bait = `bait-${randomBytes(8).toString('hex')}`;
  const server = await serverOf(bait);
  const root = fs.mkdtempSync(join(fs.realpathSync(tmpdir()), 'agentd-escape-'));
  try {
    const stage = stageIn(root, bait, server);
    const own = { ...env, HOME: stage.home, AGENTD_BAIT: bait, BAIT_API_KEY: bait };
    const sandbox = openSandbox({ env: own, hidden: [stage.root] });
    const fence = async (program: Program) => {
      const fenced = await sandbox.around(program, { mode, network }, []);
      if (!fenced && mode !== 'none') throw notTried('its sandbox is gone');
      return fenced;
    };
    const hold = sandbox.hold({ mode });
    if (mode !== 'none' && !hold.held) throw notTried(hold.why);
    const tool = shell({ env: own, fence });
    for (const way of waysTried(mode).filter(only)) yield await tried(way, stage, tool, join(root, `call-${way.name}`));
  } finally {
    server.close();
    fs.rmSync(root, { recursive: true, force: true });
  }
}

/** Unheld only what does no harm. */
export const waysTried = (mode: SandboxWish['mode']): Escape[] => ESCAPES.filter((way) => mode !== 'none' || way.free);

const notTried = (why: string) => new UserError(`No way out was tried, since nothing would hold it: ${why}.`);

async function tried(way: Escape, stage: Stage, tool: ReturnType<typeof shell>, folder: string): Promise<Trial> {
  const before = changeable(stage);
  const args = JSON.stringify({ command: `echo begun\n${way.command(stage)}`, timeout_s: TIMEOUT_S });
  const context = {
    work: join(stage.mine, 'work'),
    folder,
    signal: new AbortController().signal,
    blob: async () => undefined,
  };
  const { text } = await tool.call(args, context);
  const out = text.includes(stage.bait) || /^ESCAPED$/m.test(text) || changeable(stage) !== before;
  return { way, held: !out && text.includes('\nbegun\n'), said: text.slice(-500) };
}

/** A workspace with two sessions, and a home beside it. */
function stageIn(root: string, bait: string, server: Server): Stage {
  const workspace = join(root, 'workspace');
  const [mine, other] = [join(workspace, '.sessions/mine'), join(workspace, '.sessions/other')];
  const home = join(root, 'home');
  for (const folder of [join(mine, 'work'), join(other, 'work'), join(workspace, '.agentd'), join(home, '.ssh')])
    fs.mkdirSync(folder, { recursive: true });
  for (const file of [join(other, 'work/secret'), join(workspace, '.agentd/owner.json'), join(home, '.ssh/id')])
    fs.writeFileSync(file, `${bait}\n`);
  for (const name of ['plan.json', 'events.jsonl']) fs.writeFileSync(join(mine, name), `${bait}\n`);
  fs.symlinkSync('../../other', join(mine, 'work/old-link'));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { root: workspace, mine, other, home, bait, port, pid: process.pid };
}

const changeable = ({ mine }: Stage): string =>
  ['plan.json', 'events.jsonl'].map((name) => fs.readFileSync(join(mine, name), 'utf8')).join('\0');

function serverOf(bait: string): Promise<Server> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.end(`${bait}\n`);
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}
