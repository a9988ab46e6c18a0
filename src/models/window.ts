import type { APIError } from 'openai';

/** How endpoints say that a request is longer than the model's window: OpenAI, vLLM, llama.cpp, Anthropic's door, LM Studio, Ollama. */
const TOO_LONG =
  /context[_ ](?:length|window|size)|maximum context|prompt is too long|exceeds? (?:the )?(?:model's |available )?context|too many (?:input |prompt )?tokens|reduce the length of/i;
const SIZE =
  /(?:maximum context length (?:is|of)(?: only)?|context (?:size|window|length)(?: of| is)?(?: only)?) ?\(?(\d{3,8})|> ?(\d{3,8}) maximum/i;

/**
 * What a refusal tells of the model's window: undefined where it is no refusal for length, else its size in tokens where it says
 * one. llama.cpp has it as a field, `n_ctx`; the others in their words.
 */
export function refusedWindow(error: APIError): { tokens: number | undefined } | undefined {
  if (![400, 413, 422, 500].includes(error.status ?? 0)) return undefined;
  const words = `${error.code ?? ''} ${error.type ?? ''} ${error.message} ${JSON.stringify(error.error ?? '')}`;
  if (!TOO_LONG.test(words)) return undefined;
  const field = /"n_ctx":\s*(\d{3,8})/.exec(words)?.[1];
  const [, one, other] = SIZE.exec(words) ?? [];
  const found = field ?? one ?? other;
  return { tokens: found === undefined ? undefined : Number(found) };
}

/** Where endpoints tell of a model's window in their list of models: vLLM, OpenRouter, Groq, LM Studio, llama.cpp. */
const FIELDS = ['loaded_context_length', 'max_model_len', 'context_length', 'context_window', 'max_context_length'];

/** The window of a model in the answer to `GET /models`, in tokens; undefined where it is not told. */
export function listedWindow(answer: unknown, model: string): number | undefined {
  const list = field(answer, 'data');
  const entry = Array.isArray(list) ? list.find((one: unknown) => field(one, 'id') === model) : undefined;
  const told = [...FIELDS.map((name) => field(entry, name)), field(field(entry, 'meta'), 'n_ctx')];
  return told.find(
    (value): value is number => typeof value === 'number' && Number.isSafeInteger(value) && value >= 256,
  );
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined;
}
