import * as fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { MODES } from '../../../src/protocol/settings/run-options.ts';
import type { Chance } from '../../sim/chance.ts';
import { type Dropped, folderOf, type Ground } from '../actions.ts';
import { save, textOf, type Way } from '../person.ts';
import { someLimits } from './setting.ts';
import { stepId, tagOf, weighted, work } from './words.ts';

const SHORT: readonly [string, ...string[]] = [
  'continue',
  ...['继续', 'stop', 'pause', '暂停', 'yes', 'no', 'the second', 'not done yet'],
  ...['/continue', '/pause', '/stop', '/cancel', '/undo', '/new', '/status', '/plan', '/help', '/approve', '/deny'],
  ...['/mode', '/nonsense'],
];

/** A message of a person to an agent of any mode: a task, an order, or something that fits nothing. */
export function someMessage(chance: Chance, session: string, n: number): Dropped {
  return weighted(chance, [
    [8, () => task(chance, session, n)],
    [12, () => ({ name: `${n}.msg.md`, content: shortOrder(chance), isMessage: true })],
    [
      1,
      () => ({
        name: `${n}.msg.md`,
        content: `Also think of this ${tagOf(session)}: ${work(chance)}`,
        isMessage: true,
      }),
    ],
  ])();
}

const shortOrder = (chance: Chance): string =>
  weighted<() => string>(chance, [
    [8, () => chance.of(SHORT)],
    [3, () => chance.of(['continue', '/continue', '继续', 'yes', '/approve'])],
    [1, () => `/plan ${chance.of(['done', 'skip', 'reword', 'move'])} ${stepId(chance)} ${chance.below(4)}`],
    [1, () => `/mode ${chance.of(MODES)}`],
    [1, () => `/continue ${chance.of(['plan_999', 'and hurry'])}`],
  ])();

function task(chance: Chance, session: string, n: number): Dropped {
  const wanted = Array.from({ length: 1 + chance.below(3) }, () => work(chance)).join(
    chance.of(['; ', ', then ', '，然后']),
  );
  const text = `${chance.oneIn(6) ? 'New task: ' : ''}${wanted} ${tagOf(session)}`;
  if (!chance.oneIn(2)) return { name: `${n}.msg.md`, content: text, isMessage: true };
  const options = {
    ...(chance.oneIn(2) && { mode: chance.of(MODES) }),
    ...(chance.oneIn(3) && { limits: someLimits(chance) }),
    ...(chance.oneIn(6) && { when: chance.of(['now', 'after']) }),
    ...(chance.oneIn(8) && { agent: chance.of(['SEARCH', 'WRITE']) }),
  };
  return { name: `${n}.msg.json`, content: JSON.stringify({ id: `id-${n}`, text, options }), isMessage: true };
}

/** What a person may do to a plan beside adding words to it. */
export const CHANGES = ['reword', 'swap', 'skip', 'complete', 'reopen', 'remove', 'block', 'need', 'limits'] as const;
export type Change = (typeof CHANGES)[number];

const Steps = z.looseObject({ steps: z.array(z.looseObject({})), limits: z.looseObject({}).optional() });

/** Changes the plan that is there; false where there is none to be read. Words that go with it are not missed. */
export function changePlan(ground: Ground, session: string, change: Change, chance: Chance, way: Way): boolean {
  const { plan } = folderOf(ground, session);
  const history = ground.histories.get(session);
  const text = textOf(plan);
  if (!history || history.spoilt || text === undefined) return false;
  const changed = JSON.stringify(changedPlan(Steps.parse(JSON.parse(text)), change, chance), null, 2);
  history.tokens = history.tokens.filter((token) => !text.includes(token) || changed.includes(token));
  history.saves++;
  save(plan, `${changed}\n`, way);
  return true;
}

type Edited = z.infer<typeof Steps>;

function changedPlan(plan: Edited, change: Change, chance: Chance): Edited {
  const at = chance.below(Math.max(1, plan.steps.length));
  const set = (values: object) => ({
    ...plan,
    steps: plan.steps.map((step, place) => (place === at ? { ...step, ...values } : step)),
  });
  switch (change) {
    case 'reword':
      return set({ description: work(chance) });
    case 'need':
      return set({ needs: [stepId(chance)] });
    case 'skip':
      return set({ status: 'skipped' });
    case 'complete':
      return set({ status: 'completed' });
    case 'reopen':
      return set({ status: 'pending' });
    case 'block':
      return set({ status: 'blocked' });
    case 'limits':
      return { ...plan, limits: { ...plan.limits, iterations: 1 + chance.below(20) } };
    case 'remove':
      return { ...plan, steps: plan.steps.toSpliced(at, 1) };
    case 'swap':
      return { ...plan, steps: plan.steps.toReversed() };
    default:
      return change satisfies never;
  }
}

/** Answers the call that waits by its approval file. */
export function answerApproval(ground: Ground, session: string, decision: 'allow' | 'deny' | 'always'): void {
  const { approvals } = folderOf(ground, session);
  const names = fs.existsSync(approvals) ? fs.readdirSync(approvals) : [];
  for (const name of names.filter((one) => /^\d+\.json$/.test(one))) {
    const text = textOf(join(approvals, name));
    if (text !== undefined)
      save(join(approvals, name), text.replace('"decision": null', `"decision": "${decision}"`), 'in place');
  }
}

/** Saves settings of a session, which may not parse. */
export function saveSettings(ground: Ground, session: string, text: string): void {
  const { settings, folder } = folderOf(ground, session);
  if (fs.existsSync(folder)) save(settings, text, 'rename');
}
