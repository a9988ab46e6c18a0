import { expect, test } from 'vitest';
import { ground, inFolder, statusOf, until } from '../support/daemon.ts';
import { modelServer } from '../support/temporary.ts';

const ask = {
  id: 'q',
  name: 'ask_user',
  args: JSON.stringify({ question: 'Which format?', choices: ['CSV', 'JSON'] }),
};

test('a question outlives a killed daemon, and echo 2 answers it once', async () => {
  const server = await modelServer([
    { text: '[Step] Export', calls: [ask] },
    { text: 'Exported as JSON. [Done]' },
    { text: 'not to be asked for' },
  ]);
  const on = ground();
  const first = await on.start(server.flags);
  const question = await on.say('demo', '1.md', 'export the table');
  expect(statusOf(question)).toBe('waiting');
  expect(question).toContain('question: {"text":"Which format?","choices":["CSV","JSON"]}');
  expect(question).toContain('Which format?\n\n1. CSV\n2. JSON\n');
  expect(on.plan('demo')).toMatchObject({ status: 'waiting', reason: 'Which format?' });
  await first.kill();

  expect(await on.ctl('show', 'demo')).toContain('2. JSON');
  expect(await on.ctl('list')).toMatch(/waiting.*asks: Which format\?/);
  on.sh('demo', 'echo 2 > inbox/2.md');
  const second = await on.start(server.flags);
  expect(await on.file('demo', 'outbox/2.md')).toContain('Exported as JSON.');
  await second.kill();
  await on.serve(server.flags);
  await on.say('demo', '3.md', '/status');

  expect(server.requests).toHaveLength(2);
  expect(server.requests[1]?.body.messages.filter(({ role }) => role === 'tool')).toEqual([
    { role: 'tool', tool_call_id: 'q', content: 'The person chose 2: JSON' },
  ]);
  expect(inFolder(`${on.session('demo')}/outbox`).filter((name) => name.endsWith('.md'))).toEqual([
    '1.md',
    '2.md',
    '3.md',
  ]);
  expect(on.events('demo').filter((event) => event.type === 'run.started')).toHaveLength(1);
  expect(on.plan('demo')?.status).toBe('completed');
});

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const part = { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } };

test('an uploaded image and one that is read reach the endpoint as parts, until it refuses them', async () => {
  const server = await modelServer([
    { text: 'I look.', calls: [{ id: 'r', name: 'read_file', args: '{"path":"uploads/dot.png"}' }] },
    { status: 404, body: { error: { message: 'No endpoints found that support image input' } } },
    { text: 'Blind, but here: ![it](uploads/dot.png), `link.png`, `/etc/hostname`, `图 表.png`.' },
  ]);
  const on = ground();
  await on.serve(server.flags);
  const message = '{"text":"what is this?","attachments":[".files/dot.png"]}';
  on.sh('demo', 'mkdir -p work && ln -s /etc/hostname work/link.png && echo x > "work/图 表.png"');
  on.sh(
    'demo',
    `mkdir -p inbox/.files && echo ${PNG} | base64 -d > inbox/.files/dot.png && echo '${message}' > inbox/1.json`,
  );
  const reply = JSON.parse(await on.file('demo', 'outbox/1.json'));
  expect(reply.text).toContain('Blind');
  expect(reply.attachments).toEqual(['work/图 表.png', 'work/uploads/dot.png']);

  const [first, second, third] = server.requests.map(({ body }) => body.messages);
  const note = /^<daemon \w+>attached: uploads\/dot\.png \(a PNG image, 70 bytes\)<\/daemon \w+>\nwhat is this\?$/;
  const parts = { role: 'user', content: [{ type: 'text', text: expect.stringMatching(note) }, part] };
  expect(first).toContainEqual(parts);
  expect(second).toContainEqual(parts);
  expect(second).toContainEqual({
    role: 'user',
    content: [
      { type: 'text', text: expect.stringMatching(/^<daemon \w+>\nFrom the calls above.*work\/uploads\/dot\.png/) },
      part,
    ],
  });
  expect(JSON.stringify(third)).not.toContain('image_url');
  expect(JSON.stringify(third)).toContain('[not shown: work/uploads/dot.png, this model sees no images]');
  expect(on.events('demo').find((event) => event.type === 'model.failed')).toMatchObject({
    kind: 'rejected',
    retry_at: expect.any(String),
  });
  expect(JSON.stringify(on.events('demo'))).not.toContain(PNG.slice(0, 40));
  await until(() => inFolder(`${on.session('demo')}/inbox/.files`).length === 0, 'the attachment to be moved');
});
