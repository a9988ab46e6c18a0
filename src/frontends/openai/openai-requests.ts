import { z } from 'zod';
import { HttpProblem, type ProblemParts, type ProblemStatus } from '../http/common/http-problem.ts';
import type { ChatTurn } from './chat-identity.ts';
import { type DataImage, IMAGE_WANTED, readDataImage } from './chat-identity.ts';

const Part = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  image_url: z.union([z.string(), z.looseObject({ url: z.string() })]).nullish(),
});
const Content = z.union([z.string(), z.array(Part)]).nullish();
type Content = z.infer<typeof Content>;

const Role = z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']);
const ROLES: Record<z.infer<typeof Role>, ChatTurn['role']> = {
  system: 'system',
  developer: 'system',
  user: 'user',
  assistant: 'assistant',
  tool: 'tool',
  function: 'tool',
};

const common = {
  model: z.string().min(1),
  stream: z.boolean().nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  user: z.string().min(1).max(200).nullish(),
  tools: z.array(z.unknown()).nullish(),
  tool_choice: z.unknown().optional(),
};

/** The keys that are read from a chat completion request; OpenAI's other keys are accepted and ignored. */
const ChatBody = z.looseObject({
  ...common,
  messages: z.array(z.looseObject({ role: Role, content: Content })).min(1),
  n: z.int().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).nullish(),
  response_format: z.looseObject({ type: z.string() }).nullish(),
});

const InputItem = z.looseObject({
  type: z.string().optional(),
  role: Role.optional(),
  content: Content,
  output: z.union([z.string(), z.array(Part)]).optional(),
});

/** The keys that are read from a response request. */
const ResponseBody = z.looseObject({
  ...common,
  input: z.union([z.string().min(1), z.array(InputItem).min(1)]),
  instructions: z.string().nullish(),
  previous_response_id: z.string().min(1).nullish(),
  conversation: z.union([z.string().min(1), z.looseObject({ id: z.string().min(1) })]).nullish(),
  background: z.boolean().nullish(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }).nullish() }).nullish(),
});

/** A request to either API, in one form. */
export type OpenAiRequest = {
  model: string;
  /** The whole conversation; the last turn is the new user message. */
  turns: ChatTurn[];
  stream: boolean;
  /** Whether the stream ends with a chunk that has the token usage. */
  usage: boolean;
  /** Return at once; the client retrieves the answer later. */
  background: boolean;
  /** Whether it offers tools of the client, as the main requests of agents do. */
  hasTools: boolean;
  previous: string | null;
  conversation: string | null;
  metadata: Record<string, string>;
  user: string | null;
};

/** Reads the body of `POST /v1/chat/completions`. Throws OpenAiProblem for what is invalid or unsupported. */
export function readChatRequest(json: unknown): OpenAiRequest {
  const body = validate(ChatBody, json);
  if ((body.n ?? 1) !== 1) throw unsupported('n', 'one answer (n: 1)', String(body.n));
  checkFormat(body.response_format?.type, 'response_format');
  return {
    ...commonParts(body),
    turns: checkTurns(body.messages.map(({ role, content }) => ({ role: ROLES[role], ...contentOf(content) }))),
    usage: body.stream_options?.include_usage ?? false,
    background: false,
    previous: null,
    conversation: null,
  };
}

/** Reads the body of `POST /v1/responses`, likewise. */
export function readResponseRequest(json: unknown): OpenAiRequest {
  const body = validate(ResponseBody, json);
  checkFormat(body.text?.format?.type, 'text.format');
  if (body.previous_response_id && body.conversation)
    throw unsupported('conversation', 'previous_response_id or conversation', 'both');
  const input = typeof body.input === 'string' ? [{ role: 'user' as const, text: body.input }] : body.input.map(turnOf);
  const instructions = body.instructions ? [{ role: 'system' as const, text: body.instructions }] : [];
  const { conversation } = body;
  return {
    ...commonParts(body),
    turns: checkTurns([...instructions, ...input.filter((turn) => turn !== undefined)]),
    usage: true,
    background: body.background ?? false,
    previous: body.previous_response_id ?? null,
    conversation: typeof conversation === 'string' ? conversation : (conversation?.id ?? null),
  };
}

function commonParts({ model, stream, metadata, user, tools, tool_choice }: z.infer<z.ZodObject<typeof common>>) {
  if (tool_choice === 'required' || (typeof tool_choice === 'object' && tool_choice !== null))
    throw unsupported('tool_choice', '"auto" or "none": agentd runs its own tools', 'a choice of one of yours');
  return {
    ...{ model, stream: stream ?? false, metadata: metadata ?? {}, user: user ?? null },
    hasTools: (tools ?? []).length > 0,
  };
}

function validate<T>(schema: z.ZodType<T>, json: unknown): T {
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const param = issue?.path.map(String).join('.') || 'body';
  const parts = { wanted: 'a request as OpenAI describes it', came: `${param}: ${issue?.message}` };
  throw new OpenAiProblem(400, { ...parts, todo: 'Correct it and send it again.' }, { param, code: 'invalid_request' });
}

/** Refuses formats such as JSON, because the daemon cannot guarantee the form of a reply. */
function checkFormat(type: string | undefined, param: string): void {
  if (type !== undefined && type !== 'text') throw unsupported(param, 'text', JSON.stringify(type));
}

const unsupported = (param: string, wanted: string, came: string): OpenAiProblem =>
  new OpenAiProblem(400, { wanted, came, todo: `Leave out ${param}.` }, { param, code: 'unsupported_value' });

/** Text and images, in the form of either API. Refusal parts are dropped; files and audio are refused. */
function contentOf(content: Content): { text: string; images?: DataImage[] } {
  if (typeof content === 'string') return { text: content };
  const images: DataImage[] = [];
  const words = (content ?? []).map(({ type, text, image_url: image }) => {
    if (/^(?:input_|output_|summary_)?text$/.test(type)) return text ?? '';
    if (type === 'refusal') return '';
    if (!/^(?:image_url|input_image)$/.test(type))
      throw unsupported('content', 'text or images', `a part of type ${JSON.stringify(type)}`);
    const read = image ? readDataImage(typeof image === 'string' ? image : image.url) : undefined;
    if (!read) throw unsupported('content', IMAGE_WANTED, 'another address, type or encoding');
    images.push(read);
    return `\`${read.name}\``;
  });
  return { text: words.join('\n'), images };
}

/** Undefined for other items: clients also send back the reasoning of earlier answers, which this server wrote. */
function turnOf({ type = 'message', role, content, output }: z.infer<typeof InputItem>): ChatTurn | undefined {
  if (type === 'message') return { role: ROLES[role ?? 'user'], ...contentOf(content) };
  if (/^(?:function|custom_tool)_call_output$/.test(type)) return { role: 'tool', ...contentOf(output) };
  return undefined;
}

/** Instructions may stand behind what the user says; they are context like those before it. */
function checkTurns(given: ChatTurn[]): ChatTurn[] {
  const end = given.findLastIndex(({ role }) => role !== 'system') + 1;
  const turns = [...given.slice(end), ...given.slice(0, end)];
  const last = turns.at(-1);
  if (last?.role === 'user' && last.text.trim() !== '') return turns;
  const came = last ? `one of the role "${last.role}"${last.text.trim() === '' ? ' without text' : ''}` : 'none';
  const parts = { wanted: 'a last message of the user, with text', came };
  throw new OpenAiProblem(
    400,
    { ...parts, todo: 'End the conversation with what the user says.' },
    { param: 'messages', code: 'invalid_request' },
  );
}

const SERVER_FAULT = 500;
const TYPES: Partial<Record<ProblemStatus, string>> = { 403: 'permission_error', 429: 'rate_limit_error' };
const CODES: Partial<Record<ProblemStatus, string>> = {
  401: 'invalid_api_key',
  404: 'not_found',
  409: 'conflict',
  413: 'request_too_large',
  429: 'rate_limit_exceeded',
};

/** An error with the `param` and `code` that OpenAI's API has for it. */
export class OpenAiProblem extends HttpProblem {
  readonly param: string | null;
  readonly code: string | null;

  constructor(status: ProblemStatus, parts: ProblemParts, { param, code }: { param?: string; code?: string } = {}) {
    super(status, parts, status === 429 ? { 'retry-after': '5' } : {});
    this.name = 'OpenAiProblem';
    this.param = param ?? null;
    this.code = code ?? null;
  }
}

/** The `error` object of OpenAI's API. */
export function openAiError(problem: HttpProblem) {
  const { status, message } = problem;
  const own = problem instanceof OpenAiProblem ? problem : { param: null, code: null };
  const type = TYPES[status] ?? (status >= SERVER_FAULT ? 'server_error' : 'invalid_request_error');
  return { message, type, param: own.param, code: own.code ?? CODES[status] ?? null };
}

export const openAiErrorResponse = (problem: HttpProblem): Response =>
  new Response(`${JSON.stringify({ error: openAiError(problem) })}\n`, {
    status: problem.status,
    headers: { ...problem.headers, 'content-type': 'application/json', 'cache-control': 'no-store' },
  });
