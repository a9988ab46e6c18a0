import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fillTemplate, findTemplateFaults } from '../../src/core/templates/fill-template.ts';
import { templateFromPlan } from '../../src/core/templates/template-plan.ts';
import type { Plan, Step } from '../../src/protocol/session/plan.ts';
import { parseSteps, toOneLine } from '../../src/protocol/templates/template-steps.ts';
import { formatTemplate, parseTemplate } from '../../src/store/templates/template-file.ts';
import { openTemplates, saveTemplate } from '../../src/store/templates/template-store.ts';
import fc from '../support/property.ts';
import { temporaryFolder } from '../support/temporary.ts';

const planOf = (steps: Step[], goal = 'Compare the revenue', more: Partial<Plan> = {}): Plan => ({
  version: 1,
  id: 'plan_1',
  goal,
  mode: 'linear',
  status: 'completed',
  steps,
  current_step_index: 0,
  iteration_count: 4,
  limits: { iterations: 50, step_iterations: 5 },
  revision: 9,
  created_at: '2026-01-05T08:00:00.000Z',
  updated_at: '2026-01-05T08:00:00.000Z',
  ...more,
});

/** The plan as a file, and what a run of that file would begin with. */
function again(plan: Plan) {
  const kept = templateFromPlan(plan);
  if ('why' in kept) return kept.why;
  const read = parseTemplate('t', formatTemplate(kept.head, kept.body));
  if (!read.ok) return read.why;
  expect(findTemplateFaults(read.template)).toEqual([]);
  const filled = fillTemplate(read.template, '');
  if ('fault' in filled) return filled.fault;
  const steps = parseSteps(filled.text);
  return { ...filled, steps: 'steps' in steps ? steps.steps : [] };
}

test('a plan that was kept as a template and is run again has the same steps, checks, needs and goal', () => {
  const words = fc.constantFrom(
    ...'`¦```¦[x] ¦\\¦- ¦1. ¦:¦{{a}}¦\\{{a}}¦{{¦}}¦Find¦图表¦\n¦ ¦"¦---\n¦#¦$x¦needs: 1'.split('¦'),
  );
  const text = fc
    .array(fc.oneof(words, fc.string({ maxLength: 6 })), { minLength: 1, maxLength: 8 })
    .map((all) => all.join(''))
    .filter((line) => toOneLine(line) !== '');
  const step = (n: number): fc.Arbitrary<Step> =>
    fc
      .record(
        {
          description: text,
          command: text,
          notes: text,
          needs: fc.subarray(['a', 'step_2'].slice(0, n), { minLength: Math.min(1, n) }),
          check: text,
        },
        { requiredKeys: ['description'] },
      )
      .map(({ description, command, notes, needs, check }) => ({
        id: ['a', 'step_2', 'step_9'][n] ?? '',
        // Told apart, so that no number is put behind one.
        description: `${description} ${n}`,
        status: 'completed',
        result: 'done',
        ...(command !== undefined && { command }),
        ...(notes !== undefined && { notes }),
        ...(needs && n > 0 && { needs }),
        ...(check !== undefined && {
          done_when: [{ person: check }, { file: 'work/x', matches: check.replace(/[^\p{L}\p{N} ]/gu, '.') }],
        }),
      }));
  const ids: Record<string, string> = { a: 'step_1', step_2: 'step_2' };
  fc.assert(
    fc.property(step(0), step(1), step(2), text, (one, two, three, goal) => {
      const plan = planOf([one, two, three], `Do ${goal}`);
      const run = again(plan);
      expect(run).toMatchObject({ goal: plan.goal.trim() });
      if (typeof run === 'string') return;
      expect(run.steps).toEqual(
        plan.steps.map(({ description, command, notes, needs, done_when }) => ({
          description: toOneLine(description),
          ...(command !== undefined && { command: command.trim() }),
          ...(notes !== undefined && { notes }),
          ...(needs && { needs: needs.map((id) => ids[id]) }),
          ...(done_when && { done_when }),
        })),
      );
    }),
    { numRuns: 200 },
  );
});

test('a place for a value that a line break hides in a description is kept as the text it is', () => {
  const steps: Step[] = [{ id: 'step_1', description: '{{A\n}} 2', status: 'completed' }];
  expect(again(planOf(steps))).toMatchObject({ steps: [{ description: '{{A }} 2' }] });
});

test('steps that were left out stay out; one that undoes another, or hangs on a condition, is kept', () => {
  const steps: Step[] = [
    { id: 'step_1', description: 'Old way', status: 'skipped' },
    { id: 'step_2', description: 'Deploy', status: 'completed', needs: ['step_1'], rollback: 'step_4' },
    { id: 'step_3', description: 'Tell Ann', status: 'skipped', when: [{ step: 'step_2', status: 'failed' }] },
    { id: 'step_4', description: 'Take it back', status: 'skipped' },
  ];
  expect(again(planOf(steps))).toMatchObject({
    steps: [
      { description: 'Deploy', rollback: 'step_3' },
      { description: 'Tell Ann', when: [{ step: 'step_1', status: 'failed' }] },
      { description: 'Take it back' },
    ],
  });
  expect(again(planOf([]))).toBe('The plan has no steps.');
});

test('the parts of a step are found again by the next run: its source and what gathers them are kept', () => {
  const each = { folder: 'in', match: '*.md' };
  const steps: Step[] = [
    { id: 'read', description: 'Read each', status: 'completed', each, on_failed_part: 'continue' },
    { id: 'read.1', description: 'Read each: in/a.md', status: 'completed', parent: 'read', part: ['in/a.md'] },
    { id: 'names', description: 'Greet', status: 'completed', each: { list: ['Ann', '{{x}}'] } },
    { id: 'sum', description: 'Combine', status: 'completed', gather: { from: 'read', batch_chars: 900 } },
    { id: 'sum.1', description: 'Combine', status: 'completed', parent: 'sum', needs: ['read.1'] },
  ];
  expect(again(planOf(steps, 'Sum up', { mode: 'map-reduce' }))).toMatchObject({
    mode: 'map-reduce',
    steps: [
      { description: 'Read each', each, on_failed_part: 'continue' },
      { description: 'Greet', each: { list: ['Ann', '{{x}}'] } },
      { description: 'Combine', gather: { from: 'step_1', batch_chars: 900 } },
    ],
  });
});

test('a plan that began with a list of commands keeps them', () => {
  const goal = '# Count it\n\n1. Count: `wc -l a`\n2. Show\n   ```\n   cat a\n   cat b\n   ```';
  const steps: Step[] = ['Count', 'Show'].map((description, n) => ({
    id: `step_${n + 1}`,
    description,
    status: 'completed',
  }));
  expect(again(planOf(steps, goal))).toMatchObject({
    goal: 'Count it',
    steps: [
      { description: 'Count', command: 'wc -l a' },
      { description: 'Show', command: 'cat a\ncat b' },
    ],
  });
});

const folder = () => {
  const path = temporaryFolder('templates');
  return join(path, 'templates');
};
const simple = { head: {}, body: '1. x' };

test('a template is saved once; another of its name only by force', async () => {
  const path = folder();
  expect(await saveTemplate(path, { name: 'a', ...simple })).toBe(join(path, 'a.md'));
  await expect(saveTemplate(path, { name: 'a', head: {}, body: '1. y' })).rejects.toThrow(
    'There is already a template a',
  );
  expect((await openTemplates(path).read('a')).ok).toBe(true);
  await saveTemplate(path, { name: 'a', head: {}, body: '1. y' }, { force: true });
  expect(await openTemplates(path).read('a')).toMatchObject({ template: { body: '1. y\n' } });
  expect(fs.readdirSync(path)).toEqual(['a.md']);
});

test.each([...'¦.¦..¦../x¦a/b¦.hidden¦a.md¦-rf¦a b¦a\n¦a\0b¦/etc/passwd'.split('¦'), 'x'.repeat(81), '{{x}}'])(
  '%j is no name of a template: nothing is read or written',
  async (name) => {
    const path = folder();
    await expect(saveTemplate(path, { name, ...simple })).rejects.toThrow('cannot be the name of a template');
    fs.mkdirSync(join(path, 'a'), { recursive: true });
    fs.writeFileSync(join(path, 'a', 'b.md'), '1. x');
    fs.writeFileSync(join(path, '..', 'x.md'), '1. x');
    expect(await openTemplates(path).read(name)).toMatchObject({
      ok: false,
      why: expect.stringContaining('There is no template'),
    });
  },
);

test('what is no text file is no template, and holds nobody up', async () => {
  const path = folder();
  fs.mkdirSync(join(path, 'folder.md'), { recursive: true });
  execFileSync('mkfifo', [join(path, 'pipe.md')]);
  fs.writeFileSync(join(path, 'huge.md'), '1. x\n'.repeat(300_000));
  fs.writeFileSync(join(path, 'latin.md'), Buffer.from('1. Gr\xf6\xdfen', 'latin1'));
  fs.writeFileSync(join(path, 'notes.txt'), 'x');
  fs.writeFileSync(join(path, '.hidden.md'), 'x');
  const templates = openTemplates(path);
  expect(await templates.names()).toEqual(['folder', 'huge', 'latin', 'pipe']);
  for (const name of ['folder', 'pipe', 'huge'])
    expect(await templates.read(name)).toMatchObject({ ok: false, why: expect.stringContaining('is not a template') });
  const garbled = expect.stringContaining('latin.md is not UTF-8 text: byte 5 cannot be read');
  expect(await templates.read('latin')).toMatchObject({ ok: false, why: garbled });
  expect(await openTemplates(join(path, 'nowhere')).names()).toEqual([]);
});
