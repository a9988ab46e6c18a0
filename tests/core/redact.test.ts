import { describe, expect, test } from 'vitest';
import { createRedactor } from '../../src/base/redactor.ts';
import type { Toolbox } from '../../src/engine/ports/tool-ports.ts';
import { findSecrets, openSecretRedaction, redactEvent } from '../../src/main/redaction.ts';
import { EventBody } from '../../src/protocol/session/event.ts';
import { memoryStore } from '../support/memory-store.ts';
import fc from '../support/property.ts';

const KEY = 'sk-Live/0a+b"1\\é 9z?';
const { text, stream } = createRedactor([{ name: 'MY_KEY', value: KEY }]);

const value = fc.string({ unit: 'grapheme', minLength: 8, maxLength: 40 });
const around = fc.string({ unit: 'grapheme', maxLength: 20 });

describe('a secret', () => {
  test.each([
    ['as it is', KEY],
    ['in JSON', JSON.stringify(KEY).slice(1, -1)],
    ['in a URL', encodeURIComponent(KEY)],
    ['in a form', encodeURIComponent(KEY).replaceAll('%20', '+')],
    ['in base64', Buffer.from(KEY).toString('base64')],
    ['in base64 of URLs', Buffer.from(KEY).toString('base64url')],
  ])('%s is taken out', (_, form) => {
    expect(text(`a ${form} b`)).toMatch(/^a \[redacted: MY_KEY\]=* b$/);
  });

  test('is taken out of base64 wherever in it it stands', () => {
    fc.assert(
      fc.property(value, around, around, (secret, before, after) => {
        const coded = Buffer.from(before + secret + after).toString('base64');
        expect(createRedactor([{ name: 'K', value: secret }]).text(coded)).toContain('[redacted: K]');
      }),
    );
  });

  test('is never let through, into however many pieces its text is cut, and nothing else is lost', () => {
    const pieces = fc.array(fc.oneof(around, fc.constantFrom(KEY, KEY.slice(0, 7), KEY.slice(3), 'sk-')), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(pieces, fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1 }), (parts, sizes) => {
        const whole = parts.join('');
        const letGo = stream();
        let out = '';
        for (let at = 0, n = 0; at < whole.length; n++) {
          const size = sizes[n % sizes.length] ?? 1;
          out += letGo(whole.slice(at, at + size));
          at += size;
        }
        // What still waits comes with the next piece.
        out += letGo('\u0000');
        expect(out).toBe(text(`${whole}\u0000`));
        expect(out).not.toContain(KEY);
      }),
      { numRuns: 500 },
    );
  });

  test('that is the beginning of another is not taken for it in a stream', () => {
    const both = createRedactor([
      { name: 'SHORT', value: 'abcdefgh' },
      { name: 'LONG', value: 'abcdefghijkl' },
    ]);
    const next = both.stream();
    expect(next('abcdefgh') + next('ijkl.')).toBe('[redacted: LONG].');
  });

  test('whose end might begin it again goes as a whole, and at once', () => {
    const some = createRedactor([
      { name: 'RING', value: 'abc12345abc' },
      { name: 'LONG', value: 'sk-0123456789' },
    ]).stream();
    expect(some('x abc12345abc')).toBe('x [redacted: RING]');
    expect(some('sk-')).toBe('');
    expect(some('.')).toBe('sk-.');
  });

  test('shorter than 8 characters is none', () => {
    expect(createRedactor([{ name: 'K', value: 'ollama' }]).text('ollama')).toBe('ollama');
  });
});

describe('an event', () => {
  const received = {
    type: 'message.received',
    id: 'completed',
    name: 'completed',
    body: { text: 'my key is completed' },
    file: { ino: '1', mtime_ns: '2', ctime_ns: '2', sha256: 'completed' },
  } as const;

  test('loses secrets in its texts and keeps the words it is understood by, even where a secret is one of them', () => {
    const words = createRedactor([{ name: 'K', value: 'completed' }]);
    expect(redactEvent(received, words)).toEqual({ ...received, body: { text: 'my key is [redacted: K]' } });
    const edited: EventBody = {
      type: 'plan.edited',
      by: 'person',
      changes: [
        { what: 'status', step: 'completed', from: 'pending', to: 'completed', note: 'completed' },
        { what: 'goal', from: 'completed', to: 'a completed b' },
      ],
      ignored: ['completed'],
    };
    expect(redactEvent(edited, words)).toMatchObject({
      changes: [
        { step: 'completed', from: 'pending', to: 'completed', note: '[redacted: K]' },
        { from: '[redacted: K]', to: 'a [redacted: K] b' },
      ],
    });
  });

  test('with none of them comes back itself', () => {
    expect(redactEvent(received, createRedactor([{ name: 'K', value: 'something else' }]))).toBe(received);
  });

  test('whose address has one can still be read', () => {
    const event: EventBody = {
      type: 'step.added',
      by: 'model',
      step: {
        id: 'a',
        description: 'a',
        status: 'pending',
        done_when: [{ url: 'http://secretsecret.example/', status: 200 }],
      },
    };
    const reported = redactEvent(event, createRedactor([{ name: 'K', value: 'secretsecret' }]));
    expect(EventBody.parse(reported)).toMatchObject({ step: { done_when: [{ url: 'http://redacted.example/' }] } });
  });
});

test('what settings name is secret: keys, more variables, and what looks like one in what servers are given', () => {
  const env = { OPENAI_API_KEY: 'k1', MINE: 'k2', OTHER: 'k3', SEARCH: 'k4', GH_TOKEN: 'k5', HOST: 'h', PLAIN: 'p' };
  const found = findSecrets(
    env,
    {
      model: { api_key_env: 'MINE' },
      search: { engine: 'brave', api_key_env: 'SEARCH' },
      secrets: ['OTHER', 'MISSING'],
      mcpServers: {
        web: {
          url: `https://\${HOST}/?t=\${GH_TOKEN}`,
          headers: { Authorization: `Bearer \${GH_TOKEN}`, Accept: 'x' },
        },
        files: { command: 'x', env: { DB_PASSWORD: 'pw', LEVEL: 'info' } },
      },
    },
    { mcpServers: { own: { command: 'y', env: { API_KEY: `\${NOWHERE:-fallback}` } } } },
  );
  expect(found.map(({ name, value }) => `${name}=${value}`)).toEqual([
    ...['OPENAI_API_KEY=k1', 'MINE=k2', 'SEARCH=k4', 'OTHER=k3', 'GH_TOKEN=k5', 'GH_TOKEN=k5'],
    ...['web.Authorization=Bearer k5', 'web.Authorization=k5', 'files.DB_PASSWORD=pw', 'files.DB_PASSWORD=pw'],
    ...['own.API_KEY=fallback', 'own.API_KEY=fallback'],
  ]);
});

test('a secret gets into no blob, no reason beside a refused file, and no news of the tools', async () => {
  const redaction = openSecretRedaction({ OPENAI_API_KEY: KEY });
  const plain = memoryStore('demo');
  const store = redaction.store(plain);
  expect(await plain.blobs.get(await store.blobs.put(`long, with ${KEY}`))).toBe(
    'long, with [redacted: OPENAI_API_KEY]',
  );
  plain.hands.drop('1.json', '{}');
  const [drop] = (await store.inbox.listReady()).drops;
  if (!drop) throw new Error('nothing was dropped');
  await store.inbox.reject(drop, `not sent: ${KEY} is no id`);
  expect([...plain.hands.rejected().values()]).toEqual(['not sent: [redacted: OPENAI_API_KEY] is no id']);
  const news = { refresh: async () => [`the server said ${KEY}`] } as unknown as Toolbox;
  const caller = { work: async () => '/nowhere', signal: new AbortController().signal };
  expect(await redaction.tools(news).refresh(caller)).toEqual(['the server said [redacted: OPENAI_API_KEY]']);
});
