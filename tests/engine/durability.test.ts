import { expect, test } from 'vitest';
import { cleanUpCalls } from '../../src/engine/calls/tool-call.ts';
import type { SessionPorts } from '../../src/engine/ports/session-ports.ts';
import { openSessionLog } from '../../src/engine/state/session-log.ts';
import { moves, NONCE, type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

/** A session whose every effect is held to the event log: what others can notice comes after the sync of what led to it. */
type Watched = Rig & {
  /** Effects in the order they happened. */
  effects: string[];
  /** Those that happened while the event log had events which a power cut would have taken. */
  early: string[];
  /** Events that a power cut would take now. */
  unsynced(): number;
};

type WatchedOptions = RigOptions & {
  jobs?: SessionPorts['jobs'];
  folders?: string[];
  seen?: (world: SessionPorts) => void;
};

async function watched(options: WatchedOptions): Promise<Watched> {
  const effects: string[] = [];
  const early: string[] = [];
  let [appended, synced] = [0, 0];

  const noticed = (what: string) => {
    effects.push(what);
    if (synced < appended) early.push(what);
  };
  const after =
    <Args extends unknown[], Result>(what: string, effect: (...args: Args) => Result) =>
    (...args: Args): Result => {
      noticed(what);
      return effect(...args);
    };

  const around = (world: SessionPorts): SessionPorts => {
    const { store, children, model, tools } = world;
    const { eventLog, inbox, outbox, plan, approvals, calls, snapshots } = store;
    const watchedWorld: SessionPorts = {
      ...world,
      ...(options.jobs && { jobs: { ...options.jobs, end: after('jobs end', options.jobs.end) } }),
      store: {
        ...store,
        eventLog: {
          ...eventLog,
          async append(bodies) {
            const events = await eventLog.append(bodies);
            appended += events.length;
            return events;
          },
          async sync() {
            await eventLog.sync();
            synced = appended;
          },
        },
        inbox: {
          ...inbox,
          moveToDone: after('a message leaves', inbox.moveToDone),
          reject: after('refused', inbox.reject),
        },
        outbox: { ...outbox, publish: after('reply', outbox.publish), republish: after('reply', outbox.republish) },
        plan: { ...plan, write: after('plan.json', plan.write), archive: after('a plan ends', plan.archive) },
        approvals: {
          ...approvals,
          write: after('a person is asked', approvals.write),
          archive: after('asked no more', approvals.archive),
        },
        calls: { ...calls, list: async () => options.folders ?? [], remove: after('a call folder goes', calls.remove) },
        snapshots: { ...snapshots, save: after('snapshot', snapshots.save) },
        close: after('closed', store.close),
      },
      children: {
        ...children,
        send: after('a child is sent', children.send),
        consume: after('a child is received', children.consume),
      },
      model: { ...model, ask: after('the model', model.ask) },
      tools: {
        ...tools,
        async refresh(caller) {
          await caller.work();
          noticed('a server of tools starts');
          return tools.refresh(caller);
        },
        run: after('a tool', (call, context) => {
          context.signal.addEventListener('abort', () => noticed('a tool is stopped'));
          return tools.run(call, context);
        }),
      },
    };
    options.seen?.(watchedWorld);
    return watchedWorld;
  };
  const it = await rig({ ...options, around });
  return Object.assign(it, { effects, early, unsynced: () => appended - synced });
}

const twoSteps = moves(
  { text: '[Step] Find it\n[Step] Write it down', calls: [shell()] },
  { text: '[Done] found', calls: [shell()] },
  { text: '[Done] written' },
);

test('a message leaves the inbox, the model is asked and a tool begins only when what led to it is durable', async () => {
  const it = await watched({ script: twoSteps });
  it.drop('1.md', 'Find it and write it down');
  await it.pass(300);
  const noticed = ['a message leaves', 'a server of tools starts', 'the model', 'a tool', 'plan.json', 'reply'];
  expect(it.effects).toEqual(expect.arrayContaining(noticed));
  expect(it.early).toEqual([]);
});

/**
 * A session whose log is not synced from its first model call on, until `release`, which `failure` makes fail. `hangs`:
 * the servers of its tools do not answer. `listed`, `started`: how often they were asked, and could start.
 */
async function withHeldSync({ failure, hangs = false }: { failure?: Error; hangs?: boolean } = {}) {
  let release = () => {};
  const held = new Promise<void>((resolve, reject) => {
    release = () => (failure ? reject(failure) : resolve());
  });
  held.catch(() => {});
  const seen = { listed: 0, prepared: 0, started: 0 };
  let isHeld = false;
  const around = (world: SessionPorts): SessionPorts => ({
    ...world,
    store: {
      ...world.store,
      live: {
        ...world.store.live,
        begin() {
          isHeld = true;
          world.store.live.begin();
        },
      },
      eventLog: {
        ...world.store.eventLog,
        async sync() {
          if (isHeld) await held;
          await world.store.eventLog.sync();
        },
      },
    },
    model: {
      ...world.model,
      async prepare() {
        seen.prepared++;
      },
    },
    tools: {
      ...world.tools,
      async refresh(caller) {
        seen.listed++;
        const { signal } = caller;
        void caller.work().then(
          () => seen.started++,
          () => {},
        );
        if (hangs) await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
        return world.tools.refresh(caller);
      },
    },
  });
  const it = await rig({ script: moves({ text: 'That was all.' }), around });
  it.drop('1.md', 'Find it');
  await it.pass(300);
  return Object.assign(it, { seen, release });
}

test('a request is made ready while the log is synced, and leaves after that', async () => {
  const it = await withHeldSync();
  expect([it.seen, it.requests]).toEqual([{ listed: 1, prepared: 1, started: 0 }, []]);
  it.release();
  await it.pass(300);
  expect([it.seen.started, it.requests.length]).toEqual([1, 1]);
});

test('a call that is stopped while the log is synced is recorded after that', async () => {
  const it = await withHeldSync({ hangs: true });
  const stopped = it.worker.stop(0);
  await it.pass(300);
  expect(it.types()).not.toContain('model.failed');
  it.release();
  await stopped;
  expect([it.types().includes('model.failed'), it.requests]).toEqual([true, []]);
});

test('a log that cannot be synced ends the worker, and no request leaves', async () => {
  const it = await withHeldSync({ failure: new Error('no disk') });
  it.release();
  await it.pass(300);
  expect([it.requests, it.takeFaults()]).toEqual([[], [new Error('no disk')]]);
});

test('an idle session has nothing that a power cut would take', async () => {
  const it = await watched({ script: twoSteps });
  it.drop('1.md', 'Find it and write it down');
  await it.pass(300);
  expect(it.types().at(-1)).toBe('reply.published');
  expect(it.unsynced()).toBe(0);
});

test('a reply that is given while a call is in flight is published only when it is durable', async () => {
  const it = await watched({ script: () => ({ hold: true, next: () => ({ text: 'Hello.' }) }) });
  await it.say('1.md', 'Say hello');
  expect(await it.say('2.md', '/status')).toBeDefined();
  expect(it.early).toEqual([]);
  expect(it.unsynced()).toBe(0);
});

test('a stop is durable before the call in flight is ended, and words in doubt before the model is asked what they mean', async () => {
  const it = await watched({ script: () => ({ text: '[Step] Wait', calls: [shell()] }), tool: () => 'hold' });
  await it.say('1.md', 'Work');
  await it.say('2.md', '/stop');
  expect(it.effects).toContain('a tool is stopped');
  it.drop('3.md', 'continue the fence to the left edge');
  await it.settle();
  expect(it.types()).toContain('message.interpreted');
  expect(it.early).toEqual([]);
});

test('a person is asked only when the question is durable, and a plan that has ended is put away only then', async () => {
  const it = await watched({
    script: moves({ text: '[Step] Fetch it', calls: [shell()] }, { text: '[Done]' }, { text: 'Something else.' }),
    permit: () => ({ is: 'ask', why: 'it reaches the network', rule: false, display: 'curl', always: 'shell(curl *)' }),
    config: { version: 1, limits: { approval_minutes: 10 } },
  });
  it.drop('1.md', 'Fetch it');
  await it.pass(300);
  it.drop('2.md', 'yes');
  await it.pass(300);
  it.drop('3.md', '/new');
  await it.pass(300);
  expect(it.effects).toEqual(expect.arrayContaining(['a person is asked', 'asked no more', 'a plan ends']));
  expect(it.early).toEqual([]);
});

test('a child is sent its message, and its reply consumed, only when what led to it is durable', async () => {
  const it = await watched({
    script: moves(
      { text: '[Step] Compare', calls: [{ name: 'spawn', args: { task: 'Read it' } }] },
      { text: '[Done]' },
    ),
  });
  it.drop('1.md', 'Compare');
  await it.pass(300);
  const [sent] = it.children.sent;
  expect(sent).toBeDefined();
  it.children.answer(sent?.child ?? '', sent?.message.id ?? '');
  it.worker.wake();
  await it.pass(300);
  expect(it.effects).toEqual(expect.arrayContaining(['a child is sent', 'a child is received']));
  expect(it.early).toEqual([]);
});

test('a call folder is taken away, and a job ended, only when the end is durable', async () => {
  const it = await watched({
    script: moves({ text: '[Step] Run it', calls: [shell()] }, { text: '[Done]' }),
    folders: ['ended-long-ago'],
    jobs: { listUnreported: () => [], markAllReported: () => {}, listRunning: () => [], end: async () => ['job 1'] },
  });
  it.drop('1.md', 'Run it');
  await it.pass(300);
  it.drop('2.md', '/new');
  await it.pass(300);
  expect(it.effects).toEqual(expect.arrayContaining(['a call folder goes', 'jobs end']));
  expect(it.early).toEqual([]);
});

test('what a daemon leaves open is durable when it has stopped', async () => {
  const it = await watched({ script: () => ({ hold: true }) });
  await it.say('1.md', 'Say hello');
  const stopped = it.worker.stop(0);
  await it.pass(1);
  await stopped;
  expect(it.types()).toContain('daemon.stopped');
  expect(it.effects.at(-1)).toBe('closed');
  expect(it.unsynced()).toBe(0);
});

test('what is in the event log is durable when a session that an error ended has been left', async () => {
  const it = await watched({
    script: moves({ text: '[Step] Read it', calls: [{ name: 'read_file', args: { path: 'a' } }] }),
    // A safe call does not wait for the disk.
    replay: () => 'safe',
    tool: () => {
      throw new Error('a bug');
    },
  });
  await it.say('1.md', 'Read it');
  expect(it.takeFaults()).toHaveLength(1);
  expect(it.unsynced()).toBeGreaterThan(0);
  await it.worker.stop(0);
  expect(it.unsynced()).toBe(0);
});

const jobs = { listUnreported: () => [], markAllReported: () => {}, listRunning: () => [], end: async () => [] };

test.each([
  ['of a call', {}, ['a call folder goes']],
  ['of a job and of a call', { jobs }, ['jobs end', 'a call folder goes']],
])('cleaning up makes the end %s durable by itself', async (_, given, effects) => {
  let world: SessionPorts | undefined;
  const it = await watched({
    script: moves({ text: 'Hello.' }),
    folders: ['ended-long-ago'],
    ...given,
    seen: (made) => {
      world = made;
    },
  });
  it.drop('1.md', 'Say hello');
  await it.pass(300);
  if (!world) throw new Error('no world');
  const sessionLog = await openSessionLog('demo', world.store.eventLog, world.store.snapshots, () => NONCE);
  const before = it.effects.length;
  const { seq } = sessionLog.session;
  await sessionLog.record([{ type: 'context.compacted', upto: seq, summary: '' }]);
  await cleanUpCalls(world, sessionLog);
  expect(it.effects.slice(before)).toEqual(effects);
  expect(it.early).toEqual([]);
});

test('a recovery is durable before anything is tried again', async () => {
  const before = await rig({ script: () => ({ hold: true }) });
  await before.say('1.md', 'Say hello');
  const it = await watched({ script: moves({ text: 'Hello.' }), store: before.store.hands.restart() });
  expect(it.types()).toContain('recovery.started');
  expect(it.unsynced()).toBe(0);
});

test('a reply whose plan.json a full disk refused says so in the event log, and one after it is written does not', async () => {
  let isFull = true;
  const full = () => Promise.reject(Object.assign(new Error('no space'), { code: 'ENOSPC' }));
  const it = await rig({
    script: moves({ text: '[Step] a' }, { text: '[Done]' }, { text: 'Hello.' }),
    around: (world) => ({
      ...world,
      store: {
        ...world.store,
        plan: { ...world.store.plan, write: (text) => (isFull ? full() : world.store.plan.write(text)) },
      },
    }),
  });
  const ends = () => it.events().filter((event) => event.type === 'reply.published');
  await it.say('1.md', 'Do a');
  expect(it.store.hands.planText()).toBeUndefined();
  expect(ends()).toMatchObject([{ idle: true, plan_behind: true }]);
  isFull = false;
  await it.say('2.md', 'hello');
  expect(it.store.hands.planText()).toContain('"a"');
  expect(ends()[1]).not.toHaveProperty('plan_behind');
});
