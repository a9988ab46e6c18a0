import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sha256 } from '../../src/base/sha256.ts';
import { dropMessage } from '../../src/store/index.ts';
import { changedFiles, lastingFiles } from '../../tests/promises/session-promises.ts';
import { isOver } from '../crash/check.ts';
import { startDaemon } from '../crash/daemon.ts';
import { type ScenarioPaths, scenarioPaths } from '../crash/scenario.ts';
import { findViolations, type Known, PROBE } from './check.ts';
import { type NodeId, type Tree, walk } from './disk.ts';
import { forget, type Identity, pretend } from './inodes.ts';

const END_MS = 20_000;
/** Files are from before the power cut, so nobody is still writing to them. */
const DAYS_AGO = Date.now() / 1000 - 3 * 86_400;

export type Identities = Map<NodeId, Identity & { sha256: string }>;

/** Writes a disk into a folder and recovers there; returns broken promises as text. */
export async function recovered(tree: Tree, root: string, known: Known, identities: Identities): Promise<string[]> {
  try {
    materialise(tree, root, identities);
    return await recoveredIn(root, known);
  } finally {
    forget();
  }
}

/** Lets a daemon recover a workspace and answer one more message; returns broken promises as text. */
export async function recoveredIn(root: string, known: Known): Promise<string[]> {
  const paths = scenarioPaths(root);
  const wrong: string[] = [];
  try {
    const found = lastingFiles(paths.folder);
    await withDaemon(paths, async () => {
      if (!(await waitUntilIdle(paths))) wrong.push('it did not become idle');
      if (!fs.existsSync(paths.folder)) return;
      await dropMessage(paths.folder, { name: PROBE, content: 'Is anybody there?' });
      if (!(await waitUntilIdle(paths))) wrong.push('it did not answer one more message');
    });
    wrong.push(...(await findViolations(paths, found, known)));
    await checkRestart(paths, wrong);
  } catch (error) {
    wrong.push(`broke off: ${error instanceof Error ? error.message : String(error)}`);
  }
  return wrong.map((line) => line.replaceAll(root, '.'));
}

function materialise(tree: Tree, root: string, identities: Identities): void {
  fs.rmSync(root, { recursive: true, force: true });
  fs.mkdirSync(root, { mode: 0o700 });
  const first = new Map<NodeId, string>();
  for (const { path, node } of walk(tree)) {
    const target = join(root, path);
    const bytes = tree.bytes.get(node);
    const twin = first.get(node);
    if (bytes === undefined) fs.mkdirSync(target, { mode: 0o700 });
    else if (twin !== undefined) fs.linkSync(twin, target);
    else {
      fs.writeFileSync(target, bytes, { mode: 0o600 });
      fs.utimesSync(target, DAYS_AGO, DAYS_AGO);
      first.set(node, target);
    }
  }
  for (const [node, path] of first) {
    const identity = identities.get(node);
    if (!identity) continue;
    const isWhole = sha256(tree.bytes.get(node) ?? '') === identity.sha256;
    const { sha256: _, mtimeNs, ...same } = identity;
    pretend(path, isWhole ? { ...same, mtimeNs } : { ...same, mtimeNs: fs.lstatSync(path, { bigint: true }).mtimeNs });
  }
}

async function withDaemon(paths: ScenarioPaths, meanwhile: () => Promise<void>): Promise<void> {
  const daemon = await startDaemon(paths);
  try {
    await meanwhile();
  } finally {
    await daemon.stop();
  }
}

/** Whether everything is done within the time limit. */
async function waitUntilIdle(paths: ScenarioPaths): Promise<boolean> {
  const end = Date.now() + END_MS;
  while (Date.now() < end) {
    if (!fs.existsSync(paths.inbox)) {
      if (!fs.existsSync(paths.events)) return true;
    } else if (!fs.existsSync(paths.events)) {
      if (fs.readdirSync(paths.inbox).every((name) => name.startsWith('.'))) return true;
    } else if (await isOver(paths)) return true;
    await sleep(3);
  }
  return false;
}

async function checkRestart(paths: ScenarioPaths, wrong: string[]): Promise<void> {
  const before = lastingFiles(paths.folder);
  await withDaemon(paths, async () => {});
  wrong.push(...changedFiles(before, lastingFiles(paths.folder)));
}
