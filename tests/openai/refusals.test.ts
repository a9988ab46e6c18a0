import OpenAI from 'openai';
import { expect, onTestFinished, test } from 'vitest';
import { openClient } from '../../src/client/index.ts';
import { serveHttp } from '../../src/frontends/http/index.ts';
import { openAiProtocol } from '../../src/frontends/openai/openai-routes.ts';
import { chooseModel } from '../../src/models/choose-model.ts';
import { serveHere } from '../http/serving.ts';
import { setup } from '../support/agentctl.ts';
import { ask, clientOf, openAiSetup, userMessages } from './openai-setup.ts';

const picture = (url: string) => [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }];

test("unsupported requests are refused with OpenAI's error format and create no session", async () => {
  const { openai, serving, names } = await openAiSetup([{ text: 'ok', repeat: true }]);
  const stranger = new OpenAI({ apiKey: 'wrong', baseURL: `${serving.url}/v1`, maxRetries: 0 });
  await expect(stranger.models.list()).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
  const create = (more: object) =>
    openai.chat.completions.create({ model: 'agentd', messages: userMessages('hi'), ...more });
  const cases: Array<[more: object, expected: object]> = [
    [{ model: 'gpt-5' }, { status: 404, code: 'model_not_found', param: 'model' }],
    [{ model: 'agentd/' }, { status: 404, code: 'model_not_found' }],
    [{ model: 7 }, { status: 400, param: 'model' }],
    [{ n: 2 }, { status: 400, param: 'n' }],
    [{ response_format: { type: 'json_object' } }, { status: 400, param: 'response_format' }],
    [{ tool_choice: 'required' }, { status: 400, param: 'tool_choice' }],
    [{ messages: [] }, { status: 400, param: 'messages' }],
    [{ messages: [{ role: 'assistant', content: 'x' }] }, { status: 400, param: 'messages' }],
    [{ messages: [{ role: 'user', content: ' ' }] }, { status: 400, param: 'messages' }],
    [{ messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'x' } }] }] }, { status: 400 }],
    [
      { messages: picture('https://example.com/a.png') },
      { status: 400, param: 'content', message: expect.stringContaining('data: URL') },
    ],
    [{ messages: picture('data:image/svg+xml;base64,PHN2Zz4=') }, { status: 400 }],
    [{ messages: picture('data:image/png;base64,%%') }, { status: 400 }],
    [{ messages: [{ role: 'wizard', content: 'x' }] }, { status: 400, param: 'messages.0.role' }],
  ];
  for (const [more, expected] of cases)
    await expect(create(more), JSON.stringify(more)).rejects.toMatchObject(expected);
  const post = (raw: string, headers = {}) => serving.ask('POST', '/v1/chat/completions', { raw, headers });
  const error = { type: 'invalid_request_error', message: expect.stringContaining('Expected: ') };
  expect(await post('{"model":')).toMatchObject({ status: 400, json: { error } });
  expect(await post('')).toMatchObject({ status: 400, json: { error } });
  expect(await post('{}', { 'content-type': 'text/plain' })).toMatchObject({ status: 415, json: { error } });
  expect(await post(' '.repeat(10 * 1024 * 1024 + 1)).catch(() => ({ status: 413 }))).toMatchObject({ status: 413 });
  const embeddings = await serving.ask('POST', '/v1/embeddings', { body: {} });
  expect(embeddings).toMatchObject({ status: 404, json: { error } });
  // What to start is no help to those who reached it.
  expect(embeddings.text).toContain('POST /v1/chat/completions');
  expect(embeddings.text).not.toContain('agentctl serve');
  const page = await serving.ask('GET', '/v1/models', { headers: { origin: 'https://evil.example' } });
  expect(page).toMatchObject({ status: 403, json: { error: { type: 'permission_error' } } });
  const unknown = await serving.ask('GET', '/api/sessions/nobody');
  expect(unknown.headers['content-type']).toBe('application/problem+json');
  expect(names()).toEqual([]);
});

test('a daemon whose model would be its own server is refused, and holds up nobody', async () => {
  const place = await openAiSetup([{ text: 'ok' }]);
  const settings = { model: { base_url: `${place.serving.url}/v1`, name: 'agentd', api_key_env: 'OWN_KEY' } };
  const model = chooseModel(settings.model, { OWN_KEY: place.serving.token });
  const request = { messages: [{ role: 'user' as const, content: 'hi' }], tools: [], model: undefined };
  const asked = model.ask(request, { signal: new AbortController().signal, onText: () => {} });
  await expect(asked).rejects.toMatchObject({ kind: 'rejected', message: expect.stringContaining('agentd itself') });
  expect(place.names()).toEqual([]);
  const other = setup();
  onTestFinished(async () => void (await other.here(['stop'])));
  await other.here(['config', 'set', 'model', JSON.stringify({ base_url: settings.model.base_url, name: 'agentd' })]);
  for (const words of [['start'], ['doctor']]) {
    const { out, err } = await other.here(words);
    expect(out + err).toMatch(/a server of agentd itself.*agentctl restart/);
  }
});

test('without --openai nothing is served below /v1', async () => {
  const { ask } = await serveHere(setup());
  expect((await ask('GET', '/v1/models')).status).toBe(404);
});

test('models are agentd and its sessions, the most recently changed first', async () => {
  const { openai, ctl } = await openAiSetup([{ text: 'ok', repeat: true }]);
  for (const name of ['one', 'two']) await ctl(['send', name, 'hi', '--wait']);
  const names: string[] = [];
  for await (const { id } of openai.models.list()) names.push(id);
  expect(names).toEqual(['agentd', 'agentd/two', 'agentd/one']);
  expect(await openai.models.retrieve('agentd/one')).toMatchObject({ id: 'agentd/one', object: 'model' });
  await expect(openai.models.retrieve('agentd/other')).rejects.toMatchObject({ status: 404 });
});

/** Without a daemon nothing is answered, which shows the server's own answers. */
test('a late answer reports the progress of the run; a full inbox makes clients retry later', async () => {
  const place = setup();
  const client = openClient(place.root);
  const complaints: string[] = [];
  const protocols = [openAiProtocol({ answerWithinMs: 50 })];
  const server = await serveHttp(client, { port: 0, complain: (text) => complaints.push(text), protocols });
  const openai = clientOf({ url: server.url, token: await client.accessToken() });
  const late = await ask({ openai }, userMessages('hi'), { model: 'agentd/demo' });
  expect(late.text).toMatch(/The run continues in the session "demo"\. Send "\/status"/);
  for (let n = 0; n < 256; n++) await client.send('demo', { text: String(n) });
  const more = ask({ openai }, userMessages('one more'), { model: 'agentd/demo' });
  await expect(more).rejects.toMatchObject({ status: 429, type: 'rate_limit_error' });
  const same = await ask({ openai }, userMessages('hi'), { model: 'agentd/demo' });
  expect(same.text).toContain('The run continues');
  expect(client.sessions()).toEqual(['demo']);
  await server.close();
  expect(complaints).toEqual([]);
});
