import { expect, onTestFinished } from 'vitest';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import { openSessionWorker, type SessionWorker } from '../../src/engine/loop/worker.ts';
import type { ChildSessions, SessionPorts } from '../../src/engine/ports/session-ports.ts';
import { ModelError, type ModelRequest } from '../../src/engine/ports/session-ports.ts';
import type { SessionStore } from '../../src/engine/ports/store-ports.ts';
import type { Permission } from '../../src/engine/ports/tool-ports.ts';
import { Reply, RUN_END } from '../../src/protocol/session/reply.ts';
import type { Config } from '../../src/protocol/settings/config.ts';
import { resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { ApprovalFile } from '../../src/protocol/settings/permissions.ts';
import { type MemoryStore, memoryStore } from './memory-store.ts';
import type { Move } from './rig.ts';

/** What the model of a family does: by the session that asks, and how often it has asked. */
export type FamilyScript = (session: string, request: ModelRequest, asked: number) => Exclude<Move, { hold: true }>;

export type FamilyOptions = {
  script: FamilyScript;
  config?: Config;
  /** How long each answer of the model takes. */
  answerMs?: number;
  permit?: (session: string, call: { name: string; args: string }) => Permission;
  /** Seqs of all events in the event log, over all sessions, after which the power goes. */
  cuts?: readonly number[];
};

export type Family = {
  /** Every model call that was answered, by its session. */
  asked: string[];
  /** What failed in a session; it fails the test. */
  faults: unknown[];
  /** What the daemon logged as an error. */
  errors: string[];
  names(): string[];
  store(name: string): MemoryStore;
  session(name: string): Session;
  drop(name: string, file: string, content: string): void;
  reply(file: string, name?: string): string | undefined;
  /** Its folder is gone, or comes back empty. */
  remove(name: string): void;
  make(name: string): void;
  /** Its record cannot be trusted: it is not served until it is well. */
  spoil(name: string, why: string | null): void;
  /** Lets everything happen until nothing moves; time passes where something waits for it. Throws where it never ends. */
  settle(): Promise<void>;
  /** The same, while no more than this many milliseconds pass. */
  settleWithin(ms: number): Promise<void>;
  /** What is in the event log altogether. */
  count(): number;
};

const DAY_MS = 24 * 60 * 60 * 1000;
const START = Date.parse('2026-01-05T08:00:00.000Z');
const MOST_ROUNDS = 3000;

/** One session while one daemon has it open. */
type OpenSession = { on: boolean; name: string; store: MemoryStore };

/**
 * A whole family of sessions in memory: a worker for each, a scripted model, and power cuts. The root is `demo`; what its children
 * are sent and answer goes through their inboxes and outboxes, as on disk.
 */
export function family({ script, config, answerMs = 0, permit, cuts = [] }: FamilyOptions): Family {
  let now = START;
  let timers: Array<{ at: number; run: () => void }> = [];
  let openSessions: OpenSession[] = [];
  let events = 0;
  let isCut = false;
  const rules = resolveRules(config);
  const stores = new Map<string, MemoryStore>();
  const workers = new Map<string, SessionWorker>();
  const opening = new Set<string>();
  const failing = new Map<string, string>();
  const parents = new Map<string, string>();
  const asked: string[] = [];
  const faults: unknown[] = [];
  onTestFinished(() => expect(faults).toEqual([]));
  const errors: string[] = [];

  const clock: SessionPorts['clock'] = {
    now: () => new Date(now++),
    elapsed: () => now,
    after(ms, run) {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
  };

  const make = (name: string) => stores.set(name, memoryStore(name, { now: () => new Date(now++) }));
  make('demo');

  function wake(name: string): void {
    const worker = workers.get(name);
    if (worker) worker.wake();
    else if (stores.has(name) && !failing.has(name) && !opening.has(name)) void open(name);
  }

  async function open(name: string): Promise<void> {
    const store = stores.get(name);
    if (!store) return;
    const mine: OpenSession = { on: true, name, store };
    openSessions.push(mine);
    opening.add(name);
    const worker = await openSessionWorker(
      worldOf(mine),
      async () => rules,
      (error) => mine.on && faults.push(error),
    );
    if (!mine.on || stores.get(name) !== store || failing.has(name)) return;
    opening.delete(name);
    workers.set(name, worker);
    worker.wake();
  }

  /** A daemon that has ended, or a session that is gone, does nothing any more: whatever it waits for never comes. */
  const living = async <T>(mine: OpenSession, job: () => Promise<T>): Promise<T> => {
    const isOn = () => mine.on && stores.get(mine.name) === mine.store && !failing.has(mine.name);
    if (!isOn()) return new Promise<T>(() => {});
    const result = await job();
    return isOn() ? result : new Promise<T>(() => {});
  };

  function storeOf(mine: OpenSession): SessionStore {
    const { store, name } = mine;
    const { eventLog, outbox, approvals } = store;
    const wakeRoot = () => void (mine.on && name !== 'demo' && wake('demo'));
    const wakeParent = () => {
      const parent = parents.get(name);
      if (mine.on && parent !== undefined) wake(parent);
    };
    return {
      ...store,
      eventLog: {
        read: (each, from) => living(mine, () => eventLog.read(each, from)),
        listCuts: () => eventLog.listCuts(),
        position: () => eventLog.position(),
        append: (bodies) =>
          living(mine, async () => {
            const made = await eventLog.append(bodies);
            events += made.length;
            if (cuts.some((cut) => cut > events - made.length && cut <= events)) isCut = true;
            return made;
          }),
        sync: () => living(mine, () => eventLog.sync()),
      },
      approvals: {
        ...approvals,
        write: (id, content) => living(mine, () => approvals.write(id, content)).then(wakeRoot),
        archive: (id, content) => living(mine, () => approvals.archive(id, content)).then(wakeRoot),
      },
      outbox: {
        ...outbox,
        publish: (file, content) => living(mine, () => outbox.publish(file, content)).then(wakeParent),
        republish: (file, content) => living(mine, () => outbox.republish(file, content)).then(wakeParent),
      },
    };
  }

  function childrenOf(parent: string, mine: OpenSession): ChildSessions {
    const lost = (child: string, id: string, text: string, reason?: string): Reply => ({
      ...{ id: `${id}.msg.json`, in_reply_to: id, session: child, status: 'failed', text, plan: null, usage: null },
      attachments: [],
      ...(reason !== undefined && { reason }),
    });
    return {
      send: (child, message) =>
        living(mine, async () => {
          parents.set(child, parent);
          if (!stores.has(child)) {
            if (message.command !== undefined) return 'gone';
            make(child);
          }
          const file = `${message.id}.msg.json`;
          if (!stores.get(child)?.hands.waiting().includes(file))
            stores.get(child)?.hands.drop(file, JSON.stringify(message));
          wake(child);
          return 'sent';
        }),
      reply: (child, id) =>
        living(mine, async () => {
          parents.set(child, parent);
          const store = stores.get(child);
          const why = failing.get(child);
          if (!store) return lost(child, id, `the session ${child} is gone`, RUN_END.stateLost);
          const text = store.hands.replies().get(`${id}.msg.json`);
          if (text !== undefined) return Reply.parse(JSON.parse(text));
          if (why !== undefined) return lost(child, id, `the session ${child} cannot be served: ${why}`);
          const last = store.hands.lastEvent();
          const isOpen = last && last.type !== 'session.opened' && !(last.type === 'reply.published' && last.idle);
          const isComing = isOpen || store.hands.waiting().includes(`${id}.msg.json`);
          return isComing
            ? undefined
            : lost(child, id, `the session ${child} has lost the message ${id}`, RUN_END.stateLost);
        }),
      waitingCalls: (root) =>
        living(mine, async () =>
          [...stores].flatMap(([session, { hands }]) =>
            session.startsWith(`${root}~`)
              ? [...hands.approvals()].flatMap(([id, text]) => {
                  const { call, decision, ...file } = ApprovalFile.parse(JSON.parse(text));
                  const { display, why, always, hash, expires_at } = file;
                  return decision ? [] : [{ session, id, tool: call.tool, display, why, always, hash, expires_at }];
                })
              : [],
          ),
        ),
      consume: async () => {},
    };
  }

  function worldOf(mine: OpenSession): SessionPorts {
    const { name } = mine;
    return {
      store: storeOf(mine),
      children: childrenOf(name, mine),
      clock,
      runSemaphore: { acquire: async () => () => {} },
      owner: { check() {} },
      diskCapacity: () => 'ok',
      createNonce: () => 'a1b2c3d4e5f6',
      log: (level, text) => level === 'error' && errors.push(`${name}: ${text}`),
      model: {
        ask: (request, { signal }) =>
          living(mine, async () => {
            if (signal.aborted) throw signal.reason;
            const move = script(name, request, asked.filter((one) => one === name).length);
            if ('fault' in move) throw new ModelError(...move.fault);
            asked.push(name);
            now += answerMs;
            const answer = 'hold' in move ? {} : move;
            const calls = (answer.calls ?? []).map((call, place) => ({
              id: `c${asked.length}_${place}`,
              name: call.name,
              args: JSON.stringify(call.args ?? {}),
            }));
            return { text: answer.text ?? '', calls, usage: { tokens: 10, cost: null }, model: 'scripted' };
          }),
      },
      tools: {
        specs: [],
        refresh: async () => [],
        checkPermission: async (call) => permit?.(name, call) ?? { is: 'allow' },
        replayPolicy: () => 'never',
        run: (call) => living(mine, async () => ({ ok: true, text: `output of ${call.args}` })),
        resume: () => living(mine, async () => ({ ok: true, text: 'it ended meanwhile' })),
        endLeftovers: async () => 'nothing',
      },
    };
  }

  /** Everything that was not synced is gone, and the next daemon opens each session. */
  async function cut(): Promise<void> {
    isCut = false;
    for (const one of openSessions) one.on = false;
    openSessions = [];
    timers = [];
    workers.clear();
    opening.clear();
    for (const [name, store] of stores) stores.set(name, store.hands.restart({ powerCut: true }));
    events = [...stores.values()].reduce((sum, store) => sum + store.hands.events().length, 0);
    for (const name of stores.keys()) wake(name);
  }

  function passTime(until = Number.POSITIVE_INFINITY): boolean {
    const next = timers.reduce((least, timer) => Math.min(least, timer.at), Number.POSITIVE_INFINITY);
    // What is due in days is no matter of this run: a timer that long is nothing but a look whether all is well.
    if (next === Number.POSITIVE_INFINITY || next > Math.min(until, START + 30 * DAY_MS)) return false;
    now = Math.max(now, next);
    const due = timers.filter((timer) => timer.at <= now);
    timers = timers.filter((timer) => timer.at > now);
    for (const timer of due) timer.run();
    return true;
  }

  const quiet = async () => {
    for (let n = 0; n < 12; n++) await new Promise((done) => setImmediate(done));
  };

  const self: Family = {
    asked,
    faults,
    errors,
    names: () => [...stores.keys()],
    store: (name) => stores.get(name) ?? memoryStore(name),
    session: (name) => (stores.get(name)?.hands.events() ?? []).reduce(reduceEvent, emptySession(name)),
    drop(name, file, content) {
      stores.get(name)?.hands.drop(file, content);
      wake(name);
    },
    reply: (file, name = 'demo') => stores.get(name)?.hands.replies().get(file),
    remove(name) {
      stores.delete(name);
      workers.delete(name);
      opening.delete(name);
      const parent = parents.get(name);
      if (parent !== undefined) wake(parent);
    },
    make,
    spoil(name, why) {
      if (why === null) failing.delete(name);
      else failing.set(name, why);
      workers.delete(name);
      opening.delete(name);
      if (why === null) stores.set(name, self.store(name).hands.restart({ powerCut: true }));
      wake(name);
      const parent = parents.get(name);
      if (parent !== undefined) wake(parent);
    },
    settleWithin: (ms) => settleUntil(now + ms),
    settle: () => settleUntil(Number.POSITIVE_INFINITY),
    count: () => events,
  };

  async function settleUntil(until: number): Promise<void> {
    for (let n = 0; n < MOST_ROUNDS; n++) {
      await quiet();
      if (isCut) await cut();
      else if (!passTime(until)) return;
    }
    throw new Error('it never becomes idle');
  }
  return self;
}
