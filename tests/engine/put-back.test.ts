import { expect, test } from 'vitest';
import type { MemoryStore } from '../support/memory-store.ts';
import { memoryStore } from '../support/memory-store.ts';
import { moves, type Rig, rig } from '../support/rig.ts';

const answered = (it: Rig) => [...it.store.hands.replies().keys()].sort();
const count = (it: Rig, type: string) => it.types().filter((one) => one === type).length;

async function dropped(it: Rig, name: string, content: string): Promise<void> {
  it.drop(name, content);
  await it.pass(300);
}

/** `mv done/<seq>-<of> inbox/<to>` */
async function putBack(it: Rig, of: string, to: string): Promise<void> {
  const from = it.store.hands.done().find((name) => name.endsWith(`-${of}`));
  it.store.hands.putBack(from ?? `?-${of}`, to);
  it.worker.wake();
  await it.pass(300);
}

test.each([false, true])(
  'an answered file put back from done/ under a new name is a new message (restart: %j)',
  async (restart) => {
    const it = await rig({ script: moves({ text: 'one' }, { text: 'two' }) });
    await dropped(it, '1.md', 'hello');
    if (restart) await it.restart();
    await putBack(it, '1.md', 'again.md');
    expect(answered(it)).toEqual(['1.md', 'again.md']);
    expect(it.reply('again.md')).toContain('two');
    await putBack(it, 'again.md', 'once-more.md');
    expect(answered(it)).toEqual(['1.md', 'again.md', 'once-more.md']);
    expect(it.store.hands.waiting()).toEqual([]);
  },
);

test.each([false, true])(
  'put back under the name it had, it is refused with the reason (restart: %j)',
  async (restart) => {
    const it = await rig({ script: moves({ text: 'one' }) });
    await dropped(it, '1.md', 'hello');
    if (restart) await it.restart();
    await putBack(it, '1.md', '1.md');
    expect(answered(it)).toEqual(['1-2.md', '1.md']);
    expect(it.reply('1-2.md')).toMatch(
      /status: rejected[\s\S]*already processed as the message "1.md"[\s\S]*drop a copy/,
    );
    expect([...it.store.hands.rejected().keys()]).toEqual(['1.md']);
    expect(count(it, 'run.started')).toBe(1);
  },
);

test('renamed while its message is still at work, it is answered under both names, and runs once', async () => {
  const it = await rig({ script: () => ({ hold: true, next: () => ({ text: 'one' }) }) });
  await dropped(it, '1.md', 'hello');
  await putBack(it, '1.md', 'again.md');
  it.release();
  await it.pass(300);
  expect(it.reply('1.md')).toContain('one');
  expect(it.reply('again.md')).toMatch(/status: joined[\s\S]*outbox\/1.md/);
  expect(count(it, 'run.started')).toBe(1);
});

test('a file with an id that is put back gets its reply again, and nothing runs', async () => {
  const it = await rig({ script: moves({ text: 'one' }) });
  await dropped(it, 'a.json', '{"id":"x","text":"hello"}');
  it.store.hands.consume('a.json');
  await putBack(it, 'a.json', 'b.json');
  expect(answered(it)).toEqual(['a.json']);
  expect([count(it, 'run.started'), it.store.hands.waiting()]).toEqual([1, []]);
});

test('a name used again that was put back is told from the first of that name', async () => {
  const it = await rig({ script: moves({ text: 'one' }, { text: 'two' }, { text: 'three' }) });
  await dropped(it, '1.md', 'hello');
  await dropped(it, '1.md', 'hello');
  expect(answered(it)).toEqual(['1-2.md', '1.md']);
  await it.restart();
  const second = it.store.hands.done().at(-1) ?? '';
  it.store.hands.putBack(second, '1.md');
  it.worker.wake();
  await it.pass(300);
  expect(it.reply('1-3.md')).toMatch(/status: rejected[\s\S]*the message "1-2.md"/);
});

test('a message called like an entry of outbox/ gets its reply under another name', async () => {
  const it = await rig({ script: moves({ text: 'one' }, { text: 'two' }) });
  await dropped(it, 'read', 'hello');
  await dropped(it, 'READ', 'hello again');
  expect(answered(it)).toEqual(['READ-2', 'read-2']);
  expect(it.reply('read-2')).toMatch(/^id: read-2$[\s\S]*one/m);
});

test('with an event log from a backup, new answers are published where answers of its lost part lie', async () => {
  const it = await rig({ script: (_request, n) => ({ text: `answer ${n}` }) });
  await dropped(it, '1.md', 'hello');
  const backup = it.events().map(({ v, seq, epoch, at, ...body }) => body);
  await dropped(it, '2.md', 'to be lost');
  await dropped(it, '3.md', 'to be lost, and its reply is read');
  it.store.hands.consume('3.md');
  const old = it.reply('2.md');
  const lost = it.store.hands;
  const store = memoryStore('demo');
  for (const [name, text] of lost.replies()) await store.outbox.publish(name, text);
  await store.outbox.publish('3.md', 'of the lost part');
  store.hands.consume('3.md');
  const next = await rig({ store, before: backup, script: () => ({ text: 'new' }) });
  await dropped(next, '2.md', 'asked once more');
  await dropped(next, '3.md', 'asked once more');
  expect(next.reply('2.md')).toContain('new');
  expect(next.reply('2.earlier.md')).toBe(old);
  expect(next.reply('3.md')).toContain('new');
});

/** A store whose process is killed before its call number `last`: that one and all that follow never come back. */
function killedAt(store: MemoryStore, last: number): { store: MemoryStore; calls: () => number } {
  let calls = 0;
  const dying = <T extends object>(port: T): T =>
    new Proxy(port, {
      get(of, key) {
        const value: unknown = Reflect.get(of, key);
        if (typeof value !== 'function' || ['mark', 'isReserved', 'accept'].includes(String(key))) return value;
        return (...args: unknown[]) => (++calls > last ? new Promise(() => {}) : Reflect.apply(value, of, args));
      },
    });
  const { eventLog, inbox, outbox, plan } = store;
  return {
    store: { ...store, eventLog: dying(eventLog), inbox: dying(inbox), outbox: dying(outbox), plan: dying(plan) },
    calls: () => calls,
  };
}

/** A file is dropped, answered, and put back as often as the person sees its reply; the daemon is killed once. */
async function runDaemon(last: number): Promise<{ it: Rig; calls: number }> {
  const { store, calls } = killedAt(memoryStore('demo', { now: () => new Date(1_767_600_000_000) }), last);
  const opening = rig({ store, script: () => ({ text: 'an answer' }) });
  store.hands.drop('1.md', 'hello');
  const first = await Promise.race([opening, new Promise<undefined>((done) => setTimeout(() => done(undefined), 20))]);
  const person = async (it: Rig) => {
    it.worker.wake();
    await it.pass(300);
    const from = it.store.hands.done().find((name) => name.endsWith('-1.md'));
    if (from && it.reply('1.md') !== undefined) it.store.hands.putBack(from, 'again.md');
    it.worker.wake();
    await it.pass(300);
  };
  if (first) await person(first);
  const it = await rig({ store: store.hands.restart({ powerCut: true }), script: () => ({ text: 'an answer' }) });
  await person(it);
  await person(it);
  return { it, calls: calls() };
}

test('killed at any step, a file and its putting back have one reply each, and each runs once', async () => {
  const { calls } = await runDaemon(Number.POSITIVE_INFINITY);
  expect(calls).toBeGreaterThan(20);
  for (let last = 0; last <= calls; last++) {
    const { it } = await runDaemon(last);
    expect(it.faults, `killed at step ${last}`).toEqual([]);
    const replies = it.events().flatMap((event) => (event.type === 'reply.committed' ? [event.reply.id] : []));
    expect(replies.sort(), `killed at step ${last}`).toEqual(['1.md', 'again.md']);
    expect([answered(it), it.store.hands.waiting()], `killed at step ${last}`).toEqual([['1.md', 'again.md'], []]);
    expect(count(it, 'run.started'), `killed at step ${last}`).toBe(2);
  }
}, 60_000);
