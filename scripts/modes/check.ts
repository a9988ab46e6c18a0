import * as fs from 'node:fs';
import { join } from 'node:path';
import { rebuildFiles } from '../../src/client/actions/session-admin.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { openWorkspace, sessionPaths } from '../../src/store/index.ts';
import { ofType } from '../crash/check.ts';
import { differences, type Scenario } from './scenario.ts';

const workspaceOf = (root: string) => openWorkspace(root, { now: () => new Date() });

/** The event logs of all sessions by their own reader, which throws for a gap in seq or a wrong crc. */
async function records(root: string): Promise<Map<string, Event[]>> {
  const workspace = workspaceOf(root);
  const all = new Map<string, Event[]>();
  for (const name of workspace.listSessions()) {
    const events: Event[] = [];
    await workspace.readEvents(name, (event) => void events.push(event));
    all.set(name, events);
  }
  return all;
}

/** Whether the scenario is over: the message has its reply, and no session of the family has anything left to do. */
export async function isOver(root: string): Promise<boolean> {
  if (!fs.existsSync(join(root, '.sessions/demo/outbox/1.md'))) return false;
  for (const events of (await records(root)).values()) {
    const last = events.at(-1);
    if (last && !(last.type === 'reply.published' && last.idle) && last.type !== 'child.replied') return false;
  }
  return true;
}

/** All broken promises, as text. The daemon must have ended. */
export async function broken(root: string, scenario: Scenario): Promise<string[]> {
  const all = await records(root);
  const wrong = [...all].flatMap(([name, events]) => inRecord(events).map((one) => `${name}: ${one}`));
  wrong.push(...onceOnly(root), ...ending(root, scenario, all));
  for (const name of all.keys())
    for (const one of await rebuildFiles({ ...sessionPaths(join(root, '.sessions', name)), name }))
      if (one.is !== 'unchanged')
        wrong.push(`rebuild of ${name}: ${one.path} ${one.is}${one.why ? ` (${one.why})` : ''}`);
  return wrong;
}

/** One reply per message; one start per call; one message to the child and one answer of it per attempt of a step. */
function inRecord(events: Event[]): string[] {
  const received = ofType(events, 'message.received').map((event) => event.id);
  const replied = ofType(events, 'reply.committed').map((event) => event.message);
  return [
    ...twice('received', received),
    ...twice('answered', replied),
    ...twice(
      'published',
      ofType(events, 'reply.published').map((event) => event.message),
    ),
    ...twice(
      'started',
      ofType(events, 'tool.started').map((event) => event.call),
    ),
    ...twice(
      'sent',
      ofType(events, 'child.sent').map((event) => event.message),
    ),
    ...twice(
      'received',
      ofType(events, 'child.replied').map((event) => event.message),
    ),
    ...received.filter((id) => !replied.includes(id)).map((id) => `${id} has no reply`),
  ];
}

function twice(what: string, ids: string[]): string[] {
  return ids.filter((id, place) => ids.indexOf(id) !== place).map((id) => `${id} was ${what} twice`);
}

/** Commands of a scenario add each line to `ledger` once, even after kills. */
function onceOnly(root: string): string[] {
  const work = join(root, '.sessions/demo/work');
  const ledgers = fs.existsSync(work)
    ? fs.readdirSync(work, { recursive: true, encoding: 'utf8' }).filter((name) => /(?:^|\/)ledger$/.test(name))
    : [];
  const lines = ledgers.flatMap((name) => fs.readFileSync(join(work, name), 'utf8').split('\n').filter(Boolean));
  return twice('written', lines);
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
