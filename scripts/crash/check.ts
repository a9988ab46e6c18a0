import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { rebuildFiles } from '../../src/client/actions/rebuild-files.ts';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import type { Event, EventOf, EventType } from '../../src/protocol/session/event.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { openWorkspace } from '../../src/store/index.ts';
import { DROPPED, LEDGER, type Place, TOKEN } from './story.ts';

/** The record as its own reader sees it: seq without gaps, every crc right, or it throws. */
export async function recordOf(there: Place): Promise<Event[]> {
  const events: Event[] = [];
  await openWorkspace(there.root, { now: () => new Date() }).readEvents(
    there.session,
    (event) => void events.push(event),
  );
  return events;
}

/** Whether the story has been told to its end. The inbox first: what leaves it while we look is on record when we read that. */
export async function isOver(there: Place): Promise<boolean> {
  if (fs.readdirSync(there.inbox).some((name) => !name.startsWith('.'))) return false;
  // A save that does not parse may be complained of after the last reply.
  const events = await recordOf(there);
  const last = events.findLast((event) => event.type !== 'plan.edited');
  if (last?.type !== 'reply.published' || !last.idle) return false;
  return !last.plan_behind || isPlanWritten(there, events);
}

function isPlanWritten(there: Place, events: Event[]): boolean {
  const { plan } = events.reduce(reduceEvent, emptySession(there.session));
  return plan !== null && fs.existsSync(there.plan) && fs.readFileSync(there.plan, 'utf8') === formatPlanFile(plan);
}

/** Everything that was promised and does not hold, in words; empty is well. The daemon must have ended. */
export async function broken(there: Place): Promise<string[]> {
  const events = await recordOf(there);
  return [
    ...messages(there, events),
    ...replies(there, events),
    ...calls(there, events),
    ...(await projections(there, events)),
    ...litter(await openedOnce(there)),
  ];
}

export const ofType = <T extends EventType>(events: Event[], type: T) =>
  events.filter((event): event is EventOf<T> => event.type === type);

function messages(there: Place, events: Event[]): string[] {
  const rejected = fs.readdirSync(there.rejected).filter((name) => !name.endsWith('.why.json'));
  return DROPPED.flatMap((name) => {
    const received = ofType(events, 'message.received').filter((event) => event.name === name).length;
    const refused = rejected.filter((one) => one === name).length;
    const waiting = fs.existsSync(join(there.inbox, name));
    const right = name === '4.json' ? received === 0 && refused === 1 : received === 1 && refused === 0;
    return right && !waiting
      ? []
      : [`${name}: received ${received} times, refused ${refused} times${waiting ? ', still in inbox/' : ''}`];
  });
}

function replies(there: Place, events: Event[]): string[] {
  const committed = ofType(events, 'reply.committed');
  const files = [there.outbox, there.outboxRead].flatMap((folder) =>
    fs
      .readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => ({ name: entry.name, text: fs.readFileSync(join(folder, entry.name), 'utf8') })),
  );
  const strangers = files
    .filter((file) => !DROPPED.includes(file.name))
    .map((file) => `a reply to nobody: ${file.name}`);
  return DROPPED.flatMap((name) => {
    const said = committed.filter((event) => event.reply.id === name);
    const there = files.filter((file) => file.name === name);
    if (said.length !== 1 || there.length !== 1)
      return [`${name}: ${said.length} replies on record, ${there.length} files`];
    return said[0] && there[0]?.text !== formatReplyFile(said[0].reply)
      ? [`${name}: its reply is not what was committed`]
      : [];
  }).concat(strangers);
}

/** A command runs at most once; and where it did not run, the record does not say that it went well. */
function calls(there: Place, events: Event[]): string[] {
  const ledger = join(there.work, 'ledger');
  const lines = fs.existsSync(ledger) ? fs.readFileSync(ledger, 'utf8').split('\n').filter(Boolean) : [];
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
      if (call && !end) return [`${line} has no end on record`];
      return ran === 0 && well ? [`${line} did not run, but the record says it went well`] : [];
    }),
  ];
}

async function projections(there: Place, events: Event[]): Promise<string[]> {
  const sessions = [emptySession(there.session)];
  for (const event of events) sessions.push(reduceEvent(sessions.at(-1) ?? emptySession(there.session), event));
  const plan = sessions.at(-1)?.plan;
  const text = fs.existsSync(there.plan) ? fs.readFileSync(there.plan, 'utf8') : undefined;
  const wrong: string[] = [];
  if (!plan || !text) wrong.push(`no plan ${plan ? 'in plan.json' : 'on record'}`);
  else if (text !== formatPlanFile(plan)) wrong.push('plan.json is not the plan of the record');
  else if (!Plan.safeParse(JSON.parse(text)).success) wrong.push('plan.json is not a plan');
  const edited = sessions.some((session) => session.plan?.steps.some((step) => step.description.includes(TOKEN)));
  if (!edited) wrong.push('the hand edit is lost');
  const byHand = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  const words = byHand.flatMap((event) => [...event.changes.map((change) => JSON.stringify(change)), ...event.ignored]);
  const invented = words.filter((word) => !word.includes(TOKEN));
  if (invented.length > 0) wrong.push(`said to be edited by hand, but nobody did: ${invented.join('; ')}`);
  for (const one of await rebuildFiles({ ...there, name: there.session }))
    if (one.is !== 'unchanged') wrong.push(`rebuild: ${one.path} ${one.is}${one.why ? ` (${one.why})` : ''}`);
  return wrong;
}

/** What was left half-made in a session at rest goes when it is opened next, or with the daily sweep. */
async function openedOnce(there: Place): Promise<Place> {
  const workspace = openWorkspace(there.root, { now: () => new Date() });
  await workspace.openSession(there.session).close();
  return there;
}

/** Files with a name for the time being that nothing will take away any more. */
export function litter(there: Place): string[] {
  const names = fs.readdirSync(there.root, { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => /(?:^|\/)\.tmp-|\.tmp\/./.test(name))
    .map((name) => `litter: ${name.replace(/[0-9a-f]{12,}/, '…').replace(/\.\d{6,}$/, '.…')}`);
}

/** Everything in a session that is not thrown away, by path: to be the same after one more start. */
export function everything(there: Place): Map<string, string> {
  const files = fs
    .readdirSync(there.folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name)).filter((path) => path !== there.live);
  return new Map(paths.map((path) => [relative(there.folder, path), fs.readFileSync(path, 'latin1')]));
}
