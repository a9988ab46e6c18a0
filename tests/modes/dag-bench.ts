import { isGroup } from '../../src/core/plan/step-graph.ts';
import type { EventBody } from '../../src/protocol/session/event.ts';
import type { Plan, Step } from '../../src/protocol/session/plan.ts';
import type { Reply } from '../../src/protocol/session/reply.ts';
import type { Limits } from '../../src/protocol/settings/run-options.ts';
import { type Move, type Rig, rig } from '../support/rig.ts';

/** How a child session ends its step. */
export type Outcome = Partial<Pick<Reply, 'status' | 'text' | 'exit' | 'attachments'>>;

export type Bench = {
  on: Rig;
  /** Answers for every child at work, again and again until none is; `outcomes` by step, else "ok". `only`: those steps alone. */
  work(outcomes?: Record<string, Outcome>, only?: string[]): Promise<void>;
  steps(): Record<string, Step>;
  plan(): Plan;
  /** Steps that were begun together, in order. */
  superSteps(): string[][];
  /** Steps given to a child, in order. */
  ran(): string[];
  /** Steps a child works on now. */
  atWork(): string[];
  /** How the planner's looks between super-steps came out. */
  looks(): Array<Extract<EventBody, { type: 'plan.revised' }>>;
};

type Answers = {
  plan?: object | string;
  /** Answers to the question between super-steps, one after the other; then the plan is kept. */
  adapt?: Array<object | string>;
  limits?: Limits;
};

const text = (answer: object | string): string => (typeof answer === 'string' ? answer : JSON.stringify(answer));

/** A run in the mode `dag` with a scripted planner, from a message or from what is in the event log already. */
export async function bench(answers: Answers = {}, before?: EventBody[]): Promise<Bench> {
  const adapt = [...(answers.adapt ?? [])];
  const script = ({ messages }: { messages: ReadonlyArray<{ content: string | null }> }): Move => {
    const asked = messages.at(-1)?.content ?? '';
    if (asked.includes('Look at the results of the plan')) return { text: text(adapt.shift() ?? { keep: true }) };
    if (asked.includes('All steps have ended')) return { text: 'That is what came of it.' };
    return { text: text(answers.plan ?? 'no plan') };
  };
  const on = await rig({
    config: { mode: 'dag', ...(answers.limits && { limits: answers.limits }) },
    script,
    ...(before && { before }),
  });
  if (before) on.worker.wake();
  else on.drop('1.md', 'Do it');
  await on.settle();
  const children = () => {
    const at = new Map<string, { child: string; message: string; open: boolean }>();
    for (const event of on.events()) {
      if (event.type === 'child.sent' && event.command !== 'cancel')
        at.set(event.step, { child: event.child, message: event.message, open: true });
      const known = event.type === 'child.replied' ? at.get(event.step) : undefined;
      if (known) at.set(event.type === 'child.replied' ? event.step : '', { ...known, open: false });
    }
    return [...at].filter(([, it]) => it.open).map(([step, it]) => ({ step, ...it }));
  };
  return {
    on,
    async work(outcomes = {}, only) {
      for (let n = 0; n < 40; n++) {
        const open = children().filter(({ step }) => !only || only.includes(step));
        if (open.length === 0) return;
        for (const { step, child, message } of open)
          on.children.answer(child, message, { text: 'ok', ...outcomes[step] });
        on.worker.wake();
        await on.settle();
      }
      throw new Error('the run does not come to an end');
    },
    steps: () => Object.fromEntries((on.plan()?.steps ?? []).map((step) => [step.id, step])),
    plan: () => {
      const plan = on.plan();
      if (!plan) throw new Error('there is no plan');
      return plan;
    },
    superSteps() {
      const groups: string[][] = [];
      let together = false;
      for (const event of on.events()) {
        if (event.type === 'child.sent') together = false;
        if (event.type === 'step.started' && !isGroup(on.plan()?.steps ?? [], event.step)) {
          if (together) groups.at(-1)?.push(event.step);
          else groups.push([event.step]);
          together = true;
        }
      }
      return groups;
    },
    ran: () => on.events().flatMap((event) => (event.type === 'child.sent' && !event.command ? [event.step] : [])),
    atWork: () => children().map(({ step }) => step),
    looks: () => on.events().flatMap((event) => (event.type === 'plan.revised' ? [event] : [])),
  };
}

export type Given = { id: string; status?: Step['status'] } & Partial<Step>;

/** The record of a run in the mode `dag` whose plan stands like this. */
export function standing(steps: readonly Given[], limits: Limits = {}): EventBody[] {
  const file = { ino: '1', mtime_ns: '1', ctime_ns: '1', sha256: 'a' };
  return [
    { type: 'session.opened', format: 1, key: 'demo' },
    { type: 'message.received', id: '1', name: '1.md', body: { text: 'Do it' }, file },
    { type: 'run.started', message: '1', limits: { iterations: 50, ...limits }, mode: 'dag' },
    {
      type: 'plan.started',
      id: 'plan_1',
      goal: 'Do it',
      mode: 'dag',
      limits: { iterations: 50, step_iterations: 5 },
      planned_by: 'planner',
    },
    ...steps.map(
      (step): EventBody => ({
        type: 'step.added',
        by: 'model',
        step: { description: `work on ${step.id}`, status: 'pending', ...step },
      }),
    ),
  ];
}
