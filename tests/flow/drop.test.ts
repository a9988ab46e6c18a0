import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { formatLocalTime } from '../../src/base/strings.ts';
import { ground, inFolder, statusOf, until } from '../support/daemon.ts';
import { startOpenAI } from '../support/openai-server.ts';

/** An endpoint that says back what it was told. */
async function echo() {
  const server = await startOpenAI((request) => ({ text: `You said: ${request.userText}` }));
  return { server, flags: ['--base-url', server.url, '--model', 'echo'] };
}

test('messages dropped with echo, cp and mv are answered, each in a reply of its name', async () => {
  const { server, flags } = await echo();
  const on = ground();
  await on.serve(flags);
  on.sh('demo', 'mkdir inbox && echo "by echo" > inbox/1.md');
  expect(await on.file('demo', 'outbox/1.md')).toContain('You said: by echo');
  on.sh('demo', 'echo "by cp" > ../note.txt && cp ../note.txt inbox/2.txt');
  expect(await on.file('demo', 'outbox/2.txt')).toContain('You said: by cp');
  on.sh('demo', 'echo "by mv" > ../other.txt && mv ../other.txt inbox/3.txt');
  expect(await on.file('demo', 'outbox/3.txt')).toContain('You said: by mv');
  expect(on.sh('demo', 'ls inbox')).toBe('');
  await server.close();
});

test('a file that is still being written is taken when it is whole', async () => {
  const { server, flags } = await echo();
  const on = ground();
  await on.start(flags);
  on.sh('demo', 'mkdir inbox && (echo "first half"; sleep 0.7; echo "second half") > inbox/1.md');
  const reply = await on.file('demo', 'outbox/1.md');
  expect(reply).toContain('first half');
  expect(reply).toContain('second half');
  expect(server.requests).toHaveLength(1);
  await server.close();
});

test('the same id again is answered from the event log, another content under it is refused', async () => {
  const { server, flags } = await echo();
  const on = ground();
  await on.serve(flags);
  on.sh('demo', `mkdir inbox && echo '{"id":"m1","text":"hi"}' > inbox/a.json`);
  await on.file('demo', 'outbox/a.json');
  on.sh('demo', `mv outbox/a.json outbox/read/ && echo '{"id":"m1","text":"hi"}' > inbox/b.json`);
  expect(JSON.parse(await on.file('demo', 'outbox/a.json'))).toMatchObject({
    in_reply_to: 'm1',
    status: 'done',
    text: 'You said: hi',
  });
  on.sh('demo', `echo '{"id":"m1","text":"something else"}' > inbox/c.json`);
  expect(JSON.parse(await on.file('demo', 'outbox/c.json'))).toMatchObject({ status: 'rejected' });
  expect(server.requests).toHaveLength(1);
  await server.close();
});

test('what is no message goes to rejected/ with a reason, and other sessions notice nothing', async () => {
  const { server, flags } = await echo();
  const on = ground();
  await on.serve(flags);
  on.sh('demo', 'mkdir inbox');
  const inbox = join(on.session('demo'), 'inbox');
  symlinkSync('/etc/passwd', join(inbox, 'link.md'));
  mkdirSync(join(inbox, 'folder.md'));
  on.sh('demo', 'mkfifo inbox/pipe.md');
  writeFileSync(join(inbox, 'binary.md'), Buffer.from([0x68, 0x69, 0, 1, 2]));
  writeFileSync(join(inbox, 'latin.md'), Buffer.from([0x63, 0x61, 0x66, 0xe9]));
  writeFileSync(join(inbox, 'half.json'), '{"text": ');
  writeFileSync(join(inbox, 'typo.json'), '{"txt": "hi"}');
  writeFileSync(join(inbox, 'large.md'), Buffer.alloc(11 * 1024 * 1024, 'a'));
  const rejected = join(on.session('demo'), 'rejected');
  await until(() => inFolder(rejected).filter((name) => name.endsWith('.why.json')).length === 8, 'eight reasons');
  const why = (name: string) => on.sh('demo', `cat 'rejected/${name}.why.json'`);
  expect(why('half.json')).toMatch(/line 1, column 10/);
  expect(why('typo.json')).toContain('text');
  expect(why('latin.md')).toMatch(/UTF-8/);
  expect(statusOf(await on.file('demo', 'outbox/typo.json'))).toBe('rejected');
  const show = (...flags: string[]) => on.ctl('show', 'demo', ...flags);
  const { rejected: told } = JSON.parse(await show('--json'));
  expect([told.total, told.newest.length]).toEqual([8, 3]);
  for (const { file, why: reason } of told.newest) expect(JSON.parse(why(file)).why).toBe(reason);
  const times = told.newest.map(({ at }: { at: string }) => at);
  expect(times).toEqual(times.toSorted().toReversed());
  expect(await show()).toContain(
    `Rejected files: 8, the newest:\n  ${formatLocalTime(times[0])}  ${told.newest[0].file}: ${told.newest[0].why}\n`,
  );
  expect(await show()).toContain(`correct it and move it to inbox/; otherwise delete it. They are in ${rejected}.\n`);
  on.sh('demo', `sed -i 's/txt/text/' rejected/typo.json && mv rejected/typo.json inbox/corrected.json`);
  expect(statusOf(await on.file('demo', 'outbox/corrected.json'))).toBe('done');
  expect(await show()).toContain('Rejected files: 7, the newest:');
  on.sh('other', 'mkdir inbox && echo hi > inbox/1.md');
  expect(await on.file('other', 'outbox/1.md')).toContain('You said: hi');
  on.sh('demo', 'echo still here > inbox/1.md');
  expect(await on.file('demo', 'outbox/1.md')).toContain('still here');
  await server.close();
});

test('attachments are moved to work/uploads and named to the model', async () => {
  const { server, flags } = await echo();
  const on = ground();
  await on.serve(flags);
  on.sh(
    'demo',
    `mkdir -p inbox/.files && echo 1,2 > inbox/.files/data.csv && echo '{"text":"sum it","attachments":[".files/data.csv"]}' > inbox/1.json`,
  );
  await on.file('demo', 'outbox/1.json');
  expect(server.requests[0]?.body.messages.at(-1)?.content).toMatch(/attached: uploads\/data\.csv \(text, 4 bytes\)/);
  expect(on.sh('demo', 'cat work/uploads/data.csv')).toBe('1,2\n');
  await server.close();
});

test('with no model configured the reply says how to configure one', async () => {
  const on = ground();
  await on.serve();
  on.sh('demo', 'mkdir inbox && echo hello > inbox/1.md');
  const reply = await on.file('demo', 'outbox/1.md');
  expect(statusOf(reply)).toBe('failed');
  expect(reply).toContain('--model runbook');
});
