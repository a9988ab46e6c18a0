import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Event } from '../../src/protocol/session/event.ts';
import { resolveCheckpoints } from '../../src/protocol/settings/checkpoint-limits.ts';
import { rootSessionOf } from '../../src/protocol/workspace/session-names.ts';
import { hashFile } from '../../src/store/checkpoints/contents.ts';
import { readManifest } from '../../src/store/checkpoints/manifest-file.ts';
import { scanWork, wayTo } from '../../src/store/checkpoints/scan-work.ts';
import { compareStates, emptyState } from '../../src/store/checkpoints/work-state.ts';
import { openWorkspace, type SessionPaths } from '../../src/store/index.ts';
import { checkSession, filesIn, leftBehind, linesIn, ofType, ranTwice, readLog } from '../promises/session-promises.ts';
import { folderOf, type Ground, type SessionHistory } from './actions.ts';

/** Everything that was promised and does not hold, in words; empty is well. The daemon must have ended. */
export async function broken(ground: Ground): Promise<string[]> {
  const wrong: string[] = [];
  const executions = linesIn(ground.executions);
  for (const [session, history] of ground.histories) {
    const paths = folderOf(ground, session);
    try {
      const events = await readLog(ground.root, session);
      const found = [
        ...(await checkSession(ground.root, session, history)),
        ...messages(paths, history, events),
        ...commands(events, executions),
        ...saves(paths, history, events),
        ...(await restored(paths, events)),
      ];
      wrong.push(...found.map((what) => `${session}: ${what}`));
    } catch (error) {
      wrong.push(`${session}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  for (const name of openWorkspace(ground.root, { now: () => new Date() }).listSessions())
    if (name !== rootSessionOf(name) && ground.histories.has(rootSessionOf(name)))
      wrong.push(...(await checkSession(ground.root, name)).map((what) => `${name}: ${what}`));
  // Over all histories of all sessions, those that were removed too.
  return [...wrong, ...ranTwice(ground.executions), ...leftBehind(ground.root)];
}

/** Each dropped file is one message with one reply, or was refused; there is no other message or reply. */
function messages(paths: SessionPaths, { dropped }: SessionHistory, events: Event[]): string[] {
  const received = ofType(events, 'message.received').map((event) => event.name);
  const committed = ofType(events, 'reply.committed').map(({ reply }) => reply.id);
  const rejected = fs.readdirSync(paths.rejected).filter((name) => !name.endsWith('.why.json'));
  const waiting = fs.readdirSync(paths.inbox).filter((name) => !name.startsWith('.'));
  const times = (all: string[], name: string) => all.filter((one) => one === name).length;
  return [
    ...dropped.flatMap(({ name, isMessage }) => {
      const [taken, refused, replied] = [times(received, name), times(rejected, name), times(committed, name)];
      const right = isMessage ? taken === 1 && refused === 0 : taken === 0 && refused === 1;
      return right && replied === 1
        ? []
        : [`${name}: received ${taken}, refused ${refused}, answered ${replied} times`];
    }),
    ...[...received, ...committed]
      .filter((name) => !dropped.some((one) => one.name === name))
      .map((name) => `a message of nobody: ${name}`),
    ...waiting.map((name) => `${name} is still in inbox/`),
  ];
}

/** A line that the event log says was written is there. */
function commands(events: Event[], executions: string[]): string[] {
  const well = ofType(events, 'tool.finished').filter(({ ok }) => ok);
  return ofType(events, 'tool.started').flatMap(({ call, args }) => {
    // A command in the background may be ended before its line.
    const [, line] = (args.includes('"background":true') ? null : /echo (\S+) >>/.exec(args)) ?? [];
    const isSaid = line !== undefined && well.some((event) => event.call === call);
    return isSaid && !executions.includes(line) ? [`${line} did not run, but is said to have gone well`] : [];
  });
}

/** No save of a person is lost, and none is invented. */
function saves(paths: SessionPaths, history: SessionHistory, events: Event[]): string[] {
  const kept = fs.readdirSync(paths.plans, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const places = [
    JSON.stringify(events),
    ...filesIn(join(paths.plan, '..')).flatMap(({ name, text }) => (name === 'plan.json' ? [text] : [])),
    ...kept.map((entry) => fs.readFileSync(join(entry.parentPath, entry.name), 'utf8')),
  ];
  const lost = [...history.tokens].filter((token) => !places.some((place) => place.includes(token)));
  const byHand = ofType(events, 'plan.edited').filter((event) => event.by === 'person');
  const isInvented = history.saves === 0 && byHand.length > 0;
  return [
    ...lost.map((token) => `the save ${token} is lost`),
    ...(isInvented ? [`edited by hand, but nobody did: ${JSON.stringify(byHand)}`] : []),
  ];
}

/** What was last restored, with no work since, is in the folder byte for byte. */
async function restored(paths: SessionPaths, events: Event[]): Promise<string[]> {
  const at = events.findLastIndex(({ type }) => type === 'work.restored');
  const last = events[at];
  const isQuiet = !events.slice(at).some(({ type }) => type === 'tool.started');
  if (last?.type !== 'work.restored' || last.fault !== undefined || !isQuiet) return [];
  if (last.paths.length > 0 || wasUndone(events, last.message)) return [];
  const { top, way } = wayTo(paths.work, undefined);
  const signal = new AbortController().signal;
  const now = await scanWork(top, way, { limits: resolveCheckpoints({}), readContent: hashFile, signal });
  const then = last.checkpoint === 0 ? emptyState() : (await readManifest(paths, last.checkpoint)).state;
  const differ = compareStates(then, now.state).map(({ key, is }) => `${key} (${is})`);
  return differ.length > 0 ? [`restored from ${last.checkpoint}, but: ${differ.join(', ')}`] : [];
}

/** `/undo --files` restores only what its step had changed. */
const wasUndone = (events: Event[], message: string): boolean =>
  events.some(
    (event) => event.type === 'message.received' && event.id === message && /undo/.test(JSON.stringify(event)),
  );
