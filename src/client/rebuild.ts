import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { replyText } from '../core/reply.ts';
import type { Session } from '../core/session.ts';
import { planText } from '../core/steps.ts';
import type { Event } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import type { Plan } from '../protocol/plan.ts';
import type { Reply } from '../protocol/reply.ts';
import { ownFolder } from '../store/durable.ts';
import { ifThere } from '../store/errors.ts';
import { glimpse } from '../store/glimpse.ts';
import type { SessionPaths } from '../store/layout.ts';
import { openOutbox } from '../store/outbox.ts';
import { openPlanFile } from '../store/plan-file.ts';
import { replaceFile } from '../store/replace-file.ts';
import { removedBefore } from '../store/retention.ts';
import { foldersOf } from '../store/session-folder.ts';
import { planFileProblem } from './plan-on-disk.ts';
import { foldWhole } from './whole-meaning.ts';

/** What became of one file. `as it was`: its bytes were right. `left`: it is a person's, or its place is taken. */
export type Rebuilt = { path: string; is: 'written' | 'removed' | 'as it was' | 'left'; why?: string };

/**
 * Writes every projection of a record anew, byte for byte: `plan.json`, the plans that left it, and replies that are in neither
 * `outbox/` nor `outbox/read/`. A hand edit that was not taken in is left. The caller sees to it that no run is on, and says
 * whether it is `alone`: a daemon may have the session open all the same.
 */
export async function rebuild(
  paths: SessionPaths & { name: string },
  { alone = true }: { alone?: boolean } = {},
): Promise<Rebuilt[]> {
  for (const folder of foldersOf(paths.folder)) ownFolder(folder);
  const file = openPlanFile(paths, () => performance.now(), { alone });
  const seen = await file.look();
  const replay = replayOf(seen.is === 'edited' ? seen.saves : []);
  const session = await foldWhole(paths, replay.read);
  const { left, published, unknown } = replay.result();
  for (const save of replay.known()) file.accept(save);
  return [
    ...(await putPlan(paths, file, session, unknown, left)),
    ...(await putPlans(paths, left)),
    ...(await putReplies(paths, published)),
  ].map((one) => ({ ...one, path: relative(paths.folder, one.path) }));
}

type Published = { reply: Reply; at: string };

/** Reads a record for what left traces outside it. `saves` are texts of `plan.json` to be told apart: ours or a person's. */
function replayOf(saves: string[]) {
  const left = new Map<string, Plan>();
  const published: Published[] = [];
  const unknown = new Set(saves);
  return {
    read(event: Event, before: Session, { plan }: Session): void {
      if (before.plan && before.plan.id !== plan?.id) left.set(before.plan.id, before.plan);
      if (plan && plan !== before.plan && unknown.size > 0) unknown.delete(planText(plan));
      const reply = event.type === 'reply.published' ? own(before.unpublished, event.message) : undefined;
      if (reply) published.push({ reply, at: event.at });
    },
    known: () => saves.filter((save) => !unknown.has(save)),
    result: () => ({ left, published, unknown }),
  };
}

/** Why a hand edit is left: the daemon takes it in, or cannot. */
function editAt(path: string): Rebuilt {
  const problem = planFileProblem(path);
  const why = problem
    ? `a hand edit that cannot be read: ${problem}`
    : 'a hand edit; the daemon takes it in at its next look';
  return { path, is: 'left', why };
}

async function putPlan(
  { plan: path }: SessionPaths,
  file: ReturnType<typeof openPlanFile>,
  { plan }: Session,
  unknown: ReadonlySet<string>,
  left: ReadonlyMap<string, Plan>,
): Promise<Rebuilt[]> {
  const before = await file.look();
  if (before.is === 'blocked') return [{ path, is: 'left', why: before.why }];
  const there = glimpse(path, undefined, 0)?.text;
  const wanted = plan ? planText(plan) : undefined;
  if (there === wanted) return there === undefined ? [] : [{ path, is: 'as it was' }];
  if (unknown.size > 0) return [editAt(path)];
  if (wanted !== undefined) {
    const seen = await file.write(wanted);
    return [seen.is === 'edited' || seen.is === 'blocked' ? editAt(path) : { path, is: 'written' }];
  }
  const last = [...left.values()].at(-1);
  if (!last) return [{ path, is: 'left', why: 'the record holds no plan' }];
  await file.archive(last.id, planText(last));
  return [{ path, is: 'removed', why: `the plan it shows is in plans/${last.id}.json` }];
}

async function putPlans(paths: SessionPaths, left: ReadonlyMap<string, Plan>): Promise<Rebuilt[]> {
  const rebuilt: Rebuilt[] = [];
  for (const plan of left.values()) {
    const path = join(paths.plans, `${plan.id}.json`);
    const text = planText(plan);
    const isRight = ifThere(() => fs.readFileSync(path, 'utf8')) === text;
    if (!isRight) await replaceFile(path, text, { durable: true });
    rebuilt.push({ path, is: isRight ? 'as it was' : 'written' });
  }
  return rebuilt;
}

async function putReplies(paths: SessionPaths, published: readonly Published[]): Promise<Rebuilt[]> {
  const outbox = openOutbox(paths);
  const rebuilt: Rebuilt[] = [];
  const removed = removedBefore(paths) ?? '';
  for (const { reply, at } of published) {
    const places = [join(paths.outbox, reply.id), join(paths.outboxRead, reply.id)];
    const [place] = places.filter((path) => fs.existsSync(path));
    if (place === undefined && at < removed) {
      rebuilt.push({ path: places[1] ?? '', is: 'left', why: 'it was read, and is kept no longer' });
      continue;
    }
    if (place === undefined) await outbox.publish(reply.id, replyText(reply));
    rebuilt.push(stateOf(place, places[0] ?? '', reply));
  }
  return rebuilt;
}

/** A reply that is there stays as it is: whoever reads replies must never find one changed. */
function stateOf(place: string | undefined, path: string, reply: Reply): Rebuilt {
  if (place === undefined) return { path, is: 'written' };
  if (fs.readFileSync(place, 'utf8') === replyText(reply)) return { path: place, is: 'as it was' };
  return { path: place, is: 'left', why: 'it differs from the record; move it away to get the reply again' };
}
