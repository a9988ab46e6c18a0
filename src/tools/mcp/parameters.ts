/** A JSON object. */
export type Json = Record<string, unknown>;

const DEEPEST = 24;
const MOST_NODES = 4000;
/** Characters of a schema as JSON; a longer one would crowd out the conversation. */
const LONGEST = 12_000;
/** Endpoints refuse these at the top of a tool's parameters; the server still checks them. */
const NOT_ON_TOP = new Set(['oneOf', 'anyOf', 'allOf', 'enum', 'not', 'const', 'if', 'then', 'else', 'type']);
const DROPPED = new Set(['$schema', '$id', '$anchor', '$defs', 'definitions', '$comment']);

/**
 * The schema of a tool's arguments as an endpoint takes it: an object, local `$ref`s written out, nothing that is fetched. What
 * is recursive, too deep, or points elsewhere may be anything; one that is too large leaves the arguments open. Undefined where
 * it does not describe an object.
 */
export function parametersOf(schema: unknown): Json | undefined {
  if (schema === undefined || schema === null) return { type: 'object', properties: {} };
  if (!isObject(schema)) return undefined;
  const top = resolved(schema, schema);
  if (top['type'] !== undefined && top['type'] !== 'object') return undefined;
  const written = writtenOut(top, schema);
  const kept = written && Object.fromEntries(Object.entries(written).filter(([key]) => !NOT_ON_TOP.has(key)));
  if (!kept || JSON.stringify(kept).length > LONGEST)
    return { type: 'object', properties: {}, additionalProperties: true };
  const { properties, required, ...rest } = kept;
  return {
    type: 'object',
    properties: isObject(properties) ? properties : {},
    ...(Array.isArray(required) && { required: required.filter((key) => typeof key === 'string') }),
    ...rest,
  };
}

/** The names of the arguments, and those that must be there. */
export function keysOf({ properties, required }: Json): { keys: string[]; required: string[] } {
  const wanted = Array.isArray(required) ? required.filter((key) => typeof key === 'string') : [];
  const named = isObject(properties) ? Object.keys(properties) : [];
  return { keys: [...new Set([...named, ...wanted])].filter((key) => key !== '__proto__'), required: wanted };
}

function resolved(schema: Json, root: Json): Json {
  const target = typeof schema['$ref'] === 'string' ? targetOf(schema['$ref'], root) : undefined;
  const { $ref, ...beside } = schema;
  return isObject(target) ? { ...target, ...beside } : schema;
}

/** Undefined where it has too many parts. */
function writtenOut(top: Json, root: Json): Json | undefined {
  let left = MOST_NODES;
  // Below `properties` the keys are names that mean nothing here.
  const visit = (value: unknown, depth: number, within: string[], isNames = false): unknown => {
    if (--left < 0) return {};
    if (depth > DEEPEST) return isObject(value) ? {} : undefined;
    if (Array.isArray(value)) return value.map((one) => visit(one, depth + 1, within));
    if (!isObject(value)) return value;
    const ref = value['$ref'];
    if (typeof ref === 'string' && !isNames) {
      const target = within.includes(ref) ? undefined : targetOf(ref, root);
      const { $ref, ...beside } = value;
      return visit(isObject(target) ? { ...target, ...beside } : beside, depth + 1, [...within, ref]);
    }
    const entries = Object.entries(value).filter(([key]) => (isNames || !DROPPED.has(key)) && key !== '__proto__');
    return Object.fromEntries(
      entries.map(([key, inner]) => [key, visit(inner, depth + 1, within, !isNames && key === 'properties')]),
    );
  };
  const written = visit(top, 0, []);
  return left >= 0 && isObject(written) ? written : undefined;
}

/** What a pointer into the schema itself (`#/$defs/a`) leads to. */
function targetOf(ref: string, root: Json): unknown {
  if (ref === '#') return root;
  if (!ref.startsWith('#/')) return undefined;
  const path = ref
    .slice(2)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'));
  return path.reduce<unknown>(
    (here, key) => (isObject(here) && Object.hasOwn(here, key) ? here[key] : undefined),
    root,
  );
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
