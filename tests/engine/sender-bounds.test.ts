import { expect, test } from 'vitest';
import type { Config } from '../../src/protocol/settings/config.ts';
import { givenRecord } from '../support/given.ts';
import { moves, type Rig, rig } from '../support/rig.ts';

const CONFIG: Config = {
  limits: { iterations: 3, tokens: 1000, repeats: 2 },
  model: { name: 'small' },
  agents: { Writer: { description: 'writes', model: 'medium' } },
};
const BOB = { from: 'bob', rights: { role: 'approve' } };
const open = (more: object = {}) => rig({ script: moves({ text: 'Hello.' }), config: CONFIG, ...more });

async function sent(it: Rig, options: object, sender: object = BOB): Promise<string> {
  await it.say('1.json', JSON.stringify({ text: 'hello', ...sender, options }));
  const { status, text } = JSON.parse(it.reply('1.json') ?? '{}');
  return status === 'rejected' ? text : status;
}

test.each([
  [{ limits: { iterations: 999_999 } }, 'limits.iterations is 999999, more than 3'],
  [{ limits: { tokens: null } }, 'limits.tokens is null, more than 1000'],
  [{ limits: { repeats: 0 } }, 'limits.repeats is 0, more than 2'],
  [{ limits: { outage_minutes: 100_000 } }, 'limits.outage_minutes is 100000, more than 720'],
  [{ model: 'scripted:/etc/passwd' }, 'model "scripted:/etc/passwd" is not named there'],
  [{ model: 'large' }, 'model "large" is not named there'],
  [{ agent: 'Nobody' }, 'agent "Nobody" is not named there'],
])('a sender with a token is refused options beyond the settings: %j', async (options, why) => {
  const it = await open();
  expect(await sent(it, options)).toContain(why);
  expect(it.requests).toEqual([]);
  expect([...it.store.hands.rejected().keys()]).toEqual(['1.json']);
});

test.each([
  [{ limits: { iterations: 3, tokens: 10, minutes: 5 } }, BOB],
  [{ model: 'small' }, BOB],
  [{ model: 'medium', agent: 'writer' }, BOB],
  [{ mode: 'linear' }, BOB],
  [{ limits: { iterations: 99 }, model: 'large', agent: 'Nobody' }, {}],
  [
    { limits: { iterations: 99 }, model: 'large', agent: 'Nobody' },
    { from: 'ana', rights: { role: 'admin' } },
  ],
])('options within the settings, and any of the owner or an admin, are taken: %j of %j', async (options, sender) => {
  expect(await sent(await open(), options, sender)).toBe('done');
});

test('an edit of the plan sets no limits beyond the settings, and takes none away that the owner has raised', async () => {
  const steps = [{ id: 'step_1', status: 'running', description: 'Find' }];
  const before = givenRecord({ plan: { id: 'plan_1', status: 'paused', steps } });
  const it = await open({ before });
  await it.wake();
  const edit = async (name: string, sender: object, limits: object) => {
    const { id, revision } = it.plan() ?? {};
    it.drop(
      name,
      JSON.stringify({ command: 'edit', ...sender, edit: { id, revision, limits, steps: it.plan()?.steps } }),
    );
    await it.settle();
    return it.plan()?.limits.iterations;
  };
  const { iterations: first = 0 } = it.plan()?.limits ?? {};
  expect(await edit('1.json', BOB, { iterations: first + 1 })).toBe(first);
  expect(it.events().findLast(({ type }) => type === 'plan.edited')).toMatchObject({
    changes: [],
    ignored: ['limits: the settings allow its sender 3 iterations, 5 in a step'],
  });
  expect(await edit('2.json', {}, { iterations: 80 })).toBe(80);
  expect(await edit('3.json', BOB, { iterations: 70 })).toBe(70);
  expect(await edit('4.json', BOB, { iterations: 2 })).toBe(2);
});
