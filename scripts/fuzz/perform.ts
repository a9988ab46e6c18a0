import * as fs from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { dropMessage, type SessionPaths, sessionPaths } from '../../src/store/index.ts';
import { save, textOf } from '../../tests/model/person.ts';
import type { Action, PlanEdit } from './people.ts';

/** A dropped file, as its sender knows it. */
export type Dropped = { name: string; id?: string; content: string };

/** A session and what people did to it. */
export type SessionHistory = {
  name: string;
  paths: SessionPaths;
  dropped: Dropped[];
  /** The plan before a person broke the file; null if the file is valid. */
  unbroken: string | null;
  /** Whether it was ever broken. */
  wasBroken: boolean;
};

export const newHistory = (root: string, name: string): SessionHistory => ({
  name,
  paths: sessionPaths(join(root, '.sessions', name)),
  dropped: [],
  unbroken: null,
  wasBroken: false,
});

/** Performs an action as far as possible; returns whether anything was done. */
export async function perform(history: SessionHistory, action: Action): Promise<boolean> {
  switch (action.do) {
    case 'message':
      return drop(history, action);
    case 'plan':
      return editPlan(history, action.edit);
    case 'settings':
      return saveSettings(history, action.text);
    case 'approval':
      return decide(history, action.decision);
    case 'read':
      return consume(history);
    default:
      return action satisfies never;
  }
}

async function drop(history: SessionHistory, action: Extract<Action, { do: 'message' }>): Promise<boolean> {
  const { name, content, way, id } = action;
  const { inbox, folder } = history.paths;
  fs.mkdirSync(inbox, { recursive: true });
  const path = join(inbox, name);
  // A sender does not overwrite a message whose name is taken.
  if (fs.existsSync(path)) return false;
  history.dropped.push({ name, content, ...(id !== undefined && { id }) });
  if (way === 'link') await dropMessage(folder, { name, content });
  else if (way === 'echo') fs.writeFileSync(path, `${content}\n`, { flag: 'wx' });
  else {
    const made = join(folder, '..', '..', '..', `${history.name}-${history.dropped.length}`);
    fs.writeFileSync(made, `${content}\n`);
    fs.renameSync(made, path);
  }
  return true;
}

const Steps = z.looseObject({ steps: z.array(z.looseObject({})), limits: z.looseObject({}).optional() });

function editPlan(history: SessionHistory, edit: PlanEdit): boolean {
  const { plan: path } = history.paths;
  const text = history.unbroken ?? textOf(path);
  if (text === undefined) return false;
  if (edit.what === 'break') {
    if (history.unbroken !== null) return false;
    save(path, text.slice(0, Math.floor((text.length * (edit.at + 2)) / 10)), edit.how);
    history.unbroken = text;
    history.wasBroken = true;
    return true;
  }
  if (edit.what === 'repair' && history.unbroken === null) return false;
  const parsed = Steps.safeParse(JSON.parse(text));
  if (!parsed.success) throw new Error(`${path}: ${parsed.error.message}`);
  const changed = edit.what === 'repair' ? parsed.data : edited(parsed.data, edit);
  save(path, `${JSON.stringify(changed, null, 2)}\n`, edit.how);
  history.unbroken = null;
  return true;
}

type Edited = z.infer<typeof Steps>;

function edited(plan: Edited, edit: Exclude<PlanEdit, { what: 'break' | 'repair' }>): Edited {
  const at = plan.steps.length === 0 ? 0 : edit.at % plan.steps.length;
  const set = (values: object) => ({
    ...plan,
    steps: plan.steps.map((step, place) => (place === at ? { ...step, ...values } : step)),
  });
  switch (edit.what) {
    case 'reword':
      return set({ description: edit.text });
    case 'notes':
      return set({ notes: edit.text });
    case 'need':
      return set({ needs: [edit.id] });
    case 'skip':
      return set({ status: 'skipped' });
    case 'complete':
      return set({ status: 'completed' });
    case 'reopen':
      return set({ status: 'pending' });
    case 'block':
      return set({ status: 'blocked' });
    case 'limits':
      return { ...plan, limits: { ...plan.limits, iterations: edit.iterations } };
    case 'remove':
      return { ...plan, steps: plan.steps.toSpliced(at, 1) };
    case 'swap':
      return { ...plan, steps: plan.steps.toReversed() };
    case 'add':
      return { ...plan, steps: plan.steps.toSpliced(at, 0, { description: edit.text }) };
    default:
      return edit satisfies never;
  }
}

function saveSettings(history: SessionHistory, text: string): boolean {
  const { settings, folder } = history.paths;
  if (!fs.existsSync(folder)) return false;
  save(settings, text, 'rename');
  return true;
}

/** Answers the waiting call by its approval file. */
function decide({ paths }: SessionHistory, decision: string): boolean {
  const names = fs.existsSync(paths.approvals) ? fs.readdirSync(paths.approvals) : [];
  const name = names.find((one) => /^\d+\.json$/.test(one));
  const text = name === undefined ? undefined : textOf(join(paths.approvals, name));
  if (name === undefined || text === undefined) return false;
  save(join(paths.approvals, name), text.replace('"decision": null', `"decision": "${decision}"`), 'in place');
  return true;
}

/** Marks every reply as read, as a frontend does. */
function consume({ paths }: SessionHistory): boolean {
  if (!fs.existsSync(paths.outboxRead)) return false;
  const files = fs.readdirSync(paths.outbox, { withFileTypes: true }).filter((entry) => entry.isFile());
  for (const { name } of files) fs.renameSync(join(paths.outbox, name), join(paths.outboxRead, name));
  return files.length > 0;
}
