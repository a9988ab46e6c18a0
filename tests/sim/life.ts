import { formatPlanFile } from '../../src/core/plan/plan-steps.ts';
import { openSessionWorker, type SessionWorker } from '../../src/engine/loop/worker.ts';
import { type Rules, resolveRules } from '../../src/protocol/settings/effective-settings.ts';
import { type MemoryStore, memoryStore } from '../support/memory-store.ts';
import { type Chance, chanceOf } from './chance.ts';
import { type Gates, gates, quiet } from './gates.ts';
import { type Actions, consume, drop, edit, noActions, planIn, spoil } from './person.ts';
import { planOfRecord } from './promises.ts';
import { photograph } from './snapshots.ts';
import { type Outside, worldOf } from './world.ts';

const START = Date.parse('2026-01-05T08:00:00.000Z');
/** Ways to go in the wild part of a life, and the most there may be in the calm part before it counts as never ending. */
const WILD_STEPS = 160;
const CALM_STEPS = 20_000;
/** Where there are kills, one in so many steps with a command in flight is one. */
const COMMAND_KILLS = 5;
const HOUR_MS = 3_600_000;

/** One session's whole story: what people did, what came of it, and what went wrong without anybody meaning it. */
export type Story = {
  seed: number;
  store: MemoryStore;
  actions: Actions;
  outside: Outside;
  faults: unknown[];
  log: string[];
};

/** Plays one seed: wild for a while, then calm until nothing moves. Throws where it never becomes idle. */
export async function live(seed: number): Promise<Story> {
  const sim = simulation(seed);
  const steps = WILD_STEPS / 2 + sim.chance.below(WILD_STEPS);
  for (let n = 0; n < steps; n++) await sim.step();
  await sim.calm();
  return sim.story;
}

function simulation(seed: number) {
  const chance = chanceOf(seed);
  const outside: Outside = { ran: new Map(), commands: new Map(), history: [], made: new Set(), album: [], untrue: [] };
  const story: Story = {
    seed,
    store: memoryStore('demo', { now: () => new Date(shift + now++) }),
    actions: noActions(),
    outside,
    faults: [],
    log: [],
  };
  const valid: Rules = resolveRules({
    version: 1,
    limits: { iterations: chance.of([2, 4, 50]), step_iterations: chance.of([2, 5]) },
    ...(chance.oneIn(4) && { on_limit: 'extend' as const }),
  });
  const kills = chance.oneIn(2) ? 25 + chance.below(50) : 0;
  const edits = chance.oneIn(2) ? 8 : 0;
  const grain = chance.of([1, 2, 4, 8]);
  const diskFaults = chance.oneIn(3) ? 40 + chance.below(200) : 0;
  let now = START;
  /** How far the time of day is off: now and then it jumps by an hour. */
  let shift = 0;
  let isCalm = false;
  let timers: Array<{ at: number; run: () => void }> = [];
  let open: Gates = gates();
  let worker: SessionWorker | null = null;
  /** Set while a life begins or ends. */
  let changing = false;
  let tokens = 0;
  /** One in so many steps breaks the settings, or repairs them; 0: none. */
  const breaks = chance.oneIn(3) ? 15 + chance.below(40) : 0;
  let isBroken = false;
  /** One in so many places wakes the session from inside; 0: none. */
  const rings = chance.oneIn(2) ? 3 + chance.below(8) : 0;

  const say = (what: string) => void story.log.push(`${String(now - START).padStart(8)} ${what}`);

  const timing = {
    now: () => new Date(shift + now++),
    elapsed: () => now,
    after(ms: number, run: () => void) {
      const timer = { at: now + ms, run };
      timers.push(timer);
      return () => {
        timers = timers.filter((one) => one !== timer);
      };
    },
  };

  function wakeFromInside(): void {
    if (rings > 0 && !isCalm && chance.oneIn(rings)) worker?.wake();
  }

  async function readRules(): Promise<Rules> {
    wakeFromInside();
    return isBroken ? { ...valid, settingsFault: 'session.json is not JSON' } : valid;
  }

  /** Whoever reads the settings wakes the session once they hold again. */
  function setBroken(broken: boolean): void {
    isBroken = broken;
    say(`the settings are ${broken ? 'broken' : 'repaired'}`);
    if (!broken) wake();
  }

  /** The next daemon: it looks at a session where its inbox or the end of its record says there is something to do. */
  function begin(): void {
    changing = true;
    const gate = gates(() => {
      if (open === gate) wakeFromInside();
    });
    open = gate;
    const setting = { chance, outside, timers: timing, isCalm: () => isCalm, diskFaults, grain };
    const failed = (error: unknown) => {
      say(`fault: ${String(error)}`);
      story.faults.push(error);
      if (open === gate) void end(0);
    };
    openSessionWorker(worldOf(story.store, gate, setting), readRules, failed).then(
      (opened) => {
        if (open !== gate) return;
        worker = opened;
        changing = false;
        worker.wake();
      },
      (error: unknown) => {
        story.faults.push(error);
        if (open === gate) changing = false;
      },
    );
  }

  /** The daemon ends in order; its session is opened again when it is next needed. */
  async function end(graceMs: number): Promise<void> {
    const [last, gate] = [worker, open];
    if (!last || changing) return;
    changing = true;
    worker = null;
    await last.stop(graceMs);
    if (open !== gate) return;
    story.store = story.store.hands.restart();
    changing = false;
    if (hasWork()) wake();
  }

  function kill(powerCut: boolean): void {
    say(powerCut ? 'power cut' : 'kill -9');
    open = gates();
    timers = [];
    worker = null;
    changing = false;
    story.store = story.store.hands.restart({ powerCut });
    if (hasWork()) begin();
  }

  function hasWork(): boolean {
    const last = story.store.hands.lastEvent();
    if (story.store.hands.waiting().some((name) => !name.startsWith('.'))) return true;
    return last !== undefined && !(last.type === 'reply.published' && last.idle);
  }

  function wake(): void {
    if (worker) worker.wake();
    else if (!changing) begin();
  }

  function passTime(): boolean {
    const next = timers.reduce((least, timer) => Math.min(least, timer.at), Number.POSITIVE_INFINITY);
    if (next === Number.POSITIVE_INFINITY) return false;
    now = Math.max(now, next);
    const due = timers.filter((timer) => timer.at <= now);
    timers = timers.filter((timer) => timer.at > now);
    for (const timer of due) timer.run();
    return true;
  }

  function person(): void {
    const { store, actions } = story;
    if (edits > 0 && chance.oneIn(2)) {
      if (chance.oneIn(5)) spoil(store, chance, actions);
      else edit(store, chance, actions, `token-${++tokens}.`);
      say(`saves plan.json: ${store.hands.planText()?.replace(/\s+/g, ' ')}`);
      return;
    }
    if (chance.oneIn(4)) {
      consume(store, chance, actions);
      return;
    }
    drop(store, chance, actions);
    say(`drops ${store.hands.waiting().at(-1)}`);
    wake();
  }

  function jump(ms: number): void {
    shift += ms;
    say(`the clock jumps by ${ms / HOUR_MS} h`);
  }

  /** One thing happens: usually something that is under way goes on, sometimes people or accidents have their turn. */
  async function step(): Promise<void> {
    // A command in flight is what a kill is most likely to do harm to, and takes few of the steps.
    const atWork = open.waiting.some((one) => one.kind === 'tool');
    if (kills > 0 && chance.oneIn(atWork ? COMMAND_KILLS : kills)) kill(chance.oneIn(2));
    else if (chance.oneIn(25)) await photograph(story.store, outside.album);
    else if (chance.oneIn(60)) void end(chance.of([0, 10_000]));
    else if (breaks > 0 && chance.oneIn(breaks)) setBroken(!isBroken);
    else if (chance.oneIn(100)) jump(chance.of([-HOUR_MS, HOUR_MS]));
    else if (chance.oneIn(edits > 0 ? 8 : 12)) person();
    else if (chance.oneIn(40) || !goOn(chance)) passTime();
    await quiet();
  }

  /** Calls take longer than anything else: they are let go on less often while there is something else. */
  function goOn(by: Chance): boolean {
    const one = open.waiting[by.below(open.waiting.length)];
    if (one && one.kind !== 'port' && !by.oneIn(3)) return true;
    return open.one(by);
  }

  /** Nothing goes wrong any more, people repair what they spoilt, and all that is open comes to its end. */
  async function calm(): Promise<void> {
    isCalm = true;
    say('calm');
    if (isBroken) setBroken(false);
    await waitUntilIdle();
    const plan = planOfRecord(story.store.hands.events());
    if (story.store.hands.planText() !== undefined && !planIn(story.store) && plan)
      story.store.hands.edit(formatPlanFile(plan));
    story.actions.dropped.push('last.md');
    story.store.hands.drop('last.md', '/status');
    wake();
    await waitUntilIdle();
  }

  async function waitUntilIdle(): Promise<void> {
    for (let n = 0; n < CALM_STEPS; n++) {
      await quiet();
      if (open.one(chance) || passTime()) continue;
      if (!worker && !changing && hasWork()) begin();
      else return;
    }
    throw new Error(`it never becomes idle: ${open.waiting.map((one) => one.what).join(', ')}`);
  }

  return { story, chance, step, calm };
}
