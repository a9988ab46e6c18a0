import * as fs from 'node:fs';
import { join } from 'node:path';
import { rebuildFiles } from '../../src/client/actions/session-admin.ts';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { sha256Hex } from '../../src/store/fs/file-reads.ts';
import { findStagingFiles, ofType, readEvents } from '../crash/check.ts';
import { DROPPED, LEDGER, type ScenarioPaths, TOKEN } from '../crash/scenario.ts';
import { type Disk, nodeAt, treeAt } from './disk.ts';

/** One more message after the power cut, to check that the session still works. */
export const PROBE = 'after.msg.md';

/** What people and commands had done and seen before the power cut. */
export type Known = {
  /** Messages whose sender knew them to be safe: by a synced drop, or because the file had left the inbox. */
  safe: string[];
  /** Replies that somebody may have read. */
  replies: Map<string, string>;
  /** How often each command had run. */
  ran: Map<string, number>;
  /** The event log as far as it was synced. */
  record: Buffer;
};

/** What was known at a power cut before call `cut`; `session` is the session's folder in the workspace. */
export function knownAt(disk: Disk, cut: number, session: string): Known {
  const whole = treeAt(disk, cut, () => 'kept');
  const sure = treeAt(disk, cut, () => 'lost');
  const bytesAt = (path: string) => whole.bytes.get(nodeAt(whole, `${session}/${path}`) ?? -1);
  const replies = DROPPED.flatMap((name): Array<[string, string]> => {
    const bytes = bytesAt(`outbox/${name}`) ?? bytesAt(`outbox/read/${name}`);
    return bytes ? [[name, bytes.toString()]] : [];
  });
  return {
    safe: safeAt(disk, cut),
    replies: new Map(replies),
    ran: counts(bytesAt('work/executions')?.toString() ?? ''),
    record: sure.bytes.get(nodeAt(whole, `${session}/events.jsonl`) ?? -1) ?? Buffer.alloc(0),
  };
}

function safeAt(disk: Disk, cut: number): string[] {
  const linked = new Set<string>();
  const safe = new Set<string>();
  for (const call of disk.calls.slice(0, cut)) {
    const inbox = 'path' in call ? /^(.*\/inbox)(?:\/([^/]+))?$/ : /^(.*\/inbox)\/([^/]+)$/;
    const [, , name = ''] = inbox.exec('path' in call ? call.path : call.is === 'move' ? call.from : call.to) ?? [];
    if (call.is === 'link' && name !== '') linked.add(name);
    if (call.is === 'move' && name !== '') safe.add(name);
    if (call.is === 'sync' && call.path.endsWith('/inbox')) for (const one of linked) safe.add(one);
  }
  return DROPPED.filter((name) => safe.has(name));
}

const counts = (text: string) =>
  new Map(LEDGER.map((line) => [line, text.split('\n').filter((one) => one === line).length]));

/** All promises that are broken after the recovery, as text. `found`: the session as the cut left it. */
export async function findViolations(
  paths: ScenarioPaths,
  found: Map<string, string>,
  known: Known,
): Promise<string[]> {
  if (!fs.existsSync(paths.folder)) return known.safe.map((name) => `${name} is lost with the whole session`);
  const events = fs.existsSync(paths.events) ? await readEvents(paths) : [];
  return [
    ...record(paths, known),
    ...messages(paths, events, known),
    ...calls(paths, events, found, known),
    ...(await plan(paths, events, found)),
    ...blobs(paths, events),
    ...findStagingFiles(paths),
  ];
}

/** Blobs in the event log exist, and have the hash in their name. */
function blobs(paths: ScenarioPaths, events: Event[]): string[] {
  const hashes = [...JSON.stringify(events).matchAll(/"blob":"([0-9a-f]{64})"/g)].map(([, hash = '']) => hash);
  return hashes.flatMap((hash) => {
    const path = join(paths.blobs, hash);
    if (!fs.existsSync(path)) return ['a blob of the event log is missing'];
    return sha256Hex(fs.readFileSync(path)) === hash ? [] : ['a blob of the event log is damaged'];
  });
}

function record(paths: ScenarioPaths, known: Known): string[] {
  const bytes = fs.existsSync(paths.events) ? fs.readFileSync(paths.events) : Buffer.alloc(0);
  const kept = bytes.subarray(0, known.record.length).equals(known.record);
  return kept ? [] : ['a synced part of the event log is gone'];
}

/** Each message is logged at most once and answered as often; safe messages are logged; no answer without a message. */
function messages(paths: ScenarioPaths, events: Event[], known: Known): string[] {
  const committed = ofType(events, 'reply.committed');
  const received = ofType(events, 'message.received');
  const files = [paths.outbox, paths.outboxRead].flatMap((folder) =>
    fs
      .readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => ({ name: entry.name, text: fs.readFileSync(join(folder, entry.name), 'utf8') })),
  );
  const names = [...DROPPED, PROBE];
  const strangers = [...received.map((event) => event.name), ...files.map((file) => file.name)]
    .filter((name) => !names.includes(name))
    .map((name) => `nobody sent ${name}`);
  const wrong = names.flatMap((name) => {
    const waiting = fs.existsSync(join(paths.inbox, name)) ? [`${name} is still in inbox/`] : [];
    const replied = committed.filter((event) => event.reply.id === name);
    const texts = new Set(files.filter((file) => file.name === name).map((file) => file.text));
    const times = received.filter((event) => event.name === name).length;
    const safe = known.safe.includes(name) || name === PROBE;
    const read = known.replies.get(name);
    if (times > 1) return [`${name} is in the event log ${times} times`];
    if (safe && replied.length === 0) return [`${name} was safe and has no reply`];
    if (replied.length > 1 || texts.size !== replied.length || times > replied.length)
      return [`${name}: received ${times} times, ${replied.length} replies in the event log, ${texts.size} files`];
    const [one] = replied;
    const right = one ? formatReplyFile(one.reply) : undefined;
    if (right !== undefined && !texts.has(right)) return [`${name}: its reply is not what was committed`];
    if (read !== undefined && right !== read) return [`${name}: a reply that could be read has changed or is gone`];
    return waiting;
  });
  return [...wrong, ...strangers];
}

/** A command ran at most once in total; if it never ran, the event log does not say that it succeeded. */
function calls(paths: ScenarioPaths, events: Event[], found: Map<string, string>, known: Known): string[] {
  const executions = join(paths.work, 'executions');
  const before = found.get('work/executions') ?? '';
  const now = fs.existsSync(executions) ? fs.readFileSync(executions, 'latin1') : '';
  const since = counts(now.slice(before.length));
  const started = ofType(events, 'tool.started').filter((event) => event.replay === 'never');
  const ended = [...ofType(events, 'tool.finished'), ...ofType(events, 'tool.interrupted')];
  const twice = new Set(started.map((event) => event.call)).size !== started.length;
  return [
    ...(twice ? ['a call was started twice'] : []),
    ...LEDGER.flatMap((line) => {
      const ran = (known.ran.get(line) ?? 0) + (since.get(line) ?? 0);
      const call = started.find((event) => event.args.includes(line));
      const end = ended.find((event) => event.call === call?.call);
      if (ran > 1) return [`${line} ran ${ran} times`];
      if (ran > 0 && !call) return [`${line} ran, but is not in the event log`];
      if (call && !end) return [`${line} has no end in the event log`];
      return ran === 0 && end?.type === 'tool.finished' && end.ok ? [`${line} did not run, but is said to have`] : [];
    }),
  ];
}

async function plan(paths: ScenarioPaths, events: Event[], found: Map<string, string>): Promise<string[]> {
  let session = emptySession(paths.session);
  for (const event of events) session = reduceEvent(session, event);
  const text = fs.existsSync(paths.plan) ? fs.readFileSync(paths.plan, 'utf8') : undefined;
  const saved = found.get('plan.json');
  // A person's save that the power cut tore is left as it is, and reported to them.
  const isTorn = saved !== undefined && saved === text && !parses(saved);
  const wrong: string[] = [];
  if (!isTorn && text !== (session.plan ? formatPlanFile(session.plan) : undefined))
    wrong.push(
      `plan.json is not the plan in the event log (${text === undefined ? 'missing' : `${text.length} characters`})`,
    );
  const edits = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  const invented = edits.flatMap((event) => event.changes.map((change) => JSON.stringify(change)));
  for (const one of invented.filter((change) => !change.includes(TOKEN))) wrong.push(`nobody edited by hand: ${one}`);
  if (saved?.includes(TOKEN) && parses(saved) && !everySave(paths, events).includes(TOKEN))
    wrong.push('the hand edit is lost');
  for (const one of await rebuildFiles({ ...paths, name: paths.session }))
    if (one.is !== 'unchanged' && !(isTorn && one.is === 'left'))
      wrong.push(`rebuild: ${one.path} ${one.is}${one.why ? ` (${one.why})` : ''}`);
  return wrong;
}

function everySave(paths: ScenarioPaths, events: Event[]): string {
  const old = fs.readdirSync(paths.planHistory).map((name) => fs.readFileSync(join(paths.planHistory, name), 'utf8'));
  return JSON.stringify(events) + old.join('\n');
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
