import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { reducerVersion } from '../../scripts/docs/reducer-version.ts';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../src/core/session/snapshot.ts';
import type { EventLog, Snapshots } from '../../src/engine/ports/store-ports.ts';
import { openSessionLog } from '../../src/engine/state/session-log.ts';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import type { LogPosition } from '../../src/protocol/session/log-entry.ts';
import type { Plan } from '../../src/protocol/session/plan.ts';
import { live } from '../sim/life.ts';
import { type MemoryStore, memoryStore } from '../support/memory-store.ts';
import { moves, NONCE, rig, shell } from '../support/rig.ts';
import { bare } from '../support/same-session.ts';

const json = (value: unknown) => JSON.parse(JSON.stringify(value));

/** The session after each event, and the plan that had left last by then. */
function meanings(events: Event[]): Array<{ session: Session; left: Plan | null }> {
  let at = { session: emptySession('demo'), left: null as Plan | null };
  return events.map((event) => {
    const { plan } = at.session;
    const session = reduceEvent(at.session, event);
    at = { session, left: plan && plan.id !== session.plan?.id ? plan : at.left };
    return at;
  });
}

test('a snapshot at any place of an event log and the rest of it give what the whole log gives', async () => {
  for (const seed of [1, 2, 3, 7, 11, 17, 23, 42]) {
    const events = (await live(seed)).store.hands.events();
    const all = meanings(events);
    const whole = all.at(-1)?.session ?? emptySession('demo');
    for (const [place, meaning] of all.entries()) {
      const back = stateFromSnapshot(json(snapshotFromState(meaning)), 'demo');
      if (!back) throw new Error(`seed ${seed}: the snapshot after event ${place + 1} is not read back`);
      expect(bare(back.session), `seed ${seed}, after event ${place + 1}`).toEqual(bare(meaning.session));
      expect(back.left).toEqual(meaning.left);
      const end = events.slice(place + 1).reduce(reduceEvent, back.session);
      expect(bare(end), `seed ${seed}, on from event ${place + 1}`).toEqual(bare(whole));
    }
  }
}, 60_000);

test('the version of the reducers is that of their sources: after a change of them run "npm run docs"', () => {
  expect(readFileSync('src/core/session/reducer-version.ts', 'utf8')).toBe(reducerVersion());
});

/** A store whose journal says how many events it told, and from where. */
function watched(store: MemoryStore) {
  const reads: Array<{ from: LogPosition | 'oldest' | undefined; events: number }> = [];
  const eventLog: EventLog = {
    ...store.eventLog,
    async read(each, from) {
      const reported = { from, events: 0 };
      reads.push(reported);
      return store.eventLog.read((event) => {
        reported.events++;
        each(event);
      }, from);
    },
  };
  return { eventLog, reads };
}

const planned = async () => {
  const it = await rig({
    script: moves(
      { text: '[Step] One\n[Step] Two', calls: [shell()] },
      { text: '[Done]', calls: [shell()] },
      { hold: true },
    ),
  });
  it.drop('1.md', 'Two things');
  await it.pass(300);
  return it;
};

async function closed(it: Awaited<ReturnType<typeof planned>>): Promise<MemoryStore> {
  const stopping = it.worker.stop(0);
  await it.pass(1);
  await stopping;
  return it.store.hands.restart();
}

test('what was closed in order is opened by its snapshot and nothing else', async () => {
  const it = await planned();
  const store = await closed(it);
  const { eventLog, reads } = watched(store);
  const sessionLog = await openSessionLog('demo', eventLog, store.snapshots, () => NONCE);
  expect(reads).toMatchObject([{ events: 0 }]);
  expect(bare(sessionLog.session)).toEqual(bare(it.store.hands.events().reduce(reduceEvent, emptySession('demo'))));
  expect(sessionLog.sinceSnapshot).toBe('nothing');
});

test.each<[string, (state: Record<string, unknown>) => unknown]>([
  ['of another version of the reducers', (state) => ({ ...state, reducers: 'another' })],
  ['of another layout', (state) => ({ ...state, layout: 0 })],
  ['that is no snapshot at all', () => 'nonsense'],
  ['that is not there', () => undefined],
])('a snapshot %s is not believed, and the event log is read whole', async (_, spoil) => {
  const store = await closed(await planned());
  const snapshots: Snapshots = {
    ...store.snapshots,
    async load() {
      const good = await store.snapshots.load();
      const state = spoil(json(good?.state));
      return good && state !== undefined ? { mark: good.mark, state } : undefined;
    },
  };
  const { eventLog, reads } = watched(store);
  const sessionLog = await openSessionLog('demo', eventLog, snapshots, () => NONCE);
  expect(reads).toMatchObject([{ from: 'oldest', events: store.hands.events().length }]);
  expect(bare(sessionLog.session)).toEqual(bare(store.hands.events().reduce(reduceEvent, emptySession('demo'))));
});

test('where the beginning of the event log was removed, a snapshot of an earlier version stands for it', async () => {
  const store = await closed(await planned());
  const wanted = bare(store.hands.events().reduce(reduceEvent, emptySession('demo')));
  const last = store.hands.events().length;
  const good = await store.snapshots.load();
  if (!good) throw new Error('no snapshot');
  const old = { ...json(good.state), reducers: 'earlier' };
  const eventLog: EventLog = {
    ...store.eventLog,
    read: (each) => store.eventLog.read((event) => event.seq > 5 && each(event), 'oldest'),
  };
  const sessionLog = await openSessionLog(
    'demo',
    eventLog,
    { ...store.snapshots, load: async () => ({ mark: good.mark, state: old }) },
    () => NONCE,
  );
  expect(bare(sessionLog.session)).toEqual(wanted);
  expect(sessionLog.session.seq).toBe(last);
  await expect(
    openSessionLog('demo', eventLog, { ...store.snapshots, load: async () => undefined }, () => NONCE),
  ).rejects.toThrow('begins with event 6');
});

test('a snapshot is due after 500 events, and never runs ahead of what is durable', async () => {
  const store = memoryStore('demo');
  const saved: Array<{ seq: number; synced: boolean }> = [];
  let open = 0;
  const eventLog: EventLog = {
    ...store.eventLog,
    async append(bodies: EventBody[]) {
      open += bodies.length;
      return store.eventLog.append(bodies);
    },
    async sync() {
      open = 0;
      await store.eventLog.sync();
    },
  };
  const sessionLog = await openSessionLog(
    'demo',
    eventLog,
    {
      ...store.snapshots,
      async save(mark, state) {
        saved.push({ seq: mark.seq, synced: open === 0 });
        await store.snapshots.save(mark, state);
      },
    },
    () => NONCE,
  );
  for (let n = 0; n < 1200; n++) {
    await sessionLog.record([{ type: 'step.started', step: `step_${n}` }]);
    if (sessionLog.sinceSnapshot === 'due') await sessionLog.saveSnapshot();
  }
  expect(saved).toEqual([
    { seq: 500, synced: true },
    { seq: 1000, synced: true },
  ]);
});

test('a save made against a revision from before the snapshot is merged with what happened since', async () => {
  const it = await planned();
  const old = it.plan();
  if (!old) throw new Error('no plan');
  it.drop('2.md', '/pause');
  it.release();
  await it.pass(300);
  it.drop('3.md', 'continue');
  await it.pass(300);
  const before = it.plan()?.revision ?? 0;
  expect(before).toBeGreaterThan(old.revision);
  const stopping = it.worker.stop(0);
  await it.pass(1);
  await stopping;
  const edited = { ...old, steps: old.steps.map((step, n) => (n === 1 ? { ...step, notes: 'mind the gap' } : step)) };
  await it.restart();
  it.store.hands.edit(`${JSON.stringify(edited, null, 2)}\n`);
  it.worker.wake();
  await it.pass(300);
  const edit = it.events().findLast((event) => event.type === 'plan.edited');
  expect(edit).toMatchObject({
    changes: [{ what: 'step', step: 'step_2', set: { notes: 'mind the gap' } }],
    ignored: [],
  });
});

test('a session of many answered messages needs less than 200 bytes for each, and knows them all again', async () => {
  const name = (n: number) => `01JQ${String(n).padStart(22, '0')}.md`;
  const hash = (n: number) => n.toString(16).padStart(64, '0');
  const stamp = (seq: number) => ({ v: 2 as const, seq, epoch: 1, at: '2026-01-05T08:00:00.000Z' });
  let session = emptySession('demo');
  for (let n = 0; n < 2000; n++) {
    const id = name(n);
    const time = `1767600000${String(n).padStart(9, '0')}`;
    const file = { ino: String(40_000_000 + n), mtime_ns: time, ctime_ns: time, sha256: hash(n) };
    const reply = {
      id,
      in_reply_to: id,
      session: 'demo',
      status: 'done' as const,
      text: 'x'.repeat(500),
      plan: null,
      usage: null,
      attachments: [],
    };
    const bodies: EventBody[] = [
      { type: 'message.received', id, name: id, body: { text: 'y'.repeat(500) }, file },
      { type: 'reply.committed', message: id, reply },
      { type: 'reply.published', message: id, idle: true },
    ];
    for (const body of bodies) session = reduceEvent(session, { ...stamp(session.seq + 1), ...body });
  }
  const text = JSON.stringify(snapshotFromState({ session, left: null }));
  expect(text.length / 2000).toBeLessThan(200);
  expect(bare(stateFromSnapshot(JSON.parse(text), 'demo')?.session ?? session)).toEqual(bare(session));
});
