import { expect, test } from 'vitest';
import { moves, type RigOptions, rig } from '../support/rig.ts';

const rare = {
  name: 'browser',
  description: 'A real browser.',
  line: 'a real browser',
  parameters: { type: 'object' },
};

/** A session whose toolbox has one tool that is offered by a line only. */
async function withRareTool(options: Partial<RigOptions>) {
  const it = await rig({
    script: moves({ text: 'Fine.' }),
    around: (world) => ({
      ...world,
      tools: { ...world.tools, specs: [{ name: 'shell', description: 'Runs.', parameters: {} }, rare] },
    }),
    ...options,
  });
  await it.say('1.md', 'Work');
  return it;
}

const through = (args: unknown) => ({ calls: [{ name: 'more_tools', args }] });

test('a rarely used tool is offered by its line, and a call through `more_tools` is a call of it, for rules and in the log', async () => {
  const asked: string[] = [];
  const it = await withRareTool({
    script: moves(through({ tool: 'browser', arguments: { action: 'close' } }), { text: 'Fine.' }),
    permit: ({ name }) => {
      asked.push(name);
      return { is: 'allow' };
    },
  });
  const offered = it.requests[0]?.tools.find(({ name }) => name === 'more_tools');
  expect(offered?.description).toMatch(/^- browser: a real browser$/m);
  expect(it.requests[1]?.tools).toEqual(it.requests[0]?.tools);
  expect(it.toolRuns).toMatchObject([{ name: 'browser', args: '{"action":"close"}' }]);
  expect(asked).toEqual(['browser']);
  const [call] = it.events().flatMap((event) => (event.type === 'model.answered' ? event.calls : []));
  expect(call).toMatchObject({ name: 'browser', args: '{"action":"close"}', via: 'more_tools' });
});

test('with the name alone it is a question, and so is anything that cannot be read; no other tool leads to one', async () => {
  const questions = [{ tool: 'browser' }, '{"tool":', { tool: 'more_tools', arguments: {} }].map(through);
  const other = { calls: [{ name: 'shell', args: { tool: 'browser', arguments: {} } }] };
  const it = await withRareTool({ script: moves(...questions, other, { text: 'Fine.' }) });
  expect(it.toolRuns.map(({ name }) => name)).toEqual(['more_tools', 'more_tools', 'more_tools', 'shell']);
});

test('an agent that lacks a tool does not get it through `more_tools` either, nor its line', async () => {
  const it = await withRareTool({
    config: { agents: { reader: { tools: ['shell'] } } },
    script: moves(through({ tool: 'browser', arguments: {} }), { text: 'Fine.' }),
  });
  await it.say('2.msg.json', JSON.stringify({ text: 'Read', options: { agent: 'reader' } }));
  expect(it.requests.at(-1)?.tools.map(({ name }) => name)).toEqual(['plan', 'shell']);
  const restricted = await rig({
    config: { agents: { reader: { tools: ['shell'] } } },
    script: moves(through({ tool: 'browser', arguments: {} }), { text: 'Fine.' }),
    around: (world) => ({ ...world, tools: { ...world.tools, specs: [rare] } }),
  });
  await restricted.say('1.msg.json', JSON.stringify({ text: 'Read', options: { agent: 'reader' } }));
  expect(restricted.toolRuns).toEqual([]);
  expect(JSON.stringify(restricted.requests[1]?.messages)).toContain('has no tool `browser`');
});

test('a rarely used tool of our own is called in the same way', async () => {
  const it = await withRareTool({
    script: moves(through({ tool: 'spawn', arguments: { task: 'Read a.txt' } }), { text: 'Fine.' }),
  });
  expect(it.requests[0]?.tools.find(({ name }) => name === 'more_tools')?.description).toContain('- spawn: ');
  expect(it.children.sent[0]?.message.text).toContain('Read a.txt');
});
