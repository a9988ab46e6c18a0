import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { openWorkPaths } from '../../src/tools/files/work-paths.ts';
import { writeWorkFile } from '../../src/tools/files/write-file.ts';
import { everything } from '../support/all.ts';
import { setup } from './tool-setup.ts';

const OURS = 'inside.txt';
const THEIRS = 'outside.txt';
/** A thousand with AGENTD_TEST_ALL=1; even of three hundred rounds, dozens meet the link. */
const ROUNDS = everything ? 1000 : 300;

/**
 * A work folder in which a real process keeps replacing `d` by a link to the folder beside it. Both have a folder
 * `deep`, on the way to which the link is met.
 */
async function flipping() {
  const at = setup();
  for (const [folder, file] of [
    [join(at.work, 'd'), OURS],
    [at.outside, THEIRS],
  ] as const) {
    mkdirSync(join(folder, 'deep'), { recursive: true });
    for (const path of [file, `deep/${file}`]) writeFileSync(join(folder, path), 'not for the model');
  }
  symlinkSync(at.outside, join(at.work, 'link'));
  const child = spawn(process.execPath, [join(import.meta.dirname, 'flip.child.mjs')], { cwd: at.work });
  const exited = once(child, 'exit');
  const stop = async () => {
    child.kill('SIGKILL');
    await exited;
  };
  // Before the work folder is removed, in which it would still move something.
  onTestFinished(stop);
  await once(child.stdout, 'data');
  return { ...at, stop };
}

/**
 * Whether a folder and a file were made where they belong: on a busy machine the link can stand there in hundreds of
 * rounds.
 */
function hasMade(work: string): boolean {
  try {
    const made = readdirSync(work, { recursive: true }).map(String);
    return ['new-', 'file-'].every((name) => made.some((path) => path.includes(name)));
  } catch {
    // A folder was moved while it was read.
    return false;
  }
}

// Without /proc, a short race remains; see docs/tools.md.
const descriptors = test.runIf(process.platform === 'linux');

descriptors(
  'no folder and no file is made outside while a process flips a folder with a link',
  async () => {
    const { use, outside, work, stop } = await flipping();
    const fence = await openWorkPaths(work, []);
    for (let n = 0; n < ROUNDS || !hasMade(work); n++) {
      // Like a download, picture or server's file after its place was found; without content, to avoid a sync.
      const nothing = new Readable({ read: () => nothing.destroy(new Error('nothing comes')) });
      const folder = n % 2 === 0 ? 'd' : 'd/deep';
      await writeWorkFile({ real: join(work, folder, `new-${n}/x`), displayName: 'x' }, nothing, fence).catch(
        () => undefined,
      );
      if (n % 25 === 0) await use('write_file', { path: `${folder}/file-${n}`, content: 'mine' });
    }
    await stop();
    expect(readdirSync(outside, { recursive: true }).sort()).toEqual(['deep', `deep/${THEIRS}`, THEIRS]);
  },
  60_000,
);

descriptors(
  'nothing from outside is listed, sized, found or read while a process flips a folder with a link',
  async () => {
    const { use } = await flipping();
    let seen = 0;
    for (let n = 0; n < ROUNDS; n++) {
      const names = await Promise.all([
        use('list_files', { path: 'd' }),
        use('list_files', { path: 'd/deep' }),
        use('list_files', { depth: 3 }),
        use('parts', { folder: 'd' }),
        ...(n % 20 === 0 ? [use('search_files', { path: 'd', pattern: '.' })] : []),
      ]);
      const contents = await Promise.all([
        use('read_file', { path: `d/${THEIRS}` }),
        use('read_file', { path: `d/deep/${THEIRS}` }),
        use('check', { file: `d/${THEIRS}` }),
      ]);
      for (const { text } of names) expect(text).not.toContain(THEIRS);
      for (const answer of contents) expect(answer).toMatchObject({ ok: false });
      const [listed] = names;
      if (listed?.text.includes(OURS)) seen += 1;
    }
    expect(seen).toBeGreaterThan(0);
  },
  60_000,
);

test('a folder of a shared work folder that was replaced by a link is not used', async () => {
  const { box, work, outside, root } = setup();
  writeFileSync(join(outside, 'secret'), 'not for the model');
  symlinkSync(outside, join(work, 'step'));
  const context = { folder: join(root, 'call'), signal: new AbortController().signal, blob: async () => undefined };
  const calls = {
    read_file: { path: 'secret' },
    write_file: { path: 'made', content: 'x' },
    list_files: {},
    search_files: { pattern: '.' },
  };
  for (const [name, args] of Object.entries(calls)) {
    const call = { name, args: JSON.stringify(args) };
    const { ok, text } = await box.run(call, { ...context, work: join(work, 'step') });
    expect(ok, name).toBe(false);
    expect(text).toContain('over a symbolic link');
  }
  expect(readdirSync(outside)).toEqual(['secret']);
});
