import { z } from 'zod';
import { sha256 } from '../../base/sha256.ts';
import { firstIssue } from '../../base/user-error.ts';
import type { Client, MessageProgress } from '../../client/index.ts';
import { isApprovalAnswer } from '../../client/inspect/approval-requests.ts';
import { HttpProblem, problemOf, problemResponse } from '../http/common/http-problem.ts';
import { type HttpServices, readJson } from '../http/common/operation.ts';
import { sseResponse } from '../http/common/sse-response.ts';
import type { HttpProtocol } from '../http/server/http-app.ts';
import { type ChatTurn, messageText } from '../openai/chat-identity.ts';
import { followAnswer } from '../openai/follow-answer.ts';
import { type ChosenSession, folderNameOf, type OpenAiAnswer, sendRequest } from '../openai/openai-answer.ts';
import { sentMessages } from '../openai/session-choice.ts';
import { answerMessage, childOf, denialOf, isAskingForChildren, openInterrupts, ResumeEntry } from './interrupts.ts';
import { idleRunEvents, type RunEvent, runEvents } from './run-events.ts';

/** Prefix of the ids of messages that this server sends. */
const PREFIX = 'ag-ui-';

const Part = z.looseObject({ type: z.string(), text: z.string().optional() });
const Message = z.looseObject({
  id: z.string().min(1),
  role: z.enum(['developer', 'system', 'user', 'assistant', 'tool', 'activity', 'reasoning']),
  content: z.unknown().optional(),
  toolCalls: z.array(z.looseObject({ id: z.string() })).nullish(),
});
type Message = z.infer<typeof Message>;

/** The fields that are read from a request; the client's state and tools are ignored. */
const RunInput = z.looseObject({
  threadId: z.string().min(1).max(500),
  runId: z.string().min(1),
  messages: z.array(Message),
  context: z.array(z.looseObject({ description: z.string(), value: z.string() })).nullish(),
  resume: z.array(ResumeEntry).nullish(),
});
/** `text`: the text of the last message, if it is from the user. */
type RunInput = z.infer<typeof RunInput> & { text?: string };

/** `/ag-ui` of `agentctl serve --ag-ui`. A thread is a session; a run is everything up to the next reply. */
export const AG_UI_PROTOCOL: HttpProtocol = {
  below: '/ag-ui/',
  serves: 'POST /ag-ui',
  problemResponse,
  addRoutes(app, servicesOf) {
    app.post('/ag-ui', async (c) => {
      const input = readRun(await readJson(c));
      const services = servicesOf(c);
      const answer = await answerRequest(services, input);
      const signal = AbortSignal.any([c.req.raw.signal, services.closing]);
      return sseResponse((ends) => runFrames(services, { answer, run: input, signal: ends }), signal);
    });
  },
};

/** Throws a problem if the request is invalid, or if it has neither answers nor a final user message. */
function readRun(json: unknown): RunInput {
  const read = RunInput.safeParse(json);
  if (!read.success) throw badInput('the input of a run, as AG-UI describes it', firstIssue(read.error));
  const last = read.data.messages.at(-1);
  const wanted = 'a last message of the user, with text and nothing else';
  if (last?.role !== 'user') {
    if (read.data.resume?.length) return read.data;
    throw badInput(wanted, last ? `one of the role "${last.role}"` : 'none');
  }
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

/** The text of a message, plain or in parts; other parts are ignored. */
function textOf({ content }: Message): string {
  if (typeof content === 'string') return content;
  const parts = z.array(Part).safeParse(content).data ?? [];
  return parts.map(({ text }) => text ?? '').join('\n');
}

/** What is streamed: the answer to a message, an active run, or only a text of this server. */
type Answer = OpenAiAnswer | Pick<OpenAiAnswer, 'sent' | 'items'> | { instead: string };

/** Sends the messages of a request, and returns what is streamed in answer. */
async function answerRequest(services: HttpServices, input: RunInput): Promise<Answer> {
  const { client } = services;
  const { message, others, instead } = await chooseMessages(client, input);
  for (const { session, ...one } of others ?? []) await client.sendOnce(session, one, { mustExist: true });
  if (message) return sendRequest(services, message);
  return (await followRun(client, input.threadId)) ?? { instead: instead ?? OVER };
}

const OVER = 'This was answered elsewhere, or is asked no more.';
const UNSENT = 'Your message was not sent: a call waits for approval. Answer it first.';

type Chosen = {
  message?: ChosenSession;
  /** Further answers, which are sent before. */
  others?: Array<{ session: string; id: string } & ReturnType<typeof answerMessage>>;
  /** The answer if nothing was sent and no run is active. */
  instead?: string;
};

/**
 * The messages of a request: answers to the interrupts of the session and its child sessions, or the last user message.
 * While a call waits for approval, no other message is sent, because only an answer with the call's hash may decide it.
 * Ids are derived from the request, so a repeated request runs nothing twice and gets the same reply.
 */
async function chooseMessages(client: Client, input: RunInput): Promise<Chosen> {
  const { threadId: session, resume } = input;
  const sent = await sentMessages(client, session, PREFIX);
  const isKnown = (id: string) => sent.some((one) => one.id === id);
  const open = await openInterrupts(client, session);
  const isAsking = await isAskingForChildren(client, session);
  const said = input.text === undefined ? null : userMessage(input, input.text, sent);
  const chosen = (id: string, message: { text?: string; command?: string }): ChosenSession => ({
    ...{ session, id, isKnown: isKnown(id), isSide: false, images: [], text: '', ...message },
  });

  const entries = (resume ?? []).map((entry) => ({
    ...{ entry, child: entry.status === 'resolved' ? childOf(entry) : undefined },
    id: idOf([entry.interruptId, entry.status, entry.payload]),
  }));
  const answers = entries.filter(({ entry, id }) => open.some((one) => one.id === entry.interruptId) || isKnown(id));
  const isNew = said !== null && !isKnown(said.id);
  if (isNew && answers.some(({ entry }) => entry.status === 'resolved'))
    throw badInput('the answer to an interrupt, or a further message of the user', 'both');
  if (answers.length > 0 && !isNew) {
    // A waiting session takes the answers to its child sessions itself; the last of them has the outcome.
    const isHere = ({ child, id }: { child: string | undefined; id: string }) =>
      child === undefined || isAsking || isKnown(id);
    const own = answers.findLast(isHere);
    const others = answers.flatMap((one) => {
      if (one === own || one.child === undefined) return [];
      const to = isHere(one) ? session : one.child;
      return [{ session: to, id: one.id, ...answerMessage(one.entry, to === session ? one.child : undefined) }];
    });
    return { others, ...(own && { message: chosen(own.id, answerMessage(own.entry, own.child)) }) };
  }
  if (!said) return { instead: OVER };
  const isCallOpen = isAsking || open.some(({ reason }) => reason === 'tool_call');
  if (isNew && isCallOpen && (answers.length === 0 || isApprovalAnswer({ text: input.text })))
    return { instead: UNSENT };
  // An interrupt left unanswered, and a message in its place: the call does not run, and the model gets the words.
  const declined = answers.find(({ entry }) => entry.status === 'cancelled' && childOf(entry) === undefined);
  const denial = declined && denialOf(declined.entry);
  return { message: chosen(said.id, denial === undefined ? said : { ...said, command: denial }) };
}

/** Follows the active run from now on; undefined if there is none. */
async function followRun(client: Client, key: string): Promise<Pick<OpenAiAnswer, 'sent' | 'items'> | undefined> {
  const session = folderNameOf(client, key);
  if (session === undefined) return undefined;
  const after = await client.lastSeq(session);
  const { run } = (await client.show(session)).session;
  const message = run && (await client.sentMessages(session, run.message)).find(({ id }) => id === run.message);
  if (!message) return undefined;
  const { id, name } = message;
  const followed = { session, id, name, after, isUnderWay: true };
  return { sent: { session, id: `${id}-${after}`, name }, items: (signal) => followAnswer(client, followed, signal) };
}

/** The last user message, followed by a quote of what the session has not received. */
function userMessage({ messages, context }: RunInput, text: string, sent: readonly MessageProgress[]) {
  const facts = (context ?? []).map(({ description, value }) => `${description}: ${value}`);
  const id = idOf([messages.at(-1)?.id, text, facts]);
  const turns: ChatTurn[] = [
    ...messages.slice(0, -1).flatMap(turnOf),
    ...facts.map((text) => ({ role: 'system' as const, text })),
    { role: 'user', text },
  ];
  const isContinued = sent.some((one) => one.id !== id);
  return { id, text: messageText(turns, isContinued) };
}

const idOf = (parts: unknown): string => PREFIX + sha256(JSON.stringify(parts)).slice(0, 32);

function turnOf(message: Message): ChatTurn[] {
  const { role } = message;
  if (role === 'activity' || role === 'reasoning') return [];
  return [{ role: role === 'developer' ? 'system' : role, text: textOf(message) }];
}

type Running = { answer: Answer; run: RunInput; signal: AbortSignal };

/** The events of a run as server-sent events. An error after its start is sent as the last event. */
async function* runFrames(
  { client, closing, complain }: HttpServices,
  { answer, run: { threadId, runId, messages }, signal }: Running,
): AsyncGenerator<string> {
  const session = 'instead' in answer ? threadId : answer.sent.session;
  const run = { threadId, runId };
  const reads = {
    readPlan: async () => (await client.show(session)).session.plan,
    readInterrupts: () => openInterrupts(client, session),
  };
  let isDelivered = false;
  try {
    if ('instead' in answer) {
      for await (const event of idleRunEvents(run, answer.instead, { ...reads, prefix: runId })) yield frame(event);
      return;
    }
    const knownCalls = messages.flatMap(({ toolCalls }) => (toolCalls ?? []).map(({ id }) => id));
    const source = { ...reads, prefix: answer.sent.id, items: answer.items(signal), knownCalls };
    for await (const event of runEvents(run, source)) yield event ? frame(event) : ': keepalive\n\n';
    isDelivered = !signal.aborted;
  } catch (error) {
    if (closing.aborted) {
      const message = 'The server ends, and the run continues. Ask for the same run again to follow it.';
      yield frame({ type: 'RUN_ERROR', message, code: 'server_closing' });
    } else if (!signal.aborted) {
      const { message, status } = problemOf(error, complain);
      yield frame({ type: 'RUN_ERROR', message, code: String(status) });
    }
  } finally {
    if ('finish' in answer) void answer.finish(isDelivered);
  }
}

const frame = (event: RunEvent): string => `data: ${JSON.stringify(event)}\n\n`;
