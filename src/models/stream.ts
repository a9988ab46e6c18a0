import { z } from 'zod';
import { ModelFault } from '../engine/ports.ts';
import { addCallDelta, CallDelta, type CallDraft } from './calls.ts';

const Content = z.union([
  z.string(),
  z.array(z.looseObject({ type: z.string().optional(), text: z.string().optional() })),
]);

/** What we read of a streamed piece; everything else (reasoning, log probabilities, …) is left aside. */
const Chunk = z.object({
  model: z.string().nullish(),
  choices: z
    .array(
      z.object({
        delta: z
          .object({
            content: Content.nullish(),
            refusal: z.string().nullish(),
            tool_calls: z.array(CallDelta).nullish(),
          })
          .nullish(),
        finish_reason: z.string().nullish(),
      }),
    )
    .nullish(),
  usage: z.unknown().optional(),
});
type Content = z.infer<typeof Content>;

/** An answer as far as it came. `finish` is empty where the stream ended without a finish_reason. */
export type Draft = {
  text: string;
  calls: CallDraft[];
  finish: string;
  model: string;
  /** The usage of the last piece that told one; its form is the endpoint's. */
  usage: unknown;
};

/**
 * Assembles a streamed answer: text deltas, tool call deltas, usage, of the first choice. A refusal counts as text.
 * Throws `ModelFault` (malformed) for a piece of another form or a finish_reason "error"; errors of the stream pass through.
 */
export async function assemble(chunks: AsyncIterable<unknown>, onText: (delta: string) => void): Promise<Draft> {
  const draft: Draft = { text: '', calls: [], finish: '', model: '', usage: undefined };
  for await (const raw of chunks) {
    const chunk = Chunk.safeParse(raw);
    if (!chunk.success) throw malformed(`a piece of the answer has an unknown form (${z.prettifyError(chunk.error)})`);
    const { model, choices, usage } = chunk.data;
    draft.model ||= model ?? '';
    draft.usage = usage ?? draft.usage;
    const choice = choices?.[0];
    if (!choice) continue;
    const text = textOf(choice.delta?.content) + (choice.delta?.refusal ?? '');
    draft.text += text;
    if (text !== '') onText(text);
    for (const call of choice.delta?.tool_calls ?? []) addCallDelta(draft.calls, call);
    draft.finish = choice.finish_reason || draft.finish;
  }
  if (draft.finish === 'error') throw malformed('the endpoint broke off with finish_reason "error"');
  return draft;
}

function textOf(content: Content | null | undefined): string {
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => ((part.type ?? 'text') === 'text' ? (part.text ?? '') : '')).join('');
}

/** The answer cannot be used, though the same request may be answered well the next time. */
export function malformed(what: string): ModelFault {
  return new ModelFault('malformed', `The model's answer cannot be used: ${what}.`, { retry: true });
}
