import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { crc32 } from 'node:zlib';
import { sha256 } from '../../src/base/sha256.ts';
import { rebuildFiles } from '../../src/client/actions/session-admin.ts';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import type { Event, EventOf, EventType } from '../../src/protocol/session/event.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { listCheckpoints, readManifest } from '../../src/store/checkpoints/manifest-file.ts';
import { openWorkspace, type SessionPaths, sessionPaths } from '../../src/store/index.ts';
import { changedEnds } from './ended-steps.ts';

/** What people did that explains a difference. */
export type Excuses = {
  /** Replies that somebody deleted, by file name. */
  deleted?: ReadonlySet<string>;
  /** Whether a reply that was read may be there a second time: one of these names, or any. */
  again?: ReadonlySet<string> | 'any';
  /** `plan.json` was saved as something that is no plan, and is left as it is. */
  isPlanLeft?: boolean;
};

export const ofType = <T extends EventType>(events: readonly Event[], type: T): Array<EventOf<T>> =>
  events.filter((event): event is EventOf<T> => event.type === type);

/** Those that are there more than once, each named once. */
export const repeated = (all: readonly string[]): string[] => [
  ...new Set(all.filter((one, at) => all.indexOf(one) !== at)),
];

/** The event log by its own reader, which throws for a gap in seq or a wrong crc. */
export async function readLog(root: string, session: string): Promise<Event[]> {
  const events: Event[] = [];
  await openWorkspace(root, { now: () => new Date() }).readEvents(session, (event) => void events.push(event));
  return events;
}

export const sessionOf = (name: string, events: readonly Event[]): Session =>
  events.reduce(reduceEvent, emptySession(name));

/**
 * Everything that is promised of any session at rest and does not hold in its folder, as text; empty if all does. The
 * daemon must have ended.
 */
export async function checkSession(root: string, name: string, excuses: Excuses = {}): Promise<string[]> {
  const paths = sessionPaths(join(root, '.sessions', name));
  const events = await readLog(root, name);
  return [
    ...checkLines(paths),
    ...checkLog(events),
    ...replyFiles(paths, events, excuses),
    ...planFile(paths, sessionOf(name, events), excuses),
    ...blobs(paths, events),
    ...(await checkpoints(paths)),
    ...(await rebuilt(paths, name, excuses)),
    ...changedEnds({ name, events }),
  ];
}

/** What the events of a session at rest must be, wherever they are kept. */
export function checkLog(events: readonly Event[]): string[] {
  const received = ofType(events, 'message.received').map(({ id }) => id);
  const committed = ofType(events, 'reply.committed').map(({ message }) => message);
  const session = sessionOf('session', events);
  return [
    ...repeated(received).map((id) => `${id} was received twice`),
    ...repeated(committed).map((id) => `${id} was answered twice`),
    ...repeated(ofType(events, 'reply.published').map(({ message }) => message)).map(
      (id) => `${id} was published twice`,
    ),
    ...repeated(ofType(events, 'child.sent').map(({ message }) => message)).map(
      (id) => `${id} was sent to a child twice`,
    ),
    ...repeated(ofType(events, 'child.replied').map(({ message }) => message)).map(
      (id) => `a child answered ${id} twice`,
    ),
    ...received.filter((id) => !committed.includes(id)).map((id) => `${id} has no reply`),
    ...calls(events),
    ...(session.run ? [`the run of ${session.run.message} never ends`] : []),
    ...(session.plan?.status === 'running' ? ['its plan is "running" though nothing runs'] : []),
  ];
}

/** A call that is not safe to repeat begins and ends once; no call succeeds that never began. */
function calls(events: readonly Event[]): string[] {
  const started = ofType(events, 'tool.started');
  const unsafe = started.filter(({ replay }) => replay === 'never').map(({ call }) => call);
  const ended = [...ofType(events, 'tool.finished'), ...ofType(events, 'tool.interrupted')].map(({ call }) => call);
  const begun = new Set(started.map(({ call }) => call));
  return [
    ...repeated(unsafe).map((call) => `the call ${call} was begun twice`),
    ...repeated(ended).map((call) => `the call ${call} ended twice`),
    ...unsafe.filter((call) => !ended.includes(call)).map((call) => `the call ${call} has no end`),
    ...ofType(events, 'tool.finished')
      .filter(({ call, ok }) => ok && !begun.has(call))
      .map(({ call }) => `the call ${call} went well, but never began`),
  ];
}

/** Read by hand, not by the product: whole lines, crc right, seq without gaps, epochs that never go back. */
function checkLines({ events }: SessionPaths): string[] {
  const wrong: string[] = [];
  let [seq, epoch] = [0, 0];
  const text = fs.readFileSync(events, 'utf8');
  if (!text.endsWith('\n')) wrong.push('the event log has no end');
  for (const line of text.split('\n').slice(0, -1)) {
    const head = line.slice(0, -18);
    const envelope: { seq: number; epoch: number; crc: string } = JSON.parse(line);
    if (envelope.crc !== crc32(head).toString(16).padStart(8, '0')) wrong.push(`wrong crc: ${line.slice(0, 80)}`);
    if (seq > 0 && envelope.seq !== seq + 1) wrong.push(`event ${envelope.seq} follows event ${seq}`);
    if (envelope.epoch < epoch) wrong.push(`event ${envelope.seq} is of an earlier owner than the one before`);
    [seq, epoch] = [envelope.seq, envelope.epoch];
  }
  return wrong;
}

/** Each committed reply is a file with its bytes; no other file is in `outbox/`. */
function replyFiles(paths: SessionPaths, events: readonly Event[], { deleted, again }: Excuses): string[] {
  const committed = new Map(ofType(events, 'reply.committed').map(({ reply }) => [reply.id, formatReplyFile(reply)]));
  const files = [...filesIn(paths.outbox), ...filesIn(paths.outboxRead)];
  const twice = repeated(files.map(({ name }) => name));
  return [
    ...files.flatMap(({ name, text }) => {
      const right = committed.get(name);
      if (right === undefined) return [`a reply to nobody: ${name}`];
      return text === right ? [] : [`${name}: its reply is not what was committed`];
    }),
    ...[...committed.keys()]
      .filter((id) => !deleted?.has(id) && !files.some(({ name }) => name === id))
      .map((id) => `${id}: no reply file`),
    ...(again === 'any' ? [] : twice.filter((name) => !again?.has(name))).map(
      (name) => `${name}: a reply that was read came again`,
    ),
  ];
}

export const filesIn = (folder: string): Array<{ name: string; text: string }> =>
  (fs.existsSync(folder) ? fs.readdirSync(folder, { withFileTypes: true }) : [])
    .filter((entry) => entry.isFile())
    .map(({ name }) => ({ name, text: fs.readFileSync(join(folder, name), 'utf8') }));

/** `plan.json` is the plan of the event log. */
function planFile(paths: SessionPaths, { plan }: Session, { isPlanLeft }: Excuses): string[] {
  const text = fs.existsSync(paths.plan) ? fs.readFileSync(paths.plan, 'utf8') : undefined;
  if (isPlanLeft || text === (plan ? formatPlanFile(plan) : undefined))
    return isPlanLeft || text === undefined || Plan.safeParse(JSON.parse(text)).success ? [] : ['plan.json is no plan'];
  return [`plan.json is not the plan of the event log: ${text?.slice(0, 2000) ?? 'it is missing'}`];
}

/** Blobs that the log names exist, and have the hash in their name. */
function blobs({ blobs }: SessionPaths, events: readonly Event[]): string[] {
  const hashes = [...JSON.stringify(events).matchAll(/"blob":"([0-9a-f]{64})"/g)].map(([, hash = '']) => hash);
  return hashes.flatMap((hash) => {
    const path = join(blobs, hash);
    if (!fs.existsSync(path)) return ['a blob of the event log is missing'];
    return sha256(fs.readFileSync(path)) === hash ? [] : ['a blob of the event log is damaged'];
  });
}

async function checkpoints(paths: SessionPaths): Promise<string[]> {
  const wrong: string[] = [];
  for (const number of listCheckpoints(paths))
    for (const entry of (await readManifest(paths, number)).state.entries.values())
      if (
        entry.kind === 'file' &&
        sha256(fs.readFileSync(join(paths.checkpointContents, entry.sha256))) !== entry.sha256
      )
        wrong.push(`checkpoint ${number}: the content of ${entry.path}`);
  return wrong;
}

/** Rebuilding the files from the log changes nothing but what people deleted or broke. */
async function rebuilt(paths: SessionPaths, name: string, { deleted, isPlanLeft }: Excuses): Promise<string[]> {
  const files = await rebuildFiles({ ...paths, name });
  return files
    .filter(({ is, path }) => is !== 'unchanged' && !(isPlanLeft && path === 'plan.json'))
    .filter(({ is, path }) => !(is === 'written' && deleted?.has(relative('outbox', path))))
    .map(({ path, is, why }) => `rebuild: ${path} ${is}${why ? ` (${why})` : ''}`);
}

/** Lines that commands wrote more than once, in a file where each writes a line of its own. */
export const ranTwice = (executions: string): string[] =>
  repeated(linesIn(executions)).map((line) => `${line} ran more than once`);

export const linesIn = (path: string): string[] =>
  fs.existsSync(path) ? fs.readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];

/**
 * Temporary files that nothing will remove any more. Those of senders in `inbox/.tmp/`, and sessions that were being
 * made or removed when a daemon was killed, are removed once they are old.
 */
export function leftBehind(root: string): string[] {
  const names = fs.readdirSync(root, { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => !name.startsWith('.sessions/.tmp-') && /(?:^|\/)\.tmp-|(?<!inbox\/)\.tmp\/./.test(name))
    .map((name) => `left behind: ${name.replace(/[0-9a-f]{12,}/, '…').replace(/\.\d{6,}$/, '.…')}`);
}

/** Every lasting file below a folder by path, to be the same after one more start. */
export function lastingFiles(folder: string): Map<string, string> {
  const entries = fs.existsSync(folder) ? fs.readdirSync(folder, { recursive: true, withFileTypes: true }) : [];
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    paths
      .filter((path) => !path.endsWith('/live'))
      .map((path) => [relative(folder, path), fs.readFileSync(path, 'latin1')]),
  );
}

/** The files that differ between two looks. */
export const changedFiles = (before: Map<string, string>, after: Map<string, string>): string[] =>
  [...new Set([...before.keys(), ...after.keys()])]
    .filter((path) => before.get(path) !== after.get(path))
    .map((path) => `one more start changed ${path}`);
