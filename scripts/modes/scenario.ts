import * as fs from 'node:fs';
import { z } from 'zod';

const FOLDER = new URL('../../tests/modes/scenarios/', import.meta.url);

/** One scenario of a planning mode: what is asked, what the scripted model says, and how it must end. */
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

/** Where `actual` is not what was expected of it: the path, what was wanted, what is there. Fields nobody expects anything of may be any. */
export function differences(actual: unknown, expected: unknown, path = 'plan'): string[] {
  if (Array.isArray(expected)) {
    if (!Array.isArray(actual) || actual.length !== expected.length)
      return [
        `${path}: wanted ${expected.length} of them, there are ${Array.isArray(actual) ? actual.length : 'none'}`,
      ];
    return expected.flatMap((one, n) => differences(actual[n], one, `${path}.${n}`));
  }
  if (typeof expected === 'object' && expected !== null) {
    const fields = new Map(Object.entries(actual ?? {}));
    return Object.entries(expected).flatMap(([key, value]) => differences(fields.get(key), value, `${path}.${key}`));
  }
  return actual === expected ? [] : [`${path}: wanted ${JSON.stringify(expected)}, it is ${JSON.stringify(actual)}`];
}
