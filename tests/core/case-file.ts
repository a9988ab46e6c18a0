import { readFileSync } from 'node:fs';
import { z } from 'zod';

const CaseFile = z.object({
  subject: z.string(),
  cases: z.array(z.object({ id: z.string(), input: z.unknown(), expect: z.unknown(), why: z.string() })).min(1),
});

export interface Case<Input, Expect> {
  /** Id and reason, for the name of a test. */
  readonly fact: string;
  readonly input: Input;
  readonly expect: Expect;
}

/** The behaviour cases of `tests/cases/<subject>.json`, checked against the shapes given. */
export function casesOf<Input, Expect>(
  subject: string,
  input: z.ZodType<Input>,
  expect: z.ZodType<Expect>,
): Case<Input, Expect>[] {
  const file = CaseFile.parse(JSON.parse(readFileSync(new URL(`../cases/${subject}.json`, import.meta.url), 'utf8')));
  return file.cases.map((one) => ({
    fact: `${one.id}: ${one.why}`,
    input: input.parse(one.input),
    expect: expect.parse(one.expect),
  }));
}
