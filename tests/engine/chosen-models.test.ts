import { expect, test } from 'vitest';
import { moves, type Rig, type RigOptions, rig, shell } from '../support/rig.ts';

async function on(options: Partial<RigOptions> = {}): Promise<Rig> {
  return rig({
    script: () => ({ text: 'Fine.' }),
    config: { model: { name: 'big' }, models: { cheap: {} } },
    ...options,
  });
}

async function say(it: Rig, name: string, content: string): Promise<string> {
  await it.say(name, content);
  return it.reply(name) ?? '';
}

const asked = (it: Rig) => it.requests.map(({ model }) => model);

test('/model names the model and those to choose from, and sets it for later runs until it is set back', async () => {
  const it = await on();
  expect(await say(it, '1.md', '/model')).toMatch(/The model is big, from the settings.*cheap, default/s);
  expect(await say(it, '2.md', '/model cheap')).toContain('New tasks in this session will use the model cheap.');
  await say(it, '3.md', 'Hello');
  expect(await say(it, '4.md', '/model other-id')).toContain('so the endpoint has to know it');
  await say(it, '5.md', 'Hello');
  await it.restart();
  expect(await say(it, '6.md', '/model')).toContain('The model is other-id, set by /model');
  await say(it, '7.md', 'Hello again');
  expect(await say(it, '8.md', '/model default')).toContain('use the model big');
  await say(it, '9.md', 'Hello');
  await say(it, '10.msg.json', JSON.stringify({ text: 'Hello', options: { model: 'named' } }));
  expect(asked(it)).toEqual(['cheap', 'other-id', 'other-id', 'big', 'named']);
});

test('a child session gets the model that was set for its parent', async () => {
  const it = await on({
    tools: ['spawn'],
    script: moves({ calls: [{ name: 'spawn', args: { task: 'Read a.txt' } }] }, { text: 'Fine.' }),
  });
  await say(it, '1.md', '/model cheap');
  await say(it, '2.md', 'Work');
  expect(it.children.sent[0]?.message).toMatchObject({ options: { model: 'cheap' } });
});

test('planner, worker and summary have the models of their roles; one that is named for the run works in it', async () => {
  const config = {
    ...{ mode: 'plan-act' as const, model: { name: 'big' } },
    model_for: { planner: 'thinker', worker: 'cheap', summary: 'writer' },
  };
  const script = moves(
    { text: JSON.stringify({ steps: ['Look'] }) },
    { text: 'Looked. [Done]', calls: [shell()] },
    { text: 'Looked. [Done]' },
    { text: 'All is well.' },
  );
  const roles = async (message: object) => {
    const it = await on({ config, script });
    await say(it, '1.msg.json', JSON.stringify(message));
    return [...new Set(asked(it))];
  };
  expect(await roles({ text: 'Look around' })).toEqual(['thinker', 'cheap', 'writer']);
  expect(await roles({ text: 'Look around', options: { model: 'mine' } })).toEqual(['thinker', 'mine', 'writer']);
});

test('a reply says which model answered in the place of another, once', async () => {
  const instead_of = { model: 'big', why: 'limit' as const };
  const it = await on({
    script: moves({ calls: [shell()], instead_of }, { calls: [shell()], instead_of }, { text: 'Fine.' }),
  });
  const reply = await say(it, '1.md', 'Work');
  expect(reply).toMatch(/Fine\.[\s\S]*answered by another model \(model\.fallback\): scripted for big \(limit\)\n/);
});
