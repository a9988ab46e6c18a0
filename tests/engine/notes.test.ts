import { expect, test } from 'vitest';
import { NO_NOTES, type Notes } from '../../src/protocol/workspace/memory-notes.ts';
import { type Move, rig } from '../support/rig.ts';

const remembering = (text: string): Notes => ({ ...NO_NOTES, memory: { workspace: '', session: text } });

async function noted(script: (n: number) => Move, tool?: () => void) {
  let notes = remembering('- first');
  const on = await rig({
    tools: ['shell', 'remember', 'skill'],
    notes: () => notes,
    script: (_, n) => script(n),
    tool: () => {
      tool?.();
      return { ok: true, text: `output ${on.toolRuns.length}` };
    },
  });
  const systems = () => on.requests.map(({ messages }) => messages[0]?.content);
  return { on, systems, note: (next: Notes) => (notes = next) };
}

const BUSY: Move = { fault: ['overloaded', 'busy', { retry: true }] };
const call = (name: string): Move => ({ text: 'on it', calls: [{ name, args: { a: name } }] });

test('the system message of a run stays the same however often memory changes, and the next run has what is new', async () => {
  const { on, systems, note } = await noted(
    (n) => [call('a'), call('b'), BUSY, call('c')][n] ?? { text: 'All done.' },
    () => note({ ...remembering(`- changed ${on.toolRuns.length}`), withheldTools: ['shell'] }),
  );
  await on.say('1.md', 'Do three things.');
  // The pause of a retry ends the iteration; the run goes on with the notes it began with.
  await on.pass(1000);
  expect(on.reply('1.md')).toContain('status: done');
  expect(new Set(systems().map((text) => text?.replace(/\n/g, ' '))).size).toBe(1);
  expect(systems()[0]).toContain('- first');
  expect(on.requests.every(({ tools }) => tools.some(({ name }) => name === 'shell'))).toBe(true);
  await on.say('2.md', 'And again.');
  expect(systems().at(-1)).toContain('- changed 3');
  expect(on.requests.at(-1)?.tools.map(({ name }) => name)).not.toContain('shell');
});

test('of two messages that wait together, the second run has what the first one noted', async () => {
  const { on, systems, note } = await noted(
    (n) => [call('a')][n] ?? { text: 'Done.' },
    () => note(remembering('- noted by the first')),
  );
  on.drop('1.md', 'one');
  await on.say('2.md', 'two');
  expect(systems()).toHaveLength(3);
  expect(systems()[1]).toContain('- first');
  expect(systems()[2]).toContain('- noted by the first');
});

test('a tool that is withheld is not offered, and an agent has of the others what its profile names', async () => {
  const on = await rig({
    tools: ['shell', 'remember', 'skill'],
    notes: () => ({ ...remembering(''), withheldTools: ['skill'] }),
    config: { agents: { clerk: { tools: ['remember', 'skill'] } } },
    script: () => ({ text: 'Done.' }),
  });
  const offered = () => on.requests.at(-1)?.tools.map(({ name }) => name);
  await on.say('1.md', 'hello');
  expect(offered()).toEqual(expect.arrayContaining(['shell', 'remember']));
  expect(offered()).not.toContain('skill');
  await on.say('2.json', '{ "text": "hello", "options": { "agent": "clerk" } }');
  expect(offered()).toEqual(['plan', 'remember']);
});

test('a resumed run has what was noted meanwhile', async () => {
  let notes = remembering('- first');
  const on = await rig({
    tools: ['shell'],
    notes: () => notes,
    config: { limits: { iterations: 1 } },
    script: (_, n) => [call('a')][n] ?? { text: 'Done.' },
  });
  expect(await on.say('1.md', 'Do it.')).toContain('status: paused');
  notes = remembering('- noted meanwhile');
  await on.say('2.md', '/continue');
  expect(on.requests.map(({ messages }) => messages[0]?.content?.includes('- noted meanwhile'))).toEqual([false, true]);
});
