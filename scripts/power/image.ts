import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openWorkspace } from '../../src/store/index.ts';
import {
  actAsPerson,
  COMMAND_LINES,
  DROPPED,
  dropFirstMessage,
  prepareWorkspace,
  type ScenarioPaths,
  SMALL_DISK,
  scenarioPaths,
  writeSettings,
} from '../crash/scenario.ts';
import { type Point, pointsOf, traced } from '../crash/trace.ts';
import type { Known } from './check.ts';
import { recoveredIn } from './recover.ts';

const SIZE = '64M';
const RUN_MS = 20_000;

/** Why an image of this kind cannot be mounted here; undefined if it can. */
export async function whyNot(folder: string, kind: string): Promise<string | undefined> {
  try {
    const image = made(folder, kind);
    await mounted(image, join(folder, 'mnt'), () => {});
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** The points of a whole run. */
export async function imagePoints(folder: string): Promise<Point[]> {
  const found: Point[] = [];
  for (const where of ['main', 'any'] as const) {
    const root = fs.mkdtempSync(join(folder, 'whole-'));
    const paths = await prepareWorkspace(root);
    await live(paths, traced(paths, where, null, 'kill', 'once'));
    found.push(...pointsOf(paths, where));
  }
  return found.filter(({ what }) => !what.includes('.agentd/schemas'));
}

/**
 * Simulates a power cut on a real file system in an image: when the daemon is killed at a point, the image is copied,
 * the copy is mounted (which replays its journal), and a daemon recovers there. What had reached the block layer is
 * kept.
 */
export async function cutImage(folder: string, kind: string, at: Point): Promise<string[]> {
  const image = made(folder, kind);
  const [mnt, copy] = [join(folder, 'mnt'), join(folder, 'copy.img')];
  const known = await mounted(image, mnt, async () => {
    const paths = await begun(mnt);
    await live(paths, traced(paths, at.where, at, 'kill', 'once'));
    run('cp', ['--sparse=always', image, copy]);
    return seen(paths);
  });
  return mounted(copy, mnt, () => recoveredIn(join(mnt, 'ws'), known));
}

/** Creates a workspace that is on disk; later changes are only as durable as the programs make them. */
async function begun(mnt: string): Promise<ScenarioPaths> {
  const root = join(mnt, 'ws');
  fs.mkdirSync(root, { mode: 0o700 });
  writeSettings(root, SMALL_DISK);
  run('sync', ['-f', mnt]);
  const paths = scenarioPaths(root);
  openWorkspace(root, { now: () => new Date() });
  fs.mkdirSync(paths.folder);
  await dropFirstMessage(paths);
  return paths;
}

/** Runs the person and the daemon until the daemon is killed or the scenario is over. */
async function live(paths: ScenarioPaths, daemon: ReturnType<typeof traced>): Promise<void> {
  const over = new AbortController();
  const person = actAsPerson(paths, over.signal).catch(() => undefined);
  await Promise.race([daemon.ended, person.then(() => sleep(500)), sleep(RUN_MS)]);
  over.abort(new Error('the power is gone'));
  daemon.process.kill('SIGTERM');
  await daemon.ended;
  await person;
}

/** What people and commands had seen, read from the folder before the power cut. */
function seen(paths: ScenarioPaths): Known {
  const files = (folder: string) => (fs.existsSync(folder) ? fs.readdirSync(folder) : []);
  const left = [...files(paths.done).map((name) => name.replace(/^\d+-/, '')), ...files(paths.rejected)];
  const replies = [paths.outbox, paths.outboxRead].flatMap((folder) =>
    files(folder)
      .filter((name) => DROPPED.includes(name))
      .map((name): [string, string] => [name, fs.readFileSync(join(folder, name), 'utf8')]),
  );
  const executions = join(paths.work, 'executions');
  const lines = fs.existsSync(executions) ? fs.readFileSync(executions, 'utf8').split('\n') : [];
  return {
    safe: DROPPED.filter((name, place) => place === 0 || left.includes(name)),
    replies: new Map(replies),
    ran: new Map(COMMAND_LINES.map((line) => [line, lines.filter((one) => one === line).length])),
    log: Buffer.alloc(0),
  };
}

function made(folder: string, kind: string): string {
  const image = join(folder, 'disk.img');
  fs.rmSync(image, { force: true });
  run('truncate', ['-s', SIZE, image]);
  run(`mkfs.${kind}`, [kind === 'ext4' ? '-qF' : '-qf', image]);
  return image;
}

async function mounted<T>(image: string, mnt: string, job: () => T | Promise<T>): Promise<T> {
  fs.mkdirSync(mnt, { recursive: true });
  run('mount', ['-o', 'loop', image, mnt]);
  try {
    return await job();
  } finally {
    run('umount', [mnt]);
  }
}

function run(program: string, words: string[]): void {
  const { status, error, stderr } = spawnSync(program, words, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${words.join(' ')}: ${error?.message ?? stderr.trim()}`);
}
