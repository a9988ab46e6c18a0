import type { Event as LogEvent } from '../../../protocol/session/event.ts';
import type { Plan, Step } from '../../../protocol/session/plan.ts';

/** Why a step was waiting: a call for approval, the run for a person, a paused run, or no daemon. */
export const WAIT_KINDS = ['approval', 'person', 'paused', 'down'] as const;
export type WaitKind = (typeof WAIT_KINDS)[number];

/** Times in ms since 1970; without `to` it is still going on. */
export type TimeSpan = { from: number; to: number | undefined };
export type Wait = TimeSpan & { kind: WaitKind };
/** When a step was worked on, one span per attempt. */
export type StepTimes = { step: Step; place: number; tries: TimeSpan[]; waits: Wait[]; calls: number };

type Recorded = Omit<StepTimes, 'step' | 'place'>;

/**
 * When each step of a plan was worked on and what it waited for, from the event log. If the beginning of the log was
 * removed, the plan's own times of a step are used. `hasDaemon`: whether a daemon runs now.
 */
export function planTimes(plan: Plan, events: readonly LogEvent[], hasDaemon: boolean): StepTimes[] {
  const recorded = readTimes(events, hasDaemon).get(plan.id) ?? new Map<string, Recorded>();
  return plan.steps.map((step, index): StepTimes => {
    const times = recorded.get(step.id) ?? { tries: [], waits: [], calls: 0 };
    const place = index + 1;
    const calls = Math.max(times.calls, step.iterations ?? 0);
    if (times.tries.length > 0 || step.started_at === undefined) return { ...times, step, place, calls };
    const to = step.completed_at === undefined ? undefined : Date.parse(step.completed_at);
    const isOpen = to === undefined && step.status === 'running';
    const from = Date.parse(step.started_at);
    return { step, place, calls, waits: times.waits, tries: [{ from, to: isOpen ? undefined : (to ?? from) }] };
  });
}

/** Collects the times of the steps of each plan from events. */
function createRecorder() {
  const plans = new Map<string, Map<string, Recorded>>();
  let steps = new Map<string, Recorded>();
  const timesOf = (step: string): Recorded => {
    const times = steps.get(step) ?? { tries: [], waits: [], calls: 0 };
    steps.set(step, times);
    return times;
  };
  return {
    plans,
    timesOf,
    choosePlan(plan: string) {
      steps = plans.get(plan) ?? new Map();
      plans.set(plan, steps);
    },
    open: () => [...steps.values()].filter(({ tries }) => isOpen(tries)),
    /** Ends waits because the run has resumed, except waits for approval. */
    goOn(at: number) {
      for (const { waits } of steps.values()) if (waits.at(-1)?.kind !== 'approval') close(waits, at);
    },
    end({ tries, waits }: Recorded, at: number) {
      close(tries, at);
      close(waits, at);
    },
  };
}

/** Begins a wait unless one is open: a run that ends to wait for approval counts as waiting for approval. */
function wait(times: Recorded, kind: WaitKind, from: number, to?: number): void {
  if (!isOpen(times.waits)) times.waits.push({ kind, from, to });
}

/** The times of the steps of every plan in an event log, by the ids of plan and step. */
function readTimes(events: readonly LogEvent[], hasDaemon: boolean): Map<string, Map<string, Recorded>> {
  const { plans, timesOf, choosePlan, open, goOn, end } = createRecorder();
  /** The step of each answer, since the id of a call contains that of its answer. */
  const stepOfAnswer = new Map<string, string>();
  let before = 0;
  for (const event of events) {
    const at = Date.parse(event.at);
    switch (event.type) {
      case 'plan.started':
        choosePlan(event.id);
        break;
      case 'run.resumed':
        if (event.plan !== undefined) choosePlan(event.plan);
        goOn(at);
        break;
      case 'run.started':
        goOn(at);
        break;
      case 'run.ended':
        if (event.status === 'waiting' || event.status === 'paused')
          for (const times of open()) wait(times, event.status === 'waiting' ? 'person' : 'paused', at);
        break;
      case 'step.started':
        if (!isOpen(timesOf(event.step).tries)) timesOf(event.step).tries.push({ from: at, to: undefined });
        break;
      case 'step.completed':
      case 'step.failed':
      case 'step.skipped':
      case 'step.reopened':
        end(timesOf(event.step), at);
        break;
      case 'step.blocked':
        close(timesOf(event.step).tries, at);
        wait(timesOf(event.step), 'person', at);
        break;
      case 'plan.ended':
        for (const times of open()) end(times, at);
        break;
      case 'model.answered':
        if (event.step === undefined) break;
        stepOfAnswer.set(String(event.seq), event.step);
        if (event.planner_query === undefined) timesOf(event.step).calls++;
        break;
      case 'approval.asked':
      case 'approval.answered': {
        const step = stepOfAnswer.get(event.call.split('.')[0] ?? '');
        if (step === undefined) break;
        if (event.type === 'approval.asked') wait(timesOf(step), 'approval', at);
        else close(timesOf(step).waits, at);
        break;
      }
      case 'recovery.started':
        for (const times of open()) wait(times, 'down', before, at);
        break;
      default:
    }
    before = at;
  }
  if (!hasDaemon) for (const times of open()) wait(times, 'down', before);
  return plans;
}

const isOpen = (spans: readonly TimeSpan[]): boolean => {
  const last = spans.at(-1);
  return last !== undefined && last.to === undefined;
};

function close(spans: TimeSpan[], at: number): void {
  const last = spans.at(-1);
  if (last && last.to === undefined) last.to = at;
}

/** Maps times to a share of the width. An idle period is drawn at most as wide as this share of the working time. */
export type TimeScale = { from: number; to: number; at(time: number): number };
const MOST_OF_REST = 0.1;

/**
 * The scale of a timeline. Idle periods are drawn shorter, so that a night without work does not make the hours before
 * it too narrow to see.
 */
export function timeScale(times: readonly StepTimes[], now: number): TimeScale | undefined {
  const tries = times.flatMap((one) => one.tries);
  if (tries.length === 0) return undefined;
  const from = Math.min(...tries.map((one) => one.from));
  const to = Math.max(from + 1, ...tries.map((one) => one.to ?? now));
  const worked = union(times.flatMap((one) => workedSpans(one, now)));
  const total = worked.reduce((sum, [begin, end]) => sum + end - begin, 0);
  const most = Math.max(1, total * MOST_OF_REST);
  /** Points of the scale: a time, and the length up to it. */
  const marks: Array<readonly [time: number, length: number]> = [[from, 0]];
  const add = (time: number, most = Number.POSITIVE_INFINITY) => {
    const [last, length] = marks.at(-1) ?? [from, 0];
    if (time > last) marks.push([time, length + Math.min(time - last, most)]);
  };
  for (const [begin, end] of worked) {
    add(begin, most);
    add(end);
  }
  add(to, most);
  const whole = marks.at(-1)?.[1] || 1;
  const at = (time: number): number => {
    const next = marks.findIndex(([mark]) => mark >= time);
    const [end, length] = marks[next] ?? marks.at(-1) ?? [to, whole];
    const [begin, before] = marks[next - 1] ?? [from, 0];
    return next <= 0 ? (next === 0 ? 0 : 1) : (before + ((length - before) * (time - begin)) / (end - begin)) / whole;
  };
  return { from, to, at };
}

/** When a step was worked on, without waits. */
function workedSpans({ tries, waits }: StepTimes, now: number): Array<readonly [number, number]> {
  return tries.flatMap(({ from, to = now }) => {
    const within = waits.filter((one) => one.from < to && (one.to ?? now) > from);
    const edges = [from, ...within.flatMap((one) => [Math.max(from, one.from), Math.min(to, one.to ?? now)]), to];
    return edges.flatMap((edge, place) => {
      const end = edges[place + 1];
      return place % 2 === 0 && end !== undefined && end > edge ? [[edge, end] as const] : [];
    });
  });
}

/** Sorts spans and merges those that overlap or touch. */
function union(spans: ReadonlyArray<readonly [number, number]>): Array<readonly [number, number]> {
  const merged: Array<readonly [number, number]> = [];
  for (const [from, to] of [...spans].sort(([a], [b]) => a - b)) {
    const [begin, end] = merged.at(-1) ?? [Number.NaN, Number.NEGATIVE_INFINITY];
    if (from <= end) merged[merged.length - 1] = [begin, Math.max(end, to)];
    else merged.push([from, to]);
  }
  return merged;
}

/** The total length of spans, in ms. */
export const lengthOf = (spans: readonly TimeSpan[], now: number): number =>
  spans.reduce((sum, { from, to }) => sum + Math.max(0, (to ?? now) - from), 0);
