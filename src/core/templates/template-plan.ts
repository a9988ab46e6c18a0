import type { EventBody } from '../../protocol/session/event.ts';
import type { RenderedTemplate } from '../../protocol/session/message.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { DEFAULT_LIMITS, resolveLimits } from '../../protocol/settings/run-options.ts';
import { parseListItems, textBeforeList } from '../../protocol/templates/markdown-list.ts';
import {
  escapePlaceholders,
  mapCheck,
  mapSource,
  type TemplateHead,
  type TemplateStep,
} from '../../protocol/templates/template.ts';
import { formatSteps, parseSteps, toOneLine } from '../../protocol/templates/template-steps.ts';
import { isFanOutStep } from '../plan/fan-out.ts';
import { newPlanId } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';

/** A plan as a template: its front matter and its list, or why it cannot be one. */
export type PlanAsTemplate = { head: TemplateHead; body: string } | { why: string };

/**
 * Turns a plan into a template, without its outcomes: running the template creates a plan with the same steps, needs,
 * checks and conditions, with ids by position. Steps that were left out stay out, unless they belong to a condition or
 * are rollbacks. Text that looks like a placeholder is escaped.
 */
export function templateFromPlan(plan: Plan): PlanAsTemplate {
  const kept = stepsToKeep(plan);
  if (kept.length === 0) return { why: 'The plan has no steps.' };
  const places = new Map(kept.map((step, at) => [step.id, `step_${at + 1}`]));
  const listed = parseListItems(plan.goal);
  const steps = kept.map((step) => toTemplateStep(step, places, listed));
  const list = formatSteps(steps);
  if ('unwritten' in list) return { why: `Step ${list.unwritten} cannot be written as an item of a list.` };
  // A plan that started from a list of commands has that list as its goal.
  const isList = steps.some((step) => step.command !== undefined) && listed.some((item) => item.command !== undefined);
  const about = plan.title ?? templateDescription(isList ? textBeforeList(plan.goal) : plan.goal);
  return {
    head: {
      ...(about !== '' && { description: escapePlaceholders(about) }),
      ...(!isList && about !== plan.goal && { goal: escapePlaceholders(plan.goal) }),
      ...(plan.mode !== 'linear' && plan.mode !== 'auto' && { mode: plan.mode }),
      ...(!hasDefaultLimits(plan.limits) && { limits: plan.limits }),
    },
    body: list.text,
  };
}

const hasDefaultLimits = ({ iterations, step_iterations }: Plan['limits']): boolean =>
  iterations === DEFAULT_LIMITS.iterations && step_iterations === DEFAULT_LIMITS.step_iterations;

const MAX_DESCRIPTION = 100;

function templateDescription(text: string): string {
  const line = [...toOneLine(text.trim().split('\n')[0] ?? '').replace(/^#+ /, '')];
  return line.length > MAX_DESCRIPTION ? `${line.slice(0, MAX_DESCRIPTION).join('')}…` : line.join('');
}

function stepsToKeep({ steps }: Plan): Step[] {
  const undoing = new Set(steps.flatMap((step) => step.rollback ?? []));
  // Parts are found again when the template runs.
  const fannedOut = new Set(steps.filter(isFanOutStep).map(({ id }) => id));
  return steps.filter(
    (step) =>
      (step.status !== 'skipped' || step.when !== undefined || undoing.has(step.id)) &&
      !(step.parent !== undefined && fannedOut.has(step.parent)),
  );
}

type ListedItems = ReturnType<typeof parseListItems>;

/** A step's own fields. References to steps that are left out are dropped. */
function toTemplateStep(step: Step, places: ReadonlyMap<string, string>, listed: ListedItems): TemplateStep {
  const { description, agent, notes, done_when, each, on_failed_part } = step;
  const command = step.command ?? listed.find((item) => item.description === description)?.command;
  const placed = (ids: readonly string[] | undefined) => (ids ?? []).flatMap((id) => places.get(id) ?? []);
  const needs = placed(step.needs);
  const when = (step.when ?? []).flatMap((one) => {
    const id = places.get(one.step);
    return id === undefined
      ? []
      : [{ ...one, step: id, ...(one.result !== undefined && { result: escapePlaceholders(one.result) }) }];
  });
  const [rollback] = placed(step.rollback === undefined ? [] : [step.rollback]);
  const from = step.gather && places.get(step.gather.from);
  const [parent] = placed(step.parent === undefined ? [] : [step.parent]);
  return {
    description: escapePlaceholders(toOneLine(description)),
    ...(command !== undefined && { command: escapePlaceholders(command).trim() }),
    ...(needs.length > 0 && { needs }),
    ...(when.length > 0 && { when }),
    ...(rollback !== undefined && { rollback }),
    ...(parent !== undefined && { parent }),
    ...(agent !== undefined && { agent }),
    ...(each && { each: mapSource(each, escapePlaceholders) }),
    ...(step.gather && from !== undefined && { gather: { ...step.gather, from } }),
    ...(on_failed_part && { on_failed_part }),
    ...(done_when &&
      done_when.length > 0 && { done_when: done_when.map((check) => mapCheck(check, escapePlaceholders)) }),
    ...(notes !== undefined && { notes: escapePlaceholders(notes) }),
  };
}

type RunStarted = Extract<EventBody, { type: 'run.started' }>;

/** The plan of a template: all its steps, none started, in one event. */
export function planFromTemplate(
  session: Session,
  run: RunStarted,
  { name, goal, text }: Extract<RenderedTemplate, { text: string }>,
): EventBody[] {
  const read = parseSteps(text);
  const steps = ('steps' in read ? read.steps : []).map(
    (step, n): Step => ({ id: `step_${n + 1}`, status: 'pending', ...step }),
  );
  const { iterations, step_iterations } = resolveLimits(run.limits);
  return [
    {
      type: 'plan.started',
      id: newPlanId(session),
      goal,
      mode: run.mode,
      limits: { iterations, step_iterations },
      planned_by: `template ${name}`,
      steps,
    },
  ];
}
