import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ground, inFolder, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

/** An endpoint that says how many requests there were, and a workspace whose daemon talks to it. */
async function counting() {
  let count = 0;
  const server = await modelServer(() => ({ text: `answer ${++count}` }));
  return { on: ground(), flags: ['--base-url', server.url, '--model', 'count'] };
}

test('a file moved back from done/ gets a reply: done once more, or the reason why not', async () => {
  const { on, flags } = await counting();
  const first = await on.start(flags);
  expect(await on.say('demo', '1.md', 'hello')).toContain('answer 1');
  on.sh('demo', 'mv done/*-1.md inbox/again.md');
  expect(await on.file('demo', 'outbox/again.md')).toContain('answer 2');
  await first.kill();
  on.sh('demo', 'mv done/*-again.md inbox/again.md');
  await on.serve(flags);
  const refused = await on.file('demo', 'outbox/again-2.md');
  expect([statusOf(refused), refused.includes('drop a copy of the file (cp)')]).toEqual(['rejected', true]);
  expect(inFolder(join(on.session('demo'), 'rejected')).sort()).toEqual(['again.md', 'again.md.why.json']);
  on.sh('demo', 'cp -p rejected/again.md inbox/again.md');
  expect(await on.file('demo', 'outbox/again-3.md')).toContain('answer 3');
});

test('a copy that keeps its time and gets the inode of the one before is a message of its own', async (it) => {
  const { on, flags } = await counting();
  await on.serve(flags);
  on.sh('demo', 'mkdir inbox && echo hello > ../note.md && touch -d 2026-01-01 ../note.md');
  const inodes = new Set<number>();
  for (let n = 1; n <= 5; n++) {
    const name = n === 1 ? 'note.md' : `note-${n}.md`;
    on.sh('demo', 'rm -f done/*; cp -p ../note.md inbox/note.md');
    expect(await on.file('demo', `outbox/${name}`)).toContain(`answer ${n}`);
    await until(() => inFolder(join(on.session('demo'), 'done'))[0], 'the file in done/');
    inodes.add(statSync(join(on.session('demo'), 'done', inFolder(join(on.session('demo'), 'done'))[0] ?? '')).ino);
  }
  if (inodes.size === 5) it.skip('this file system gave no inode out again');
});

test('a session that is copied into the workspace is left alone until the copy is whole, then its message is answered', async () => {
  const { on, flags } = await counting();
  const first = await on.start(flags);
  await on.say('demo', '1.md', 'hello');
  await first.kill('SIGTERM');
  on.sh('demo', 'echo again > inbox/2.md && mkdir -p work/many && cp -r . ../../backup');
  on.sh('demo', 'rm inbox/2.md');
  await on.serve(flags);
  // As a slow `cp -r` does: a folder at a time, which must not be there yet.
  for (const part of ['events.jsonl', 'outbox', 'inbox', 'work', 'blobs', 'done', 'plans', 'rejected', 'tools']) {
    on.sh(
      'copy',
      part === 'events.jsonl' ? `cp ../../backup/${part} .` : `mkdir ${part} && cp -r ../../backup/${part} .`,
    );
    await new Promise((done) => setTimeout(done, 200));
  }
  expect(await on.file('copy', 'outbox/2.md')).toContain('answer 2');
}, 60_000);
