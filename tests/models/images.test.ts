import { expect, test } from 'vitest';
import type { ChatMessage } from '../../src/engine/ports/session-ports.ts';
import { openEndpointModel } from '../../src/models/endpoint/openai-endpoint.ts';
import type { Answer } from '../support/openai-server.ts';
import { modelServer } from '../support/temporary.ts';
import { ask } from './ask.ts';

const image = (path: string) => ({ path, type: 'image/png' as const, bytes: 3, sha256: `hash of ${path}` });
const look: ChatMessage[] = [{ role: 'user', content: 'look', images: [image('a.png')] }];
const bytes = { image: async () => new Uint8Array([1, 2, 3]) };
const part = { type: 'image_url', image_url: { url: 'data:image/png;base64,AQID' } };

async function endpoint(script: Answer[], images?: boolean) {
  const server = await modelServer(script);
  const model = openEndpointModel({ baseUrl: server.url, apiKey: undefined, name: 'm', timeoutMs: 5000, images });
  const sent = (n: number): unknown => server.requests[n]?.body.messages;
  return { model, sent, server };
}

test('an image is sent as a part after the text of its message', async () => {
  const { model, sent } = await endpoint([{ text: 'a cat' }]);
  const answer: ChatMessage = { role: 'tool', tool_call_id: 'c', content: 'csv', by: 'person' };
  const asked: ChatMessage = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'c', type: 'function', function: { name: 'ask_user', arguments: '{}' } }],
  };
  await ask(model, [...look, asked, answer], bytes);
  expect(sent(0)).toEqual([
    { role: 'user', content: [{ type: 'text', text: 'look' }, part] },
    asked,
    { role: 'tool', tool_call_id: 'c', content: 'csv' },
  ]);
});

test('an image that has changed is named instead', async () => {
  const { model, sent } = await endpoint([{ text: 'gone' }]);
  await ask(model, look, { image: async () => undefined });
  expect(sent(0)).toEqual([
    { role: 'user', content: 'look\n[not shown: work/a.png, the file has changed or is gone]' },
  ]);
});

test.each([
  [400, 'Invalid content type. image_url is only supported by certain models.'],
  [404, 'No endpoints found that support image input'],
  [422, "messages.0.content.list[TextContentPart].0.type: Input should be 'text'"],
  [400, 'messages[0].content must be a string'],
  [415, 'this is no multimodal model'],
  [500, 'image input is not supported - hint: you may need to provide the mmproj'],
])('after %i "%s" that model is sent no images', async (status, message) => {
  const { model, sent } = await endpoint([{ status, body: { error: { message } } }, { text: 'named' }]);
  await expect(ask(model, look, bytes)).rejects.toMatchObject({ kind: 'rejected', retry: true, waitMs: 0 });
  await ask(model, look, bytes);
  expect(sent(1)).toEqual([{ role: 'user', content: 'look\n[not shown: work/a.png, this model sees no images]' }]);
});

test('an image the endpoint cannot read is left out from then on, and others are still shown', async () => {
  const { model, sent } = await endpoint([
    { status: 400, body: { error: { message: 'Could not process image' } } },
    { text: 'ok' },
  ]);
  await expect(ask(model, look, bytes)).rejects.toMatchObject({ retry: true, waitMs: 0 });
  await ask(model, [...look, { role: 'user', content: 'and', images: [image('b.png')] }], bytes);
  expect(sent(1)).toEqual([
    { role: 'user', content: 'look\n[not shown: work/a.png, the endpoint refused it]' },
    { role: 'user', content: [{ type: 'text', text: 'and' }, part] },
  ]);
});

test('the setting is respected: false sends no images, true treats a refusal as a fault', async () => {
  const off = await endpoint([{ text: 'x' }], false);
  await ask(off.model, look, bytes);
  expect(off.sent(0)).toEqual([{ role: 'user', content: 'look\n[not shown: work/a.png, this model sees no images]' }]);
  const on = await endpoint([{ status: 400, body: { error: { message: 'no image input' } } }], true);
  await expect(ask(on.model, look, bytes)).rejects.toMatchObject({ kind: 'rejected', retry: false });
});

test('a refusal that is not about images does not stop sending them', async () => {
  const { model, sent } = await endpoint([
    { status: 400, body: { error: { message: 'unknown parameter foo' } } },
    { status: 500, body: { error: { message: 'supervision failed' } } },
    { text: 'a cat' },
  ]);
  await expect(ask(model, look, bytes)).rejects.toMatchObject({ retry: false });
  await expect(ask(model, look, bytes)).rejects.toMatchObject({ kind: 'unreachable' });
  await ask(model, look, bytes);
  expect(sent(2)).toEqual([{ role: 'user', content: [{ type: 'text', text: 'look' }, part] }]);
});
