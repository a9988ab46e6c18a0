import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { crc32 } from 'node:zlib';
import { rebuildFiles } from '../../src/client/actions/session-admin.ts';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import type { Event, EventOf, EventType } from '../../src/protocol/session/event.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { resolveCheckpoints } from '../../src/protocol/settings/checkpoint-limits.ts';
import { hashFile } from '../../src/store/checkpoints/contents.ts';
import { listCheckpoints, readManifest } from '../../src/store/checkpoints/manifest-file.ts';
import { scanWork, wayTo } from '../../src/store/checkpoints/scan-work.ts';
import { compareStates, emptyState } from '../../src/store/checkpoints/work-state.ts';
import { sha256Hex } from '../../src/store/fs/file-reads.ts';
import { openWorkspace, type SessionPaths } from '../../src/store/index.ts';
import { folderOf, type Ground, type SessionHistory } from './actions.ts';

/** The record as its own reader sees it: seq without gaps, every crc right, or it throws. */
export async function recordOf({ root }: Pick<Ground, 'root'>, session: string): Promise<Event[]> {
  const events: Event[] = [];
  await openWorkspace(root, { now: () => new Date() }).readEvents(session, (event) => void events.push(event));
  return events;
}

/** Everything that was promised and does not hold, in words; empty is well. The daemon must have ended. */
export async function broken(ground: Ground): Promise<string[]> {
  const wrong: string[] = [];
  const executions = linesIn(ground.executions);
  for (const [session, history] of ground.histories) {
    const paths = folderOf(ground, session);
    try {
      const events = await recordOf(ground, session);
      const found = [
        ...lines(paths),
        ...messages(paths, history, events),
        ...replies(paths, history, events),
        ...calls(events, executions),
        ...plan(paths, history, events),
        ...(await checkpoints(paths, events)),
        ...(await rebuilt(paths, session)),
      ];
      wrong.push(...found.map((what) => `${session}: ${what}`));
    } catch (error) {
      wrong.push(`${session}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  // Over all histories of all sessions, those that were removed too.
  const twice = executions
    .filter((line, at) => executions.indexOf(line) !== at)
    .map((line) => `${line} ran more than once`);
  return [...wrong, ...twice, ...litter(ground)];
}

const ofType = <T extends EventType>(events: Event[], type: T) =>
  events.filter((event): event is EventOf<T> => event.type === type);

/** Read by hand, not by the product: whole lines, crc right, seq without gaps, epochs that never go back. */
function lines({ events }: SessionPaths): string[] {
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

function messages(paths: SessionPaths, { dropped }: SessionHistory, events: Event[]): string[] {
  const received = ofType(events, 'message.received').map((event) => event.name);
  const rejected = fs.readdirSync(paths.rejected).filter((name) => !name.endsWith('.why.json'));
  const waiting = fs.readdirSync(paths.inbox).filter((name) => !name.startsWith('.'));
  return [
    ...dropped.flatMap(({ name, isMessage }) => {
      const taken = received.filter((one) => one === name).length;
      const refused = rejected.filter((one) => one === name).length;
      const right = isMessage ? taken === 1 && refused === 0 : taken === 0 && refused === 1;
      return right ? [] : [`${name}: received ${taken} times, refused ${refused} times`];
    }),
    ...received
      .filter((name) => !dropped.some((one) => one.name === name))
      .map((name) => `a message of nobody: ${name}`),
    ...waiting.map((name) => `${name} is still in inbox/`),
  ];
}

const filesIn = (folder: string) =>
  fs
    .readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ name }) => ({ name, text: fs.readFileSync(join(folder, name), 'utf8') }));

/** One reply in the event log and one file for each message; a second one only for who deleted his, or asked again. */
function replies(paths: SessionPaths, history: SessionHistory, events: Event[]): string[] {
  const committed = ofType(events, 'reply.committed');
  const [out, read] = [filesIn(paths.outbox), filesIn(paths.outboxRead)];
  const wrong: string[] = [];
  for (const { name } of [...out, ...read])
    if (!history.dropped.some((one) => one.name === name)) wrong.push(`a reply to nobody: ${name}`);
  for (const { name } of history.dropped) {
    const replied = committed.filter((event) => event.reply.id === name);
    if (replied.length !== 1) wrong.push(`${name}: ${replied.length} replies in the event log`);
    const files = [...out, ...read].filter((file) => file.name === name);
    if (files.length === 0 && !history.deleted.has(name)) wrong.push(`${name}: no reply file`);
    if (files.length > 1 && !history.again.has(name)) wrong.push(`${name}: a reply that was read came again`);
    for (const { text } of files)
      if (replied[0] && text !== formatReplyFile(replied[0].reply))
        wrong.push(`${name}: its reply is not what was committed`);
  }
  return wrong;
}

const linesIn = (path: string) =>
  fs.existsSync(path) ? fs.readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];

/** A call that is not safe to repeat starts once and ends once; and a line the event log says went well is there. */
function calls(events: Event[], executions: string[]): string[] {
  const started = ofType(events, 'tool.started').filter((event) => event.replay === 'never');
  const ended = [...ofType(events, 'tool.finished'), ...ofType(events, 'tool.interrupted')];
  return started.flatMap(({ call, args }) => {
    const starts = started.filter((event) => event.call === call).length;
    const ends = ended.filter((event) => event.call === call);
    if (starts !== 1 || ends.length !== 1) return [`the call ${call} has ${starts} starts and ${ends.length} ends`];
    const line = /echo (\S+)/.exec(args)?.[1] ?? '';
    const well = ends.some((event) => event.type === 'tool.finished' && event.ok);
    return well && !executions.includes(line) ? [`${line} did not run, but is said to have gone well`] : [];
  });
}

function plan(paths: SessionPaths, history: SessionHistory, events: Event[]): string[] {
  const session = events.reduce(reduceEvent, emptySession('x'));
  const text = fs.existsSync(paths.plan) ? fs.readFileSync(paths.plan, 'utf8') : undefined;
  const wrong: string[] = [];
  if (text !== (session.plan ? formatPlanFile(session.plan) : undefined))
    wrong.push(`plan.json is not the plan of the event log: ${text}`);
  if (text !== undefined && !Plan.safeParse(JSON.parse(text)).success) wrong.push('plan.json is not a plan');
  const kept = fs.readdirSync(paths.plans, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const places = [
    JSON.stringify(events),
    text ?? '',
    ...kept.map((entry) => fs.readFileSync(join(entry.parentPath, entry.name), 'utf8')),
  ];
  for (const token of history.tokens)
    if (!places.some((place) => place.includes(token))) wrong.push(`the save ${token} is lost`);
  const byHand = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  if (history.saves === 0 && byHand.length > 0) wrong.push(`edited by hand, but nobody did: ${JSON.stringify(byHand)}`);
  if (session.run) wrong.push(`the run of ${session.run.message} never ends`);
  return [...wrong, ...session.unanswered.map((id) => `${id} has no reply`)];
}

/** Every checkpoint is whole; and what was last restored, with no work since, is in the folder byte for byte. */
async function checkpoints(paths: SessionPaths, events: Event[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const number of listCheckpoints(paths)) {
    const { state } = await readManifest(paths, number);
    for (const entry of state.entries.values()) {
      if (entry.kind !== 'file') continue;
      const content = fs.readFileSync(join(paths.checkpointContents, entry.sha256));
      if (sha256Hex(content) !== entry.sha256) wrong.push(`checkpoint ${number}: the content of ${entry.path}`);
    }
  }
  const at = events.findLastIndex(({ type }) => type === 'work.restored');
  const restored = events[at];
  const isQuiet = !events.slice(at).some(({ type }) => type === 'tool.started');
  if (restored?.type !== 'work.restored' || restored.fault !== undefined || !isQuiet) return wrong;
  if (restored.paths.length > 0 || wasUndone(events, restored.message)) return wrong;
  const { top, way } = wayTo(paths.work, undefined);
  const signal = new AbortController().signal;
  const now = await scanWork(top, way, { limits: resolveCheckpoints({}), readContent: hashFile, signal });
  const then = restored.checkpoint === 0 ? emptyState() : (await readManifest(paths, restored.checkpoint)).state;
  const differ = compareStates(then, now.state).map(({ key, is }) => `${key} (${is})`);
  return [...wrong, ...(differ.length > 0 ? [`restored from ${restored.checkpoint}, but: ${differ.join(', ')}`] : [])];
}

/** `/undo --files` restores only what its step had changed. */
const wasUndone = (events: Event[], message: string): boolean =>
  events.some(
    (event) => event.type === 'message.received' && event.id === message && /undo/.test(JSON.stringify(event)),
  );

async function rebuilt(paths: SessionPaths, name: string): Promise<string[]> {
  const files = await rebuildFiles({ ...paths, name });
  // A reply that somebody deleted is not there, and rebuilding it is what rebuilding is for.
  return files
    .filter((one) => one.is !== 'unchanged' && !(one.is === 'written' && one.path.startsWith('outbox/')))
    .map((one) => `rebuild: ${one.path} ${one.is}${one.why ? ` (${one.why})` : ''}`);
}

/** Files with a name for the time being that nothing will take away any more. */
function litter({ root }: Ground): string[] {
  const names = fs.readdirSync(root, { recursive: true, encoding: 'utf8' });
  return names.filter((name) => /(?:^|\/)\.tmp-|\.tmp\/./.test(name)).map((name) => `litter: ${name}`);
}

/** Every file of every session by path, to be the same after one more start. */
export function everything({ root }: Pick<Ground, 'root'>): Map<string, string> {
  const sessions = join(root, '.sessions');
  const entries = fs.existsSync(sessions) ? fs.readdirSync(sessions, { recursive: true, withFileTypes: true }) : [];
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(
    paths
      .filter((path) => !path.endsWith('/live'))
      .map((path) => [relative(sessions, path), fs.readFileSync(path, 'latin1')]),
  );
}
