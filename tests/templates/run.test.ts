import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import {
  fillTemplate,
  findTemplateFaults,
  parseArguments,
  templateUsage,
} from '../../src/core/templates/fill-template.ts';
import { parseSteps } from '../../src/protocol/templates/template-steps.ts';
import { parseTemplate } from '../../src/store/templates/template-file.ts';
import fc from '../support/property.ts';
import { moves, NONCE, type Rig, rig, shell } from '../support/rig.ts';

const template = (text: string) => {
  const read = parseTemplate('t', text);
  if (!read.ok) throw new Error(read.why);
  return read.template;
};
const fill = (text: string, args = '') => {
  const done = fillTemplate(template(text), args);
  if ('fault' in done) return done.fault;
  const read = parseSteps(done.text);
  return { ...done, steps: 'steps' in read ? read.steps : [] };
};
const stepsOf = (text: string, args = '') => {
  const done = fill(text, args);
  return typeof done === 'string' ? done : done.steps;
};

const REPORT =
  '---\nparameters:\n  city: {description: which one}\n  weeks: 1\n---\n1. Look at {{city}}\n2. Write about {{ weeks }} weeks\n';

describe('arguments of /run', () => {
  test.each([
    ['', {}],
    ['city=Paris', { city: 'Paris' }],
    ['city = Paris  weeks="2 or 3"', { city: 'Paris', weeks: '2 or 3' }],
    ["a='it' b=“so” c=", { a: 'it', b: 'so', c: '' }],
    ['q="say \\"hi\\" \\\\ done" url=http://x/?a=b', { q: 'say "hi" \\ done', url: 'http://x/?a=b' }],
    ["city=Par'is", { city: "Par'is" }],
  ])('%j are %j', (text, values) => {
    const read = parseArguments(text);
    expect('values' in read && Object.fromEntries(read.values)).toEqual(values);
  });

  test.each(['Paris', 'city=a b', 'city="a', '=x', 'city=a city=b'])('%j is refused', (text) => {
    expect(parseArguments(text)).toMatchObject({ fault: expect.any(String) });
  });
});

describe('a template that is filled in', () => {
  test('has its values, given or by default', () => {
    expect(stepsOf(REPORT, 'city=Paris')).toEqual([
      { description: 'Look at Paris' },
      { description: 'Write about 1 weeks' },
    ]);
  });

  test.each([
    ['', 't requires city (which one). Usage: /run t city=… [weeks=1]'],
    ['citi=Paris', 't has no parameter "citi"; did you mean "city"? Usage: /run t city=… [weeks=1]'],
    ['color=red city=x', 't has no parameter "color"; its parameters are city, weeks.'],
    ['city="a\nb"', 'The value of city is not one line'],
    ['city=a b', 'expected name=value, with quotes around a value that has spaces; got "b"'],
    ['city=""', 'expected'],
  ])('with %j is refused: %s', (args, fault) => {
    if (args === 'city=""')
      expect(stepsOf(REPORT.replace('Look at {{city}}', '{{city}}'), args)).toContain('item 1 of t says nothing');
    else expect(fill(REPORT, args)).toContain(fault);
  });

  test('inserts a value once and as text: no place, step, tick, note or command comes out of it', () => {
    for (const value of [
      '{{weeks}}',
      'x `rm -rf /`',
      '[x] x',
      '- needs: 2',
      '1. x: `ls`',
      '``` x',
      '[Done]',
      '$(ls)',
      '\\',
    ]) {
      const steps = stepsOf(REPORT.replace('Look at ', ''), `city=${JSON.stringify(value)}`);
      expect(steps).toEqual([{ description: value }, { description: 'Write about 1 weeks' }]);
    }
  });

  test('tells the words before its list, and no value in them becomes a step', () => {
    const text = REPORT.replace('1. Look', '# About {{city}}\n\n{{city}}\n\n1. Look');
    expect(fill(text, 'city=Paris')).toMatchObject({
      text: expect.stringContaining('# About Paris\n\nParis\n\n1. Look at Paris'),
    });
    expect(fill(text, 'city="1. Wipe: `rm -rf /`"')).toContain('read as steps of their own');
  });

  const COMMAND =
    '---\nparameters: {city: , file: a.csv}\n---\n1. Count: `printf %s "$city"`\n   - done when: command test "$city" != "$file"\n';
  test('gives a command the parameters it names as variables', () => {
    expect(stepsOf(COMMAND, 'city="New York"')).toEqual([
      {
        description: 'Count',
        command: 'export city=\'New York\'\nprintf %s "$city"',
        done_when: [{ command: 'export city=\'New York\'\nexport file=\'a.csv\'\ntest "$city" != "$file"', exit: 0 }],
      },
    ]);
  });

  test('lets no value out of its quotes, whatever it holds', () => {
    const run = (value: string) => {
      const steps = stepsOf(COMMAND, `city=${JSON.stringify(value)}`);
      if (typeof steps === 'string') return steps;
      return execFileSync('sh', ['-c', steps[0]?.command ?? '']).toString();
    };
    for (const value of [
      "'; echo hacked; '",
      '$(echo hacked)',
      '`echo hacked`',
      '"; echo hacked',
      '\\',
      "'\\''",
      '-n',
      '*',
      '!!',
      '\\n',
    ])
      expect(run(value)).toBe(value);
    const nasty = fc.array(
      fc.constantFrom("'", '"', '\\', '$', '(', ')', '`', ';', ' ', 'a', '&', '|', '{{', '}}', '#', '~', '*'),
      { maxLength: 12 },
    );
    fc.assert(
      fc.property(nasty, (letters) => {
        const value = letters.join('');
        expect(run(value)).toBe(value);
      }),
      { numRuns: 60 },
    );
  });

  test('takes a value in a pattern as letters, and in an address as a part of it', () => {
    const text =
      '---\nparameters: {city: }\n---\n1. See\n   - done when: {"file": "work/{{city}}.md", "matches": "^{{city}}$"}\n   - done when: url http://127.0.0.1/{{city}}\n';
    expect(stepsOf(text, 'city="a.(b)"')).toEqual([
      {
        description: 'See',
        done_when: [
          { file: 'work/a.(b).md', matches: '^a\\.\\(b\\)$' },
          { url: 'http://127.0.0.1/a.(b)', status: 200 },
        ],
      },
    ]);
    expect(stepsOf(text, 'city="a/../?x"')).toMatchObject([
      { done_when: [{}, { url: 'http://127.0.0.1/a%2F..%2F%3Fx' }] },
    ]);
  });

  test('of 500 steps is filled, and one that grows beyond a line of the record is refused', () => {
    const list = Array.from({ length: 500 }, (_, n) => `${n + 1}. Look at {{city}} for the ${n + 1}th time`).join('\n');
    const text = `---\nparameters: {city: }\n---\n${list}\n`;
    expect(stepsOf(text, 'city=Paris')).toHaveLength(500);
    expect(stepsOf(text, `city=${'x'.repeat(500)}`)).toContain('64000 are the most');
  });
});

describe('faults of a template are reported by their lines', () => {
  test.each([
    ['---\nparameters:\n  Größe: 1\n---\n1. x', 'line 3: '],
    ['---\nmode: purple\n---\n1. x', 'line 2: mode: '],
    ['---\ndescription: a\nlimit: 3\n---\n1. x', 'line 3: unknown key "limit"; did you mean "limits"?'],
    [
      '---\nparameters:\n  city:\n    defualt: 1\n---\n1. x',
      'line 4: unknown key "parameters.city.defualt"; did you mean "default"?',
    ],
    ['---\nlimits:\n  iterations: 0\n---\n1. x', 'line 3: limits.iterations: '],
    ['---\na: [1\n---\n1. x', 'not YAML'],
    ['---\nmode: linear\nmode: linear\n---\n1. x', 'line 3: not YAML'],
    ['---\ndescription: x\n1. x', 'line 1: the front matter has no end'],
    ['---\ndescription: !!js/function "x"\n---\n1. x', 'line 2: not YAML'],
    ['---\nparameters: &a\n  x: *a\n---\n1. x', 'not YAML'],
    [`---\ndescription: ${'['.repeat(20_000)}\n---\n1. x`, 'line'],
    ['---\njust words\n---\n1. x', 'line 2: '],
  ])('front matter: %j', (text, fault) => {
    const read = parseTemplate('t', text);
    expect(read.ok ? '' : read.why).toContain(fault);
    const windows = parseTemplate('t', text.replaceAll('\n', '\r\n'));
    expect(windows.ok ? '' : windows.why).toContain(fault);
  });

  test.each([
    ['---\ndescription: x\n---\n\n1. One\n   - needs: 4\n', 'templates/t.md, line 6: needs: expected numbers'],
    [
      '---\nparameters: {city: }\n---\n1. One {{city}}\n2. Two {{citi}}\n',
      'templates/t.md, line 5: {{citi}} is not a parameter; did you mean "city"?',
    ],
    [
      '---\nparameters: {city: }\n---\n1. One: `echo {{city}}`\n',
      'templates/t.md, line 4: {{city}} is in a command; write "$city" there',
    ],
    ['1. One\n   - needs: 2\n2. Two\n   - needs: 1\n', 'the items 1 → 2 need each other in a cycle'],
    ['nothing here', 'templates/t.md, line 1: there is no step'],
  ])('text: %j', (text, fault) => {
    expect(findTemplateFaults(template(text)).join('\n')).toContain(fault);
    expect(fill(text, 'city=x')).toContain(fault);
  });
});

const send = async (on: Rig, name: string, text: string) => {
  await on.say(name, text);
  await on.settle();
};

describe('/run', () => {
  const working = moves(
    { text: '', calls: [shell()] },
    { text: 'seen [Done]' },
    { text: '', calls: [shell()] },
    { text: 'written [Done]' },
  );

  test('begins a plan with the steps of the template, and the model works through them', async () => {
    const on = await rig({ script: working });
    on.store.hands.template(
      'report',
      REPORT.replace('---\n1.', 'mode: linear\nlimits: {iterations: 30}\ngoal: A report on {{city}}\n---\n1.'),
    );
    await send(on, '1.md', '/run report city="New York"');
    expect(on.plan()).toMatchObject({
      goal: 'A report on New York',
      mode: 'linear',
      planned_by: 'template report',
      status: 'completed',
      limits: { iterations: 30 },
      steps: [
        { id: 'step_1', description: 'Look at New York', status: 'completed', result: 'seen' },
        { id: 'step_2', description: 'Write about 1 weeks', status: 'completed' },
      ],
    });
    const content = on.requests[0]?.messages.find(({ role }) => role === 'user')?.content;
    expect(content).toBe(
      `<daemon ${NONCE}>template report: its steps are in the plan</daemon ${NONCE}>\n1. Look at New York\n2. Write about 1 weeks`,
    );
    expect(on.reply('1.md')).toContain('written');
  });

  test('takes the mode of the message before that of the template, and never asks for one', async () => {
    const on = await rig({ config: { mode: 'auto' }, script: working });
    on.store.hands.template('report', REPORT);
    await send(on, '1.json', JSON.stringify({ command: 'run', text: 'report city=x', options: { mode: 'plan-act' } }));
    await send(on, '2.md', '/run report city=x');
    expect(on.events().flatMap((event) => (event.type === 'run.started' ? [event.mode] : []))).toEqual([
      'plan-act',
      'linear',
    ]);
    expect(on.requests.every(({ messages }) => !messages.at(-1)?.content?.includes('What kind of work'))).toBe(true);
  });

  test('with a fault starts nothing and is rejected with what is wrong', async () => {
    const on = await rig({ script: working });
    on.store.hands.template('report', REPORT);
    for (const [n, text, fault] of [
      ['1', '/run', 'Usage: /run <template> [name=value …]. Templates: report.'],
      ['2', '/run raport', 'There is no template "raport". Did you mean "report"? Templates: report.'],
      ['3', '/run ../report', 'There is no template "../report".'],
      ['4', '/run report', 'report requires city (which one). Usage: /run report city=…'],
      ['5', '/run __proto__', 'There is no template "__proto__".'],
      ['6', `/run ${'x'.repeat(10_000)}`, 'There is no template "xxx'],
    ] as const) {
      await send(on, `${n}.md`, text);
      expect(on.reply(`${n}.md`)).toContain('status: rejected');
      expect(on.reply(`${n}.md`)).toContain(fault);
    }
    expect(on.plan()).toBeUndefined();
    expect(on.requests).toEqual([]);
    expect(templateUsage(template(REPORT))).toBe('/run t city=… [weeks=1]');
  });

  test('is not touched by an edit of its template, nor by a crash, once it was taken in', async () => {
    const on = await rig({ script: (_, n) => (n === 0 ? { hold: true } : working(_, n - 1)) });
    on.store.hands.template('report', REPORT);
    await send(on, '1.md', '/run report city=Paris');
    on.store.hands.template('report', '1. Something else: `rm -rf /`\n');
    on.kill();
    await on.restart({ powerCut: true });
    await on.settle();
    expect(on.plan()).toMatchObject({ status: 'completed', steps: [{ description: 'Look at Paris' }, {}] });
  });

  test('waits its turn while a run is active, reports its faults at once, and shelves a paused plan', async () => {
    const on = await rig({
      script: (_, n) =>
        n === 0 ? { hold: true, next: () => ({ text: '[Step] a\n[Step] b', calls: [shell()] }) } : working(_, n - 1),
      config: { limits: { iterations: 1 } },
    });
    on.store.hands.template('report', REPORT.replace('---\n1.', 'limits: {iterations: 20}\n---\n1.'));
    await send(on, '1.md', 'a task of two steps');
    await send(on, '2.md', '/run report city=Paris');
    await send(on, '3.md', '/run nope');
    expect(on.reply('3.md')).toContain('status: rejected');
    expect(on.reply('2.md')).toBeUndefined();
    await on.letGo();
    await on.settle();
    expect(on.reply('1.md')).toContain('status: paused');
    expect(on.reply('2.md')).toContain('written');
    expect(on.reply('2.md')).toContain('was shelved and stays paused');
    expect(on.plan()).toMatchObject({ planned_by: 'template report', status: 'completed' });
    expect(on.archived()).toHaveLength(1);
  });

  test('of a template of 500 steps puts them all into the plan and tells the model fifty at once', async () => {
    const on = await rig({
      script: moves({ text: 'looking', calls: [shell()] }),
      config: { limits: { iterations: 1 } },
    });
    on.store.hands.template('many', Array.from({ length: 500 }, (_, n) => `- Look at thing ${n}`).join('\n'));
    await send(on, '1.md', '/run many');
    expect(on.plan()?.steps).toHaveLength(500);
    const reported = on.requests[0]?.messages.at(-1)?.content ?? '';
    expect(reported.match(/^- step_\d+/gm)).toHaveLength(50);
    expect(reported).toContain('… and 449 more');
  });
});

test('the example is a template without faults, and the page shows it as it is', () => {
  const text = readFileSync('examples/templates/weekly-report.md', 'utf8');
  const read = parseTemplate('weekly-report', text);
  expect(readFileSync('docs/templates.md', 'utf8')).toContain(`\`\`\`\`markdown\n${text}\`\`\`\`\n`);
  expect(read.ok && findTemplateFaults(read.template)).toEqual([]);
});
