import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { UserError } from '../../src/base/user-error.ts';
import { chooseModel } from '../../src/models/choose-model.ts';
import { daemonBlock } from '../../src/protocol/session/prompt-tags.ts';
import { ask, assistantMessage, fault, request, user } from './ask.ts';

const folder = mkdtempSync(join(tmpdir(), 'agentd-scripts-'));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;
function fileOf(script: unknown): string {
  const file = join(folder, `${count++}.json`);
  writeFileSync(file, typeof script === 'string' ? script : JSON.stringify(script));
  return file;
}
const scripted = (script: unknown) => chooseModel({ name: `scripted:${fileOf(script)}` }, {});
const answer = (text: string) => assistantMessage({ text, calls: [] });

describe('a script', () => {
  test('is played by the position in the conversation, so another process continues where it was', async () => {
    const script = [{ text: 'one', calls: [{ name: 'shell', args: { command: 'ls' } }] }, { text: 'two' }];
    const chat = [user('go')];
    const first = await ask(scripted(script), chat);
    expect(first).toMatchObject({ text: 'one', calls: [{ id: 'call_0', name: 'shell', args: '{"command":"ls"}' }] });
    expect((await ask(scripted(script), chat)).text).toBe('one');
    expect((await ask(scripted(script), [...chat, assistantMessage(first)])).text).toBe('two');
    expect((await ask(scripted(script), [...chat, assistantMessage(first), answer('two')])).text).toBe(
      'The script has ended.',
    );
  });

  test('its last answer is repeated indefinitely with `repeat`', async () => {
    const model = scripted([{ text: 'one' }, { text: 'again', repeat: true }]);
    expect((await ask(model, [user('go'), answer('1'), answer('2'), answer('3')])).text).toBe('again');
  });

  test('arguments in a string are passed on broken, ids are kept', async () => {
    const model = scripted([{ calls: [{ name: 'shell', args: '{"command', id: 'mine' }] }]);
    expect((await ask(model, 'go')).calls).toEqual([{ id: 'mine', name: 'shell', args: '{"command' }]);
  });

  test('an answer with `when` belongs to the conversations that hold its words, the daemon left out', async () => {
    const model = scripted([{ text: 'for a', when: 'alpha' }, { text: 'for b', when: 'beta' }, { text: 'for all' }]);
    expect((await ask(model, 'say alpha')).text).toBe('for a');
    expect((await ask(model, 'say beta')).text).toBe('for b');
    expect((await ask(model, [user('hello'), user(daemonBlock('a1b2c3d4e5f6', 'alpha'))])).text).toBe('for all');
    expect((await ask(model, [user('say beta'), answer('for b')])).text).toBe('for all');
  });

  test('an error is served once, then the answer after it', async () => {
    const model = scripted([
      { status: 429, retry_after: 3, text: 'slow' },
      { status: 500 },
      { text: 'one' },
      { status: 401 },
    ]);
    expect(await fault(model)).toMatchObject({
      kind: 'overloaded',
      waitMs: 3000,
      message: expect.stringMatching(/^scripted:\S+ answered 429: slow$/),
    });
    expect(await fault(model)).toMatchObject({ kind: 'unreachable', retry: true });
    expect((await ask(model, 'hello')).text).toBe('one');
    expect(await fault(model, [user('hello'), answer('one')])).toMatchObject({ kind: 'rejected' });
    expect((await ask(model, [user('hello'), answer('one')])).text).toBe('The script has ended.');
  });

  test("an answer of nothing is malformed, as an endpoint's is", async () => {
    expect(await fault(scripted([{ text: ' ' }]))).toMatchObject({ kind: 'malformed', retry: true });
  });

  test('a delay ends at once with an abort', async () => {
    const stop = new AbortController();
    const model = scripted([{ text: 'late', delay_ms: 3_600_000 }]);
    const asked = model.ask(request([user('go')]), { signal: stop.signal, onText: () => undefined });
    setTimeout(() => stop.abort(new Error('stopped')), 10);
    await expect(asked).rejects.toThrow('stopped');
  });

  test('its text is streamed line by line, and its tokens are estimated', async () => {
    const { deltas, usage } = await ask(scripted([{ text: 'a\nb\nc' }]), 'x'.repeat(40));
    expect(deltas).toEqual(['a\n', 'b\n', 'c']);
    expect(usage).toEqual({ tokens: 19, cost: null });
  });
});

describe('a file that is no script is refused, saying where,', () => {
  test.each([
    ['missing', undefined, /cannot be read/],
    ['no JSON', '[{', /cannot be read as JSON/],
    ['no list', { text: 'a' }, /expected array/],
    ['an unknown key', [{ txt: 'a' }], /txt/],
    ['a wrong type', [{ text: 'a' }, { calls: [{ name: 'shell' }] }], /\[1\]\.calls\[0\]\.args/],
    ['an error with calls', [{ status: 500, calls: [] }], /has no calls/],
  ])('%s', (_, script, words) => {
    const name = `scripted:${script === undefined ? join(folder, 'none.json') : fileOf(script)}`;
    expect(() => chooseModel({ name }, {})).toThrow(UserError);
    expect(() => chooseModel({ name }, {})).toThrow(words);
  });
});
