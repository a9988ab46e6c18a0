import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { countMessageTokens, elideOldOutputs } from '../../src/core/prompt/context-window.ts';
import { limitImages } from '../../src/core/prompt/model-request.ts';
import type { ChatMessage } from '../../src/core/session/session-messages.ts';
import { moves, type Rig, rig, shell } from '../support/rig.ts';

const PNG = Buffer.from('\x89PNG\r\n\x1a\nxxxx', 'latin1');
const sha256 = createHash('sha256').update(PNG).digest('hex');
const image = (path: string) => ({ path, type: 'image/png' as const, bytes: PNG.length, sha256 });
const shown = (it: Rig, n = -1) =>
  (it.requests.at(n)?.messages ?? []).flatMap((one) => (one.role === 'user' && one.images ? [one] : []));

test('an attached image is reported by path, kind and size, shown with its message, and stays there', async () => {
  const it = await rig({ script: moves({ text: '', calls: [shell()] }, { text: 'A cat.' }) });
  it.store.hands.attach('cat.png', PNG);
  it.store.hands.attach('data.csv', Buffer.from('1,2\n'));
  await it.say('1.json', '{"text":"what is it?","attachments":[".files/cat.png",".files/data.csv"]}');
  const carrier = {
    role: 'user',
    content:
      '<daemon a1b2c3d4e5f6>attached: uploads/cat.png (a PNG image, 12 bytes), uploads/data.csv (text, 4 bytes)</daemon a1b2c3d4e5f6>\nwhat is it?',
    images: [image('uploads/cat.png')],
  };
  expect(shown(it, 0)).toEqual([carrier]);
  expect(shown(it, 1)).toEqual([carrier]);
  const record = JSON.stringify(it.events());
  expect(record).toContain(sha256);
  expect(record).not.toContain(PNG.toString('base64'));
  expect(await it.requests[0]?.image?.(image('uploads/cat.png'))).toEqual(PNG);
});

test('images of results follow in one block of the daemon, behind the last result', async () => {
  const it = await rig({
    script: moves({ text: '', calls: [shell(), shell(), shell()] }, { text: 'Seen.' }),
    tool: (_, n) => ({ ok: true, text: `it ${n}`, ...(n !== 1 && { images: [image(`${n}.png`)] }) }),
  });
  await it.say('1.md', 'look');
  const roles = it.requests[1]?.messages.map(({ role }) => role);
  expect(roles).toEqual(['system', 'user', 'assistant', 'tool', 'tool', 'tool', 'user', 'user']);
  expect(shown(it)).toEqual([
    {
      role: 'user',
      content:
        '<daemon a1b2c3d4e5f6>\nFrom the calls above, in this order: work/0.png, work/2.png\n</daemon a1b2c3d4e5f6>',
      images: [image('0.png'), image('2.png')],
    },
  ]);
});

test('an image that comes with the answer to a question is shown behind it', async () => {
  const it = await rig({
    script: moves({ text: '', calls: [{ name: 'ask_user', args: { question: 'Which cat?' } }] }, { text: 'That one.' }),
  });
  await it.say('1.md', 'find the cat');
  it.store.hands.attach('cat.png', PNG);
  await it.say('2.json', '{"text":"this one","attachments":[".files/cat.png"]}');
  const tool = it.requests[1]?.messages.find(({ role }) => role === 'tool')?.content;
  expect(tool).toMatch(
    /^The person answered:\n<daemon \w+>attached: uploads\/cat.png \(a PNG image, 12 bytes\)<\/daemon \w+>\nthis one$/,
  );
  expect(shown(it)).toMatchObject([{ images: [image('uploads/cat.png')] }]);
});

test('a model that refuses images is asked again at once, as the event log says', async () => {
  const it = await rig({
    script: moves(
      { fault: ['rejected', 'no images here', { retry: true, waitMs: 0 }] },
      { text: 'I cannot see it, but it is named cat.png.' },
    ),
  });
  it.store.hands.attach('cat.png', PNG);
  await it.say('1.json', '{"text":"look","attachments":[".files/cat.png"]}');
  expect(it.events().find((event) => event.type === 'model.failed')).toMatchObject({
    kind: 'rejected',
    retry_at: expect.any(String),
  });
  expect(it.reply('1.json')).toContain('named cat.png');
});

test('a request carries eight images at most, the oldest go four at once and stay named', () => {
  const of = (count: number): ChatMessage[] =>
    Array.from({ length: count }, (_, n) => ({ role: 'user', content: `see ${n}`, images: [image(`${n}.png`)] }));
  const counts = (messages: ChatMessage[]) =>
    limitImages(messages).map((one) => (one.role === 'user' ? (one.images?.length ?? 0) : 0));
  expect(counts(of(8))).toEqual(Array(8).fill(1));
  expect(counts(of(9))).toEqual([0, 0, 0, 0, 1, 1, 1, 1, 1]);
  expect(counts(of(12))).toEqual([0, 0, 0, 0, ...Array(8).fill(1)]);
  expect(limitImages(of(9))[0]?.content).toContain('see 0\n[no longer shown: work/0.png');
  const one: ChatMessage[] = [{ role: 'user', content: 'ten', images: of(10).map((_, n) => image(`${n}.png`)) }];
  expect(counts(one)).toEqual([6]);
});

test('an image counts for about a thousand tokens, and goes where the window is full', () => {
  const message: ChatMessage = { role: 'user', content: 'look', images: [image('a.png')] };
  expect(countMessageTokens(message)).toBeGreaterThan(1000);
  const turn: ChatMessage = { role: 'assistant', content: 'yes' };
  const many = Array.from({ length: 6 }, (_, n) => ({ ...message, content: `look ${n}` }));
  const sent = elideOldOutputs([...many, turn], 4000);
  expect(sent[0]).toMatchObject({ content: expect.stringContaining('look 0\n[no longer shown') });
  expect(sent[0]).not.toHaveProperty('images');
  expect(sent[5]).toHaveProperty('images');
});

test('of nine images in a conversation the model is shown five, and told of the others by name', async () => {
  const it = await rig({ script: moves({ text: 'Seen.' }) });
  const names = Array.from({ length: 9 }, (_, n) => `.files/${n}.png`);
  for (let n = 0; n < 9; n++) it.store.hands.attach(`${n}.png`, PNG);
  await it.say('1.json', JSON.stringify({ text: 'look', attachments: names }));
  expect(shown(it)[0]?.images?.map(({ path }) => path)).toEqual([4, 5, 6, 7, 8].map((n) => `uploads/${n}.png`));
  expect(shown(it)[0]?.content).toContain('[no longer shown: work/uploads/0.png');
});
