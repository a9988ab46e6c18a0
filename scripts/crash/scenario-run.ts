import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { changedFiles, lastingFiles } from '../../tests/promises/session-promises.ts';
import { findViolations, isOver } from './check.ts';
import { startDaemon } from './daemon.ts';
import { actAsPerson, prepareWorkspace, type ScenarioPaths } from './scenario.ts';
import { type Fault, type Lasting, type Point, type Traced, traced, type Where } from './trace.ts';

/** How long a daemon that survives its fault may run before it is stopped. */
const HURT_MS = 1_500;
/** How long a daemon without faults may take for the rest of the scenario. */
const WHOLE_MS = 20_000;
/** How long a daemon may take to stop: its grace period of ten seconds, and some more. */
const STOP_MS = 15_000;

/**
 * The outcome of one run: whether the fault was in the workspace, or in one of Node's own calls that happened to have
 * the number (which proves nothing), and all broken promises as text.
 */
export type Outcome = { struck: boolean; beside: boolean; wrong: string[] };
/** The fault at a point: how often in a row (`times`), and whether an error lasts until the daemon ends. */
export type Kind = { fault: Fault; times: number; lasting: Lasting };

/**
 * Runs the scenario once: a daemon with a fault at `at` (or `times` such daemons in a row), then one without faults
 * that has to finish it. Then checks every promise, and that one more start changes nothing.
 */
export async function runScenario(
  at: Point | Where,
  { fault, times, lasting }: Kind,
  inspect?: (paths: ScenarioPaths) => void,
): Promise<Outcome> {
  const root = fs.mkdtempSync(join(tmpdir(), 'agentd-crash-'));
  const paths = await prepareWorkspace(root);
  const over = new AbortController();
  const person = actAsPerson(paths, over.signal).then(
    () => null,
    (error: unknown) => error,
  );
  const outcome: Outcome = { struck: false, beside: false, wrong: [] };
  try {
    for (let n = 0; n < times; n++) await runFaultyDaemon(paths, at, fault, lasting, person, outcome);
    inspect?.(paths);
    await runToEnd(paths, person, outcome);
    over.abort(new Error('the scenario is over'));
    const failed = await person;
    if (failed) outcome.wrong.push(`the person could not go on: ${String(failed)}`);
    outcome.wrong.push(...(await findViolations(paths)));
    await checkRestart(paths, outcome);
  } catch (error) {
    outcome.wrong.push(`broke off: ${error instanceof Error ? error.message : String(error)}`);
  } finally {
    over.abort(new Error('the scenario broke off'));
    await person;
    if (outcome.wrong.length > 0 && process.env['KEEP']) outcome.wrong.push(`kept in ${root}`);
    else fs.rmSync(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
  return outcome;
}

/** Runs a daemon with a fault until it ends by itself, or stops it when the scenario is over or stuck. */
async function runFaultyDaemon(
  paths: ScenarioPaths,
  at: Point | Where,
  fault: Fault,
  lasting: Lasting,
  person: Promise<unknown>,
  outcome: Outcome,
) {
  const whole = typeof at === 'string';
  const daemon = whole ? traced(paths, at, null, fault, lasting) : traced(paths, at.where, at, fault, lasting);
  let ended = false;
  void daemon.ended.then(() => {
    ended = true;
  });
  const enough = fault === 'kill' || whole ? sleep(WHOLE_MS) : hurtFor(daemon, () => ended);
  await Promise.race([daemon.ended, person.then(() => waitUntilOver(paths, () => ended)), enough]);
  daemon.process.kill('SIGTERM');
  // After a fault in one of Node's own calls, a daemon may never receive the signal; then only its files count.
  const patience = daemon.hit() === 'beside' ? HURT_MS : STOP_MS;
  const how = await Promise.race([daemon.ended, sleep(patience, 'still running')]);
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  const hit = how === 'SIGKILL' && fault === 'kill' ? 'in' : daemon.hit();
  if (hit === 'in') outcome.struck = true;
  if (hit === 'beside') outcome.beside = true;
  // A crash of Node itself is not our concern, but what it leaves on disk is.
  const clean =
    how === 'SIGTERM' ||
    hit === 'beside' ||
    how === 0 ||
    how === 'SIGKILL' ||
    (how === 1 && !/\n {4}at /.test(plain(daemon.stderr())));
  if (!clean || (how === 'SIGKILL' && fault !== 'kill'))
    outcome.wrong.push(`it ended with ${how}: ${plain(daemon.stderr()).slice(-600)}`);
}

/** The parts of stderr that are not log lines. */
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

async function waitUntilOver(paths: ScenarioPaths, ended: () => boolean): Promise<void> {
  const end = Date.now() + HURT_MS;
  while (!ended() && Date.now() < end && !(await isOver(paths))) await sleep(20);
}

async function runToEnd(paths: ScenarioPaths, person: Promise<unknown>, outcome: Outcome): Promise<void> {
  const daemon = await startDaemon(paths);
  const end = Date.now() + WHOLE_MS;
  let gone = false;
  void person.then(() => {
    gone = true;
  });
  while (!(gone && (await isOver(paths))) && Date.now() < end) await sleep(20);
  if (Date.now() >= end) outcome.wrong.push('the scenario did not come to its end');
  await daemon.stop();
}

async function checkRestart(paths: ScenarioPaths, outcome: Outcome): Promise<void> {
  const before = lastingFiles(paths.folder);
  await (await startDaemon(paths)).stop();
  outcome.wrong.push(...changedFiles(before, lastingFiles(paths.folder)));
}
