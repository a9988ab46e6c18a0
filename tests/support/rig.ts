import { expect, onTestFinished } from 'vitest';
import type { PreviousFailure } from '../../src/engine/loop/recovery.ts';
import { openSessionWorker, type SessionWorker } from '../../src/engine/loop/worker.ts';
import type { DiskCapacity, ModelAnswer, ModelRequest, SessionPorts } from '../../src/engine/ports/session-ports.ts';
import { ModelError } from '../../src/engine/ports/session-ports.ts';
import type { Permission, ToolResult } from '../../src/engine/ports/tool-ports.ts';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import type { Plan } from '../../src/protocol/session/plan.ts';
import type { Config } from '../../src/protocol/settings/config.ts';
import { type Rules, resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { type MemoryChildren, memoryChildren } from './memory-children.ts';
import { type MemoryStore, memoryStore } from './memory-store.ts';

/** What the model does at one call. A function sees the request; `hold` waits until it is let go or aborted. */
export type Move =
  | {
      text?: string;
      calls?: Array<{ name: string; args?: unknown }>;
      truncated?: true;
      unfinished?: string;
      cost?: number;
      instead_of?: { model: string; why: 'down' | 'limit' | 'context' | 'refused' };
    }
  | { fault: ConstructorParameters<typeof ModelError> }
  /** Waits until it is let go or aborted; then says `next`. */
  | { hold: true; next?: () => Move };
export type Script = (request: ModelRequest, n: number) => Move;

export type Rig = {
  store: MemoryStore;
  requests: ModelRequest[];
  toolRuns: Array<{ name: string; args: string }>;
  resumed: Array<{ name: string; args: string; mayBegin?: boolean | undefined }>;
  /** What child sessions were sent; a test answers for them. */
  children: MemoryChildren['hands'];
  worker: SessionWorker;
  /** What failed in the session. Whatever is left of it at the end fails the test: one that expects it takes it. */
  faults: unknown[];
  takeFaults(): unknown[];
  /** What was logged: level and text. */
  logged: Array<[string, string]>;
  /** What each of these lines is about. */
  subjects: unknown[];
  /** What kept the session from hearing beside a call in flight, in order; null: it was over. */
  troubles: unknown[];
  drop(name: string, content: string): void;
  settle(): Promise<void>;
  /** Drops a message, lets everything settle, and answers with its reply. */
  say(name: string, content: string): Promise<string | undefined>;
  /** Wakes the worker, and lets everything settle. */
  wake(): Promise<void>;
  /** Lets virtual time pass and runs what is due. */
  pass(ms: number): Promise<void>;
  /** Sets the time of day forward or back; nothing else notices. */
  setClock(ms: number): void;
  room: DiskCapacity;
  /** Lets a blocked model call or tool go on. */
  release(): void;
  /** The same, and lets everything settle. */
  letGo(): Promise<void>;
  plan(): Plan | undefined;
  archived(): string[];
  reply(name: string): string | undefined;
  events(): Event[];
  types(): string[];
  /** The next daemon, without a word from this one. */
  restart(how?: { powerCut?: boolean; last?: PreviousFailure }): Promise<void>;
  kill(): void;
};

export type RigOptions = {
  /** Names of the tools the model is offered. */
  tools?: string[];
  /** What the model gets from memory and skills. */
  notes?: SessionPorts['notes'];
  /** The session; demo where this is left out. */
  name?: string;
  script: Script;
  tool?: (call: { name: string; args: string }, n: number) => ToolResult | 'hold';
  /** What became of a call that an earlier daemon began; nobody knows where this is left out. */
  resume?: (call: { name: string; args: string }) => ToolResult | 'hold' | null;
  replay?: (name: string) => 'safe' | 'never';
  /** Whether a call may run; all may where this is left out. */
  permit?: (call: { name: string; args: string }) => Permission;
  /** How the daemon before the first one ended. */
  last?: PreviousFailure;
  config?: Config;
  /** Asked in place of `config` each time; may throw, as settings that cannot be read do. */
  rules?: () => Rules;
  store?: MemoryStore;
  before?: EventBody[];
  owner?: SessionPorts['owner'];
  /** `NONCE` each time, where this is left out. */
  nonce?: SessionPorts['createNonce'];
  /** Puts something between the worker and its ports, such as a check. */
  around?: (world: SessionPorts) => SessionPorts;
};

/** The prompt nonce of every run of a rig. */
export const NONCE = 'a1b2c3d4e5f6';

/** A session in memory with a scripted model, scripted tools and a clock that stands still unless told. */
export async function rig(options: RigOptions): Promise<Rig> {
  let now = Date.parse('2026-01-05T08:00:00.000Z');
  let shift = 0;
  const clockNow = () => new Date(shift + now++);
  let store = options.store ?? memoryStore(options.name ?? 'demo', { now: clockNow });
  if (options.before) await store.eventLog.append(options.before);
  await store.eventLog.sync();
  let timers: Array<{ at: number; run: () => void }> = [];
  const requests: ModelRequest[] = [];
  const toolRuns: Rig['toolRuns'] = [];
  const resumed: Rig['resumed'] = [];
  const faults: unknown[] = [];
  onTestFinished(() => expect(faults).toEqual([]));
  const logged: Rig['logged'] = [];
  const subjects: unknown[] = [];
  const troubles: unknown[] = [];
  /** Daemons that were lost while nothing else was at work: a rig has one session. */
  let lost = 0;
  let held: Array<() => void> = [];
  const children = memoryChildren();
  const rules = () => options.rules?.() ?? resolveRules(options.config);

  const holdUntilReleased = (signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      held.push(resolve);
      signal.addEventListener('abort', () => reject(signal.reason));
    });

  const world = (): SessionPorts => ({
    store,
    children,
    clock: {
      now: clockNow,
      elapsed: () => now,
      after(ms, run) {
        const timer = { at: now + ms, run };
        timers.push(timer);
        return () => {
          timers = timers.filter((other) => other !== timer);
        };
      },
    },
    runSemaphore: { acquire: async () => () => {} },
    owner: options.owner ?? { check() {} },
    diskCapacity: () => self.room,
    createNonce: options.nonce ?? (() => NONCE),
    log: (level, text, about) => {
      logged.push([level, text]);
      subjects.push(about);
    },
    reportTrouble: (error) => troubles.push(error),
    ...(options.notes && { notes: options.notes }),
    model: {
      async ask(request, { signal, onText }): Promise<ModelAnswer> {
        requests.push(request);
        let move = options.script(request, requests.length - 1);
        if ('hold' in move) {
          await holdUntilReleased(signal);
          move = move.next?.() ?? {};
        }
        if ('fault' in move) throw new ModelError(...move.fault);
        const answer = 'hold' in move ? {} : move;
        onText(answer.text ?? '');
        return {
          text: answer.text ?? '',
          calls: (answer.calls ?? []).map((call, place) => ({
            id: `c${requests.length}_${place}`,
            name: call.name,
            args: JSON.stringify(call.args ?? {}),
          })),
          usage: { tokens: 10, cost: answer.cost ?? null },
          model: 'scripted',
          ...(answer.truncated && { truncated: true }),
          ...(answer.unfinished !== undefined && { unfinished: answer.unfinished }),
          ...(answer.instead_of && { instead_of: answer.instead_of }),
        };
      },
    },
    tools: {
      specs: options.tools?.map((name) => ({ name, description: name, parameters: {} })) ?? [],
      refresh: async () => [],
      checkPermission: async (call) => options.permit?.(call) ?? { is: 'allow' },
      replayPolicy: options.replay ?? (() => 'never'),
      async run(call, { signal }) {
        toolRuns.push(call);
        const result = options.tool?.(call, toolRuns.length - 1) ?? { ok: true, text: `output ${toolRuns.length}` };
        if (result !== 'hold') return result;
        await holdUntilReleased(signal);
        return { ok: true, text: 'let go' };
      },
      resume: async (call, { signal, mayBegin }) => {
        resumed.push({ ...call, mayBegin });
        const result = options.resume?.(call) ?? null;
        if (result !== 'hold') return result;
        await holdUntilReleased(signal);
        return { ok: true, text: 'let go' };
      },
      endLeftovers: async () => 'nothing',
    },
  });

  const open = (last?: PreviousFailure) =>
    openSessionWorker(
      options.around?.(world()) ?? world(),
      async () => rules(),
      (error) => faults.push(error),
      last,
    );
  let worker: SessionWorker;
  const self: Rig = {
    room: 'ok',
    setClock(ms) {
      shift += ms;
    },
    get store() {
      return store;
    },
    requests,
    toolRuns,
    resumed,
    children: children.hands,
    faults,
    takeFaults: () => faults.splice(0),
    logged,
    subjects,
    troubles,
    get worker() {
      return worker;
    },
    drop(name, content) {
      store.hands.drop(name, content);
      worker.wake();
    },
    async settle() {
      for (let n = 0; n < 50; n++) await new Promise((done) => setImmediate(done));
    },
    async say(name, content) {
      self.drop(name, content);
      await self.settle();
      return self.reply(name);
    },
    async wake() {
      worker.wake();
      await self.settle();
    },
    async pass(ms) {
      await self.settle();
      now += ms;
      for (const timer of timers.filter((one) => one.at <= now)) {
        timers = timers.filter((other) => other !== timer);
        timer.run();
      }
      await self.settle();
    },
    release() {
      const waiting = held;
      held = [];
      for (const go of waiting) go();
    },
    async letGo() {
      self.release();
      await self.settle();
    },
    plan: () => JSON.parse(store.hands.planText() ?? 'null') ?? undefined,
    archived: () => [...store.hands.plans().keys()],
    reply: (name) => store.hands.replies().get(name),
    events: () => store.hands.events(),
    types: () => store.hands.events().map((event) => event.type),
    async restart(how) {
      store = store.hands.restart(how);
      timers = [];
      worker = await open(how?.last ?? { after: 'crash', crashes: ++lost, error: 'it stood still' });
      worker.wake();
      await self.settle();
    },
    kill() {
      timers = [];
      held = [];
    },
  };
  worker = await open(options.last);
  return self;
}

/** A script that gives one move after another and keeps to the last. */
export function moves(...list: Move[]): Script {
  return (_request, n) => list[Math.min(n, list.length - 1)] ?? { text: 'nothing more' };
}

/** A shell call whose arguments differ each time, so that nothing repeats. */
let counter = 0;
export function shell(): { name: string; args: unknown } {
  counter += 1;
  return { name: 'shell', args: { command: `echo ${counter}` } };
}
