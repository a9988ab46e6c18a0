import { z } from 'zod';
import { getOwn } from '../../base/collections.ts';
import { truncate } from '../../base/strings.ts';
import type { ToolResult } from '../../engine/ports/tool-ports.ts';
import type { ServerCall, ServerResult } from './mcp-connection.ts';

/**
 * A call may come back with questions for a person instead of a result. They are the call's result for the model, which
 * asks the person and calls again with the answers under this key. Whether they may be sent is asked like the call.
 */
const ANSWERS = 'mcp_answers';
/** How often a call is sent again because the server wants only its own state back. */
const MAX_ROUNDS = 10;
const MAX_MESSAGE_CHARS = 1000;
const MAX_SCHEMA_CHARS = 4000;

/** What a server answers that needs input first. */
const InputRequired = z.looseObject({
  resultType: z.literal('input_required'),
  inputRequests: z.record(z.string(), z.unknown()).optional(),
  requestState: z.string().optional(),
});
type InputRequired = z.infer<typeof InputRequired>;

const Form = z.looseObject({
  method: z.literal('elicitation/create'),
  params: z.looseObject({
    mode: z.literal('form').optional(),
    message: z.string(),
    requestedSchema: z.looseObject({
      properties: z.record(z.string(), z.unknown()).default({}),
      required: z.array(z.string()).optional(),
    }),
  }),
});

/** What a server has asked, by the call that led to it. In memory: after a restart it asks once more. */
export type OpenQuestions = Map<string, InputRequired>;

const callKey = (tool: string, args: Record<string, unknown>): string => JSON.stringify([tool, args]);

/** Arguments as the model wrote them, and the answers among them. */
export function splitAnswers(values: Record<string, unknown>): {
  args: Record<string, unknown>;
  answers: Record<string, unknown> | undefined;
} {
  const { [ANSWERS]: answers, ...args } = values;
  return { args, answers: answers === undefined ? undefined : Object(answers) };
}

/** Why a call with answers needs approval: a server asks a person, not the model. */
export function answersReason(tool: string, values: Record<string, unknown>, open: OpenQuestions): string | undefined {
  const { args, answers } = splitAnswers(values);
  if (answers === undefined) return undefined;
  const asked = formsOf(open.get(callKey(tool, args))).map(([, { params }]) => oneLine(params.message));
  return `it answers what the server asks you${asked.length > 0 ? `: ${asked.join(' / ')}` : ''}`;
}

const formsOf = (asked: InputRequired | undefined): Array<[string, z.infer<typeof Form>]> =>
  Object.entries(asked?.inputRequests ?? {}).flatMap(([key, request]): Array<[string, z.infer<typeof Form>]> => {
    const form = Form.safeParse(request);
    return form.success ? [[key, form.data]] : [];
  });

/**
 * Makes a call, with answers if the model gave some to what this call led to before. Returns the server's result, or
 * its questions as the call's result. Throws what `send` throws.
 */
export async function callWithAnswers(
  { tool, args: values, of }: Pick<ServerCall, 'tool'> & { args: Record<string, unknown>; of: string },
  open: OpenQuestions,
  send: (call: ServerCall) => Promise<ServerResult>,
): Promise<ServerResult | ToolResult> {
  const { args, answers } = splitAnswers(values);
  const key = callKey(tool.name, args);
  const before = open.get(key);
  open.delete(key);
  let reply = before && answers ? toReply(before, answers) : undefined;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const result = await send({ tool, args, reply });
    const asked = InputRequired.safeParse(result).data;
    if (!asked) return result;
    if (Object.keys(asked.inputRequests ?? {}).length > 0) {
      open.set(key, asked);
      return { ok: false, text: questionText(asked, of) };
    }
    reply = toReply(asked, {});
  }
  return { ok: false, text: `${of} gave no result in ${MAX_ROUNDS} rounds.` };
}

function toReply({ inputRequests = {}, requestState }: InputRequired, answers: Record<string, unknown>) {
  const inputResponses = Object.fromEntries(
    Object.keys(inputRequests).map((key) => {
      const content = getOwn(answers, key);
      const isGiven = typeof content === 'object' && content !== null;
      return [key, isGiven ? { action: 'accept', content } : { action: 'decline' }];
    }),
  );
  return { inputResponses, ...(requestState !== undefined && { requestState }) };
}

function questionText(asked: InputRequired, of: string): string {
  const forms = formsOf(asked);
  const others = Object.keys(asked.inputRequests ?? {}).filter((key) => !forms.some(([name]) => name === key));
  if (others.length > 0)
    return `${of} wants something first that agentd does not give: ${others.map((key) => JSON.stringify(key)).join(', ')}. The call did not run to its end.`;
  const lines = forms.map(([key, { params }]) => {
    const { properties, required } = params.requestedSchema;
    const fields = truncate(JSON.stringify({ properties, required }), MAX_SCHEMA_CHARS);
    return `- ${JSON.stringify(key)}: ${oneLine(params.message)} Fields: ${fields}`;
  });
  const example = `{${forms.map(([key]) => `${JSON.stringify(key)}: {…}`).join(', ')}}`;
  return [
    `${of} asks the person before it goes on:`,
    ...lines,
    `Ask the person (ask_user). Then make this call again with the same arguments and "${ANSWERS}": ${example}; null in place of the fields declines.`,
  ].join('\n');
}

const oneLine = (text: string): string => truncate(text.replace(/[\s<>]+/g, ' ').trim(), MAX_MESSAGE_CHARS);
