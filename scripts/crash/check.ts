import * as fs from 'node:fs';
import { join } from 'node:path';
import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { openWorkspace } from '../../src/store/index.ts';
import {
  checkSession,
  filesIn,
  leftBehind,
  linesIn,
  ofType,
  ranTwice,
  readLog,
  sessionOf,
} from '../../tests/promises/session-promises.ts';
import { COMMAND_LINES, DROPPED, type ScenarioPaths, TOKEN } from './scenario.ts';

/**
 * Whether the scenario has finished. Checks the inbox first, because messages that leave it meanwhile are then logged.
 */
export async function isOver(paths: ScenarioPaths): Promise<boolean> {
  if (fs.readdirSync(paths.inbox).some((name) => !name.startsWith('.'))) return false;
  // An invalid save may be reported after the last reply.
  const events = await readLog(paths.root, paths.session);
  const last = events.findLast((event) => event.type !== 'plan.edited');
  if (last?.type !== 'reply.published' || !last.idle) return false;
  return !last.plan_behind || isPlanWritten(paths, events);
}

function isPlanWritten(paths: ScenarioPaths, events: Event[]): boolean {
  const { plan } = sessionOf(paths.session, events);
  return plan !== null && fs.existsSync(paths.plan) && fs.readFileSync(paths.plan, 'utf8') === formatPlanFile(plan);
}

/** All broken promises, as text; empty if all hold. The daemon must have ended. */
export async function findViolations(paths: ScenarioPaths): Promise<string[]> {
  const events = await readLog(paths.root, paths.session);
  return [
    ...(await checkSession(paths.root, paths.session)),
    ...messages(paths, events),
    ...commands(paths, events),
    ...handEdit(paths, events),
    ...leftBehind((await openedOnce(paths)).root),
  ];
}

function messages(paths: ScenarioPaths, events: Event[]): string[] {
  const names = filesIn(paths.rejected).map(({ name }) => name);
  const committed = ofType(events, 'reply.committed').map(({ reply }) => reply.id);
  const wrong = DROPPED.flatMap((name) => {
    const received = ofType(events, 'message.received').filter((event) => event.name === name).length;
    const refused = names.filter((one) => one === name).length;
    const waiting = fs.existsSync(join(paths.inbox, name));
    const isRefused = name === '4.json' || wasUnreadable(paths, name);
    const right = isRefused ? received === 0 && refused === 1 : received === 1 && refused === 0;
    const replies = committed.filter((id) => id === name).length;
    return right && !waiting && replies === 1
      ? []
      : [
          `${name}: received ${received}, refused ${refused}, answered ${replies} times${waiting ? ', still in inbox/' : ''}`,
        ];
  });
  return [...wrong, ...committed.filter((id) => !DROPPED.includes(id)).map((id) => `a reply to nobody: ${id}`)];
}

/** Whether the fault was in opening the file itself, since a file that the daemon may not read is refused. */
function wasUnreadable(paths: ScenarioPaths, name: string): boolean {
  const why = join(paths.rejected, `${name}.why.json`);
  return fs.existsSync(why) && fs.readFileSync(why, 'utf8').includes('the daemon cannot read it');
}

/** A command runs at most once, and if it did not run, the event log does not say that it succeeded. */
function commands(paths: ScenarioPaths, events: Event[]): string[] {
  const executions = join(paths.work, 'executions');
  return [...ranTwice(executions), ...saidToHaveRun(events, linesIn(executions))];
}

/** Commands of the scenario that the event log says succeeded, and that left no line. */
export function saidToHaveRun(events: Event[], lines: readonly string[]): string[] {
  return COMMAND_LINES.filter((line) => !lines.includes(line)).flatMap((line) => {
    const call = ofType(events, 'tool.started').find(({ args }) => args.includes(line))?.call;
    const well = ofType(events, 'tool.finished').some((event) => event.call === call && event.ok);
    return well ? [`${line} did not run, but the event log says it succeeded`] : [];
  });
}

function handEdit(paths: ScenarioPaths, events: Event[]): string[] {
  const byHand = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  const words = byHand.flatMap((event) => [...event.changes.map((change) => JSON.stringify(change)), ...event.ignored]);
  const invented = words.filter((word) => !word.includes(TOKEN));
  return [
    ...(sessionOf(paths.session, events).plan ? [] : ['there is no plan in the event log']),
    ...(JSON.stringify(byHand).includes(TOKEN) ? [] : ['the hand edit is lost']),
    ...(invented.length > 0 ? [`said to be edited by hand, but nobody did: ${invented.join('; ')}`] : []),
  ];
}

/** Opens the session once, since that (or the daily sweep) removes unfinished files of an idle session. */
async function openedOnce(paths: ScenarioPaths): Promise<ScenarioPaths> {
  const workspace = openWorkspace(paths.root, { now: () => new Date() });
  await workspace.openSession(paths.session).close();
  return paths;
}
