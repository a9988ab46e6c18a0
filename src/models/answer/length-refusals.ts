/** Requests that are longer than the model's window: in the words of the endpoint, by its numbers, or by its status. */

/**
 * How endpoints say it: OpenAI, vLLM, SGLang, llama.cpp, Ollama, LM Studio, Anthropic, Bedrock, Gemini, xAI, Mistral,
 * Moonshot, MiniMax, DashScope, Groq, Copilot, Fireworks, Cerebras, TGI, z.ai.
 */
const ABOUT_LENGTH: readonly RegExp[] = [
  /context[_ -]?(?:length|window|size|limit)|maximum context|model_context_window/i,
  /(?:prompt|input|request|conversation|messages?|text|query)\b.{0,40}\b(?:is|are|was|were)? ?too (?:long|large)/i,
  /too many (?:input |prompt |total )?tokens|too large for model|token limit exceeded|exceeded (?:the )?(?:model )?token limit/i,
  /(?:maximum|max|allowed).{0,20}\b(?:prompt|input|sequence)[_ ]?(?:length|tokens?)|input length|prompt length|input_tokens.{0,20}exceed/i,
  /(?:token count|tokens?|length).{0,60}(?:exceed|longer than|greater than|larger than|more than).{0,60}(?:limit|maximum|allowed|length|\d{4,})/i,
  /reduce (?:the length of|your (?:message|prompt|input)|the (?:message|prompt|input))|(?:shorten|truncate) (?:the|your) (?:prompt|input|messages)/i,
  /inputs? tokens \+|`?max_new_tokens`? must be|range of input length|上下文|输入(?:长度|过长)|超过.{0,12}(?:最大|限制)/i,
];
/** Limits on the answer, or on how many tokens a minute, say similar things. */
const ABOUT_ANSWER = /max_(?:completion_|output_)?tokens|maximum (?:number of )?(?:output|completion) tokens/i;
const PER_MINUTE = /per (?:min|minute|hour|day)\b|\b(?:TPM|RPM)\b|rate.?limit/i;

/** Whether a refusal with this status, or this implied one, is about the length of the request. */
export function isAboutLength(words: string, status: number | undefined): boolean {
  if (status === 413) return true;
  if (status === 429) return /request too large/i.test(words);
  if (status !== undefined && ![400, 422, 500, 503].includes(status)) return false;
  if (PER_MINUTE.test(words)) return /request too large/i.test(words);
  if (ABOUT_ANSWER.test(words) && !/context|prompt|\binputs?\b/i.test(words)) return false;
  return ABOUT_LENGTH.some((about) => about.test(words));
}

const NUMBER = String.raw`\(?\[?(?:\d{1,5}, ?)?(\d[\d,_]{2,10})`;
const WINDOW: readonly RegExp[] = [
  /"n_ctx":\s*(\d{3,9})/,
  new RegExp(
    `(?:context (?:length|window|size|limit)|prompt length|input length|number of tokens allowed|token limit|maximum context)(?: (?:is|of|should be|exceeded))*(?: only)?:? ?${NUMBER}`,
    'i',
  ),
  new RegExp(`(?:limit of|limit:?|> ?|at most|no more than|up to|must be <=) ?${NUMBER}`, 'i'),
  new RegExp(String.raw`${NUMBER} (?:maximum|max)\b`, 'i'),
];
/** A smaller number is no window. */
const SMALLEST_WINDOW = 256;

/** The window in tokens that a refusal states; else, of two large numbers in it, the smaller one. */
export function statedWindow(words: string): number | undefined {
  for (const form of WINDOW) {
    const found = toNumber(form.exec(words)?.[1]);
    if (found >= SMALLEST_WINDOW) return found;
  }
  const numbers = [...words.matchAll(/(?<![\w.-])\d[\d,_]{3,10}(?![\w.-])/g)].map(([text]) => toNumber(text));
  const large = numbers.filter((one) => one >= 1000);
  return large.length >= 2 ? Math.min(...large) : undefined;
}

const toNumber = (text: string | undefined): number => Number((text ?? '').replace(/[,_]/g, '') || Number.NaN);
