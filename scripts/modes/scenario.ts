import * as fs from 'node:fs';
import { z } from 'zod';

const FOLDER = new URL('../../tests/modes/scenarios/', import.meta.url);

/** One scenario of a planning mode: the task, the model's script, and the expected end. */
const Scenario = z.object({
  mode: z.string(),
  message: z.string(),
  config: z.record(z.string(), z.unknown()),
  script: z.array(z.unknown()),
  /** Files in `work/` before it begins, by name. */
  files: z.record(z.string(), z.string()).default({}),
  expect: z.object({
    reply: z.object({ status: z.string(), text: z.string() }),
    plan: z.record(z.string(), z.unknown()),
  }),
});
export type Scenario = z.infer<typeof Scenario>;

/** All scenarios, by the name of their file. */
export function scenarios(): Map<string, Scenario> {
  const names = fs.readdirSync(FOLDER).filter((name) => name.endsWith('.json'));
  return new Map(
    names
      .sort()
      .map((name) => [
        name.replace(/\.json$/, ''),
        Scenario.parse(JSON.parse(fs.readFileSync(new URL(name, FOLDER), 'utf8'))),
      ]),
  );
}

/** Differences from `expected`, each with path, expected and actual value. Fields that `expected` lacks are ignored. */
export function differences(actual: unknown, expected: unknown, path = 'plan'): string[] {
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length)
      return [`${path}: expected ${expected.length} of them, got ${Array.isArray(actual) ? actual.length : 'none'}`];
    return expected.flatMap((one, n) => differences(actual[n], one, `${path}.${n}`));
  }
  if (typeof expected === 'object' && expected !== null) {
    const fields = new Map(Object.entries(actual ?? {}));
    return Object.entries(expected).flatMap(([key, value]) => differences(fields.get(key), value, `${path}.${key}`));
  }
  return actual === expected ? [] : [`${path}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(actual)}`];
}
