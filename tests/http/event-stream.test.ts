import { getEventListeners } from 'node:events';
import * as fs from 'node:fs';
import { createServer, request } from 'node:http';
import { EventSource } from 'eventsource';
import { expect, onTestFinished, test, vi } from 'vitest';
import { sseResponse } from '../../src/frontends/http/common/sse-response.ts';
import { type Event, EventBody } from '../../src/protocol/session/event.ts';
import { stampEvents } from '../../src/store/event-log/event-codec.ts';
import { type LogExtent, readEventLog } from '../../src/store/event-log/log-reader.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { received, record, started } from '../client/rig.ts';
import { script, setup } from '../support/agentctl.ts';
import { everything } from '../support/all.ts';
import { listen } from '../support/temporary.ts';
import { opened, progress, servedSession, waitForHandles } from './served-session.ts';
import { serveWorkspace } from './serving.ts';

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n + 1);

/** Opens a stream; `until` resolves with everything received once it contains a given text. */
function openStream(url: string, headers: Record<string, string>) {
  const asked = request(url, { headers, agent: false });
  let came = '';
  let look = () => {};
  const arrived = new Promise<void>((done, failed) => {
    asked.once('error', failed);
    asked.once('response', (answer) => {
      answer.on('error', () => {});
      answer.setEncoding('utf8').on('data', (text: string) => {
        came += text;
        look();
      });
      done();
    });
  });
  asked.end();
  const until = async (piece: string): Promise<string> => {
    await arrived;
    await new Promise<void>((done) => {
      look = () => {
        if (came.includes(piece)) done();
      };
      look();
    });
    return came;
  };
  return { until, cut: () => asked.destroy() };
}

test('a stream begins with its retry time; events have their seq as id, live text and heartbeats none; void events are reported', async () => {
  const { url, headers, paths } = await servedSession();
  await record(paths, [opened, ...progress(3)]);
  const stream = openStream(url, { ...headers, 'last-event-id': '2' });
  const first = await stream.until('id: 4\n');
  expect(first).toMatch(/^retry: 1000\n\nid: 3\nevent: step\.progressed\ndata: \{.*"seq":3.*\}\n\nid: 4\n/);
  fs.writeFileSync(paths.live, 'Hello');
  await stream.until('"Hello"');
  fs.appendFileSync(paths.live, ' world');
  const live = await stream.until('world');
  expect(live).toContain('\n\nevent: live\ndata: {"from":0,"text":"Hello"}\n\n');
  expect(live).toContain('event: live\ndata: {"from":5,"text":" world"}\n\n');
  expect(await stream.until('heartbeat')).toContain('\n\nevent: heartbeat\ndata: {}\n\n');
  await record(paths, [received('1.md'), started('1.md')]);
  const ids = (text: string) => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  expect(ids(await stream.until('id: 6\n'))).toEqual([3, 4, 5, 6]);

  // A new connection gets all text of the model so far.
  const late = openStream(url, { ...headers, 'last-event-id': '6' });
  expect(await late.until('world')).toContain('event: live\ndata: {"from":0,"text":"Hello world"}');
  // A daemon that did not see the last two events writes others with their numbers.
  const { mark } = (await readEventLog(paths, () => {})) as LogExtent;
  await record(paths, progress(2));
  for (const one of [stream, late]) await one.until('id: 8\n');
  const at = new Date().toISOString();
  const { segment, offset, seq } = mark;
  fs.appendFileSync(paths.events, stampEvents(progress(3), { seq, epoch: 2, at, fence: { segment, offset } }).text);
  for (const one of [stream, late]) {
    const corrected = await one.until('id: 9\n');
    expect(corrected).toContain('\n\nevent: void\ndata: {"from":7}\n\nid: 7\n');
    expect(ids(corrected).slice(-5)).toEqual([7, 8, 7, 8, 9]);
    one.cut();
  }
});

test('a stream begins with the newest events, or ends before a given one; a place to resume from overrides a count', async () => {
  const { url, headers, paths, complaints } = await servedSession();
  await record(paths, [opened, ...progress(9)]);
  const told = async (query: string, more: Record<string, string> = {}) => {
    const text = await (await fetch(url + query, { headers: { ...headers, ...more } })).text();
    return [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  };
  expect(await told('?before=8&last=3')).toEqual([5, 6, 7]);
  expect(await told('?before=4&last=100')).toEqual([1, 2, 3]);
  expect(await told('?before=8&last=3&after=5')).toEqual([6, 7]);
  expect(await told('?before=99')).toEqual(upTo(10));
  expect(await told('?before=4&last=1', { 'last-event-id': '1' })).toEqual([2, 3]);
  expect((await fetch(`${url}?last=0`, { headers })).status).toBe(400);
  const stream = openStream(`${url}?last=2`, headers);
  await stream.until('id: 10\n');
  await record(paths, progress(1));
  const all = await stream.until('id: 11\n');
  expect([...all.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))).toEqual([9, 10, 11]);
  stream.cut();
  expect(complaints).toEqual([]);
});

test('frames that are ready are sent together, up to a limit; a late frame delays none, and none is generated before it is needed', async () => {
  const frame = `data: ${'x'.repeat(93)}\n\n`;
  let release = () => {};
  const late = new Promise<void>((done) => {
    release = done;
  });
  let made = 0;
  async function* frames() {
    for (let n = 0; n < 1500; n++) {
      made++;
      yield frame;
    }
    await late;
    yield 'data: late\n\n';
  }
  const reader = sseResponse(frames, new AbortController().signal).body?.getReader();
  const next = async () => new TextDecoder().decode((await reader?.read())?.value);
  expect(made).toBe(0);
  const first = await next();
  // 65,536 characters and the frame in which they end; no chunk ends within a frame.
  expect([first.length % frame.length, first.length > 60_000, first.length <= 65_536 + frame.length]).toEqual([
    0,
    true,
    true,
  ]);
  await new Promise(setImmediate);
  expect(made).toBeLessThanOrEqual(first.length / frame.length + 1);
  let rest = '';
  let chunks = 0;
  for (; first.length + rest.length < 1500 * frame.length; chunks++) rest += await next();
  expect(chunks).toBeLessThanOrEqual(4);
  release();
  expect(await next()).toBe('data: late\n\n');
  expect((await reader?.read())?.done).toBe(true);
});

test('EventSource gets everything once and in order although connections are cut every few events', async () => {
  const { server, headers, paths, complaints } = await servedSession();
  await record(paths, [opened, ...progress(99)]);
  const proxy = await cuttingProxy(() => server.url, 17);
  const seen: number[] = [];
  const source = new EventSource(`${proxy.url}/api/sessions/demo/events`, {
    fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...headers } }),
  });
  onTestFinished(() => source.close());
  let look = () => {};
  const take = ({ lastEventId, data }: MessageEvent) => {
    seen.push(JSON.parse(String(data)).seq);
    expect(String(seen.at(-1))).toBe(lastEventId);
    look();
  };
  for (const type of ['session.opened', 'step.progressed']) source.addEventListener(type, take);
  const until = (count: number) =>
    new Promise<void>((done) => {
      look = () => {
        if (seen.length >= count) done();
      };
      look();
    });
  await until(60);
  await record(paths, progress(50));
  await until(150);
  expect(seen).toEqual(upTo(150));
  expect(proxy.cuts()).toBeGreaterThanOrEqual(6);
  expect(complaints).toEqual([]);
});

test('EventSource misses nothing and gets nothing twice while proxy, server and daemon are killed and come back', async () => {
  const place = setup();
  const hold = 'until [ -e go ]; do sleep 0.05; done';
  const model = script(place, [
    { text: '[Step] Wait\n[Step] Go on', calls: [{ name: 'shell', args: { command: hold } }] },
    { text: '[Done: Wait]', calls: [{ name: 'shell', args: { command: 'true' } }] },
    { text: '[Done: Go on] All is done.' },
    { text: 'Once more.' },
  ]);
  const daemon = await place.serve('--model', model);
  let server = await serveWorkspace(place);
  const proxy = await cuttingProxy(() => server.url, 7);
  const send = (text: string) => server.ask('POST', '/api/sessions/demo/messages', { body: { text } });
  await send('Begin');
  const seen: number[] = [];
  const headers = { authorization: `Bearer ${server.token}` };
  const source = new EventSource(`${proxy.url}/api/sessions/demo/events`, {
    fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...headers } }),
  });
  onTestFinished(() => source.close());
  let look = (_: Event) => {};
  const take = ({ data }: MessageEvent) => {
    const event: Event = JSON.parse(String(data));
    seen.push(event.seq);
    look(event);
  };
  for (const { shape } of EventBody.options) source.addEventListener(shape.type.value, take);
  const until = (type: Event['type'], count: number) => {
    let left = count;
    return new Promise<void>((done) => {
      look = (event) => {
        if (event.type === type && --left === 0) done();
      };
    });
  };

  await until('tool.started', 1);
  for (const { child } of [daemon, server]) child.kill('SIGKILL');
  await Promise.all([daemon.ended, server.ended]);
  fs.writeFileSync(place.path('.sessions', 'demo', 'work', 'go'), '');
  const replied = until('reply.published', 1);
  server = await serveWorkspace(place);
  const last = await place.serve('--model', model);
  await replied;

  server.child.kill('SIGTERM');
  await server.ended;
  server = await serveWorkspace(place);
  const again = until('reply.published', 1);
  await send('And once more');
  await again;
  last.child.kill('SIGTERM');
  await last.ended;
  const log = (await place.here(['log', 'demo', '--json'])).out.split('\n').filter(Boolean);
  await vi.waitFor(() => expect(seen).toHaveLength(log.length));
  expect(seen).toEqual(log.map((line) => JSON.parse(line).seq));
  expect(seen).toEqual(upTo(seen.length));
  expect(proxy.cuts()).toBeGreaterThanOrEqual(2);
});

test('200 streams that are opened and killed leave no listener, descriptor or watch behind', async () => {
  const { url, headers, paths, complaints, client } = await servedSession();
  await record(paths, [opened, ...progress(3)]);
  const signals = new Set<AbortSignal>();
  const { stream } = client;
  client.stream = (key, options = {}) => {
    if (options.signal) signals.add(options.signal);
    return stream(key, options);
  };
  const round = async (count: number) => {
    const streams = upTo(count).map(() => openStream(url, headers));
    await Promise.all(streams.map((one) => one.until('id: 4\n')));
    for (const one of streams) one.cut();
  };
  await round(5);
  const before = await waitForHandles({ descriptors: Number.POSITIVE_INFINITY, watches: 0 });
  for (let n = 0; n < 4; n++) await round(50);
  await waitForHandles(before);
  expect(signals.size).toBe(205);
  expect([...signals].filter((one) => !one.aborted || getEventListeners(one, 'abort').length > 0)).toEqual([]);
  expect(complaints).toEqual([]);
});

/** A real server has one descriptor for each connection, and one watch for all streams of a session. */
const STREAMS = everything ? 1000 : 100;

test(`a server in which ${STREAMS} streams of 20 sessions were open at once and killed holds what it held before`, async () => {
  const place = setup();
  const { url, token, child, ended, ask } = await serveWorkspace(place);
  const headers = { authorization: `Bearer ${token}` };
  const { pid = 0 } = child;
  const sessions = upTo(20).map((n) => `demo-${n}`);
  for (const name of sessions) {
    await ask('POST', `/api/sessions/${name}/messages`, { body: { text: 'x' } });
    await record(sessionPaths(place.path('.sessions', name)), [opened, ...progress(3)]);
  }
  const round = async (count: number) => {
    const streams = upTo(count).map((n) =>
      openStream(`${url}/api/sessions/${sessions[n % sessions.length]}/events`, headers),
    );
    await Promise.all(streams.map((one) => one.until('id: 4\n')));
    return streams;
  };
  for (const one of await round(sessions.length)) one.cut();
  const before = await waitForHandles({ descriptors: Number.POSITIVE_INFINITY, watches: 0 }, pid);
  const streams = await round(STREAMS);
  const open = await waitForHandles({ descriptors: Number.POSITIVE_INFINITY, watches: Number.POSITIVE_INFINITY }, pid);
  expect(open.descriptors).toBeGreaterThanOrEqual(before.descriptors + STREAMS);
  expect(open.watches).toBe(sessions.length);
  for (const one of streams) one.cut();
  await waitForHandles(before, pid);
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 0, err: '' });
});

/** A proxy that cuts each connection in the middle of an event, after a number of events. */
async function cuttingProxy(to: () => string, most: number): Promise<{ url: string; cuts(): number }> {
  let cuts = 0;
  const proxy = createServer((asked, answer) => {
    const passed = request(to() + asked.url, { headers: asked.headers, agent: false }, (source) => {
      answer.writeHead(source.statusCode ?? 0, source.headers);
      let [rest, count] = ['', 0];
      source.setEncoding('utf8').on('data', (text: string) => {
        const frames = (rest + text).split('\n\n');
        rest = frames.pop() ?? '';
        for (const frame of frames) {
          if (frame.startsWith('id: ') && ++count > most) {
            cuts++;
            passed.destroy();
            answer.write(frame.slice(0, 20), () => answer.destroy());
            return;
          }
          answer.write(`${frame}\n\n`);
        }
      });
      source.on('error', () => {}).on('close', () => answer.destroy());
    });
    passed.on('error', () => answer.destroy()).end();
    answer.on('close', () => passed.destroy());
  });
  const port = await listen(proxy);
  return { url: `http://127.0.0.1:${port}`, cuts: () => cuts };
}
