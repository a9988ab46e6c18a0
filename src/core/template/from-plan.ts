import { DEFAULT_LIMITS } from '../../protocol/limits.ts';
import type { Plan, Step } from '../../protocol/plan.ts';
import { readItems, wordsBefore } from '../../protocol/template/list.ts';
import { escaped } from '../../protocol/template/placeholders.ts';
import type { TemplateHead, TemplateStep } from '../../protocol/template/template.ts';
import { inOneLine, writeSteps } from '../../protocol/template/write.ts';

/** A plan as a template: its front matter and its list, or why it cannot be one. */
export type PlanAsTemplate = { head: TemplateHead; body: string } | { why: string };

/**
 * What a plan set out to do, without what came of it: run again, the template makes a plan of the same steps, needs, checks and
 * conditions, with ids by place. Steps that were left out stay out, unless they belong to a condition or undo another one. What looks
 * like a place for a value is kept as the text it is.
 */
export function planAsTemplate(plan: Plan): PlanAsTemplate {
  const kept = keptSteps(plan);
  if (kept.length === 0) return { why: 'The plan has no steps.' };
  const places = new Map(kept.map((step, at) => [step.id, `step_${at + 1}`]));
  const listed = readItems(plan.goal);
  const steps = kept.map((step) => toTemplateStep(step, places, listed));
  const list = writeSteps(steps);
  if ('unwritten' in list) return { why: `Step ${list.unwritten} cannot be written as an item of a list.` };
  // A plan that began with a list of commands has that list as its goal.
  const isList = steps.some((step) => step.command !== undefined) && listed.some((item) => item.command !== undefined);
  const about = plan.title ?? firstLine(isList ? wordsBefore(plan.goal) : plan.goal);
  return {
    head: {
      ...(about !== '' && { description: escaped(about) }),
      ...(!isList && about !== plan.goal && { goal: escaped(plan.goal) }),
      ...(plan.mode !== 'linear' && plan.mode !== 'auto' && { mode: plan.mode }),
      ...(!isUsual(plan.limits) && { limits: plan.limits }),
    },
    body: list.text,
  };
}

const isUsual = ({ iterations, step_iterations }: Plan['limits']): boolean =>
  iterations === DEFAULT_LIMITS.iterations && step_iterations === DEFAULT_LIMITS.step_iterations;

const LINE = 100;

function firstLine(text: string): string {
  const line = [...inOneLine(text.trim().split('\n')[0] ?? '').replace(/^#+ /, '')];
  return line.length > LINE ? `${line.slice(0, LINE).join('')}…` : line.join('');
}

function keptSteps({ steps }: Plan): Step[] {
  const undoing = new Set(steps.flatMap((step) => step.rollback ?? []));
  return steps.filter((step) => step.status !== 'skipped' || step.when !== undefined || undoing.has(step.id));
}

type Listed = ReturnType<typeof readItems>;

/** A step's own wishes. What names a step that is left out is left out too. */
function toTemplateStep(step: Step, places: ReadonlyMap<string, string>, listed: Listed): TemplateStep {
  const { description, agent, notes, done_when } = step;
  const command = step.command ?? listed.find((item) => item.description === description)?.command;
  const placed = (ids: readonly string[] | undefined) => (ids ?? []).flatMap((id) => places.get(id) ?? []);
  const needs = placed(step.needs);
  const when = (step.when ?? []).flatMap((one) => {
    const id = places.get(one.step);
    return id === undefined
      ? []
      : [{ ...one, step: id, ...(one.result !== undefined && { result: escaped(one.result) }) }];
  });
  const [rollback] = placed(step.rollback === undefined ? [] : [step.rollback]);
  const [parent] = placed(step.parent === undefined ? [] : [step.parent]);
  return {
    description: escaped(inOneLine(description)),
    ...(command !== undefined && { command: escaped(command).trim() }),
    ...(needs.length > 0 && { needs }),
    ...(when.length > 0 && { when }),
    ...(rollback !== undefined && { rollback }),
    ...(parent !== undefined && { parent }),
    ...(agent !== undefined && { agent }),
    ...(done_when && done_when.length > 0 && { done_when: done_when.map(escapedCheck) }),
    ...(notes !== undefined && { notes: escaped(notes) }),
  };
}

function escapedCheck(check: NonNullable<Step['done_when']>[number]): NonNullable<Step['done_when']>[number] {
  if ('command' in check) return { ...check, command: escaped(check.command) };
  if ('url' in check) return { ...check, url: escaped(check.url) };
  if ('person' in check) return { person: escaped(check.person) };
  return {
    ...check,
    file: escaped(check.file),
    ...(check.matches !== undefined && { matches: escaped(check.matches) }),
  };
}
