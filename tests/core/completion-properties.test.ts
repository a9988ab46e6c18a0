import { expect, test } from 'vitest';
import { detectStepCompletion, type StepTurn } from '../../src/core/detect/step-completion.ts';
import { MAX_OPEN_STEPS, parseStepDeclarations } from '../../src/core/detect/step-tags.ts';
import { classifyIntent } from '../../src/core/intent/intent.ts';
import fc, { anyCharacter } from '../support/property.ts';

const piece = fc.constantFrom(
  ...[...'[Done]¦[完成]¦[Blocked]¦[Step] ¦[Step 2] draw¦Now let me ¦not ¦未¦```¦~~~¦`¦"¦“¦”¦\''.split('¦')],
  ...[...'\n¦> ¦- ¦# Step 2: ¦Step 1 is done. ¦draw the chart¦画图¦Next, ¦现在¦ ¦. ¦，¦[¦]¦**¦ok¦retry'.split('¦')],
);
const text = fc.oneof(
  fc.string({ unit: anyCharacter, maxLength: 200 }),
  fc.array(fc.oneof(piece, fc.string({ maxLength: 6 })), { maxLength: 20 }).map((pieces) => pieces.join('')),
);
const args = fc.array(fc.array(text, { maxLength: 2 }), { maxLength: 3 });
const turn: fc.Arbitrary<StepTurn> = fc.record(
  {
    iterationInStep: fc.nat(12),
    lastToolFailed: fc.boolean(),
    stepDescription: text,
    steps: fc.oneof(fc.array(text, { maxLength: 4 }), fc.constant(['Find the reports', 'Draw the chart', '写总结'])),
    stepIndex: fc.integer({ min: -1, max: 4 }),
    tools: fc.array(fc.constantFrom('shell', 'write_file', 'read_file', ''), { maxLength: 2 }),
    args: fc.array(text, { maxLength: 2 }),
    toolsInStep: args,
    argsInStep: args,
    textsInStep: fc.array(text, { maxLength: 3 }),
    final: fc.boolean(),
    userTurn: fc.boolean(),
  },
  { requiredKeys: ['iterationInStep'] },
);

test('no text and no facts make the detector throw, and a verdict is closed in itself', () => {
  fc.assert(
    fc.property(text, turn, (answer, facts) => {
      const verdict = detectStepCompletion(answer, facts);
      expect(verdict.done).toBe(verdict.tier !== null);
      if (verdict.veto) expect(verdict.done).toBe(false);
      if (verdict.advanceTo !== undefined) expect(verdict.advanceTo).toBeGreaterThan(facts.stepIndex ?? -1);
      expect([...(verdict.evidence ?? '')].length).toBeLessThanOrEqual(160);
    }),
    { numRuns: 3000 },
  );
});

test('what stands in a code fence never closes a step by marker', () => {
  const code = text.map((answer) => answer.replace(/`{3,}|~{3,}/g, ''));
  fc.assert(
    fc.property(code, fc.constantFrom('```', '~~~~', '```bash'), turn, (answer, fence, facts) => {
      const mark = fence.replace(/\w+/, '');
      expect(detectStepCompletion(`${fence}\n${answer}\n[Done]\n${mark}`, facts).tier).not.toBe('marker');
    }),
    { numRuns: 1500 },
  );
});

test('saying [Blocked: …] on a line of its own never closes a step that was open', () => {
  const reason = text.map((answer) => answer.replace(/[\r\n\u2028\u2029]/g, ' '));
  fc.assert(
    fc.property(text, reason, fc.boolean(), turn, (answer, why, first, facts) => {
      if (detectStepCompletion(answer, facts).done) return;
      const line = `[Blocked: ${why}]`;
      expect(detectStepCompletion(first ? `${line}\n${answer}` : `${answer}\n${line}`, facts).done).toBe(false);
    }),
    { numRuns: 3000 },
  );
});

test('steps that are known already are not declared again, and no plan grows beyond its cap', () => {
  fc.assert(
    fc.property(text, fc.array(text, { maxLength: 60 }), (answer, existing) => {
      const added = parseStepDeclarations(answer, existing);
      expect(parseStepDeclarations(answer, [...existing, ...added])).toEqual([]);
      expect(parseStepDeclarations(answer, added.concat(existing))).toEqual([]);
      if (existing.length <= MAX_OPEN_STEPS) expect(existing.length + added.length).toBeLessThanOrEqual(MAX_OPEN_STEPS);
    }),
    { numRuns: 1500 },
  );
});

test('every message has a meaning, and a rest is always part of it', () => {
  fc.assert(
    fc.property(text, fc.constantFrom('paused', 'running', null), (message, planStatus) => {
      const { rest } = classifyIntent(message, { planStatus });
      if (rest !== undefined) expect(message.normalize('NFC')).toContain(rest.normalize('NFC'));
    }),
    { numRuns: 1500 },
  );
});
