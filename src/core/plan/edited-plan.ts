import { propertyOf } from '../../base/collections.ts';
import { positionAt, positionOfJsonPath, whyNotJson } from '../../base/json.ts';
import { hasPattern, NO_PATTERN, type Plan, type Step } from '../../protocol/session/plan.ts';
import { EditedPlan, PLAN_BOUNDS, type PlanSave } from '../../protocol/session/plan-edit.ts';
import { readForeignPlan } from './foreign-plan.ts';

/**
 * A `plan.json` as a person saved it, with everything in it, or what is wrong with it, where, and what was expected.
 */
export type EditReading = { edit: EditedPlan; raw: Readonly<Record<string, unknown>> } | { fault: string };

/**
 * Parses a saved `plan.json`. `current`: the steps of the current plan; a plan that the daemon wrote is accepted again
 * whatever its size, since only one that grows has to stay within the bounds of a whole plan.
 */
export function parseEditedPlan(saved: string, current: readonly Step[] = []): EditReading {
  if (UTF_16.test(saved)) return { fault: 'plan.json looks like UTF-16 text. Save it as UTF-8' };
  const bytes = saved.replace(/^\uFEFF/, '');
  const large = saveFault(bytes.length, current);
  if (large) return { fault: `plan.json is too large to be read: ${large}` };
  // How the store passes on a byte that is not UTF-8.
  const bad = bytes.search(/[\udc80-\udcff]/u);
  if (bad >= 0) return { fault: notUtf8(bytes, bad) };
  let raw: unknown;
  try {
    raw = JSON.parse(bytes);
  } catch {
    return { fault: `plan.json does not parse: ${whyNotJson(bytes) ?? 'it is not JSON'}` };
  }
  raw = readForeignPlan(raw);
  const steps = propertyOf(raw, 'steps');
  // Counted before parsing: a million steps would take too long.
  const many = Array.isArray(steps) ? stepsFault(steps.length, current.length) : undefined;
  if (many) return { fault: faultAt(bytes, ['steps'], many) };
  const parsed = EditedPlan.safeParse(raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { fault: faultAt(bytes, issue?.path ?? [], issue?.message ?? '') };
  }
  const fault = editFault(parsed.data, current);
  return fault ? { fault: faultAt(bytes, fault.path, fault.why) } : { edit: parsed.data, raw: Object(raw) };
}

/** How an edit exceeds the bounds of a plan, and where; undefined if it does not. `current`: the steps it has now. */
export function editFault(
  edit: EditedPlan,
  current: readonly Step[],
): { path: readonly PropertyKey[]; why: string } | undefined {
  const many = stepsFault(edit.steps.length, current.length);
  if (many) return { path: ['steps'], why: many };
  const deep = findTooDeepStep(edit);
  if (deep !== undefined)
    return { path: ['steps', deep, 'parent'], why: `expected at most ${PLAN_BOUNDS.depth} groups within each other` };
  for (const [n, { done_when = [] }] of edit.steps.entries()) {
    const at = done_when.findIndex((check) => !hasPattern(check));
    if (at >= 0) return { path: ['steps', n, 'done_when', at, 'matches'], why: NO_PATTERN };
  }
  const long = textFault(stepsText(edit.steps), stepsText(current));
  return long === undefined ? undefined : { path: ['steps'], why: long };
}

/** What is wrong with `plan.json`, and what to do about the file. */
export const withRemedy = (fault: string): string =>
  `${fault.replace(/\.$/, '')}. Correct it, or move it away; the daemon writes a new one.`;

/** How a plan that grows exceeds the bounds, in words that follow a colon; undefined if it does not. */
export const planSizeFault = (steps: readonly Step[], current: readonly Step[]): string | undefined =>
  stepsFault(steps.length, current.length) ?? textFault(stepsText(steps), stepsText(current));

/** Counted before parsing: the fields that the daemon ignores, such as results, have no bound of their own. */
function saveFault(length: number, current: readonly Step[]): string | undefined {
  const { save } = PLAN_BOUNDS;
  if (length <= save || length <= 2 * JSON.stringify(current, null, 2).length) return undefined;
  return `expected at most ${save} characters in the file, or twice as many as the plan has now, got ${length}`;
}

const stepsFault = (count: number, current: number): string | undefined =>
  count > Math.max(current, PLAN_BOUNDS.steps)
    ? `expected at most ${PLAN_BOUNDS.steps} steps, got ${count}`
    : undefined;

const textFault = (length: number, current: number): string | undefined =>
  length > Math.max(current, PLAN_BOUNDS.text)
    ? `expected at most ${PLAN_BOUNDS.text} characters in all steps, got ${length} (each entry of "needs" counts with its line)`
    : undefined;

/** The overhead of a line in the file: its indentation, quotes and comma. */
const LINE_CHARS = 12;

/** How many characters of `plan.json` people write in these steps: each need takes a line of its own. */
function stepsText(steps: ReadonlyArray<Omit<SavedStep, 'id'> & { id?: string | undefined }>): number {
  let length = 0;
  for (const {
    id = '',
    description,
    notes = '',
    needs = [],
    when,
    done_when,
    rollback = '',
    parent = '',
    agent = '',
  } of steps) {
    length += id.length + description.length + notes.length + rollback.length + parent.length + agent.length;
    for (const need of needs) length += need.length + LINE_CHARS;
    if (when || done_when) length += JSON.stringify([when, done_when]).length;
  }
  return length;
}

/** Its byte order mark, as the store passes on bytes that are not UTF-8, or a NUL beside the first character. */
const UTF_16 = /^(?:\udcff\udcfe|\udcfe\udcff|\0?[[{\s]\0|\0[[{\s])/;

function notUtf8(bytes: string, at: number): string {
  const { line, column } = positionAt(bytes, at);
  const byte = (bytes.charCodeAt(at) - 0xdc00).toString(16);
  return `plan.json is not UTF-8 text: line ${line}, column ${column}: byte 0x${byte} cannot be read. Save it as UTF-8`;
}

function faultAt(bytes: string, path: readonly PropertyKey[], message: string): string {
  const place = positionOfJsonPath(bytes, path) ?? positionOfJsonPath(bytes, path.slice(0, -1));
  const where = place ? `line ${place.line}, column ${place.column}, ` : '';
  return `plan.json is not a plan: ${where}at ${path.map(String).join('.') || 'the top'}: ${message}`;
}

/** A step nested in more groups than a plan may have; every operation on a step costs time for each of its groups. */
function findTooDeepStep({ steps }: EditedPlan): number | undefined {
  const parents = new Map(steps.flatMap(({ id, parent }) => (id === undefined ? [] : [[id, parent]])));
  for (const [place, { parent }] of steps.entries()) {
    let depth = 0;
    for (let group = parent; group !== undefined && depth <= PLAN_BOUNDS.depth; group = parents.get(group)) depth++;
    if (depth > PLAN_BOUNDS.depth && !isInParentCycle(parent, parents)) return place;
  }
  return undefined;
}

/** A cycle of parents is a fault of its own, reported with the names of its steps. */
function isInParentCycle(parent: string | undefined, parents: ReadonlyMap<string, string | undefined>): boolean {
  const seen = new Set<string>();
  for (let group = parent; group !== undefined && seen.size <= PLAN_BOUNDS.depth; group = parents.get(group)) {
    if (seen.has(group)) return true;
    seen.add(group);
  }
  return false;
}

/** The parts of a plan that people may edit, and those for which an edit is reported as ignored. */
export type SavedPlan = Omit<PlanSave, 'sha256'>;
export type SavedStep = SavedPlan['steps'][number];

/** Fields of a step that a person may remove from the file. */
export const REMOVABLE_FIELDS = ['needs', 'when', 'rollback', 'parent', 'done_when', 'notes', 'agent'] as const;
export const EDITABLE_FIELDS = ['description', ...REMOVABLE_FIELDS] as const;

/** Fields of the plan that belong to the daemon, and what to do instead of editing them. */
export const DAEMON_FIELDS = {
  status: 'use agentctl continue, pause or cancel',
  current_step_index: 'it follows the steps',
  iteration_count: 'it counts',
} as const;

/** Editor buffers whose last save is kept: a save from any other starts from the plan version it names. */
const MAX_BUFFERS = 8;

/** A plan version the daemon wrote, as a save without changes. */
export function unchangedSave(plan: Plan): SavedPlan {
  const { revision, goal, limits, status, current_step_index, iteration_count, steps } = plan;
  return {
    ...{ revision, goal, limits, status, current_step_index, iteration_count },
    steps: steps.map((step) => ({ ...editableFields(step), id: step.id, status: step.status })),
  };
}

/** What a person saved, once each of its steps has its id. */
export function toSavedPlan(
  { revision, goal, limits }: EditedPlan,
  steps: SavedStep[],
  raw: Readonly<Record<string, unknown>>,
): SavedPlan {
  const { status, current_step_index, iteration_count } = raw;
  const given = { revision, goal, limits, status, current_step_index, iteration_count };
  return { ...withoutUndefined(given), steps };
}

/** A step of a save under its id; `written` if the file had another. */
export function toSavedStep(step: EditedPlan['steps'][number], id: string): SavedStep {
  const { status } = step;
  return {
    ...editableFields(step),
    id,
    ...(status !== undefined && { status }),
    ...(step.id !== id && { written: step.id ?? null }),
  };
}

function editableFields(step: Omit<SavedStep, 'id' | 'written'>): Pick<SavedStep, (typeof EDITABLE_FIELDS)[number]> {
  const { description, needs, when, rollback, parent, done_when, notes, agent } = step;
  return { description, ...withoutUndefined({ needs, when, rollback, parent, done_when, notes, agent }) };
}

function withoutUndefined<T extends object>(fields: T): Partial<T> {
  const there: Partial<T> = { ...fields };
  for (const key of Object.keys(fields) as Array<keyof T>) if (there[key] === undefined) delete there[key];
  return there;
}

/** The last save of the buffer that started from this version. */
export function lastSaveOf(saves: readonly PlanSave[], revision: number | undefined): PlanSave | undefined {
  return saves.find((save) => save.revision === revision);
}

/** The last save of each buffer, including this one. */
export function addSave(saves: readonly PlanSave[], save: PlanSave): PlanSave[] {
  return [...saves.filter((other) => other.revision !== save.revision), save].slice(-MAX_BUFFERS);
}

export function isSameJson(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
