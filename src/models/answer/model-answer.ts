import { truncate } from '../../base/strings.ts';
import type { ModelAnswer, ModelRequest } from '../../engine/ports/session-ports.ts';
import { finishCalls, offeredToolName } from './call-drafts.ts';
import { type CompletionDraft, classifyFinish, malformedFault, refuseEmptyAnswer } from './completion-stream.ts';
import { readTextCalls } from './text-calls.ts';
import { measureUsage, type UsedPrices } from './token-usage.ts';

/** The request that is answered. */
type AskedRequest = Pick<ModelRequest, 'messages' | 'tools'> & { model: string };

/**
 * Makes an answer of a finished draft. Throws `ModelError` (malformed) for one that is broken off, empty, or has a call
 * that cannot be read. Calls that came as text are calls if that is certain.
 */
export function toModelAnswer(
  draft: CompletionDraft,
  isDone: boolean,
  { model, messages, tools }: AskedRequest,
  prices: UsedPrices,
): ModelAnswer {
  if (draft.finish === '' && !isDone && !draft.isCut) throw malformedFault('the stream ended before the answer did');
  const finish = draft.isCut ? 'length' : classifyFinish(draft.finish);
  if (finish === 'broken')
    throw malformedFault(
      `the endpoint broke off with finish_reason "${draft.finish}"`,
      /call/i.test(draft.finish) ? 'call' : undefined,
    );
  refuseEmptyAnswer(draft);
  const { text, calls } = draft.calls.length === 0 ? withTextCalls(draft.text, { messages, tools }) : draft;
  if (finish === 'calls' && calls.length === 0 && tools.length > 0)
    throw malformedFault(
      `finish_reason "${draft.finish}" came without a call (text: ${truncate(text.trim(), 300)})`,
      'call',
    );
  const names = new Set(tools.map(({ name }) => name));
  const named = calls.map((call) => ({ ...call, name: offeredToolName(call.name, names) }));
  return {
    text,
    calls: finishCalls(named, messages),
    usage: measureUsage(draft, { messages, tools }, prices),
    model: draft.model || model,
    ...(calls.length > 0 && draft.providerFields && { provider_fields: draft.providerFields }),
    // Truncated arguments are not JSON, and the tool reports that to the model.
    ...(finish === 'length' && calls.length === 0 && { truncated: true }),
    ...(finish === 'unfinished' && { unfinished: draft.finish }),
  };
}

function withTextCalls(text: string, { messages, tools }: Pick<AskedRequest, 'messages' | 'tools'>) {
  const read = readTextCalls(text, tools, messages);
  if (read.is === 'unclear')
    throw malformedFault(
      `a tool call came as text (${truncate(read.what, 80)}); check the tool call parser of the endpoint`,
      'call',
    );
  const calls = read.is === 'calls' ? read.calls.map((call) => ({ id: '', ...call })) : [];
  return { text: read.is === 'calls' ? read.text : text, calls };
}
