import { jsonFault, placeOf } from '../../protocol/json-position.ts';
import { EditedPlan, PLAN_BOUNDS } from '../../protocol/plan.ts';

/** A `plan.json` as a person saved it, with all that is in it, or what is wrong with it, where, and what was wanted. */
export type Read = { edit: EditedPlan; raw: Readonly<Record<string, unknown>> } | { fault: string };

export function readEdit(bytes: string): Read {
  let raw: unknown;
  try {
    raw = JSON.parse(bytes);
  } catch {
    return { fault: `plan.json does not parse: ${whyNoJson(bytes)}` };
  }
  const parsed = EditedPlan.safeParse(raw);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    return { fault: at(bytes, issue?.path ?? [], issue?.message ?? '') };
  }
  const deep = deepest(parsed.data);
  if (deep !== undefined)
    return {
      fault: at(bytes, ['steps', deep, 'parent'], `wanted at most ${PLAN_BOUNDS.depth} groups within each other`),
    };
  return { edit: parsed.data, raw: Object(raw) };
}

function whyNoJson(bytes: string): string {
  const fault = jsonFault(bytes);
  return fault
    ? `line ${fault.line}, column ${fault.column}: wanted ${fault.wanted}, came ${fault.came}`
    : 'it is no JSON';
}

function at(bytes: string, path: readonly PropertyKey[], message: string): string {
  const place = placeOf(bytes, path) ?? placeOf(bytes, path.slice(0, -1));
  const where = place ? `line ${place.line}, column ${place.column}, ` : '';
  return `plan.json is not a plan: ${where}at ${path.map(String).join('.') || 'the top'}: ${message}`;
}

/** A step that stands in more groups than a plan may have; each group costs every look at each step in it. */
function deepest({ steps }: EditedPlan): number | undefined {
  const parents = new Map(steps.flatMap(({ id, parent }) => (id === undefined ? [] : [[id, parent]])));
  for (const [place, { parent }] of steps.entries()) {
    let depth = 0;
    for (let group = parent; group !== undefined && depth <= PLAN_BOUNDS.depth; group = parents.get(group)) depth++;
    if (depth > PLAN_BOUNDS.depth && !ringOf(parent, parents)) return place;
  }
  return undefined;
}

/** A ring of parents is a fault of its own, which is told with the names of its steps. */
function ringOf(parent: string | undefined, parents: ReadonlyMap<string, string | undefined>): boolean {
  const seen = new Set<string>();
  for (let group = parent; group !== undefined && seen.size <= PLAN_BOUNDS.depth; group = parents.get(group)) {
    if (seen.has(group)) return true;
    seen.add(group);
  }
  return false;
}
