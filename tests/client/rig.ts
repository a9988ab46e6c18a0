import * as fs from 'node:fs';
import { join } from 'node:path';
import { type Client, openClient } from '../../src/client/index.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Reply } from '../../src/protocol/session/reply.ts';
import { bootId, processStartTime } from '../../src/store/fs/process-identity.ts';
import { openSessionFolder, type SessionPaths, sessionPaths, sessionTokens } from '../../src/store/index.ts';
import { ownedFolderOf } from '../../src/store/workspace/owner-file.ts';
import { temporaryFolder } from '../support/temporary.ts';

export const now = () => new Date('2026-01-02T03:04:05.678Z');

export type Rig = { client: Client; root: string; session(name: string): SessionPaths };

/** A client of a workspace that is not there yet, and gone after the test. */
export function rig(): Rig {
  const folder = temporaryFolder('client');
  const root = join(folder, 'ws');
  const client = openClient(root, now);
  return { client, root, session: (name) => sessionPaths(client.paths.session(name)) };
}

/** The same, with a session `demo` in which a message waits. */
export async function rigWithMessage(): Promise<Rig & { paths: SessionPaths }> {
  const at = rig();
  await at.client.send('demo', { text: 'x' });
  return { ...at, paths: at.session('demo') };
}

/** Adds to the record of a session, as its daemon would. */
export async function record(paths: SessionPaths, events: EventBody[], clock = now): Promise<void> {
  const store = openSessionFolder(paths.folder, sessionTokens().take('demo'), { now: clock });
  await store.eventLog.append(events);
  await store.eventLog.sync();
  await store.close();
}

/** Makes this very process the daemon of the workspace, as far as anybody can tell from outside. */
export function pretendDaemon({ client }: Rig): void {
  const owner = {
    version: 1,
    pid: process.pid,
    start_time: processStartTime(process.pid),
    boot_id: bootId(),
    host: 'here',
    at: now().toISOString(),
    epoch: 1,
    lock: 'flock',
    folder: ownedFolderOf(client.paths),
  };
  fs.writeFileSync(client.paths.owner, JSON.stringify(owner));
}

export const opened: EventBody = { type: 'session.opened', format: 1, key: 'demo' };
const limits = { iterations: 50, step_iterations: 5 };

export const received = (id: string, text = 'Count the words'): EventBody => ({
  type: 'message.received',
  id,
  name: id,
  body: { text },
  file: { ino: id, mtime_ns: '1', ctime_ns: '1', sha256: id },
});

export const started = (message: string): EventBody => ({ type: 'run.started', message, limits: {}, mode: 'linear' });

export const planned = (id: string, goal: string): EventBody[] => [
  { type: 'plan.started', id, goal, mode: 'linear', limits },
  { type: 'step.added', by: 'model', step: { id: 'step_1', description: `First of ${goal}`, status: 'pending' } },
  { type: 'step.started', step: 'step_1' },
];

/** The run ends, and its reply with it. */
export function ended(message: string, plan: string): EventBody[] {
  const spent = { iterations: 1, tokens: 0, cost: null };
  const reply: Reply = {
    id: message,
    in_reply_to: message,
    session: 'demo',
    status: 'done',
    text: `All of ${message} is done.`,
    reason: 'completed',
    plan: null,
    usage: spent,
    attachments: [],
  };
  return [
    { type: 'step.completed', step: 'step_1', by: 'marker', evidence: '[Done]', result: 'it is done' },
    { type: 'run.ended', message, status: 'done', reason: 'completed', text: reply.text, spent },
    { type: 'plan.ended', plan, status: 'completed', reason: 'all steps are closed' },
    { type: 'reply.committed', message, reply },
    { type: 'reply.published', message, idle: true },
  ];
}
