import { describe, expect, test } from 'vitest';
import { chooseModel } from '../../src/models/choose-model.ts';
import { modelServer } from '../support/temporary.ts';
import { ask, fault } from './ask.ts';

const endpoint = () => modelServer({ text: 'from the endpoint' });

test('headers get the values of the listed variables that they name', async () => {
  const server = await endpoint();
  const headers = { 'api-key': '$GATE_KEY', 'X-Route': `a-$\{OTHER}-$5` };
  const settings = { base_url: server.url, name: 'm', headers, secrets: ['GATE_KEY', 'OTHER'] };
  await ask(chooseModel(settings, { GATE_KEY: 'k1', OTHER: 'two' }), 'hello');
  expect(server.requests[0]?.headers).toMatchObject({ 'api-key': 'k1', 'x-route': 'a-two-$5' });
});

describe('no model', () => {
  test('without an endpoint is a fault that names every way to configure one', async () => {
    const { kind, retry, message } = await fault(chooseModel({}, {}));
    expect({ kind, retry }).toEqual({ kind: 'unconfigured', retry: false });
    for (const way of [
      'OPENAI_BASE_URL',
      'OPENAI_API_KEY',
      '--base-url',
      '--model NAME',
      'agentd.json',
      '--model runbook',
    ]) {
      expect(message).toContain(way);
    }
  });

  test('with an endpoint but no name, or with a named key that is not set, is a fault that says what is missing', async () => {
    const nameless = await fault(chooseModel({}, { OPENAI_API_KEY: 'k' }));
    expect(nameless).toMatchObject({ kind: 'unconfigured', message: expect.stringContaining('no model is named') });
    const keyless = await fault(chooseModel({ base_url: 'http://x.invalid', name: 'm', api_key_env: 'MY_KEY' }, {}));
    expect(keyless).toMatchObject({
      kind: 'unconfigured',
      message: expect.stringContaining('named in model.api_key_env is not set'),
    });
  });

  test.each(['127.0.0.1:11434/v1', 'localhost:11434/v1', 'ftp://models/v1', 'http://'])(
    'with an invalid address (%s) is a fault that says what was expected, and is not retried',
    async (base_url) => {
      expect(await fault(chooseModel({ base_url, name: 'x' }, {}))).toMatchObject({
        kind: 'unconfigured',
        retry: false,
        message: expect.stringMatching(/such as http:.*, got ".*OPENAI_BASE_URL/),
      });
    },
  );

  test.each([
    [{ 'X-Key': '$GATE_KEY' }, [], { GATE_KEY: 'k' }, /X-Key .* "secrets" in agentd\.json does not list/],
    [{ 'X-Key': `Bearer $\{GATE_KEY}` }, ['GATE_KEY'], {}, /X-Key .* is not set/],
    [{ 'X-Key': '$GATE_KEY' }, ['GATE_KEY'], { GATE_KEY: 'k\nX: y' }, /line break/],
  ])(
    'with a header whose variable cannot be sent is a fault that says why: %j',
    async (headers, secrets, env, says) => {
      const settings = { base_url: 'http://x.invalid', name: 'm', headers, secrets };
      expect(await fault(chooseModel(settings, env))).toMatchObject({
        ...{ kind: 'unconfigured', retry: false, message: expect.stringMatching(says) },
      });
    },
  );

  test('never repeats a value given instead of a variable name, even if the endpoint refuses the key', async () => {
    const pasted = 'q7w8e9r0t1y2';
    const server = await modelServer({ status: 401, text: 'no' });
    const settings = { base_url: server.url, name: 'm', api_key_env: pasted };
    for (const env of [{}, { [pasted]: 'k' }]) {
      const { message } = await fault(chooseModel(settings, env));
      expect(message).toContain('named in model.api_key_env');
      expect(message).not.toContain(pasted);
    }
  });
});

describe('an endpoint', () => {
  test('comes from the environment, with key and name', async () => {
    const server = await endpoint();
    const env = { OPENAI_BASE_URL: server.url, OPENAI_API_KEY: 'k1', OPENAI_MODEL: 'm1' };
    expect((await ask(chooseModel({}, env), 'hello')).text).toBe('from the endpoint');
    expect(server.requests[0]?.body.model).toBe('m1');
    expect(server.requests[0]?.headers.authorization).toBe('Bearer k1');
  });

  test('comes from the settings first', async () => {
    const server = await endpoint();
    const settings = { base_url: server.url, name: 'm2', api_key_env: 'MY_KEY' };
    const env = { OPENAI_BASE_URL: 'http://x.invalid', OPENAI_API_KEY: 'k1', OPENAI_MODEL: 'm1', MY_KEY: 'k2' };
    await ask(chooseModel(settings, env), 'hello');
    expect(server.requests[0]?.body.model).toBe('m2');
    expect(server.requests[0]?.headers.authorization).toBe('Bearer k2');
  });
});

describe('an address that only session.json names', () => {
  test('is asked without a key, and a refusal says why and what to do', async () => {
    const server = await modelServer([{ text: 'no key needed' }, { status: 401, text: 'who are you?' }]);
    const model = chooseModel({ base_url: server.url, name: 'm', no_key: 'unnamed' }, { OPENAI_API_KEY: 'k1' });
    expect((await ask(model, 'hello')).text).toBe('no key needed');
    const { kind, message } = await fault(model);
    expect([kind, message]).toEqual([
      'rejected',
      expect.stringMatching(/401.*No key was sent: only session\.json names this address.*"secrets" of agentd\.json/s),
    ]);
    expect(server.requests.map(({ headers }) => headers.authorization)).toEqual([undefined, undefined]);
  });

  test('is not asked where session.json names a key that agentd.json does not list', async () => {
    const server = await endpoint();
    const settings = { base_url: server.url, name: 'm', no_key: 'unlisted' } as const;
    expect(await fault(chooseModel(settings, { OPENAI_API_KEY: 'k1' }))).toMatchObject({
      kind: 'unconfigured',
      message: expect.stringContaining('not in "secrets" of agentd.json'),
    });
    expect(server.requests).toEqual([]);
  });
});

describe('a request that names a model of its own', () => {
  test('gets the built-in one beside an endpoint, and the endpoint beside a built-in one', async () => {
    const server = await endpoint();
    const settings = { base_url: server.url, name: 'm' };
    expect((await ask(chooseModel(settings, {}), 'hello', { model: 'runbook' })).text).toContain('no AI');
    expect(server.requests).toHaveLength(0);
    const beside = chooseModel({ ...settings, name: 'runbook' }, {});
    expect((await ask(beside, 'hello')).text).toContain('no AI');
    expect((await ask(beside, 'hello', { model: 'm3' })).text).toBe('from the endpoint');
    expect(server.requests[0]?.body.model).toBe('m3');
  });

  test('is told of a script that is missing', async () => {
    const model = chooseModel({ name: 'runbook' }, {});
    await expect(ask(model, 'hello', { model: 'scripted:none.json' })).rejects.toMatchObject({ kind: 'rejected' });
  });
});

test('the runbook model is never chosen by itself', async () => {
  expect(await fault(chooseModel({}, {}), '1. List: `ls`')).toMatchObject({ kind: 'unconfigured' });
});
