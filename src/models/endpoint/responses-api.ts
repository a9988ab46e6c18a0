import { z } from 'zod';
import { EndpointRefusal } from '../answer/endpoint-errors.ts';
import { writtenTools } from '../request/offered-tools.ts';
import type { RequestParts } from '../request/request-body.ts';

/** The Responses API, for models that have no chat completions: its requests and events, from and to those. */

const WireMessage = z.looseObject({
  role: z.string(),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]).nullish(),
  tool_call_id: z.string().optional(),
  tool_calls: z
    .array(z.object({ id: z.string(), function: z.object({ name: z.string(), arguments: z.string() }) }))
    .optional(),
  reasoning_details: z.array(z.looseObject({ type: z.string() })).optional(),
});
const WireTool = z.object({ function: z.record(z.string(), z.unknown()) });
const ImagePart = z.object({ image_url: z.object({ url: z.string() }) });

/** The body of a request. Nothing is stored at the endpoint, so its reasoning comes encrypted and is sent back. */
export function buildResponsesBody({ model, wire, tools, schemas, options }: RequestParts): Buffer {
  const { stream_options: _, max_tokens: maxTokens, ...rest } = options;
  const input = wire.flatMap((bytes) => inputItems(WireMessage.parse(JSON.parse(bytes.toString()))));
  const offered = writtenTools(tools, schemas).map((tool) => WireTool.parse(JSON.parse(tool.toString())).function);
  const body = {
    ...{ model, input, store: false, include: ['reasoning.encrypted_content'] },
    ...(offered.length > 0 && { tools: offered.map((tool) => ({ type: 'function', ...tool, strict: false })) }),
    ...(maxTokens !== undefined && { max_output_tokens: maxTokens }),
    ...rest,
  };
  return Buffer.from(JSON.stringify(body));
}

function inputItems(message: z.infer<typeof WireMessage>): object[] {
  const { role, content, tool_call_id: id, tool_calls: calls = [], reasoning_details: reasoning = [] } = message;
  if (role === 'tool') return [{ type: 'function_call_output', call_id: id, output: content ?? '' }];
  const kind = role === 'assistant' ? 'output_text' : 'input_text';
  const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? []);
  const said = parts
    .filter((part) => part.type !== 'text' || part['text'] !== '')
    .map((part) => (part.type === 'text' ? { type: kind, text: part['text'] } : imagePart(part)));
  return [
    ...reasoning.filter(({ type }) => type === 'reasoning'),
    ...(said.length > 0 ? [{ role, content: said }] : []),
    ...calls.map((call) => ({ type: 'function_call', call_id: call.id, ...call.function })),
  ];
}

const imagePart = (part: object) => ({ type: 'input_image', image_url: ImagePart.parse(part).image_url.url });

const OutputItem = z.looseObject({
  type: z.string(),
  call_id: z.string().optional(),
  name: z.string().optional(),
  arguments: z.string().optional(),
  content: z.array(z.looseObject({ text: z.string().optional(), refusal: z.string().optional() })).optional(),
});
const Answer = z.looseObject({
  model: z.string().optional(),
  output: z.array(OutputItem).optional(),
  error: z.unknown().optional(),
  incomplete_details: z.object({ reason: z.string().nullish() }).nullish(),
  usage: z
    .looseObject({
      input_tokens: z.number(),
      output_tokens: z.number(),
      input_tokens_details: z.looseObject({ cached_tokens: z.number().nullish() }).nullish(),
    })
    .nullish(),
});
const Event = z.looseObject({
  type: z.string(),
  delta: z.string().optional(),
  output_index: z.number().optional(),
  item: OutputItem.optional(),
  response: Answer.optional(),
});

/** The events of an answer as pieces of a chat completion. Throws `EndpointRefusal` for an answer that failed. */
export async function* asChatPieces(events: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  const began = new Set<number>();
  let calls = 0;
  for await (const raw of events) {
    const event = Event.safeParse(raw).data;
    const { item, response, output_index: index = 0 } = event ?? {};
    switch (event?.type) {
      case 'response.output_text.delta':
      case 'response.refusal.delta':
      case 'response.function_call_arguments.delta':
        yield piece(DELTAS[event.type](event.delta, index));
        began.add(index);
        break;
      case 'response.output_item.added':
        if (item?.type === 'function_call')
          yield piece({ tool_calls: [{ index, id: item.call_id, function: { name: item.name, arguments: '' } }] });
        break;
      case 'response.output_item.done':
        if (item) yield wholeItem(item, index, began.has(index));
        began.add(index);
        if (item?.type === 'function_call') calls++;
        break;
      case 'response.completed':
      case 'response.incomplete':
        for (const [at, one] of (response?.output ?? []).entries()) {
          if (!began.has(at)) yield wholeItem(one, at, false);
          if (!began.has(at) && one.type === 'function_call') calls++;
        }
        yield lastPiece(response, calls > 0);
        break;
      case 'response.failed':
        throw new EndpointRefusal(undefined, response);
      case undefined:
        // What is no event is read, or refused, as a piece of a chat completion.
        yield raw;
    }
  }
}

const DELTAS = {
  'response.output_text.delta': (content?: string) => ({ content }),
  'response.refusal.delta': (refusal?: string) => ({ refusal }),
  'response.function_call_arguments.delta': (args: string | undefined, index: number) => ({
    tool_calls: [{ index, function: { arguments: args } }],
  }),
};

const piece = (delta: object, more: object = {}) => ({ choices: [{ index: 0, delta, ...more }] });

/** An item at its end; its text and its arguments have come before, if it `began`. */
function wholeItem(item: z.infer<typeof OutputItem>, index: number, began: boolean) {
  if (item.type === 'reasoning') return piece({ reasoning_details: [item] });
  if (began) return piece({});
  if (item.type === 'function_call')
    return piece({
      tool_calls: [{ index, id: item.call_id, function: { name: item.name, arguments: item.arguments } }],
    });
  return piece({ content: (item.content ?? []).map(({ text, refusal }) => text ?? refusal ?? '').join('') });
}

function lastPiece(answer: z.infer<typeof Answer> | undefined, hasCalls: boolean) {
  const { usage, model, incomplete_details: cut } = answer ?? {};
  const finish = cut?.reason === 'max_output_tokens' ? 'length' : (cut?.reason ?? (hasCalls ? 'tool_calls' : 'stop'));
  return {
    ...piece({}, { finish_reason: finish }),
    ...(model !== undefined && { model }),
    ...(usage && {
      usage: {
        ...{ prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens },
        prompt_tokens_details: usage.input_tokens_details,
      },
    }),
  };
}
