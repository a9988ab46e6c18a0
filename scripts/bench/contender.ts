import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Child, startAgentd, startFloor } from './children.ts';
import type { Endpoint, Say } from './endpoint.ts';

const LOOP = new URL('./floor-loop.ts', import.meta.url);
export const TASK = 'Go on until you are told to stop.';
const NOTE = 'A small file, read again and again; nothing in it changes.\n\n';

export const TRUE: Say = { tool: 'shell', args: { command: 'true' } };
/** Reads `note.txt`, which `makeSession` puts there. */
export const READ: Say = { tool: 'read_file', args: { path: 'note.txt' } };

/** Settings that allow the same call any number of times, without a sandbox. */
export const FREE = {
  version: 1,
  sandbox: 'none',
  limits: { repeats: 0, iterations: 1_000_000, step_iterations: 1_000_000 },
};

/** A program that carries out a task, from the message until the model has answered with text. */
export type Contender = Pick<Child, 'stop'> & { run(): Promise<void> };

/** Creates a workspace with this `agentd.json`. */
export function makeWorkspace(folder: string, config: object): string {
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(join(folder, 'agentd.json'), JSON.stringify(config));
  return folder;
}

/** Creates a session's folder with `work/note.txt`. */
export function makeSession(workspace: string, name: string): string {
  const session = join(workspace, '.sessions', name);
  for (const part of ['work', 'inbox/.tmp']) fs.mkdirSync(join(session, part), { recursive: true });
  fs.writeFileSync(join(session, 'work', 'note.txt'), NOTE);
  return session;
}

/** Drops a message safely; returns the time at which it was in place. Its reply is `outbox/<id>.msg.json`. */
export function drop(session: string, id: string, text: string): number {
  const staged = join(session, 'inbox', '.tmp', id);
  fs.writeFileSync(staged, JSON.stringify({ text }));
  const at = performance.now();
  fs.linkSync(staged, join(session, 'inbox', `${id}.msg.json`));
  // The daemon may have removed the staging name already.
  fs.rmSync(staged, { force: true });
  return at;
}

/** Waits for the reply to the message with this id. */
export async function replied(session: string, id: string): Promise<void> {
  while (!fs.existsSync(join(session, 'outbox', `${id}.msg.json`))) await sleep(5);
}

export async function agentd(
  workspace: string,
  endpoint: Endpoint,
  nodeFlags: string[],
  config: object = FREE,
): Promise<Contender> {
  makeWorkspace(workspace, config);
  const daemon = await startAgentd(workspace, endpoint.url, nodeFlags);
  let tasks = 0;
  return {
    async run() {
      const session = makeSession(workspace, `task-${tasks++}`);
      drop(session, 'task', TASK);
      await replied(session, 'task');
    },
    stop: daemon.stop,
  };
}

export async function loop(folder: string, endpoint: Endpoint, keeping: 'bare' | 'durable'): Promise<Contender> {
  const child = await startLoop(folder, endpoint, keeping);
  let setup: ReturnType<Endpoint['setup']> | undefined;
  return {
    async run() {
      // The daemon runs first, because the loops send the same system message and tools as it did.
      setup ??= endpoint.setup();
      await child.ask(JSON.stringify({ ...setup, tasks: [TASK] }));
    },
    stop: child.stop,
  };
}

/** Starts the floor's loop. */
export function startLoop(folder: string, endpoint: Endpoint, keeping: 'bare' | 'durable'): Promise<Child> {
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(join(folder, 'note.txt'), NOTE);
  return startFloor(LOOP, endpoint.url, folder, keeping);
}
