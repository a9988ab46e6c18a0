import type { Mode } from '../../src/protocol/settings/run-options.ts';
import type { Family } from '../support/family.ts';
import { shell } from '../support/rig.ts';

type ScriptedMove =
  | { text?: string; calls?: Array<{ name: string; args?: unknown }> }
  | { fault: ['unreachable' | 'rejected', string, { retry: boolean }] };

/** A way a child session can end its run, or be lost. */
export type Way = {
  /** What its model says at its n-th call, while it is failing. */
  answers(asked: number): ScriptedMove;
  /** What happens to it at its n-th call. */
  meanwhile?(on: Family, child: string, asked: number): void;
  /** What happens to it once the root is idle. */
  then?(on: Family, child: string): void;
  /** What is put right before a person says "continue". */
  repair?(on: Family, child: string): void;
  /** Its calls wait for a person, who never answers. */
  asks?: true;
  /** What it spent goes with it, and nobody can count it. */
  uncounted?: true;
};

const same = { name: 'shell', args: { command: 'echo the same' } };
const works = (): ScriptedMove => ({ calls: [shell()] });
const declares = (): ScriptedMove => ({ text: '[Step] look for it', calls: [shell()] });

/** It is at work when this is dropped into its inbox. */
const isSent = (text: string): Way => ({
  answers: works,
  meanwhile: (on, child, asked) => asked === 1 && on.drop(child, 'sent.md', text),
});

const answersWith = (text: string): Way => ({ answers: (asked) => (asked === 0 ? declares() : { text }) });

/** It pauses, and then this happens to it. */
const paused = (then: Way['then'] & object): Way => ({ answers: () => ({ calls: [same] }), then });

export const WAYS: Readonly<Record<string, Way>> = {
  'is done': { answers: () => ({ text: 'here it is' }) },
  'pauses at its limit': { answers: works },
  'pauses over a call that repeats': { answers: () => ({ calls: [same] }) },
  'pauses over an endpoint that is away': { answers: () => ({ fault: ['unreachable', 'no route', { retry: true }] }) },
  'is paused by a person': isSent('/pause'),
  'is stopped by a person': isSent('/stop'),
  'is cancelled by a person': isSent('/cancel'),
  'begins afresh for a person': isSent('/new'),
  'waits with a question': answersWith('Which one do you mean?'),
  'waits for what is missing': answersWith('[Blocked: the key is missing]'),
  'says that it lacks something': { answers: () => ({ text: '[Blocked: the key is missing]' }) },
  'has an approval that nobody gives': {
    answers: (asked) => (asked < 2 ? works() : { text: 'here it is' }),
    asks: true,
  },
  'fails at a step of its own': answersWith('[Failed: it cannot be done]'),
  'says that it failed': { answers: () => ({ text: '[Failed: it cannot be done]' }) },
  'fails since the endpoint refuses': { answers: () => ({ fault: ['rejected', 'no such model', { retry: false }] }) },
  'is removed at work': {
    answers: works,
    uncounted: true,
    meanwhile: (on, child, asked) => asked === 1 && on.remove(child),
  },
  'is made again at work': {
    answers: works,
    uncounted: true,
    meanwhile(on, child, asked) {
      if (asked !== 1) return;
      on.remove(child);
      on.make(child);
    },
  },
  'cannot be read at work': {
    answers: works,
    uncounted: true,
    meanwhile: (on, child, asked) => asked === 1 && on.spoil(child, 'line 3 is broken'),
    repair: (on, child) => on.spoil(child, null),
  },
  'is removed while idle': paused((on, child) => on.remove(child)),
  'is made again while idle': paused((on, child) => {
    on.remove(child);
    on.make(child);
  }),
  'cannot be read while idle': {
    ...paused((on, child) => on.spoil(child, 'line 3 is broken')),
    repair: (on, child) => on.spoil(child, null),
  },
  'is taken up by a person while idle': paused((on, child) => on.drop(child, 'sent.md', 'continue')),
  'is cancelled while idle': paused((on, child) => on.drop(child, 'sent.md', '/cancel')),
  'begins afresh while idle': paused((on, child) => on.drop(child, 'sent.md', '/new')),
};

/** How the children of a root begin: its mode, its planner's plan, how it is asked, and the step whose child goes wrong; else all. */
export type Beginning = { mode: Mode; plan?: object; asked?: string; template?: string; agents?: true; wrong?: string };

export const BEGINNINGS: Readonly<Record<string, Beginning>> = {
  'a spawn call, linear': { mode: 'linear' },
  'a spawn call, plan-act': { mode: 'plan-act', plan: { steps: ['find it'] } },
  'a spawn call, todo': { mode: 'todo', plan: { steps: ['find it'] } },
  'a spawn call, map-reduce': { mode: 'map-reduce', plan: { steps: [{ id: 'prepare', description: 'find it' }] } },
  'a spawn call, auto': { mode: 'auto' },
  'a step of an agent, plan-act': { mode: 'plan-act', plan: { steps: ['[SEARCH] find it'] }, agents: true },
  'a step of an agent, todo': { mode: 'todo', plan: { steps: ['[SEARCH] find it'] }, agents: true },
  'a step of an agent, map-reduce': {
    mode: 'map-reduce',
    plan: { steps: [{ id: 'prepare', description: '[SEARCH] find it' }] },
    agents: true,
  },
  'a step, dag': {
    mode: 'dag',
    wrong: 'a',
    plan: {
      steps: [
        { id: 'a', description: 'find a' },
        { id: 'b', description: 'find b' },
      ],
    },
  },
  'a part, map-reduce': {
    mode: 'map-reduce',
    wrong: 'map.1',
    plan: { steps: [{ id: 'map', description: 'read it', each: { list: ['x', 'y'] } }] },
  },
  'a batch, map-reduce': {
    mode: 'map-reduce',
    wrong: 'reduce.1',
    plan: {
      steps: [
        { id: 'map', description: 'read it', each: { list: ['x', 'y'] } },
        { id: 'reduce', description: 'put together', gather: { from: 'map' } },
      ],
    },
  },
  'a step of a template, dag': {
    mode: 'linear',
    wrong: 'step_1',
    asked: '/run t',
    template: '---\nmode: dag\n---\n1. find a\n2. find b\n',
  },
  'a spawn call in a template': { mode: 'linear', asked: '/run t', template: '---\n---\n1. find it\n' },
};
