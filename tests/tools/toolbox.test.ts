import { expect, test } from 'vitest';
import { z } from 'zod';
import { findJsonFault } from '../../src/base/json.ts';
import type { Permissions } from '../../src/protocol/settings/permissions.ts';
import { PLAN_TOOL, PlanToolArgs, parseOwnArgs } from '../../src/protocol/tool-calls/own-tools.ts';
import { type DynamicTools, lazyTool } from '../../src/tools/common/define-tool.ts';
import { builtinTools, createToolbox, defineTool, optional } from '../../src/tools/index.ts';
import fc from '../support/property.ts';
import { setup } from './tool-setup.ts';

const echo = defineTool({
  name: 'echo',
  description: 'Says its arguments.',
  args: z.strictObject({ text: z.string().min(1), times: optional(z.int().max(9)) }),
  replay: 'safe',
  touches: [],
  run: async (args) => ({ ok: true, text: JSON.stringify(args) }),
});
const bare = defineTool({
  name: 'bare',
  description: 'Needs nothing.',
  args: z.strictObject({ deep: optional(z.boolean()) }),
  replay: 'never',
  touches: [],
  run: async (args) => ({ ok: true, text: JSON.stringify(args) }),
});
const broken = defineTool({
  name: 'broken',
  description: 'Fails.',
  args: z.strictObject({}),
  replay: 'never',
  touches: [],
  run: async () => {
    throw new Error('the disk is on fire');
  },
});
/** Its module was replaced by one of another build. */
const replaced = lazyTool(
  { name: 'late', description: '', args: z.strictObject({}), replay: 'safe', touches: [] },
  () => Promise.reject(new SyntaxError("'./start.js' does not provide an export named 'attempt'")),
);
const tools = [echo, bare, broken];

test('`more_tools` says how to call a tool, and what there is for a name that is none', async () => {
  const box = createToolbox(tools);
  const context = { ...CONTEXT, signal: new AbortController().signal };
  const explain = (args: object) => box.run({ name: 'more_tools', args: JSON.stringify(args) }, context);
  expect(await explain({ tool: 'echo' })).toMatchObject({
    ok: true,
    text: expect.stringMatching(
      /^echo: Says its arguments\.\n.*"required":\["text"\][\s\S]*more_tools \{"tool": "echo"/,
    ),
  });
  expect(await explain({ tool: 'spawn' })).toMatchObject({ ok: true, text: expect.stringContaining('"task"') });
  expect(await explain({ tool: 'ecko' })).toMatchObject({
    ok: false,
    text: expect.stringContaining('There are: echo'),
  });
  expect(await explain({ name: 'echo' })).toMatchObject({
    ok: false,
    text: expect.stringContaining('`tool` is missing'),
  });
  expect(box.replayPolicy('more_tools')).toBe('safe');
});

test('a server with very many tools has them offered by a line each, always the same objects', () => {
  const many = Array.from({ length: 200 }, (_, n) =>
    defineTool({
      ...{ name: `mcp__x__t${n}`, description: `Does the thing number ${n}.`, replay: 'never' as const, touches: [] },
      args: z.strictObject({ text: z.string().describe('What it is about.') }),
      run: async () => ({ ok: true, text: '' }),
    }),
  );
  const box = createToolbox(tools, { tools: many, ready: async () => [] });
  const [first] = box.specs.slice(tools.length);
  expect(first?.line).toBe('Does the thing number 0.: {text}');
  expect(box.specs[tools.length]).toBe(first);
  const few = createToolbox(tools, { tools: many.slice(0, 3), ready: async () => [] });
  expect(few.specs.map(({ line }) => line)).toEqual(Array.from({ length: 6 }, () => undefined));
});

test('the model is given a JSON Schema of each tool, optional arguments not required', () => {
  const { specs } = createToolbox(tools);
  expect(specs[0]?.parameters).toMatchObject({
    type: 'object',
    required: ['text'],
    additionalProperties: false,
    properties: { text: { type: 'string' } },
  });
  expect(specs[0]?.parameters).not.toHaveProperty('$schema');
  for (const { spec } of builtinTools({ readAlso: [] })) expect(spec.parameters.type).toBe('object');
});

test('null and absent are the same for an optional argument', async () => {
  const { use } = setup({ tools });
  expect((await use('echo', { text: 'a', times: null })).text).toBe('{"text":"a"}');
  expect((await use('echo', { text: 'a' })).text).toBe('{"text":"a"}');
  expect((await use('echo', { text: 'a', times: 2 })).text).toBe('{"text":"a","times":2}');
});

test('arguments that are not JSON are refused with the place and what is there', async () => {
  const { use } = setup({ tools });
  expect(await use('echo', '{"text": "a", }')).toEqual({
    ok: false,
    text: 'The arguments of `echo` are not JSON: at line 1, column 15, after `{"text": "a", `, got `}`. Expected one JSON object: { text, times? }.',
  });
  expect((await use('echo', '{"text": "a')).text).toContain('end too early, after `{"text": "a` (11 characters)');
  expect((await use('echo', '{"text": "a\nb"}')).text).toContain('written \\n');
  expect((await use('bare', '{"deep": }')).ok).toBe(false);
});

test('no text at all is an empty object only where nothing is required', async () => {
  const { use } = setup({ tools });
  expect(await use('bare', '')).toEqual({ ok: true, text: '{}' });
  expect((await use('echo', ' ')).text).toContain('`text` is missing');
});

test('invalid arguments are refused by key, with what was expected and what was found', async () => {
  const { use } = setup({ tools });
  expect((await use('echo', { text: 5 })).text).toContain('`text`: expected string, got 5');
  expect((await use('echo', { text: 'a', times: 12 })).text).toMatch(/`times`: .*<=9, got 12/);
  expect((await use('echo', { text: 'a', tmies: 2 })).text).toContain('there is no key `tmies`, the nearest is times');
  expect((await use('echo', [1])).text).toContain('the whole: expected object, got [1]');
  expect((await use('broken', { a: 1 })).text).toContain('there is no key `a`, the nearest is none');
});

test('a fault inside a list is reported with its place, in the tools of the daemon too', () => {
  const plan = (args: object | string) =>
    parseOwnArgs(PLAN_TOOL, PlanToolArgs, typeof args === 'string' ? args : JSON.stringify(args));
  const wrong = (text: string) =>
    `The arguments of \`plan\` do not fit: ${text}. Expected one JSON object: { command, `;
  expect(plan({ command: 'create', steps: [{ title: 'x' }] })).toContain(
    wrong('`steps.0.description` is missing; `steps.0`: there is no key `title`'),
  );
  expect(plan({ command: 'create', steps: ['x', 5] })).toContain(wrong('`steps.1`: Invalid input, got 5'));
  expect(plan({ command: 'update', done_when: [{ file: '' }] })).toContain('`done_when.0.file`: Too small');
  expect(plan({ command: 'update', done_when: [{ cmd: 'make' }] })).toContain(
    '`done_when.0.file` is missing, or `done_when.0.command` is missing, or `done_when.0.url` is missing, or ' +
      '`done_when.0.person` is missing; `done_when.0`: there is no key `cmd`',
  );
  expect(plan({ action: 'get' })).toContain('`command`');
  expect(plan('')).toContain(wrong('`command` is missing'));
  expect(plan('{"command":"get",}')).toContain('not JSON: at line 1, column 18, after `{"command":"get",`, got `}`');
});

test('an unknown tool is answered with the known ones, nearest first', async () => {
  const { use, box } = setup();
  expect(await use('readfile', {})).toEqual({
    ok: false,
    text: expect.stringMatching(/^No tool `readfile`\. There are: read_file, .*shell/),
  });
  expect(box.replayPolicy('readfile')).toBe('never');
});

test('what a tool throws is its result, except after an abort; one that an update has replaced says to restart', async () => {
  const { use } = setup({ tools: [...tools, replaced] });
  expect((await use('late', {})).text).toMatch(/^late could not be loaded: .*'attempt'\. .*: agentctl restart$/);
  expect(await use('broken', {})).toEqual({ ok: false, text: 'the disk is on fire' });
  await expect(use('broken', {}, AbortSignal.abort('stopped by a person'))).rejects.toBe('stopped by a person');
});

const permit = (permissions: Permissions, name: string, args: object, more?: DynamicTools) =>
  createToolbox(tools, more, () => permissions).checkPermission(
    { name, args: JSON.stringify(args) },
    { work: async () => '/ws/work', signal: new AbortController().signal },
  );
const ruledBy = (...session: Permissions['session']): Permissions => ({ mode: 'auto', session, workspace: [] });

test.each(['spawn', 'plan', 'ask_user', 'echo', 'no_such_tool'])('rules speak of %s as of any tool', async (name) => {
  for (const deny of ['*', name]) expect(await permit(ruledBy({ deny }), name, {})).toMatchObject({ is: 'deny' });
  expect(await permit({ mode: 'safe', session: [], workspace: [] }, name, {})).toEqual({ is: 'allow' });
});

test('built-in tools need approval if a rule says so, and no server is started for them', async () => {
  let started = 0;
  const more = { tools: [], ready: async () => [`started ${++started}`] };
  expect(await permit(ruledBy({ ask: 'spawn' }), 'spawn', { task: 'x' }, more)).toMatchObject({
    is: 'ask',
    rule: true,
  });
  expect(await permit(ruledBy({ ask: '*' }), 'no_such_tool', {}, more)).toEqual({ is: 'allow' });
  expect(started).toBe(1);
});

test('a rule for a whole tool applies to a call with invalid arguments', async () => {
  expect(await permit(ruledBy({ deny: 'echo' }), 'echo', { text: 5 })).toMatchObject({ is: 'deny' });
});

test('a tool that appears after its call was permitted does not bypass the rules', async () => {
  let looks = 0;
  const late = defineTool({
    ...{ name: 'mcp__a__late', description: 'Late.', args: z.looseObject({}), replay: 'never', touches: ['outside'] },
    run: async () => ({ ok: true, text: 'it ran' }),
  });
  const more: DynamicTools = {
    get tools() {
      return looks > 1 ? [late] : [];
    },
    ready: async () => [`look ${++looks}`],
  };
  const box = createToolbox([], more, () => ({ mode: 'ask', session: [], workspace: [] }));
  const call = { name: 'mcp__a__late', args: '{}' };
  const signal = new AbortController().signal;
  const caller = { work: async () => '/ws/work', signal };
  expect(await box.checkPermission(call, caller)).toEqual({ is: 'allow' });
  const context = { work: '/ws/work', folder: '/ws/call', signal, blob: async () => undefined };
  expect((await box.run(call, context)).text).toContain('Call it again');
  expect(await box.checkPermission(call, caller)).toMatchObject({ is: 'ask' });
});

test('two tools with the same name are a bug', () => {
  expect(() => createToolbox([echo, echo])).toThrow('same name');
});

test('only calls that change nothing a second time are safe to replay', () => {
  const box = createToolbox(builtinTools({ readAlso: [] }));
  const safe = box.specs.map((spec) => spec.name).filter((name) => box.replayPolicy(name) === 'safe');
  expect(safe).toEqual(['read_file', 'write_file', 'list_files', 'search_files', 'web_fetch', 'web_search']);
});

test('JSON has no fault, and what follows or is cut from it is found where it is', () => {
  fc.assert(
    fc.property(fc.json(), fc.nat(), (json, seed) => {
      expect(findJsonFault(json)).toBe(json.length);
      expect(findJsonFault(`${json} ]`)).toBe(json.length + 1);
      const cut = json.slice(0, seed % (json.length + 1));
      expect(findJsonFault(cut)).toBe(cut.length);
    }),
  );
});

test('the fault of a text that is not JSON is within the text', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom(...'{}[],:"\\u0 1.etrfalsn\n') }), (text) => {
      const at = findJsonFault(text);
      expect(at).toBeGreaterThanOrEqual(0);
      expect(at).toBeLessThanOrEqual(text.length);
    }),
  );
});

const CONTEXT = { work: '/ws/work', folder: '/ws/call', blob: async () => undefined };

test('a call that was aborted ends with the reason of the abort, whatever the tool throws, and so does finding out its end', async () => {
  const waitAndFail = async (_args: unknown, { signal }: { signal: AbortSignal }) => {
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve));
    throw new Error('nobody knows');
  };
  const box = createToolbox([
    defineTool({
      ...{ name: 'slow', description: 'Takes its time.', args: z.strictObject({}), replay: 'never', touches: [] },
      ...{ run: waitAndFail, resume: waitAndFail },
    }),
  ]);
  for (const way of [box.run, box.resume]) {
    const control = new AbortController();
    const ends = way({ name: 'slow', args: '{}' }, { ...CONTEXT, signal: control.signal });
    control.abort(new Error('stopped by a person'));
    await expect(ends).rejects.toThrow('stopped by a person');
  }
});

test('the end of a call is unknown if finding it out fails', async () => {
  const box = createToolbox([
    defineTool({
      ...{ name: 'lost', description: 'Fails.', args: z.strictObject({}), replay: 'never', touches: [] },
      run: async () => ({ ok: true, text: '' }),
      resume: async () => {
        throw new Error('nobody knows');
      },
    }),
  ]);
  const signal = new AbortController().signal;
  expect(await box.resume({ name: 'lost', args: '{}' }, { ...CONTEXT, signal })).toBeNull();
});
