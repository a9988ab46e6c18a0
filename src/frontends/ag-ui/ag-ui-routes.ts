import { z } from 'zod';
import { sha256 } from '../../base/sha256.ts';
import { HttpProblem, problemOf, problemResponse } from '../http/common/http-problem.ts';
import { type HttpServices, readJson } from '../http/common/operation.ts';
import { sseResponse } from '../http/common/sse-response.ts';
import type { HttpProtocol } from '../http/server/http-app.ts';
import { type ChatTurn, messageText } from '../openai/chat-identity.ts';
import { type OpenAiAnswer, sendRequest } from '../openai/openai-answer.ts';
import { sentMessages } from '../openai/session-choice.ts';
import { type RunEvent, type RunName, runEvents } from './run-events.ts';

/** Ids of messages that this server sends begin with it. */
const PREFIX = 'ag-ui-';

const Part = z.looseObject({ type: z.string(), text: z.string().optional() });
const Message = z.looseObject({
  id: z.string().min(1),
  role: z.enum(['developer', 'system', 'user', 'assistant', 'tool', 'activity', 'reasoning']),
  content: z.unknown().optional(),
});
type Message = z.infer<typeof Message>;

/** What is read of a request; the client's state and its tools change nothing here. */
const RunInput = z.looseObject({
  threadId: z.string().min(1).max(500),
  runId: z.string().min(1),
  messages: z.array(Message),
  context: z.array(z.looseObject({ description: z.string(), value: z.string() })).nullish(),
});
type RunInput = z.infer<typeof RunInput>;

/** What `agentctl serve --ag-ui` serves as `/ag-ui`: a thread is a session, and a run what happens until a reply. */
export const AG_UI_PROTOCOL: HttpProtocol = {
  below: '/ag-ui/',
  problemResponse,
  addRoutes(app, servicesOf) {
    app.post('/ag-ui', async (c) => {
      const input = readRun(await readJson(c));
      const services = servicesOf(c);
      const answer = await send(services, input);
      const signal = AbortSignal.any([c.req.raw.signal, services.closing]);
      return sseResponse((ends) => runFrames(services, { answer, run: input, signal: ends }), signal);
    });
  },
};

/** Throws a problem for what is no request, and for one whose last message is none of the user with text. */
function readRun(json: unknown): RunInput & { text: string } {
  const read = RunInput.safeParse(json);
  if (!read.success) {
    const [issue] = read.error.issues;
    throw badInput('the input of a run, as AG-UI describes it', `${issue?.path.join('.')}: ${issue?.message}`);
  }
  const last = read.data.messages.at(-1);
  const wanted = 'a last message of the user, with text and nothing else';
  if (last?.role !== 'user') throw badInput(wanted, last ? `one of the role "${last.role}"` : 'none');
  const other = z
    .array(Part)
    .safeParse(last.content)
    .data?.find(({ type }) => type !== 'text');
  if (other) throw badInput(wanted, `a part of the type ${JSON.stringify(other.type)}`);
  const text = textOf(last);
  if (text.trim() === '') throw badInput(wanted, 'one without text');
  return { ...read.data, text };
}

const badInput = (wanted: string, came: string): HttpProblem =>
  new HttpProblem(400, { wanted, came, todo: 'See docs/editors.md, or https://docs.ag-ui.com.' });

/** Text as such, or in parts; what else is in a conversation is not repeated. */
function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  const parts = z.array(Part).safeParse(content).data ?? [];
  return parts.map(({ text }) => text ?? '').join('\n');
}

/**
 * Sends the last message, with what the session has not received quoted behind it. Its id is made from that of the
 * client, so a run that is asked for again runs nothing twice and gets the same answer.
 */
async function send(services: HttpServices, { threadId, text, messages, context }: RunInput & { text: string }) {
  const { client } = services;
  const facts = (context ?? []).map(({ description, value }) => `${description}: ${value}`);
  const id = PREFIX + sha256(JSON.stringify([messages.at(-1)?.id, text, facts])).slice(0, 32);
  const sent = await sentMessages(client, threadId, PREFIX);
  const turns: ChatTurn[] = [
    ...messages.slice(0, -1).flatMap(turnOf),
    ...facts.map((text) => ({ role: 'system' as const, text })),
    { role: 'user', text },
  ];
  const isContinued = sent.some((one) => one.id !== id);
  const isKnown = sent.some((one) => one.id === id);
  return sendRequest(services, {
    ...{ session: threadId, id, isKnown, isSide: false, images: [] },
    text: messageText(turns, isContinued),
  });
}

function turnOf(message: Message): ChatTurn[] {
  const { role } = message;
  if (role === 'activity' || role === 'reasoning') return [];
  return [{ role: role === 'developer' ? 'system' : role, text: textOf(message) }];
}

type Running = { answer: OpenAiAnswer; run: RunName; signal: AbortSignal };

/** The events of a run as server-sent events. What goes wrong after it has begun is the last of them. */
async function* runFrames(
  { client, closing, complain }: HttpServices,
  { answer, run: { threadId, runId }, signal }: Running,
): AsyncGenerator<string> {
  const { sent, pieces } = answer;
  const readPlan = async () => (await client.show(sent.session)).session.plan;
  let isDelivered = false;
  try {
    const source = { message: sent.id, pieces: pieces(signal), readPlan };
    for await (const event of runEvents({ threadId, runId }, source)) yield event ? frame(event) : ': keepalive\n\n';
    isDelivered = !signal.aborted;
  } catch (error) {
    if (closing.aborted) {
      const message = 'The server ends, and the run goes on. Ask for the same run again to follow it.';
      yield frame({ type: 'RUN_ERROR', message, code: 'server_closing' });
    } else if (!signal.aborted) {
      const { message, status } = problemOf(error, complain);
      yield frame({ type: 'RUN_ERROR', message, code: String(status) });
    }
  } finally {
    void answer.finish(isDelivered);
  }
}

const frame = (event: RunEvent): string => `data: ${JSON.stringify(event)}\n\n`;
