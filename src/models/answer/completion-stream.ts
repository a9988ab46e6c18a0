import { z } from 'zod';
import { truncate } from '../../base/strings.ts';
import { ModelError } from '../../engine/ports/session-ports.ts';
import { addCallDelta, CallDelta, type CallDraft, separateCalls } from './call-drafts.ts';
import { collectProviderFields, dropUnopenedReasoning, openReasoningFilter, type ProviderFields } from './reasoning.ts';

const Content = z.union([
  z.string(),
  z.array(z.looseObject({ type: z.string().optional(), text: z.string().optional() })),
]);
type Content = z.infer<typeof Content>;

const Delta = z.looseObject({
  content: Content.nullish(),
  refusal: z.string().nullish(),
  tool_calls: z.array(CallDelta).nullish(),
  /** The form of calls before `tool_calls`, which old gateways still send. */
  function_call: CallDelta.shape.function,
  reasoning_content: z.unknown().optional(),
  reasoning_details: z.unknown().optional(),
});

/** The fields that are read from a streamed piece; all others (log probabilities, …) are ignored. */
const Chunk = z.object({
  model: z.string().nullish(),
  choices: z
    .array(
      z.looseObject({
        delta: Delta.nullish(),
        /** What a whole answer has in place of `delta`, and some servers send in a stream. */
        message: Delta.nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .nullish(),
  usage: z.unknown().optional(),
});

/** A partial answer. `finish` is empty if the stream ended without a finish_reason. */
export type CompletionDraft = {
  text: string;
  calls: CallDraft[];
  finish: string;
  model: string;
  providerFields: ProviderFields | undefined;
  /** The usage in the last piece that had one; its form is the endpoint's. */
  usage: unknown;
};

/**
 * Assembles a streamed answer: text deltas, tool call deltas and usage of the first choice. A refusal counts as text,
 * reasoning between tags does not. Throws `ModelError` (malformed) for a piece of another form, and for one with calls
 * in a form that is not read; stream errors pass through.
 */
export async function readCompletionStream(
  chunks: AsyncIterable<unknown>,
  onText: (delta: string) => void,
): Promise<CompletionDraft> {
  const draft: CompletionDraft = {
    ...{ text: '', calls: [], finish: '', model: '', usage: undefined, providerFields: undefined },
  };
  const fields = collectProviderFields();
  const reasoning = openReasoningFilter();
  let unread = '';
  const addText = (text: string): void => {
    draft.text += text;
    if (text !== '') onText(text);
  };
  for await (const raw of chunks) {
    const chunk = Chunk.safeParse(raw);
    if (!chunk.success)
      throw malformedFault(`a piece of the answer has an unknown form (${z.prettifyError(chunk.error)})`);
    const { model, choices, usage } = chunk.data;
    draft.model ||= model ?? '';
    draft.usage = usage ?? draft.usage;
    const choice = choices?.[0];
    if (!choice) continue;
    const delta = choice.delta ?? choice.message ?? {};
    addText(reasoning.add(contentText(delta.content) + (delta.refusal ?? '')));
    fields.add(delta);
    const old = delta.function_call ? [{ index: 0, function: delta.function_call }] : [];
    for (const call of delta.tool_calls ?? old) addCallDelta(draft.calls, call);
    unread ||= unreadCalls(delta) || unreadCalls(choice);
    draft.finish = choice.finish_reason || draft.finish;
  }
  draft.providerFields = fields.all();
  addText(reasoning.end());
  draft.text = dropUnopenedReasoning(draft.text);
  draft.calls = separateCalls(draft.calls);
  if (draft.calls.length === 0 && unread)
    throw malformedFault(`a call came in a form that is not known (${unread})`, 'call');
  return draft;
}

function contentText(content: Content | null | undefined): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => ((part.type ?? 'text') === 'text' ? (part.text ?? '') : '')).join('');
}

const READ_FIELDS: ReadonlySet<string> = new Set(['tool_calls', 'function_call', 'delta', 'message', 'finish_reason']);

/** A field that by its name holds a call, shortened; '' if there is none. */
function unreadCalls(fields: Readonly<Record<string, unknown>>): string {
  const found = Object.entries(fields).find(
    ([name, value]) =>
      !READ_FIELDS.has(name) &&
      /(?:tool|function).?(?:call|use)/i.test(name) &&
      value &&
      JSON.stringify(value).length > 2,
  );
  return found ? truncate(`${found[0]}: ${JSON.stringify(found[1])}`, 200) : '';
}

/** The answer is unusable, but the same request may succeed next time. `hint`: what the model is told then. */
export function malformedFault(what: string, hint?: ModelError['hint']): ModelError {
  return new ModelError('malformed', `The model's answer cannot be used: ${what}.`, { retry: true, hint });
}

/** Throws `ModelError` (malformed) for an answer without text and calls. */
export function refuseEmptyAnswer({ text, calls }: { text: string; calls: readonly unknown[] }, finish = ''): void {
  if (text.trim() === '' && calls.length === 0)
    throw malformedFault(`an empty answer${finish ? ` (finish_reason "${finish}")` : ''}`);
}

/** What a finish_reason says about an answer; `unfinished` is any that is not known, and those of content filters. */
export type Finish = 'end' | 'calls' | 'length' | 'broken' | 'unfinished';

/** Of OpenAI, vLLM, Anthropic, Gemini, Cohere, Mistral, DeepSeek, z.ai and TGI, without case and separators. */
const FINISHES: Readonly<Record<Exclude<Finish, 'unfinished'>, readonly string[]>> = {
  end: ['', 'stop', 'eos', 'eostoken', 'endturn', 'stopsequence', 'complete'],
  calls: ['toolcalls', 'toolcall', 'functioncall', 'tooluse'],
  length: [
    ...['length', 'maxtokens', 'maxoutputtokens', 'maxnewtokens', 'maxlength', 'modellength', 'tokenlimit'],
    ...['contextlength', 'contextlengthexceeded', 'modelcontextwindowexceeded'],
  ],
  broken: [
    ...['error', 'networkerror', 'servererror', 'internalerror', 'insufficientsystemresource', 'interrupted'],
    ...[
      'cancelled',
      'canceled',
      'cancel',
      'abort',
      'aborted',
      'timeout',
      'malformedfunctioncall',
      'unexpectedtoolcall',
    ],
  ],
};

export function classifyFinish(finish: string): Finish {
  const plain = finish.toLowerCase().replace(/[^a-z]/g, '');
  const kinds = ['end', 'calls', 'length', 'broken'] as const;
  return kinds.find((kind) => FINISHES[kind].includes(plain)) ?? 'unfinished';
}
