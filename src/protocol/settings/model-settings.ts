import { z } from 'zod';
import { EnvVariableName } from './env-variable.ts';

const ModelPrices = z.strictObject({
  input: z.number().min(0).max(1e6).describe('Price of a million prompt tokens.'),
  output: z.number().min(0).max(1e6).describe('Price of a million answer tokens.'),
  cached: z.number().min(0).max(1e6).optional().describe('Price of a million prompt tokens from the cache.'),
});

/** Keys of a request that agentd writes itself. */
const OWN_BODY_KEYS = ['messages', 'model', 'stream', 'tools'];

/** Merged into the body of each request. */
const RequestBody = z
  .record(z.string().min(1), z.json())
  .refine((body) => !OWN_BODY_KEYS.some((key) => Object.hasOwn(body, key)), {
    error: `expected keys other than ${OWN_BODY_KEYS.join(', ')}, which agentd writes (the model is \`model.name\`)`,
  });

const HeaderName = z
  .string()
  .regex(/^[!#$%&'*+.^`|~\w-]+$/, 'expected the name of a header, such as X-Title')
  .refine(
    (name) => !/^(?:content-length|transfer-encoding|connection|host|content-type)$/i.test(name),
    'expected a header that the connection does not set itself',
  );

/** One line. */
const HeaderValue = z
  .string()
  .regex(/^[\t\x20-\x7e\xa0-\xff]*$/, 'expected one line of text without control characters');

const Names = z.array(z.string().min(1)).max(10);

/** By cause. None is tried where nothing is listed. */
const Fallback = z.strictObject({
  down: Names.optional().describe('It cannot be reached, is silent, or answers 5xx.'),
  limit: Names.optional().describe('It is overloaded, or a rate limit is reached.'),
  context: Names.optional().describe('The request is longer than its window.'),
  refused: Names.optional().describe('It refuses the request.'),
});

export const ModelSettings = z.strictObject({
  base_url: z.url().optional().describe('An OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1.'),
  name: z
    .string()
    .min(1)
    .optional()
    .describe('The model; "runbook" and "scripted:<file>" are built in and need no endpoint.'),
  api_key_env: EnvVariableName.optional().describe('The environment variable that holds the key.'),
  timeout_s: z.number().positive().max(604_800).optional().describe('Longest silence of the endpoint, in seconds.'),
  context_window: z.int().min(1000).max(1e9).optional().describe("Size of the model's window in tokens."),
  prices: ModelPrices.optional(),
  max_tokens: z
    .int()
    .min(1)
    .max(1e8)
    .optional()
    .describe('The most tokens of an answer; by default the endpoint decides.'),
  api: z
    .enum(['chat', 'responses'])
    .optional()
    .describe(
      '"responses": the endpoint or model speaks the Responses API only. By default found out from its refusal.',
    ),
  api_version: z
    .string()
    .regex(/^[\w.-]+$/)
    .optional()
    .describe("Sent as the query api-version, which Azure's addresses need."),
  tool_calls: z
    .enum(['native', 'text'])
    .optional()
    .describe(
      '"text": tools are described in the system message and called in the text, for models without tool calls.',
    ),
  fallback: Fallback.optional().describe('Names in `models` that answer in its place, by what happened.'),
  body: RequestBody.optional().describe(
    'Merged into the body of each request, such as { "temperature": 0.2 }; null removes a key, such as stream_options.',
  ),
  headers: z
    .record(HeaderName, HeaderValue.nullable())
    .optional()
    .describe(
      'Sent with each request to the endpoint; null removes one. $NAME in a value is that variable, which `secrets` of agentd.json must list.',
    ),
  images: z
    .boolean()
    .optional()
    .describe(
      'Whether images are sent to the model. By default they are tried, and omitted once the endpoint refuses them.',
    ),
});
export type ModelSettings = z.infer<typeof ModelSettings>;

/** A name in `models`. */
export const ModelName = z
  .string()
  .regex(/^(?!runbook$|scripted:|default$)[\w.:/-]+$/, 'expected a name such as cheap, which is not built in');

/** Names or ids of models, by what a call is for. */
export const ModelRoles = z
  .strictObject({ planner: z.string().min(1), worker: z.string().min(1), summary: z.string().min(1) })
  .partial();
export type ModelRoles = z.infer<typeof ModelRoles>;

/** What a daemon calls itself at its endpoint; `model.headers` may name another. */
export const DAEMON_AGENT = 'agentd';
