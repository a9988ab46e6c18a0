import { z } from 'zod';
import { truncate } from '../../base/strings.ts';
import { countTextTokens, ModelError } from '../../engine/ports/session-ports.ts';
import { addCallDelta, CallDelta, type CallDraft, separateCalls } from './call-drafts.ts';
import { EndpointRefusal, isErrorPiece } from './endpoint-errors.ts';
import {
  collectProviderFields,
  dropUnopenedReasoning,
  openReasoningFilter,
  type ProviderFields,
  reasoningOf,
  withoutTemplateMarks,
} from './reasoning.ts';

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
  /** In how many pieces it came. */
  pieces: number;
  /** It was cut, because it is longer than any answer or repeats itself without end. */
  isCut: boolean;
};

/** Ceilings of an answer, in characters: models in a loop never end, and local servers set no limit. */
const MAX_TEXT_CHARS = 200_000;
const MAX_CONTENT_CHARS = 1_000_000;
const MAX_CALL_CHARS = 8_000_000;

type ReadOptions = {
  onText: (delta: string) => void;
  /** Where an answer is cut. */
  maxTokens?: number | undefined;
  /** The signal that ends it; what came until then is the answer. */
  late?: AbortSignal | undefined;
};

/**
 * Assembles a streamed answer: text deltas, tool call deltas and usage of the first choice. A refusal counts as text,
 * reasoning between tags does not. Throws `ModelError` (malformed) for a piece of another form, and for one with calls
 * in a form that is not read; stream errors pass through.
 */
export async function readCompletionStream(
  chunks: AsyncIterable<unknown>,
  { onText, maxTokens = Infinity, late }: ReadOptions,
): Promise<CompletionDraft> {
  const draft: CompletionDraft = {
    ...{ text: '', calls: [], finish: '', model: '', usage: undefined, providerFields: undefined },
    ...{ pieces: 0, isCut: false },
  };
  const fields = collectProviderFields();
  const reasoning = openReasoningFilter();
  const length = { all: 0, checkedAt: 0 };
  let tokens = 0;
  let unread = '';
  const addText = (text: string): void => {
    draft.text += text;
    if (text !== '') onText(text);
  };
  try {
    for await (const raw of chunks) {
      draft.pieces++;
      if (isErrorPiece(raw)) throw new EndpointRefusal(undefined, raw);
      const chunk = Chunk.safeParse(raw);
      if (!chunk.success)
        throw malformedFault(`a piece of the answer has an unknown form (${z.prettifyError(chunk.error)})`);
      const { model, choices, usage } = chunk.data;
      draft.model ||= model ?? '';
      draft.usage = usage ?? draft.usage;
      const choice = choices?.[0];
      if (!choice) continue;
      const delta = choice.delta ?? choice.message ?? {};
      const content = contentText(delta.content) + (delta.refusal ?? '');
      addText(reasoning.add(content));
      fields.add(delta);
      const old = delta.function_call ? [{ index: 0, function: delta.function_call }] : [];
      for (const call of delta.tool_calls ?? old) addCallDelta(draft.calls, call);
      unread ||= unreadCalls(delta) || unreadCalls(choice);
      draft.finish = choice.finish_reason || draft.finish;
      length.all += content.length + reasoningOf(delta).length;
      tokens += countTextTokens(content + reasoningOf(delta));
      draft.isCut = isTooLong(draft, length) || tokens > maxTokens;
      if (draft.isCut) break;
    }
  } catch (error) {
    draft.isCut = late?.aborted === true && (draft.text !== '' || draft.calls.length > 0);
    if (!draft.isCut) throw error;
  }
  draft.providerFields = fields.all();
  addText(reasoning.end());
  draft.text = withoutTemplateMarks(dropUnopenedReasoning(draft.text));
  draft.calls = separateCalls(draft.calls);
  if (draft.calls.length === 0 && unread)
    throw malformedFault(`a call came in a form that is not known (${unread})`, 'call');
  return draft;
}

function contentText(content: Content | null | undefined): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => ((part.type ?? 'text') === 'text' ? (part.text ?? '') : '')).join('');
}

/** How much more text is worth a search for repetition. */
const CHECK_CHARS = 4000;

/** Whether an answer is to be cut here. `length.all`: of the content so far with all reasoning. */
function isTooLong({ text, calls }: CompletionDraft, length: { all: number; checkedAt: number }): boolean {
  if (text.length > MAX_TEXT_CHARS || length.all > MAX_CONTENT_CHARS) return true;
  if (calls.reduce((sum, { args }) => sum + args.length, 0) > MAX_CALL_CHARS) return true;
  if (text.length < length.checkedAt + CHECK_CHARS) return false;
  length.checkedAt = text.length;
  return endsInRepetition(text);
}

/** A text that ends with one period over and over, for this many characters and times, does not end by itself. */
const REPEATED_CHARS = 12_000;
const REPEATED_TIMES = 20;
const SAMPLE_CHARS = 64;

function endsInRepetition(text: string): boolean {
  const end = text.slice(-REPEATED_CHARS);
  const lastPlace = REPEATED_CHARS - SAMPLE_CHARS;
  const period = lastPlace - end.lastIndexOf(end.slice(-SAMPLE_CHARS), lastPlace - 1);
  return (
    end.length === REPEATED_CHARS &&
    period * REPEATED_TIMES <= REPEATED_CHARS &&
    end.slice(period) === end.slice(0, -period)
  );
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
export function refuseEmptyAnswer({ text, calls, finish = '' }: EmptyCheck): void {
  if (text.trim() !== '' || calls.length > 0) return;
  const why = finish ? ` (finish_reason "${finish}")` : '';
  throw malformedFault(`an empty answer${why}${classifyFinish(finish) === 'length' ? `: ${ONLY_REASONED}` : ''}`);
}

type EmptyCheck = { text: string; calls: readonly unknown[]; finish?: string };
const ONLY_REASONED =
  'all its tokens went into reasoning. Raise model.max_tokens or the limit of the endpoint, or ask for less reasoning';

/** What a finish_reason says about an answer; `unfinished` is any that is not known, and those of content filters. */
export type Finish = 'end' | 'calls' | 'length' | 'broken' | 'unfinished';

/** Of OpenAI, vLLM, Anthropic, Gemini, Cohere, Mistral, DeepSeek, z.ai and TGI, without case and separators. */
const FINISHES: Readonly<Record<Exclude<Finish, 'unfinished'>, RegExp>> = {
  end: /^(?:|stop|eos|eostoken|endturn|stopsequence|complete)$/,
  calls: /^(?:toolcalls?|functioncall|tooluse)$/,
  length:
    /^(?:length|max(?:output|new)?tokens|maxlength|modellength|tokenlimit|contextlength(?:exceeded)?|modelcontextwindowexceeded)$/,
  broken:
    /^(?:(?:network|server|internal)?error|insufficientsystemresource|interrupted|cancell?ed|cancel|abort(?:ed)?|timeout|malformedfunctioncall|unexpectedtoolcall)$/,
};

export function classifyFinish(finish: string): Finish {
  const plain = finish.toLowerCase().replace(/[^a-z]/g, '');
  const kinds = ['end', 'calls', 'length', 'broken'] as const;
  return kinds.find((kind) => FINISHES[kind].test(plain)) ?? 'unfinished';
}
