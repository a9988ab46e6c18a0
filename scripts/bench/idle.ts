import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startAgentd } from './children.ts';
import type { Endpoint } from './endpoint.ts';

const FIRST = 'idle-0';

/** A generous estimate of the inodes and bytes of an idle session. */
const INODES = 30;
const BYTES = 120_000;

/** Why the disk has no room for this many idle sessions; undefined if it has. */
export function roomFor(workspace: string, wanted: number): string | undefined {
  fs.mkdirSync(workspace, { recursive: true });
  const { bavail, bsize, files, ffree } = fs.statfsSync(workspace);
  // Some file systems count no inodes.
  if (files > 0 && ffree < wanted * INODES) return `the disk has ${ffree} inodes left, ${wanted * INODES} are wanted`;
  if (bavail * bsize < wanted * BYTES)
    return `the disk has ${(bavail * bsize) / 1e9} GB left, ${(wanted * BYTES) / 1e9} are wanted`;
  return undefined;
}

/** Fills a workspace with idle sessions up to this number: one that really ran, and copies of its folder. */
export async function idleSessions(workspace: string, wanted: number, endpoint: Endpoint): Promise<void> {
  const sessions = join(workspace, '.sessions');
  fs.mkdirSync(sessions, { recursive: true });
  let there = fs.readdirSync(sessions).filter((name) => name.startsWith('idle-')).length;
  if (there === 0 && wanted > 0) {
    await realSession(workspace, endpoint);
    there = 1;
  }
  if (there >= wanted) return;
  const model = join(sessions, FIRST);
  const entries = fs.readdirSync(model, { recursive: true, withFileTypes: true });
  const paths = entries.map((entry) => ({
    path: join(entry.parentPath, entry.name).slice(model.length),
    isFolder: entry.isDirectory(),
  }));
  paths.sort((a, b) => a.path.length - b.path.length);
  for (; there < wanted; there++) {
    const copy = join(sessions, `idle-${there}`);
    fs.mkdirSync(copy);
    for (const { path, isFolder } of paths) {
      if (isFolder) fs.mkdirSync(copy + path);
      else fs.copyFileSync(model + path, copy + path);
    }
  }
}

async function realSession(workspace: string, endpoint: Endpoint): Promise<void> {
  const inbox = join(workspace, '.sessions', FIRST, 'inbox');
  fs.mkdirSync(inbox, { recursive: true });
  fs.writeFileSync(join(inbox, 'hello.md'), 'Are you there?');
  endpoint.script(() => ({ text: 'Yes.' }));
  const daemon = await startAgentd(workspace, endpoint.url, []);
  const record = join(workspace, '.sessions', FIRST, 'events.jsonl');
  while (!fs.existsSync(record) || !fs.readFileSync(record, 'utf8').includes('"reply.published"')) await sleep(10);
  await daemon.stop();
}
