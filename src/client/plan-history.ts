import { changesInWords } from '../core/edit/words.ts';
import { entryOf } from '../core/keyed.ts';
import type { By, Event } from '../protocol/event.ts';
import { own } from '../protocol/own.ts';
import type { Plan } from '../protocol/plan.ts';
import { type Beat, orderBehind, replay, typed } from './replay.ts';

/** One change of the plan. */
export type Deed = {
  /** Its number in the record. */
  event: number;
  /** ISO 8601, UTC. */
  at: string;
  by: By;
  /** The plan's revision before and after; the same where nothing was taken over. */
  from: number;
  to: number;
  /** What changed, one sentence each. */
  what: string[];
};

/** How one plan came to be what it is. */
export type History = {
  plan: Plan;
  deeds: Deed[];
  /** The plan at each revision the record went through. */
  versions: ReadonlyMap<number, Plan>;
};

type Growing = { deeds: Deed[]; versions: Map<number, Plan> };

/** What became of the plan at hand (where there is none, of the last one); undefined where there was none yet. Pure. */
export function planHistory(name: string, events: readonly Event[]): History | undefined {
  const histories = new Map<string, Growing>();
  let last: Plan | undefined;
  for (const beat of replay(name, events)) {
    const now = beat.after.plan;
    last = now ?? last;
    const plan = now ?? beat.before.plan;
    if (!plan) continue;
    const history: Growing = histories.get(plan.id) ?? { deeds: [], versions: new Map() };
    histories.set(plan.id, history);
    if (now) history.versions.set(now.revision, now);
    const deed = deedOf(beat);
    if (deed) history.deeds.push({ ...deed, from: earlier(beat, plan)?.revision ?? 0, to: plan.revision });
  }
  const history = last && histories.get(last.id);
  return last && history && { plan: last, ...history };
}

function earlier({ before }: Beat, { id }: Plan): Plan | undefined {
  return before.plan?.id === id ? before.plan : own(before.setAside, id);
}

function deedOf(beat: Beat): Omit<Deed, 'from' | 'to'> | null {
  const { event } = beat;
  const deed = (by: By, ...what: string[]) => ({ event: event.seq, at: event.at, by, what });
  switch (event.type) {
    case 'plan.started':
      return deed('daemon', `${event.id} began: ${event.goal}`);
    case 'plan.edited': {
      const order = event.by === 'person' ? orderBehind(event, beat) : null;
      const ignored = event.ignored.map((text) => `not taken over: ${text}`);
      return deed(event.by, ...changesInWords(event.changes), ...ignored, ...(order === null ? [] : [`by: ${order}`]));
    }
    case 'plan.ended':
      return deed(
        event.reason === 'asked' ? 'person' : 'daemon',
        event.status === 'paused' ? 'it was put away' : `it ended as ${event.status}: ${event.reason}`,
      );
    case 'run.resumed':
      return turned(beat) ? deed(event.by, 'it goes on') : null;
    case 'run.rested': {
      const by = event.reason === 'asked' || event.reason === 'stopped' ? 'person' : 'daemon';
      return turned(beat) ? deed(by, `it rests as ${event.status}: ${event.reason}`) : null;
    }
    case 'step.added':
      return deed(event.by, `${event.step.id} was added: ${event.step.description}`);
    case 'step.started':
      return deed('daemon', `${event.step} began`);
    case 'step.progressed':
      return deed('model', `${event.step} is at ${event.progress.current} of ${event.progress.total}`);
    case 'step.completed':
      return deed(completer(event.by), because(`${event.step} was closed by ${event.by}`, event.evidence));
    case 'step.failed':
      return deed(event.by, because(`${event.step} failed`, event.error));
    case 'step.blocked':
      return deed(event.by, because(`${event.step} is blocked`, event.error));
    case 'step.skipped':
      return deed(event.by, because(`${event.step} was skipped`, event.reason));
    case 'step.reopened': {
      const message = event.message === undefined ? undefined : entryOf(beat.after.messages, event.message);
      const order = message ? [`by: ${typed(message)}`] : [];
      return deed(event.by, `${event.step} was opened again`, ...order);
    }
    default:
      return null;
  }
}

function because(what: string, why: string): string {
  return why.trim() === '' ? what : `${what}: ${why}`;
}

/** Whether an event changed the plan's own status. */
function turned({ before, after }: Beat): boolean {
  return after.plan !== null && after.plan.status !== before.plan?.status;
}

function completer(by: string): By {
  return by === 'person' ? 'person' : by === 'timeout' ? 'daemon' : 'model';
}
