import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { broken, everything, isOver } from './check.ts';
import { type Place, personOf, setOut } from './story.ts';
import { type Fault, type Lasting, type Point, type Traced, traced, type Where } from './trace.ts';
import { startWhole } from './whole.ts';

/** How long a daemon that was hurt but lives may go on before it is stopped, in ms. */
const HURT_MS = 1_500;
/** How long a whole one may need for the rest of the story. */
const WHOLE_MS = 20_000;
/** How long a daemon may need to stop: its ten seconds of grace, and some. */
const STOP_MS = 15_000;

/**
 * What became of one story: whether the fault struck in the workspace, or a call of Node's own that had the number this time (then
 * it tells nothing of us), and everything that does not hold, in words.
 */
export type Told = { struck: boolean; beside: boolean; wrong: string[] };
/** What happens at a point: how often in a row (`lives`), and whether an error stays until the daemon has ended. */
export type Kind = { fault: Fault; lives: number; lasting: Lasting };

/**
 * Tells the story once: a daemon with a fault at `at` (`lives` of them, one after the other), then a whole one that has to
 * bring it to its end, then everything that was promised is checked, and that one more start changes nothing.
 */
export async function tell(
  at: Point | Where,
  { fault, lives, lasting }: Kind,
  look?: (there: Place) => void,
): Promise<Told> {
  const root = fs.mkdtempSync(join(tmpdir(), 'agentd-crash-'));
  const there = await setOut(root);
  const over = new AbortController();
  const person = personOf(there, over.signal).then(
    () => null,
    (error: unknown) => error,
  );
  const told: Told = { struck: false, beside: false, wrong: [] };
  try {
    for (let life = 0; life < lives; life++) await oneLife(there, at, fault, lasting, person, told);
    look?.(there);
    await wholeLife(there, person, told);
    over.abort(new Error('the story is over'));
    const failed = await person;
    if (failed) told.wrong.push(`the person could not go on: ${String(failed)}`);
    told.wrong.push(...(await broken(there)));
    await onceMore(there, told);
  } catch (error) {
    told.wrong.push(`broke off: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    over.abort(new Error('the story broke off'));
    await person;
    if (told.wrong.length > 0 && process.env['KEEP']) told.wrong.push(`kept in ${root}`);
    else fs.rmSync(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
  return told;
}

/** A daemon that may be hurt: it ends by itself, or is asked to stop when the story is over or does not go on. */
async function oneLife(
  there: Place,
  at: Point | Where,
  fault: Fault,
  lasting: Lasting,
  person: Promise<unknown>,
  told: Told,
) {
  const whole = typeof at === 'string';
  const daemon = whole ? traced(there, at, null, fault, lasting) : traced(there, at.where, at, fault, lasting);
  let ended = false;
  void daemon.ended.then(() => {
    ended = true;
  });
  const enough = fault === 'kill' || whole ? sleep(WHOLE_MS) : hurtFor(daemon, () => ended);
  await Promise.race([daemon.ended, person.then(() => settled(there, () => ended)), enough]);
  daemon.process.kill('SIGTERM');
  // A fault in a call of Node's own may leave a daemon that never hears the signal; of that one, only what is on disk counts.
  const patience = daemon.hit() === 'beside' ? HURT_MS : STOP_MS;
  const how = await Promise.race([daemon.ended, sleep(patience, 'still running')]);
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  const hit = how === 'SIGKILL' && fault === 'kill' ? 'in' : daemon.hit();
  if (hit === 'in') told.struck = true;
  if (hit === 'beside') told.beside = true;
  // An error in the engine of Node itself is no business of ours; what it leaves on disk is.
  const clean =
    how === 'SIGTERM' ||
    hit === 'beside' ||
    how === 0 ||
    how === 'SIGKILL' ||
    (how === 1 && !/\n {4}at /.test(plain(daemon.stderr())));
  if (!clean || (how === 'SIGKILL' && fault !== 'kill'))
    told.wrong.push(`it ended with ${how}: ${plain(daemon.stderr()).slice(-600)}`);
}

/** What is not a line of the log. */
const plain = (stderr: string) =>
  stderr
    .split('\n')
    .filter((line) => !line.startsWith('{'))
    .join('\n');

async function hurtFor(daemon: Traced, ended: () => boolean): Promise<void> {
  const end = Date.now() + WHOLE_MS;
  while (!ended() && !daemon.hit() && Date.now() < end) await sleep(50);
  if (!ended()) await sleep(HURT_MS);
}

async function settled(there: Place, ended: () => boolean): Promise<void> {
  const end = Date.now() + HURT_MS;
  while (!ended() && Date.now() < end && !(await isOver(there))) await sleep(20);
}

async function wholeLife(there: Place, person: Promise<unknown>, told: Told): Promise<void> {
  const daemon = await startWhole(there);
  const end = Date.now() + WHOLE_MS;
  let gone = false;
  void person.then(() => {
    gone = true;
  });
  while (!(gone && (await isOver(there))) && Date.now() < end) await sleep(20);
  if (Date.now() >= end) told.wrong.push('the story did not come to its end');
  await daemon.stop();
}

async function onceMore(there: Place, told: Told): Promise<void> {
  const before = everything(there);
  await (await startWhole(there)).stop();
  const after = everything(there);
  for (const path of new Set([...before.keys(), ...after.keys()]))
    if (before.get(path) !== after.get(path)) told.wrong.push(`one more start changed ${path}`);
}
