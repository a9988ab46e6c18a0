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

/** A work folder in which a real process keeps replacing `d` by a link to the folder beside it. */
async function flipping() {
  const at = setup();
  mkdirSync(join(at.work, 'd'));
  writeFileSync(join(at.work, 'd', OURS), 'inside');
  writeFileSync(join(at.outside, THEIRS), 'not for the model');
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
      await writeWorkFile({ real: join(work, `d/new-${n}/x`), displayName: 'x' }, nothing, fence).catch(
        () => undefined,
      );
      if (n % 25 === 0) await use('write_file', { path: `d/file-${n}`, content: 'mine' });
    }
    await stop();
    expect(readdirSync(outside)).toEqual([THEIRS]);
  },
  60_000,
);

descriptors(
  'nothing from outside is listed, sized, found or read while a process flips a folder with a link',
  async () => {
    const { use } = await flipping();
    let seen = 0;
    for (let n = 0; n < ROUNDS; n++) {
      const answers = await Promise.all([
        use('list_files', { path: 'd' }),
        use('list_files', { depth: 3 }),
        use('parts', { folder: 'd' }),
        use('read_file', { path: `d/${THEIRS}` }),
        use('check', { file: `d/${THEIRS}` }),
        ...(n % 20 === 0 ? [use('search_files', { path: 'd', pattern: '.' })] : []),
      ]);
      const [listed, ...others] = answers.map(({ text }) => text);
      for (const text of [listed, ...others.slice(0, 2), ...others.slice(4)]) expect(text).not.toContain(THEIRS);
      expect(answers[3]).toMatchObject({ ok: false });
      expect(answers[4]).toMatchObject({ ok: false });
      if (listed?.includes(OURS)) seen += 1;
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
