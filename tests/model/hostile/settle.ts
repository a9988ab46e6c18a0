import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { messageStanding } from '../../../src/core/session/session-queries.ts';
import type { Session } from '../../../src/core/session/session-state.ts';
import type { Event } from '../../../src/protocol/session/event.ts';
import { rootSessionOf } from '../../../src/protocol/workspace/session-names.ts';
import { sessionPaths } from '../../../src/store/index.ts';
import { readLog, sessionOf } from '../../promises/session-promises.ts';
import type { Ground } from '../actions.ts';
import { dropSafely, save, textOf } from '../person.ts';

/**
 * A family hangs if it logs nothing for this long although something is open and nothing is scheduled. After several
 * kills in a row, the daemon waits some seconds and opens sessions one at a time.
 */
const HANG_MS = 45_000;
const SETTLE_MS = 240_000;
const LOOK_MS = 200;
/** How often a person continues a run that has stopped before cancelling it. */
const PATIENCE = 5;

const GENEROUS = { iterations: 40, tokens: null, minutes: null, cost: null, step_minutes: null, steps: 4 };

type Logged = { name: string; events: Event[]; session: Session; changedMs: number };

/**
 * Brings everything to an end with a healthy endpoint: people answer questions, allow calls, and continue or cancel
 * runs that have stopped. Returns what does not end, as text; empty if all ended.
 */
export async function settleFamilies(ground: Ground): Promise<string[]> {
  const read = logReader(ground.root);
  const sent = new Map<string, number>();
  const began = performance.now();
  for (;;) {
    await sleep(LOOK_MS);
    const all = await read();
    const families = [...ground.histories.keys()].map((root) => all.filter(({ name }) => rootSessionOf(name) === root));
    const open = families.map((family) => ({ family, left: leftIn(ground.root, family) }));
    const hanging = open.filter(({ family, left }) => left.length > 0 && isStill(family, began));
    const late = performance.now() - began > SETTLE_MS;
    if (hanging.length > 0 || late)
      return (late ? open : hanging).flatMap(({ left }) => left.map((one) => `does not come to its end: ${one}`));
    let isBusy = false;
    for (const { family, left } of open) {
      const answered = approve(ground.root, family);
      const went = left.length === 0 && (await goOn(ground, family, sent));
      if (left.length > 0 || went || answered) isBusy = true;
    }
    if (!isBusy) return [];
  }
}

/** Reads the event logs of all sessions, child sessions too; each again only if it changed. */
function logReader(root: string): () => Promise<Logged[]> {
  const known = new Map<string, Logged & { stamp: string }>();
  const sessions = join(root, '.sessions');
  return async () => {
    for (const name of fs.existsSync(sessions) ? fs.readdirSync(sessions) : []) {
      const stat = fs.statSync(sessionPaths(join(sessions, name)).events, { throwIfNoEntry: false });
      const stamp = `${stat?.ino} ${stat?.size} ${stat?.mtimeMs}`;
      if (name.startsWith('.') || !stat || known.get(name)?.stamp === stamp) continue;
      const events = await readLog(root, name);
      known.set(name, { name, events, session: sessionOf(name, events), stamp, changedMs: performance.now() });
    }
    return [...known.values()];
  };
}

const leftIn = (root: string, family: readonly Logged[]): string[] =>
  family.flatMap((one) => openIn(one, sessionPaths(join(root, '.sessions', one.name)).inbox));

/** What is open in a session, as text; empty if it is idle. */
function openIn({ name, session, events }: Logged, inbox: string): string[] {
  const waiting = fs.existsSync(inbox) ? fs.readdirSync(inbox).filter((file) => !file.startsWith('.')) : [];
  const open = [
    ...waiting.map((file) => `${file} is in inbox/`),
    ...(session.run ? [`its run (of ${session.run.message}) is on`] : []),
    ...session.unanswered.map((id) => `${id} has no reply`),
    ...Object.keys(session.unpublishedReplies).map((id) => `the reply to ${id} is not in outbox/`),
  ];
  const last = JSON.stringify(events.at(-1) ?? null).slice(0, 300);
  return (open.length > 0 ? [...open, `last event: ${last}`] : []).map((what) => `${name}: ${what}`);
}

/** Whether the family has logged nothing for long, and nothing is scheduled. */
function isStill(family: readonly Logged[], began: number): boolean {
  const since = Math.max(began, ...family.map(({ changedMs }) => changedMs));
  const due = family.some(
    ({ session }) => Date.parse(session.run?.failure?.last.retry_at ?? '') > Date.now() - HANG_MS / 2,
  );
  return !due && performance.now() - since > HANG_MS;
}

/** Allows every call that waits. */
function approve(root: string, family: readonly Logged[]): boolean {
  let any = false;
  for (const { name, session } of family) {
    const { open } = session.approvals;
    const path = join(sessionPaths(join(root, '.sessions', name)).approvals, `${open?.id}.json`);
    const text = open ? textOf(path) : undefined;
    if (!text?.includes('"decision": null')) continue;
    save(path, text.replace('"decision": null', '"decision": "allow"'), 'rename');
    any = true;
  }
  return any;
}

/** Sends what a person would send to a stopped run: an answer, "continue", and finally a cancel. */
async function goOn(ground: Ground, family: readonly Logged[], sent: Map<string, number>): Promise<boolean> {
  const root = family.find(({ name }) => name === rootSessionOf(name));
  const times = sent.get(root?.name ?? '') ?? 0;
  const now = root && messageStanding(root.session);
  if (!root || (now !== 'paused' && now !== 'waiting') || times > PATIENCE) return false;
  const id = `${root.name}-last-${times}`;
  const message =
    times === PATIENCE
      ? { id, command: 'cancel' }
      : now === 'waiting' && root.session.question
        ? { id, text: 'the first' }
        : { id, command: 'continue', options: { limits: GENEROUS } };
  const name = `${id}.msg.json`;
  await dropSafely(ground, root.name, { name, content: JSON.stringify(message), isMessage: true });
  sent.set(root.name, times + 1);
  return true;
}
