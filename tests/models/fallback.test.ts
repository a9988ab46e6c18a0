import { expect, test } from 'vitest';
import { chooseModel } from '../../src/models/choose-model.ts';
import { Config } from '../../src/protocol/settings/config.ts';
import { resolveSettings } from '../../src/protocol/settings/effective-settings.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, fault } from './ask.ts';

const modelOf = (config: object, env = {}) =>
  chooseModel(resolveSettings({ workspace: Config.parse(config), env }).model, env);

test('a name in `models` is that entry, with its endpoint, its id and its own key; any other is an id of the endpoint', async () => {
  const [common, far] = [await modelServer({ text: 'common' }), await modelServer({ text: 'far' })];
  const model = modelOf(
    {
      model: { base_url: common.url, name: 'big', api_key_env: 'K1' },
      models: {
        cheap: { name: 'small', max_tokens: 100 },
        far: { base_url: far.url, name: 'qwen3', api_key_env: 'K2' },
      },
    },
    { K1: 'one', K2: 'two' },
  );
  expect((await ask(model, 'a', { model: 'cheap' })).text).toBe('common');
  expect((await ask(model, 'a', { model: 'far' })).text).toBe('far');
  await ask(model, 'a', { model: 'other' });
  await ask(model, 'a');
  const seen = [...common.requests, ...far.requests].map(({ body, headers }) => [body.model, headers.authorization]);
  expect(seen).toEqual([
    ['small', 'Bearer one'],
    ['other', 'Bearer one'],
    ['big', 'Bearer one'],
    ['qwen3', 'Bearer two'],
  ]);
  expect(common.requests[0]?.body).toMatchObject({ max_tokens: 100 });
  expect(common.requests[2]?.body).not.toHaveProperty('max_tokens');
});

test('the window of an entry is its own', () => {
  const model = modelOf({
    model: { base_url: 'http://a/v1', context_window: 9000 },
    models: { far: { context_window: 4000 } },
  });
  expect([model.contextWindow?.('far'), model.contextWindow?.('x'), model.contextWindow?.(undefined)]).toEqual([
    4000, 9000, 9000,
  ]);
});

const refusal = (status: number, message: string) => ({ status, body: { error: { message } } });

test.each([
  ['down', refusal(502, 'gone')],
  ['limit', refusal(429, 'slow down')],
  ['context', refusal(400, 'prompt is too long: 9 tokens > 8000 maximum')],
  ['refused', refusal(400, 'not for you')],
])(
  'a model that is %s is stood in for by the first of its list that answers, and the answer says so',
  async (why, answer) => {
    const [strong, broken, local] = [
      await modelServer(answer),
      await modelServer(refusal(500, 'x')),
      await modelServer({ text: 'local' }),
    ];
    const models = { broken: { base_url: broken.url }, local: { base_url: local.url, name: 'qwen3' } };
    const fallback = { [why]: ['broken', 'local'] };
    const model = modelOf({ model: { base_url: strong.url, name: 'strong', fallback }, models });
    expect(await ask(model, 'a')).toMatchObject({
      text: 'local',
      model: 'local',
      instead_of: { model: 'strong', why },
    });
    await ask(model, 'b');
    expect([strong.requests.length, local.requests.length]).toEqual([why === 'down' || why === 'limit' ? 1 : 2, 2]);
  },
);

test('nothing stands in for a cause that is not listed; if nobody answers, the fault is that of the model itself', async () => {
  const [strong, local] = [await modelServer(refusal(400, 'not for you')), await modelServer(refusal(500, 'x'))];
  const models = {
    local: { base_url: local.url, fallback: { down: ['strong'] } },
    strong: { base_url: strong.url, fallback: { down: ['local'] } },
  };
  const refused = modelOf({ model: { base_url: strong.url, name: 'm', fallback: { down: ['local'] } }, models });
  expect(await fault(refused)).toMatchObject({ kind: 'rejected', message: expect.stringContaining('not for you') });
  expect(local.requests).toHaveLength(0);
  const both = modelOf({ model: { base_url: strong.url, name: 'm', fallback: { refused: ['local'] } }, models });
  expect(await fault(both)).toMatchObject({ kind: 'rejected', message: expect.stringContaining('not for you') });
  expect(local.requests).toHaveLength(1);
});

test('models that stand in for each other are each asked once while all are down', async () => {
  const [one, other] = [await modelServer(refusal(502, 'gone')), await modelServer(refusal(503, 'away'))];
  const models = {
    one: { base_url: one.url, name: 'm', fallback: { down: ['other'] } },
    other: { base_url: other.url, name: 'm', fallback: { down: ['one'] } },
  };
  const model = modelOf({ model: { name: 'one' }, models });
  expect(await fault(model)).toMatchObject({ kind: 'unreachable' });
  expect([one.requests.length, other.requests.length]).toEqual([1, 1]);
});

test('the price of a model with stand-ins is the highest of them, so that a budget holds whoever answers', async () => {
  const [url, fallback] = ['http://127.0.0.1:9/v1', { down: ['dear'] }];
  const models = { dear: { prices: { input: 1, output: 9 } } };
  const priced = modelOf({ model: { base_url: url, name: 'm', prices: { input: 2, output: 3 }, fallback }, models });
  expect(await priced.prices?.(undefined)).toEqual({ input: 2, output: 9 });
  expect(await modelOf({ model: { base_url: url, name: 'm', fallback }, models }).prices?.('m')).toBeUndefined();
});

test('a session that names an unknown stand-in is told so', async () => {
  const strong = await modelServer(refusal(502, 'gone'));
  const { model: settings } = resolveSettings({
    workspace: { model: { base_url: strong.url, name: 'm' } },
    session: { model: { fallback: { down: ['nobody'] } } },
  });
  expect(await fault(chooseModel(settings, {}))).toMatchObject({
    ...{ kind: 'unconfigured', message: expect.stringContaining('"nobody"') },
  });
});
