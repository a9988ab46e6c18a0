import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import type { SessionUpdate } from '../../src/client/index.ts';
import { openLiveTail, wasWrittenBefore } from '../../src/client/sessions/follow-log.ts';
import { stampEvents } from '../../src/store/event-log/event-codec.ts';
import { type LogExtent, readEventLog } from '../../src/store/event-log/log-reader.ts';
import { openSessionFolder, sessionTokens } from '../../src/store/index.ts';
import { ended, now, opened, planned, received, record, rig, rigWithMessage, started } from './rig.ts';

const upTo = async <T>(source: AsyncGenerator<T>, count: number): Promise<T[]> => {
  const seen: T[] = [];
  for await (const one of source) if (seen.push(one) === count) break;
  return seen;
};

test('events are read from a seq on, with their lines as they stand in the event log', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md', 'x'.repeat(300_000)), started('1.md')]);
  const lines = fs.readFileSync(paths.events, 'utf8').split('\n');
  const reported = [];
  for await (const { event, line } of client.events('demo', { from: 2 })) reported.push([event.seq, line]);
  expect(reported).toEqual([
    [2, lines[1]],
    [3, lines[2]],
  ]);
});

test('who follows is told each event once, and an unfinished line only when it is whole', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md'), started('1.md')]);
  const whole = fs.readFileSync(paths.events);
  const cut = whole.length - 20;
  fs.writeFileSync(paths.events, whole.subarray(0, cut));
  const followed = client.events('demo', { follow: true });
  expect((await upTo(followed, 2)).map(({ event }) => event.seq)).toEqual([1, 2]);
  const again = client.events('demo', { follow: true });
  const three = upTo(again, 3);
  fs.appendFileSync(paths.events, whole.subarray(cut));
  expect((await three).map(({ event }) => event.seq)).toEqual([1, 2, 3]);
});

test('what a failed append took back is not reported again', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md')]);
  const kept = fs.readFileSync(paths.events);
  const followed = client.events('demo', { follow: true });
  await record(paths, [started('1.md'), ...planned('plan_1', 'Count')]);
  const seqs: number[] = [];
  for await (const { event } of followed) {
    seqs.push(event.seq);
    if (event.seq === 6) {
      fs.writeFileSync(paths.events, kept);
      await new Promise((later) => setTimeout(later, 700));
      await record(paths, [started('1.md'), ...planned('plan_1', 'Count'), ...ended('1.md', 'plan_1')]);
    }
    if (event.seq === 11) break;
  }
  expect(seqs).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
});

test('following ends when it is called off and when the session is gone', async () => {
  const at = rig();
  for (const name of ['one', 'two']) {
    await at.client.send(name, { text: 'x' });
    await record(at.session(name), [opened]);
  }
  const control = new AbortController();
  const one = upTo(at.client.events('one', { follow: true, signal: control.signal }), 9);
  const two = upTo(at.client.events('two', { follow: true }), 9);
  control.abort();
  await at.client.archive('two');
  expect([(await one).length, (await two).length]).toEqual([1, 1]);
});

test('a bad line in the middle of an event log is reported with its number', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md'), started('1.md')]);
  fs.writeFileSync(paths.events, fs.readFileSync(paths.events, 'utf8').replace('Count the words', 'Count the birds'));
  await expect(upTo(client.events('demo'), 9)).rejects.toThrow('line 2 cannot be trusted');
});

test('who watches sees how it stands, then events and the words of each call, none twice', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md'), started('1.md')]);
  const store = openSessionFolder(paths.folder, sessionTokens().take('demo'), { now });
  const control = new AbortController();
  const seen: string[] = [];
  const watching = (async () => {
    for await (const sight of client.watch('demo', { signal: control.signal })) seen.push(...shownAs(sight));
  })();
  const until = async (count: number) => {
    while (seen.length < count) await new Promise((later) => setTimeout(later, 5));
  };
  await until(1);
  store.live.begin();
  store.live.write('Let me s\u00e9e. [Step] First');
  await until(2);
  await store.eventLog.append([answered('Let me s\u00e9e. [Step] First'), ...planned('plan_1', 'Count')]);
  await until(6);
  store.live.begin();
  store.live.write('It is there. [Done]');
  await until(7);
  await store.eventLog.append(ended('1.md', 'plan_1'));
  await until(12);
  control.abort();
  await watching;
  await store.close();
  expect(seen).toEqual([
    'running',
    'Let me s\u00e9e. [Step] First',
    'model.answered',
    'plan.started',
    'step.added',
    'step.started',
    'It is there.',
    'step.completed',
    'run.ended',
    'plan.ended',
    'reply.committed',
    'reply.published',
  ]);
});

test('a reader who continues after an event is told when another daemon replaces it and those before', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened]);
  const { mark } = (await readEventLog(paths, () => {})) as LogExtent;
  await record(paths, [received('1.md'), started('1.md')]);
  const control = new AbortController();
  const stream = client.stream('demo', { after: 3, heartbeatMs: 0, signal: control.signal });
  expect((await stream.next()).value).toEqual({ is: 'heartbeat' });
  const [{ segment, offset, seq }, events] = [mark, [received('2.md'), started('2.md'), received('3.md')]];
  const stamp = { seq, epoch: 2, at: new Date().toISOString(), fence: { segment, offset } };
  fs.appendFileSync(paths.events, stampEvents(events, stamp).text);
  const seen: unknown[] = [];
  for await (const update of stream) {
    if (update.is !== 'heartbeat') seen.push(update.is === 'event' ? update.event.seq : update);
    if (seen.length === 4) break;
  }
  control.abort();
  expect(seen).toEqual([{ is: 'void', from: 2 }, 2, 3, 4]);
});

test('the words of a call that began and ended between two looks of a stream come once, in its event', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md'), started('1.md')]);
  const store = openSessionFolder(paths.folder, sessionTokens().take('demo'), { now });
  const control = new AbortController();
  const stream = client.stream('demo', { signal: control.signal });
  const next = async () => (await stream.next()).value;
  for (let n = 0; n < 3; n++) await next();
  store.live.begin();
  store.live.write('Both at once.');
  await store.eventLog.append([answered('Both at once.')]);
  expect(await next()).toMatchObject({ is: 'event', event: { type: 'model.answered', text: 'Both at once.' } });
  store.live.begin();
  store.live.write('The next call.');
  expect(await next()).toEqual({ is: 'text', from: 0, text: 'The next call.' });
  control.abort();
  await stream.return(undefined);
  await store.close();
});

test('the words of the second of two calls between two looks are reported once, after the first call', async () => {
  const { client, paths } = await rigWithMessage();
  await record(paths, [opened, received('1.md'), started('1.md')]);
  const store = openSessionFolder(paths.folder, sessionTokens().take('demo'), { now });
  const control = new AbortController();
  const watch = client.watch('demo', { signal: control.signal });
  await watch.next();
  for (const text of ['First.', 'Second.']) {
    store.live.begin();
    store.live.write(text);
    await expect.poll(() => fs.readFileSync(paths.live, 'utf8')).toBe(text);
    await store.eventLog.append([answered(text)]);
  }
  const nextText = async () => {
    for (;;) {
      const { value } = await watch.next();
      if (value?.kind === 'text') return value.text;
    }
  };
  expect([await nextText(), await nextText()]).toEqual(['First.', 'Second.']);
  await store.eventLog.append([answered('Third.')]);
  expect(await nextText()).toBe('Third.');
  control.abort();
  await watch.return(undefined);
  await store.close();
});

function shownAs(item: SessionUpdate): string[] {
  if (item.kind === 'text') return [item.text];
  return [item.event?.type ?? (item.session.run ? 'running' : 'idle')];
}

const answered = (text: string) => ({
  type: 'model.answered' as const,
  text,
  calls: [],
  usage: { tokens: 1, cost: null },
  model: 'm',
  ms: 1,
  delivered: ['1.md'],
  seen: 3,
});

test('words written in the same millisecond as the event of their call belong to that call', () => {
  const at = rig();
  fs.mkdirSync(at.root);
  const live = `${at.root}/live`;
  fs.writeFileSync(live, 'Hello.');
  const event = '2026-01-02T03:04:05.678Z';
  for (const [ms, isBefore] of [
    [678.9, true],
    [678.1, true],
    [677.9, true],
    [679.1, false],
  ] as const) {
    const written = (Date.parse(event) - 678 + ms) / 1000;
    fs.utimesSync(live, written, written);
    expect([ms, wasWrittenBefore(live, event)]).toEqual([ms, isBefore]);
  }
});

test('a call whose words outgrew those of the call before between two looks is read from its beginning', () => {
  const at = rig();
  fs.mkdirSync(at.root);
  const path = `${at.root}/live`;
  const tail = openLiveTail(path);
  fs.writeFileSync(path, 'Hello.');
  expect(tail.readNew()).toEqual({ text: 'Hello.', began: true });
  fs.writeFileSync(path, 'Written: héllo. [Done]');
  expect(tail.readNew()).toEqual({ text: 'Written: héllo. [Done]', began: true });
  fs.appendFileSync(path, ' Next.');
  expect(tail.readNew()).toEqual({ text: ' Next.', began: false });
  tail.skipToEnd();
  fs.writeFileSync(path, 'Short.');
  expect(tail.readNew()).toEqual({ text: 'Short.', began: true });
  tail.skipToEnd();
  expect(tail.readNew()).toEqual({ text: '', began: false });
  fs.writeFileSync(path, 'Short. And longer.');
  expect(tail.readNew()).toEqual({ text: 'Short. And longer.', began: true });
});
