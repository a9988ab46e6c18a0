import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Event } from '../../src/protocol/session/event.ts';
import { openWorkspace } from '../../src/store/index.ts';
import { checkSession, ranTwice, readLog } from '../../tests/promises/session-promises.ts';
import { differences, type Scenario } from './scenario.ts';

/** The event logs of all sessions of the family. */
async function logs(root: string): Promise<Map<string, Event[]>> {
  const names = openWorkspace(root, { now: () => new Date() }).listSessions();
  const all = new Map<string, Event[]>();
  for (const name of names) all.set(name, await readLog(root, name));
  return all;
}

/** Whether the scenario is over: the message has its reply, and no session of the family has anything left to do. */
export async function isOver(root: string): Promise<boolean> {
  if (!fs.existsSync(join(root, '.sessions/demo/outbox/1.md'))) return false;
  for (const events of (await logs(root)).values()) {
    const last = events.at(-1);
    if (last && !(last.type === 'reply.published' && last.idle) && last.type !== 'child.replied') return false;
  }
  return true;
}

/** All broken promises, as text. The daemon must have ended. */
export async function broken(root: string, scenario: Scenario): Promise<string[]> {
  const all = await logs(root);
  const wrong: string[] = [];
  for (const name of all.keys()) wrong.push(...(await checkSession(root, name)).map((one) => `${name}: ${one}`));
  // Commands of a scenario add each line to `ledger` once, even after kills.
  const work = join(root, '.sessions/demo/work');
  const names = fs.existsSync(work) ? fs.readdirSync(work, { recursive: true, encoding: 'utf8' }) : [];
  for (const name of names) if (/(?:^|\/)ledger$/.test(name)) wrong.push(...ranTwice(join(work, name)));
  return [...wrong, ...ending(root, scenario, all)];
}

/** Compares with the expected end. A call with unknown outcome is reported to the model, and may lead elsewhere. */
function ending(root: string, { expect }: Scenario, all: Map<string, Event[]>): string[] {
  const lost = [...all.values()]
    .flat()
    .some(
      (event) =>
        event.type === 'tool.interrupted' || (event.type === 'child.replied' && event.reply.status === 'failed'),
    );
  const reply = fs.readFileSync(join(root, '.sessions/demo/outbox/1.md'), 'utf8');
  const plan: unknown = JSON.parse(fs.readFileSync(join(root, '.sessions/demo/plan.json'), 'utf8'));
  const wrong = differences(plan, expect.plan);
  if (!reply.includes(`status: ${expect.reply.status}`)) wrong.push(`the reply: ${reply.slice(0, 200)}`);
  if (!reply.includes(expect.reply.text)) wrong.push(`the reply does not say "${expect.reply.text}"`);
  return lost ? [] : wrong;
}
