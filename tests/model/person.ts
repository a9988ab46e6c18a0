import { randomUUID } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorText, UserError } from '../../src/base/user-error.ts';
import { openClient } from '../../src/client/index.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { dropMessage } from '../../src/store/index.ts';
import { type Dropped, folderOf, type Ground, newHistory, type SessionHistory } from './actions.ts';

/** The session's history; begins one, with its inbox, where there is none. */
function historyOf(ground: Ground, session: string): SessionHistory {
  const history = ground.histories.get(session) ?? newHistory();
  ground.histories.set(session, history);
  fs.mkdirSync(folderOf(ground, session).inbox, { recursive: true });
  return history;
}

/** The way for programs: staged, synced, linked. */
export async function dropSafely(ground: Ground, session: string, dropped: Dropped): Promise<void> {
  const history = historyOf(ground, session);
  await dropMessage(folderOf(ground, session).folder, dropped);
  history.dropped.push(dropped);
}

/** The plain way: the file is there from its first piece on, and open until its last. */
export async function dropSloppily(
  ground: Ground,
  session: string,
  dropped: Dropped,
  pieces: number,
  pauseMs: number,
): Promise<void> {
  const history = historyOf(ground, session);
  const file = fs.openSync(join(folderOf(ground, session).inbox, dropped.name), 'wx');
  const size = Math.ceil(dropped.content.length / pieces);
  for (let from = 0; from < dropped.content.length; from += size) {
    if (from > 0) await sleep(pauseMs);
    fs.writeSync(file, dropped.content.slice(from, from + size));
  }
  fs.closeSync(file);
  history.dropped.push(dropped);
}

/** The same message once more, as a sender does that died before it knew. Nothing where none had an id. */
export async function sendAgain(ground: Ground, session: string, which: number): Promise<void> {
  const history = ground.histories.get(session);
  const ids = history?.dropped.filter(({ content, isMessage }) => isMessage && content.startsWith('{"id"')) ?? [];
  const one = ids[which % Math.max(1, ids.length)];
  if (!one) return;
  history?.again.add(one.name);
  await dropMessage(folderOf(ground, session).folder, { name: `again-${randomUUID()}.msg.json`, content: one.content });
}

export type Way = 'rename' | 'in place';

/** Changes something in the plan that is there; false where there is none to be read. */
export function editPlan(ground: Ground, session: string, token: string, way: Way, what: number): boolean {
  const paths = folderOf(ground, session);
  const plan = planIn(paths.plan);
  const history = ground.histories.get(session);
  if (!plan || !history) return false;
  save(paths.plan, `${JSON.stringify(changed(plan, token, what), null, 2)}\n`, way);
  history.tokens.push(token);
  history.saves++;
  history.spoilt = false;
  return true;
}

/** Adds to what is there, so that a word of an earlier save stays in the file of the next. */
function changed(plan: Plan, token: string, what: number): Plan {
  const at = what % (plan.steps.length + 2);
  if (at === plan.steps.length) return { ...plan, goal: `${plan.goal} ${token}` };
  const fresh = { id: `mine_${token}`, description: `Say ${token}`, status: 'pending' as const };
  if (at > plan.steps.length) return { ...plan, steps: [...plan.steps, fresh] };
  const steps = plan.steps.map((step, place) =>
    place === at ? { ...step, notes: `${step.notes ?? ''} ${token}`.trim() } : step,
  );
  return { ...plan, steps };
}

/** Saves half of what is there. What nobody has read yet of earlier saves, the person takes away himself. */
export function spoilPlan(ground: Ground, session: string, way: Way): void {
  const { plan } = folderOf(ground, session);
  const history = ground.histories.get(session);
  const text = textOf(plan);
  if (!history || text === undefined) return;
  history.tokens = history.tokens.filter((token) => !text.includes(token));
  history.saves++;
  history.spoilt = true;
  save(plan, text.slice(0, Math.floor(text.length / 2)), way);
}

export function save(plan: string, text: string, way: Way): void {
  const written = way === 'in place' ? plan : `${plan}.swp`;
  fs.writeFileSync(written, text);
  if (written !== plan) fs.renameSync(written, plan);
}

/** Marks replies as read, as a frontend does, or deletes them, as it should not. */
export function consume(ground: Ground, session: string, how: 'read' | 'deleted'): void {
  const paths = folderOf(ground, session);
  const history = ground.histories.get(session);
  if (!history || !fs.existsSync(paths.outboxRead)) return;
  const files = fs.readdirSync(paths.outbox, { withFileTypes: true }).filter((entry) => entry.isFile());
  for (const { name } of files) {
    if (how === 'read') fs.renameSync(join(paths.outbox, name), join(paths.outboxRead, name));
    else fs.unlinkSync(join(paths.outbox, name));
    history[how].add(name);
  }
}

/** Removes the session's folder while others may be writing to it. */
export async function removeSession(ground: Ground, session: string): Promise<void> {
  const { folder } = folderOf(ground, session);
  ground.histories.delete(session);
  while (fs.existsSync(folder)) {
    try {
      fs.rmSync(folder, { recursive: true, force: true });
    } catch {
      await sleep(5);
    }
  }
}

/** Makes a session of what one was at a checkpoint, if it has that one, looks whether its files are those, and removes it. */
export async function forkAndCompare(
  real: Ground & { wrong: string[] },
  of: string,
  checkpoint: number,
): Promise<void> {
  const client = openClient(real.root);
  const name = `fork-${randomUUID().slice(0, 8)}`;
  try {
    await client.forkSession(of, String(checkpoint), name);
    const { counts } = await client.diffWork(name, [String(checkpoint), 'now']);
    if (counts.added + counts.changed + counts.removed > 0)
      real.wrong.push(`a fork of ${of} at checkpoint ${checkpoint} has other files: ${JSON.stringify(counts)}`);
  } catch (error) {
    if (!(error instanceof UserError)) real.wrong.push(`a fork of ${of} at ${checkpoint} failed: ${errorText(error)}`);
  }
  await removeSession(real, name);
}

/** Undefined where there is none, be it for an instant. */
export const textOf = (path: string): string | undefined => {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
};

function planIn(path: string): Plan | undefined {
  try {
    return Plan.safeParse(JSON.parse(textOf(path) ?? '')).data;
  } catch {
    return undefined;
  }
}
