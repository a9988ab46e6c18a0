import * as fs from 'node:fs';
import { join } from 'node:path';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { checkSession, filesIn, leftBehind, ofType, readLog } from '../../tests/promises/session-promises.ts';
import { saidToHaveRun } from '../crash/check.ts';
import { COMMAND_LINES, DROPPED, type ScenarioPaths, TOKEN } from '../crash/scenario.ts';
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
  log: Buffer;
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
    log: sure.bytes.get(nodeAt(whole, `${session}/events.jsonl`) ?? -1) ?? Buffer.alloc(0),
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
  new Map(COMMAND_LINES.map((line) => [line, text.split('\n').filter((one) => one === line).length]));

/** All promises that are broken after the recovery, as text. `found`: the session as the cut left it. */
export async function findViolations(
  paths: ScenarioPaths,
  found: Map<string, string>,
  known: Known,
): Promise<string[]> {
  if (!fs.existsSync(paths.folder)) return known.safe.map((name) => `${name} is lost with the whole session`);
  const hasLog = fs.existsSync(paths.events);
  const events = hasLog ? await readLog(paths.root, paths.session) : [];
  const saved = found.get('plan.json');
  // A person's save that the power cut tore is left as it is, and reported to them.
  const isPlanLeft = saved !== undefined && saved === textIn(paths.plan) && !parses(saved);
  return [
    ...(hasLog ? await checkSession(paths.root, paths.session, { again: 'any', isPlanLeft }) : []),
    ...syncedLog(paths, known),
    ...messages(paths, events, known),
    ...commands(paths, events, found, known),
    ...handEdit(paths, events, saved),
    ...leftBehind(paths.root),
  ];
}

const textIn = (path: string): string | undefined => (fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : undefined);

function syncedLog(paths: ScenarioPaths, known: Known): string[] {
  const bytes = fs.existsSync(paths.events) ? fs.readFileSync(paths.events) : Buffer.alloc(0);
  const kept = bytes.subarray(0, known.log.length).equals(known.log);
  return kept ? [] : ['a synced part of the event log is gone'];
}

/** Safe messages are in the event log and answered; no answer without a message; a reply that could be read is the same. */
function messages(paths: ScenarioPaths, events: Event[], known: Known): string[] {
  const committed = ofType(events, 'reply.committed');
  const received = ofType(events, 'message.received');
  const names = [...DROPPED, PROBE];
  const strangers = received.filter(({ name }) => !names.includes(name)).map(({ name }) => `nobody sent ${name}`);
  const wrong = names.flatMap((name) => {
    const [replied] = committed.filter((event) => event.reply.id === name);
    const times = received.filter((event) => event.name === name).length;
    const safe = known.safe.includes(name) || name === PROBE;
    const read = known.replies.get(name);
    if (times > 1) return [`${name} is in the event log ${times} times`];
    if (safe && !replied) return [`${name} was safe and has no reply`];
    if (read !== undefined && (!replied || formatReplyFile(replied.reply) !== read))
      return [`${name}: a reply that could be read has changed or is gone`];
    return fs.existsSync(join(paths.inbox, name)) ? [`${name} is still in inbox/`] : [];
  });
  return [...wrong, ...strangers];
}

/** A command ran at most once in total; if it never ran, the event log does not say that it succeeded. */
function commands(paths: ScenarioPaths, events: Event[], found: Map<string, string>, known: Known): string[] {
  const executions = join(paths.work, 'executions');
  const before = found.get('work/executions') ?? '';
  const now = fs.existsSync(executions) ? fs.readFileSync(executions, 'latin1') : '';
  const since = counts(now.slice(before.length));
  const started = ofType(events, 'tool.started');
  const ran = COMMAND_LINES.map((line) => ({ line, times: (known.ran.get(line) ?? 0) + (since.get(line) ?? 0) }));
  return [
    ...ran.flatMap(({ line, times }) => {
      if (times > 1) return [`${line} ran ${times} times`];
      return times > 0 && !started.some(({ args }) => args.includes(line))
        ? [`${line} ran, but is not in the event log`]
        : [];
    }),
    ...saidToHaveRun(
      events,
      ran.flatMap(({ line, times }) => (times > 0 ? [line] : [])),
    ),
  ];
}

function handEdit(paths: ScenarioPaths, events: Event[], saved: string | undefined): string[] {
  const edits = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  const changes = edits.flatMap((event) => event.changes.map((change) => JSON.stringify(change)));
  const old = filesIn(paths.planHistory).map(({ text }) => text);
  const isLost = saved?.includes(TOKEN) && parses(saved) && !(JSON.stringify(events) + old.join('\n')).includes(TOKEN);
  return [
    ...changes.filter((change) => !change.includes(TOKEN)).map((change) => `nobody edited by hand: ${change}`),
    ...(isLost ? ['the hand edit is lost'] : []),
  ];
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
