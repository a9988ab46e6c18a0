import { spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Event } from '../../src/protocol/session/event.ts';
import { openWorkspace } from '../../src/store/index.ts';
import { SMALL_DISK, scenarioPaths, writeSettings } from '../crash/scenario.ts';
import { type Disk, diskOf, nodeAt, ROOT, type Tree, treeAt, walk } from './disk.ts';
import { SELF } from './row.ts';
import { callsOf, straceWords } from './trace.ts';

/** A recorded scenario: what it did to the disk, and its event log. */
export type Recording = { root: string; disk: Disk; events: Event[] };

/** Runs the scenario under strace. Throws unless the model of the disk ends with exactly the bytes of the real disk. */
export async function openRecording(folder: string, isIgnored: (path: string) => boolean): Promise<Recording> {
  const root = join(folder, 'workspace');
  const log = join(folder, 'trace');
  if (!fs.existsSync(log)) await record(root, log, join(folder, 'start'));
  const disk = diskOf(callsOf(fs.readFileSync(log, 'latin1'), root), root, scan(join(folder, 'start')), isIgnored);
  const wrong = difference(
    treeAt(disk, disk.calls.length, () => 'kept'),
    root,
  );
  if (wrong) throw new Error(`The model of the disk is not the disk: ${wrong}`);
  const events: Event[] = [];
  await openWorkspace(root, { now: () => new Date() }).readEvents(
    scenarioPaths(root).session,
    (event) => void events.push(event),
  );
  return { root, disk, events };
}

async function record(root: string, log: string, start: string): Promise<void> {
  fs.mkdirSync(root, { mode: 0o700 });
  writeSettings(root, SMALL_DISK);
  fs.cpSync(root, start, { recursive: true });
  const child = spawn('strace', [...straceWords(log), process.execPath, ...SELF, '--run', root], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, UV_USE_IO_URING: '0' },
  });
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`The scenario failed (${String(code)}): ${stderr}`);
}

/** Reads a folder into the model. */
function scan(root: string): Tree {
  const tree: Tree = { names: new Map([[ROOT, new Map()]]), bytes: new Map() };
  let next = ROOT + 1;
  const into = (folder: string, node: number) => {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      const child = next++;
      tree.names.get(node)?.set(entry.name, child);
      if (!entry.isDirectory()) tree.bytes.set(child, fs.readFileSync(path));
      else {
        tree.names.set(child, new Map());
        into(path, child);
      }
    }
  };
  into(root, ROOT);
  return tree;
}

function difference(model: Tree, root: string): string | undefined {
  const real = scan(root);
  const ours = [...walk(model)].map(({ path }) => path).join('\n');
  const theirs = [...walk(real)].map(({ path }) => path).join('\n');
  if (ours !== theirs) return `it has\n${ours}\nand the disk\n${theirs}`;
  for (const { path, node } of walk(model)) {
    const bytes = real.bytes.get(nodeAt(real, path) ?? ROOT);
    if (bytes && !model.bytes.get(node)?.equals(bytes)) return `other bytes in ${path}`;
  }
  return undefined;
}
