import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sessionStatus } from '../../src/core/session/session-queries.ts';
import { rootSessionOf, sessionPaths } from '../../src/store/index.ts';
import { save, textOf } from '../../tests/model/person.ts';
import { perform, type SessionHistory } from './perform.ts';
import { openIn, type Recorded, type recordsOf } from './sessions.ts';

/**
 * A family hangs if it logs nothing for this long although something is open and nothing is scheduled. After several
 * kills in a row, the daemon waits some seconds and opens sessions one at a time.
 */
const HANG_MS = 45_000;
const SETTLE_MS = 240_000;
const LOOK_MS = 400;
/** How often a person continues a run that has stopped before cancelling it. */
const PATIENCE = 5;

const GENEROUS = { iterations: 40, tokens: null, minutes: null, cost: null, step_minutes: null, steps: 4 };

type Records = ReturnType<typeof recordsOf>;
type Family = { history: SessionHistory; root: Recorded; all: Recorded[]; sent: number };

/**
 * Brings everything to an end with a healthy endpoint: people repair what they broke, answer questions and continue
 * idle runs. Returns what does not end, as text; empty if all ended.
 */
export async function settle(root: string, histories: readonly SessionHistory[], records: Records): Promise<string[]> {
  for (const history of histories) await repair(history);
  const sent = new Map<string, number>();
  const began = performance.now();
  for (;;) {
    await sleep(LOOK_MS);
    const all = await records.all();
    const families = histories.flatMap((history): Family[] => {
      const own = all.filter(({ name }) => rootSessionOf(name) === history.name);
      const top = own.find(({ name }) => name === history.name);
      return top ? [{ history, root: top, all: own, sent: sent.get(history.name) ?? 0 }] : [];
    });
    const open = families.map((family) => ({ family, left: leftIn(root, family) }));
    const hanging = open.filter(({ family, left }) => left.length > 0 && isStill(family, began));
    const late = performance.now() - began > SETTLE_MS;
    if (hanging.length > 0 || late)
      return (late ? open : hanging).flatMap(({ left }) => left.map((one) => `does not come to its end: ${one}`));
    let isBusy = families.length < histories.filter(({ dropped }) => dropped.length > 0).length;
    for (const { family, left } of open) {
      const answered = await approve(root, family);
      const went = left.length === 0 && (await goOn(family));
      if (went) sent.set(family.history.name, family.sent + 1);
      if (left.length > 0 || went || answered) isBusy = true;
    }
    if (!isBusy) return [];
  }
}

const leftIn = (root: string, { all }: Family): string[] =>
  all.flatMap((one) =>
    openIn(one, sessionPaths(join(root, '.sessions', one.name)).inbox).map((what) => `${one.name}: ${what}`),
  );

/** Whether the family has logged nothing for long, and nothing is scheduled. */
function isStill({ all }: Family, began: number): boolean {
  const since = Math.max(began, ...all.map(({ changedMs }) => changedMs));
  const due = all.some(
    ({ session }) => Date.parse(session.run?.failure?.last.retry_at ?? '') > Date.now() - HANG_MS / 2,
  );
  return !due && performance.now() - since > HANG_MS;
}

/** Repairs the files that people broke. An idle session reads them with the next message. */
async function repair(history: SessionHistory): Promise<void> {
  if (history.unbroken !== null) await perform(history, { do: 'plan', edit: { what: 'repair', at: 0, how: 'rename' } });
  if (fs.existsSync(history.paths.settings)) await perform(history, { do: 'settings', text: '{ "version": 1 }\n' });
  if (history.dropped.length > 0)
    await perform(history, { do: 'message', name: 'last.md', content: '/status', way: 'mv' });
}

/** Allows waiting calls in all sessions of the family. */
async function approve(root: string, { all }: Family): Promise<boolean> {
  let any = false;
  for (const { name, session } of all) {
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
async function goOn({ history, root: { session }, sent }: Family): Promise<boolean> {
  const now = sessionStatus(session);
  if ((now !== 'paused' && now !== 'waiting') || sent > PATIENCE) return false;
  const id = `${history.name}-last-${sent}`;
  const message =
    sent === PATIENCE
      ? { id, command: 'cancel' }
      : now === 'waiting' && session.question
        ? { id, text: 'the first' }
        : { id, command: 'continue', options: { limits: GENEROUS } };
  return perform(history, { do: 'message', name: `${id}.msg.json`, content: JSON.stringify(message), way: 'link', id });
}
