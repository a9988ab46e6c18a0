import { InvalidArgument, UserError } from '../../base/user-error.ts';
import { fillTemplate, findTemplateFaults, templateUsage } from '../../core/templates/fill-template.ts';
import { templateFromPlan } from '../../core/templates/template-plan.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { TemplateHead } from '../../protocol/templates/template.ts';
import { openTemplates, saveTemplate } from '../../store/templates/template-store.ts';

/** A template in a list: how to run it, or what is wrong with it. */
export type TemplateSummary = {
  name: string;
  description: string | null;
  usage: string;
  parameters: Array<{ name: string; description: string | null; default: string | null }>;
  mode: string | null;
  faults: string[];
};

/** All templates of a workspace, sorted by name; invalid ones are included with their errors. */
export async function listTemplates(folder: string): Promise<TemplateSummary[]> {
  const templates = openTemplates(folder);
  const names = await templates.names();
  return Promise.all(
    names.map(async (name) => {
      const read = await templates.read(name);
      if (!read.ok)
        return {
          name,
          description: null,
          usage: `/run ${name}`,
          parameters: [],
          mode: null,
          faults: read.why.split('\n'),
        };
      const { template } = read;
      return {
        name,
        ...summarizeHead(template.head),
        usage: templateUsage(template),
        faults: findTemplateFaults(template),
      };
    }),
  );
}

function summarizeHead({
  description,
  parameters,
  mode,
}: TemplateHead): Pick<TemplateSummary, 'description' | 'parameters' | 'mode'> {
  const named = Object.entries(parameters ?? {}).map(([name, one]) => ({
    name,
    description: one.description ?? null,
    default: one.default ?? null,
  }));
  return { description: description ?? null, parameters: named, mode: mode ?? null };
}

/** Throws UserError if a template cannot be run: its faults; `InvalidArgument` if these arguments are wrong. */
export async function checkTemplateRun(folder: string, name: string, args: string): Promise<void> {
  const read = await openTemplates(folder).read(name);
  const faults = read.ok ? findTemplateFaults(read.template).join('\n') : read.why;
  if (faults !== '')
    throw new UserError(`The template ${name} cannot be run:\n${faults}\nFix its file, then run it again.`);
  const filled = read.ok && fillTemplate(read.template, args);
  if (filled && 'fault' in filled) throw new InvalidArgument(filled.fault);
}

/** Saves a completed plan as a template; returns the path of its file. Throws UserError if that is not possible. */
export async function savePlanAsTemplate(
  folder: string,
  plan: Plan | null,
  name: string,
  options: { force?: boolean },
): Promise<string> {
  if (!plan) throw new UserError('There is no plan to save.');
  if (plan.status !== 'completed')
    throw new UserError(
      `The plan is ${plan.status}; only a completed plan can be saved. Finish it, or close its open steps with agentctl plan.`,
    );
  const template = templateFromPlan(plan);
  if ('why' in template) throw new UserError(template.why);
  return saveTemplate(folder, { name, ...template }, options);
}
