import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { script, served, setup } from '../support/agentctl.ts';

const REPORT =
  '---\ndescription: A report\nparameters:\n  city: {description: which one}\n  weeks: 1\n---\n1. Look at {{city}}\n2. Write about {{weeks}} weeks\n';

function withTemplate() {
  const at = setup();
  fs.mkdirSync(at.path('templates'), { recursive: true, mode: 0o700 });
  fs.chmodSync(at.root, 0o700);
  fs.writeFileSync(at.path('templates', 'report.md'), REPORT);
  return at;
}
const WORK = [
  { text: 'looking', calls: [{ name: 'list_files', args: { path: '.' } }] },
  { text: 'seen [Done]' },
  { text: 'writing', calls: [{ name: 'list_files', args: { path: '.' } }] },
  { text: 'written [Done]' },
];

test('a template is run, its plan kept as another one, and that one is run again', async () => {
  const at = withTemplate();
  await at.serveHere('--model', script(at, WORK));
  const run = await at.ctl(['run', 'demo', 'report', 'city=New "York" \\', '--wait']);
  expect({ code: run.code, out: run.out }).toEqual({ code: 0, out: 'written\n' });
  const plan = await at.here(['plan', 'demo', '--json']);
  expect(JSON.parse(plan.out)).toMatchObject({
    planned_by: 'template report',
    steps: [{ description: 'Look at New "York" \\' }, {}],
  });

  const saved = await at.here(['save-template', 'demo', 'mine']);
  expect({ code: saved.code, out: saved.out }).toEqual({ code: 0, out: `${at.path('templates', 'mine.md')}\n` });
  expect(fs.readFileSync(at.path('templates', 'mine.md'), 'utf8')).toBe(
    '---\ndescription: A report\n---\n1. Look at New "York" \\\n2. Write about 1 weeks\n',
  );
  const again = await at.here(['save-template', 'demo', 'mine']);
  expect([again.code, again.err]).toEqual([1, expect.stringContaining('There is already a template mine')]);
  expect((await at.here(['save-template', 'demo', 'mine', '--force', '--json'])).out).toContain('mine.md');
  const path = await at.here(['save-template', 'demo', '../mine']);
  expect([path.code, path.err]).toEqual([2, expect.stringContaining('cannot be the name of a template')]);
  expect((await at.here(['save-template', 'nobody', 'x'])).code).toBe(4);

  expect((await at.here(['run', 'other', 'mine', '--wait'])).out).toBe('written\n');
});

test('what cannot be run is refused with the reason before a session is made, with 1; what is not understood with 2', async () => {
  const at = withTemplate();
  await at.serveHere('--model', script(at, WORK));
  fs.writeFileSync(at.path('templates', 'bad.md'), '---\nmode: linaer\nlimits: {iterations: x}\n---\n1. {{town}}\n');
  fs.writeFileSync(at.path('templates', 'open.md'), '---\nmode: [linear\n---\n1. x\n');
  fs.writeFileSync(at.path('templates', 'list.md'), '1. Go to {{town}}\n');
  for (const [name, why] of [
    [
      'bad',
      /^The template bad cannot be run:\ntemplates\/bad\.md, line 2: .*"linaer".*\n.*line 3: .*iterations.*\nFix its file/,
    ],
    ['open', /^The template open cannot be run:\ntemplates\/open\.md, line \d: not YAML: /],
    ['list', /^The template list cannot be run:\ntemplates\/list\.md, line 1: \{\{town\}\} is not a parameter/],
  ] as const) {
    for (const line of [
      ['run', 'new', name],
      ['send', 'new', `/run ${name}`],
    ]) {
      const { code, err } = await at.here(line);
      expect([code, err]).toEqual([1, expect.stringMatching(why)]);
    }
  }
  const missing = await at.here(['run', 'demo', 'report', '--wait']);
  expect([missing.code, missing.err]).toEqual([
    2,
    'report requires city (which one). Usage: /run report city=… [weeks=1]\n',
  ]);
  expect((await at.here(['send', 'demo', '/run report'])).code).toBe(2);
  const unknown = await at.here(['run', 'demo', 'report', '--param', 'citi=x', '--param', 'weeks=2', '--wait']);
  expect([unknown.code, unknown.err]).toEqual([2, expect.stringContaining('did you mean "city"?')]);
  const slip = await at.here(['run', 'demo', 'report', 'Paris']);
  expect([slip.code, slip.err]).toEqual([2, expect.stringContaining('Expected name=value, got "Paris"')]);
  const swapped = await at.here(['run', 'report', 'demo']);
  const order = `The session comes first: agentctl run --workspace ${at.root} demo report`;
  expect([swapped.code, swapped.err]).toEqual([2, `No template "demo". ${order}\n`]);
  expect((await at.here(['run', 'demo', 'reprot'])).err).toBe('No template "reprot". Did you mean "report"?\n');
  expect(fs.readdirSync(at.path('.sessions'))).toEqual([]);
});

test('templates are listed with their parameters, and one with faults ends the list with 1', async () => {
  const at = withTemplate();
  const good = await at.here(['templates']);
  expect([good.code, good.out]).toEqual([0, '/run report city=… [weeks=1]\n    A report\n    city: which one\n']);
  fs.writeFileSync(at.path('templates', 'bad.md'), '---\nmod: x\n---\n1. x\n');
  const both = await at.here(['templates', '--json']);
  expect(both.code).toBe(1);
  expect(JSON.parse(both.out)).toMatchObject([
    { name: 'bad', faults: ['templates/bad.md, line 2: unknown key "mod"; did you mean "mode"?'] },
    {
      name: 'report',
      faults: [],
      parameters: [
        { name: 'city', default: null },
        { name: 'weeks', default: '1' },
      ],
    },
  ]);
});

test('a plan that is not completed is not kept', async () => {
  const at = withTemplate();
  await at.serveHere('--model', script(at, WORK));
  await at.here(['send', 'demo', '/run report city=x', '--iterations', '1', '--wait']);
  const { code, err } = await at.here(['save-template', 'demo', 'mine']);
  expect([code, err]).toEqual([1, expect.stringContaining('The plan is paused')]);
});

test('a message is sent with a mode of its own', async () => {
  const at = await served([{ text: '{"answer": "Hello."}' }]);
  expect((await at.here(['send', 'demo', 'hello', '--mode', 'plan-act', '--wait'])).out).toBe('Hello.\n');
  expect((await at.here(['send', 'demo', 'hello', '--mode', 'purple'])).code).toBe(2);
});
