import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { rebuildFiles } from '../../src/client/actions/session-admin.ts';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import type { Event, EventOf, EventType } from '../../src/protocol/session/event.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { openWorkspace } from '../../src/store/index.ts';
import { DROPPED, LEDGER, type ScenarioPaths, TOKEN } from './scenario.ts';

/** The event log by its own reader, which throws for a gap in seq or a wrong crc. */
export async function readEvents(paths: ScenarioPaths): Promise<Event[]> {
  const events: Event[] = [];
  await openWorkspace(paths.root, { now: () => new Date() }).readEvents(
    paths.session,
    (event) => void events.push(event),
  );
  return events;
}

/**
 * Whether the scenario has finished. Checks the inbox first, because messages that leave it meanwhile are then logged.
 */
export async function isOver(paths: ScenarioPaths): Promise<boolean> {
  if (fs.readdirSync(paths.inbox).some((name) => !name.startsWith('.'))) return false;
  // An invalid save may be reported after the last reply.
  const events = await readEvents(paths);
  const last = events.findLast((event) => event.type !== 'plan.edited');
  if (last?.type !== 'reply.published' || !last.idle) return false;
  return !last.plan_behind || isPlanWritten(paths, events);
}

function isPlanWritten(paths: ScenarioPaths, events: Event[]): boolean {
  const { plan } = events.reduce(reduceEvent, emptySession(paths.session));
  return plan !== null && fs.existsSync(paths.plan) && fs.readFileSync(paths.plan, 'utf8') === formatPlanFile(plan);
}

/** All broken promises, as text; empty if all hold. The daemon must have ended. */
export async function findViolations(paths: ScenarioPaths): Promise<string[]> {
  const events = await readEvents(paths);
  return [
    ...messages(paths, events),
    ...replies(paths, events),
    ...calls(paths, events),
    ...(await projections(paths, events)),
    ...findStagingFiles(await openedOnce(paths)),
  ];
}

export const ofType = <T extends EventType>(events: Event[], type: T) =>
  events.filter((event): event is EventOf<T> => event.type === type);

function messages(paths: ScenarioPaths, events: Event[]): string[] {
  const rejected = fs.readdirSync(paths.rejected).filter((name) => !name.endsWith('.why.json'));
  return DROPPED.flatMap((name) => {
    const received = ofType(events, 'message.received').filter((event) => event.name === name).length;
    const refused = rejected.filter((one) => one === name).length;
    const waiting = fs.existsSync(join(paths.inbox, name));
    const isRefused = name === '4.json' || wasUnreadable(paths, name);
    const right = isRefused ? received === 0 && refused === 1 : received === 1 && refused === 0;
    return right && !waiting
      ? []
      : [`${name}: received ${received} times, refused ${refused} times${waiting ? ', still in inbox/' : ''}`];
  });
}

/** Whether the fault was in opening the file itself, since a file that the daemon may not read is refused. */
function wasUnreadable(paths: ScenarioPaths, name: string): boolean {
  const why = join(paths.rejected, `${name}.why.json`);
  return fs.existsSync(why) && fs.readFileSync(why, 'utf8').includes('the daemon cannot read it');
}

function replies(paths: ScenarioPaths, events: Event[]): string[] {
  const committed = ofType(events, 'reply.committed');
  const files = [paths.outbox, paths.outboxRead].flatMap((folder) =>
    fs
      .readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => ({ name: entry.name, text: fs.readFileSync(join(folder, entry.name), 'utf8') })),
  );
  const strangers = files
    .filter((file) => !DROPPED.includes(file.name))
    .map((file) => `a reply to nobody: ${file.name}`);
  return DROPPED.flatMap((name) => {
    const replied = committed.filter((event) => event.reply.id === name);
    const written = files.filter((file) => file.name === name);
    if (replied.length !== 1 || written.length !== 1)
      return [`${name}: ${replied.length} replies in the event log, ${written.length} files`];
    return replied[0] && written[0]?.text !== formatReplyFile(replied[0].reply)
      ? [`${name}: its reply is not what was committed`]
      : [];
  }).concat(strangers);
}

/** A command runs at most once, and if it did not run, the event log does not say that it succeeded. */
function calls(paths: ScenarioPaths, events: Event[]): string[] {
  const executions = join(paths.work, 'executions');
  const lines = fs.existsSync(executions) ? fs.readFileSync(executions, 'utf8').split('\n').filter(Boolean) : [];
  const started = ofType(events, 'tool.started').filter((event) => event.replay === 'never');
  const ended = [...ofType(events, 'tool.finished'), ...ofType(events, 'tool.interrupted')];
  const twice = new Set(started.map((event) => event.call)).size !== started.length;
  return [
    ...(twice ? ['a call was started twice'] : []),
    ...LEDGER.flatMap((line) => {
      const ran = lines.filter((one) => one === line).length;
      const call = started.find((event) => event.args.includes(line));
      const end = ended.find((event) => event.call === call?.call);
      const well = end?.type === 'tool.finished' && end.ok;
      if (ran > 1) return [`${line} ran ${ran} times`];
      if (call && !end) return [`${line} has no end in the event log`];
      return ran === 0 && well ? [`${line} did not run, but the event log says it succeeded`] : [];
    }),
  ];
}

async function projections(paths: ScenarioPaths, events: Event[]): Promise<string[]> {
  const sessions = [emptySession(paths.session)];
  for (const event of events) sessions.push(reduceEvent(sessions.at(-1) ?? emptySession(paths.session), event));
  const plan = sessions.at(-1)?.plan;
  const text = fs.existsSync(paths.plan) ? fs.readFileSync(paths.plan, 'utf8') : undefined;
  const wrong: string[] = [];
  if (!plan || !text) wrong.push(`no plan ${plan ? 'in plan.json' : 'in the event log'}`);
  else if (text !== formatPlanFile(plan)) wrong.push('plan.json is not the plan in the event log');
  else if (!Plan.safeParse(JSON.parse(text)).success) wrong.push('plan.json is not a plan');
  const edited = sessions.some((session) => session.plan?.steps.some((step) => step.description.includes(TOKEN)));
  if (!edited) wrong.push('the hand edit is lost');
  const byHand = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  const words = byHand.flatMap((event) => [...event.changes.map((change) => JSON.stringify(change)), ...event.ignored]);
  const invented = words.filter((word) => !word.includes(TOKEN));
  if (invented.length > 0) wrong.push(`said to be edited by hand, but nobody did: ${invented.join('; ')}`);
  for (const one of await rebuildFiles({ ...paths, name: paths.session }))
    if (one.is !== 'unchanged') wrong.push(`rebuild: ${one.path} ${one.is}${one.why ? ` (${one.why})` : ''}`);
  return wrong;
}

/** Opens the session once, since that (or the daily sweep) removes unfinished files of an idle session. */
async function openedOnce(paths: ScenarioPaths): Promise<ScenarioPaths> {
  const workspace = openWorkspace(paths.root, { now: () => new Date() });
  await workspace.openSession(paths.session).close();
  return paths;
}

/** Temporary files that nothing will remove any more. */
export function findStagingFiles(paths: ScenarioPaths): string[] {
  const names = fs.readdirSync(paths.root, { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => /(?:^|\/)\.tmp-|\.tmp\/./.test(name))
    .map((name) => `litter: ${name.replace(/[0-9a-f]{12,}/, '…').replace(/\.\d{6,}$/, '.…')}`);
}

/** All lasting files of a session by path, which must be the same after one more start. */
export function readSessionFiles(paths: ScenarioPaths): Map<string, string> {
  const files = fs
    .readdirSync(paths.folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile());
  const kept = files.map((entry) => join(entry.parentPath, entry.name)).filter((path) => path !== paths.live);
  return new Map(kept.map((path) => [relative(paths.folder, path), fs.readFileSync(path, 'latin1')]));
}
