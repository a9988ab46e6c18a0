import { expect, test } from 'vitest';
import { z } from 'zod';
import { detectStepCompletion } from '../../src/core/detect/step-completion.ts';
import { casesOf } from './case-file.ts';

const Turn = z.strictObject({
  text: z.string(),
  iterationInStep: z.int(),
  lastToolFailed: z.boolean().optional(),
  stepDescription: z.string().optional(),
});
const Verdict = z.strictObject({ done: z.boolean(), tier: z.enum(['marker', 'transition', 'timeout']).nullable() });

/** One test per case of a file that is about `detectStepCompletion`. */
export function detectionCases(subject: string): void {
  for (const one of casesOf(subject, Turn, Verdict)) {
    test(one.fact, () => {
      const { text, ...turn } = one.input;
      expect(detectStepCompletion(text, turn)).toMatchObject(one.expect);
    });
  }
}
