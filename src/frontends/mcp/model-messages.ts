import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ElicitRequestFormParams,
  type InputRequiredResult,
  inputRequired,
  type RequestStateCodec,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { z } from 'zod';
import { escapeInvisible, formatUtcTime, quoteForShell } from '../../base/strings.ts';
import { UserError } from '../../base/user-error.ts';
import { approvalMessage } from '../../client/actions/messaging.ts';
import type { Client, SentMessage, SessionUpdate } from '../../client/index.ts';
import { findAnsweredCall } from '../../client/inspect/approval-requests.ts';
import { WaitedTooLong } from '../../client/sessions/client-errors.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { type CallForPerson, MAX_WAIT_S, type MessageOutcome } from './tool-schemas.ts';

/** What the tools of one MCP client work on. */
export type McpContext = {
  client: Client;
  /** Who the client's messages are from. */
  from: string | undefined;
  /** Whether the calling model may allow calls: by `answer_approval`, or in words. */
  answersApprovals: boolean;
};

/** The stamp of what the calling model sends: it may approve calls only if that is switched on. */
export const modelStamp = ({ from, answersApprovals }: McpContext) => ({
  ...(from !== undefined && { from }),
  by: 'agent' as const,
  ...(!answersApprovals && { rights: { role: 'send' as const } }),
});

type ModelMessage = { id?: string | undefined; text?: string | undefined; command?: string };

/**
 * Sends a message of the calling model. Throws UserError for what a session may take as a person's answer to a call
 * that waits, unless the model may give one.
 */
export async function sendForModel(
  context: McpContext,
  key: string,
  message: ModelMessage,
  options: { mustExist?: boolean } = {},
): Promise<SentMessage> {
  const { client, answersApprovals } = context;
  if (!answersApprovals) await refuseAnswer(client, key, message);
  const { id, ...content } = { ...message, ...modelStamp(context) };
  return id === undefined ? client.send(key, content, options) : client.sendOnce(key, { ...content, id }, options);
}

async function refuseAnswer(client: Client, key: string, message: ModelMessage): Promise<void> {
  const answered = await findAnsweredCall(client, key, message);
  if (answered === 'words')
    throw new UserError(
      'Nothing was sent: these words could allow or deny a call that waits for a person. Say in a sentence what you mean.',
    );
  if (!answered) return;
  const name = readableName(answered.session);
  throw new UserError(
    `Nothing was sent: call ${answered.id} of ${name} waits for a person, and a message would answer it. A person answers with: agentctl approve ${quoteForShell(name)} ${answered.id}, or deny.`,
  );
}

/** The calls of a session, and of those that work for it, that wait for a person. */
export async function callsForPerson(client: Client, session: string): Promise<CallForPerson[]> {
  return (await client.approvalRequests(session)).map(({ session: at, id, hash, tool, display, why, expires_at }) => ({
    ...{ session: at, number: id, hash, tool, expires_at, display, why },
  }));
}

/** What a session asks a person, as it goes to the client and comes back: the answer is for exactly this. */
const FormSubject = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('approval'), session: z.string(), number: z.int(), hash: z.string() }),
  z.strictObject({ kind: z.literal('question'), session: z.string(), text: z.string() }),
]);
export type FormSubject = z.infer<typeof FormSubject>;

type PersonForm = { subject: FormSubject; form: ElicitRequestFormParams };

/** The form for what a reply asks; null if it asks nothing, or several calls wait at once. */
async function formFor({ client }: McpContext, reply: Reply): Promise<PersonForm | null> {
  if (reply.status !== 'waiting') return null;
  const { question, session } = reply;
  if (question) {
    const { text, choices } = question;
    const form = { message: escapeInvisible(reply.text), requestedSchema: wordsForm(choices) };
    return { subject: { kind: 'question', session, text }, form };
  }
  const [asked, other] = await callsForPerson(client, session);
  if (!asked || other) return null;
  const { number, hash, tool, display, why, expires_at } = asked;
  const message = `${readableName(asked.session)} asks to run this (${why}; until ${formatUtcTime(expires_at)}):\n\n${tool} ${display}`;
  const subject = { kind: 'approval', session: asked.session, number, hash } as const;
  return { subject, form: { message, requestedSchema: DECISION_FORM } };
}

const DECISION_FORM: ElicitRequestFormParams['requestedSchema'] = {
  type: 'object',
  properties: { decision: { type: 'string', title: 'Decision', enum: ['allow', 'deny'] } },
  required: ['decision'],
};

function wordsForm(choices: readonly string[]): ElicitRequestFormParams['requestedSchema'] {
  const listed = choices.map((choice, at) => `${at + 1}: ${escapeInvisible(choice)}`).join('; ');
  const description = listed === '' ? 'In your own words.' : `A number or your own words. ${listed}`;
  return {
    type: 'object',
    properties: { answer: { type: 'string', title: 'Answer', description, minLength: 1 } },
    required: ['answer'],
  };
}

/** What a client sends back for a form. */
const FormResponse = z.object({ action: z.enum(['accept', 'decline', 'cancel']), content: z.unknown().optional() });

const Decision = z.object({ decision: z.enum(['allow', 'deny']) });
const Words = z.object({ answer: z.string().trim().min(1) });

/**
 * Sends the person's answer. Null if they gave none that fits the form. Throws UserError if what was asked is
 * over: a file, a chat or another client was faster.
 */
async function sendAnswer(
  { client, from }: McpContext,
  subject: FormSubject,
  { action, content }: z.infer<typeof FormResponse>,
): Promise<SentMessage | null> {
  if (action !== 'accept') return null;
  const { session } = subject;
  if (subject.kind === 'approval') {
    const decision = Decision.safeParse(content).data?.decision;
    if (!decision) return null;
    const asked = await client.approvalRequest(session, subject.number);
    return client.send(session, { ...approvalMessage(asked, subject.hash, decision), from }, { mustExist: true });
  }
  const text = Words.safeParse(content).data?.answer;
  if (text === undefined) return null;
  const { question } = (await client.show(session)).session;
  if (question?.text !== subject.text)
    throw new UserError(`${readableName(session)} does not ask this any more. Call get_session to see how it stands.`);
  return client.send(session, { text, from }, { mustExist: true });
}

/** Signed state that the client returns with a person's answer (since 2026-07-28): no message is sent twice. */
export const RoundState = z.object({
  sent: z.object({ session: z.string(), id: z.string(), name: z.string() }),
  subject: FormSubject,
});
export type RoundState = z.infer<typeof RoundState>;

/** A call of a tool that sends a message. */
export type SendingCall = {
  context: McpContext;
  server: Server;
  ctx: ServerContext;
  states: RequestStateCodec<RoundState>;
  /** How long the reply is waited for, in seconds. */
  seconds: number;
};

const ANSWER = 'answer';

/**
 * What became of a message: its reply within `seconds`, or that it is still running. Where the reply asks a person and
 * the client can show forms, the person is asked and the reply to their answer is waited for, all in all no longer than
 * `MAX_WAIT_S`.
 */
export async function sendAndAwait(
  call: SendingCall,
  send: () => Promise<SentMessage>,
): Promise<CallToolResult | InputRequiredResult> {
  const { context, ctx, states } = call;
  const end = performance.now() + MAX_WAIT_S * 1000;
  const left = () => Math.max(0, end - performance.now());
  const round = ctx.mcpReq.requestState<RoundState>();
  const response = FormResponse.safeParse(ctx.mcpReq.inputResponses?.[ANSWER]).data;
  const answer = round && response ? await sendAnswer(context, round.subject, response) : null;
  let sent = answer ?? round?.sent ?? (await send());
  for (;;) {
    const reply = await replyWithin(context.client, sent, Math.min(left(), call.seconds * 1000), ctx);
    // A person who gave no answer is not asked the same again.
    const mayAsk = canShowForms(call) && (!round || answer !== null);
    const asked = reply && mayAsk ? await formFor(context, reply) : null;
    if (!asked) return outcomeOf(context.client, sent, reply);
    if (ctx.mcpReq.envelope !== undefined) {
      const requestState = await states.mint({ sent, subject: asked.subject }, ctx);
      return inputRequired({ inputRequests: { [ANSWER]: inputRequired.elicit(asked.form) }, requestState });
    }
    const given = await showForm(ctx, asked.form, left());
    const next = given && (await sendAnswer(context, asked.subject, given));
    if (!next) return outcomeOf(context.client, sent, reply);
    sent = next;
  }
}

/** Null if nobody answered in time; the session keeps waiting. */
async function showForm(ctx: ServerContext, form: ElicitRequestFormParams, timeout: number) {
  try {
    return FormResponse.parse(await ctx.mcpReq.elicitInput(form, { timeout, signal: ctx.mcpReq.signal }));
  } catch {
    ctx.mcpReq.signal.throwIfAborted();
    return null;
  }
}

const Forms = z.looseObject({ form: z.looseObject({}).optional(), url: z.looseObject({}).optional() });
const Envelope = z.looseObject({ [CLIENT_CAPABILITIES_META_KEY]: z.looseObject({ elicitation: Forms.optional() }) });

/** Whether the client shows forms: declared with each request since 2026-07-28, before that once at the start. */
function canShowForms({ server, ctx }: SendingCall): boolean {
  const capabilities = Envelope.safeParse(ctx.mcpReq.envelope).data?.[CLIENT_CAPABILITIES_META_KEY];
  const { elicitation } = capabilities ?? server.getClientCapabilities() ?? {};
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
}

/** The reply; null if there was none in time. Meanwhile the client receives progress: steps and tools that begin. */
export async function replyWithin(
  client: Client,
  { session, name }: Pick<SentMessage, 'session' | 'name'>,
  timeoutMs: number,
  ctx: ServerContext,
): Promise<Reply | null> {
  const over = new AbortController();
  const progress = reportProgress(client.watch(session, { signal: over.signal }), ctx);
  try {
    return await client.waitForReply(session, name, { timeoutMs, signal: ctx.mcpReq.signal });
  } catch (error) {
    if (error instanceof WaitedTooLong) return null;
    throw error;
  } finally {
    over.abort();
    await progress;
  }
}

async function reportProgress(updates: AsyncGenerator<SessionUpdate>, ctx: ServerContext): Promise<void> {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  let progress = 0;
  try {
    for await (const update of updates) {
      const message = progressText(update);
      if (message === undefined) continue;
      progress += 1;
      await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, message } });
    }
  } catch {
    // An unreadable event log is reported by the reply or by get_session; a client that is gone receives nothing.
  }
}

/** The step that starts, or that is running when the wait starts; or the tool. */
function progressText({ kind, event, session }: SessionUpdate): string | undefined {
  if (event?.type === 'tool.started') return `runs ${event.name}`;
  if (kind === 'text' || (event && event.type !== 'step.started')) return undefined;
  const steps = session.plan?.steps ?? [];
  const place = steps.findIndex(({ status }) => status === 'running');
  return steps[place] && `step ${place + 1}/${steps.length}: ${steps[place].description}`;
}

async function outcomeOf(client: Client, sent: SentMessage, reply: Reply | null): Promise<CallToolResult> {
  const { session, id, name } = sent;
  const status = reply?.status ?? 'running';
  const approvals = status === 'waiting' || status === 'running' ? await callsForPerson(client, session) : [];
  const structuredContent: z.infer<typeof MessageOutcome> = {
    ...{ session, id, reply_name: name, status, reply, approvals },
  };
  const served = client.daemon() ? '' : ' No daemon is running; nothing happens before: agentctl start.';
  const later = `No reply yet; the work goes on.${served} To wait for it, call get_session with session ${JSON.stringify(session)} and reply ${JSON.stringify(name)}.`;
  const said = status === 'waiting' && approvals.length > 0 ? forPerson(approvals) : (reply?.text ?? later);
  const text = `${status === 'done' ? '' : `[${status}] `}${said}`;
  return { content: [{ type: 'text', text }], structuredContent };
}

/** The calls that wait, for a model, which may not answer them. */
const forPerson = (calls: readonly CallForPerson[]): string =>
  [
    'A person has to decide on this; you cannot. Tell your user, and look again with get_session later.',
    ...calls.map(
      ({ session, number, tool, display, why }) =>
        `- ${tool} ${display} (${why}): agentctl approve ${readableName(session)} ${number}, or deny`,
    ),
  ].join('\n');

/** A result for programs, and the same as text for a model. */
export const structured = (structuredContent: Record<string, unknown>): CallToolResult => ({
  content: [{ type: 'text', text: JSON.stringify(structuredContent, null, 1) }],
  structuredContent,
});

/** What `sendAndAwait` needs of a call that may wait this many seconds. */
export type MakeCall = (ctx: ServerContext, seconds: number) => Parameters<typeof sendAndAwait>[0];
