import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import {
  type AgentContext,
  type ContentBlock,
  methods,
  type PromptResponse,
  type SessionModeState,
  type SessionUpdate,
} from '@agentclientprotocol/sdk';
import { UserError } from '../../base/user-error.ts';
import { messageFileName, withdrawFromInbox } from '../../client/actions/messaging.ts';
import type { Client, SessionUpdate as Item } from '../../client/index.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { openPersonRequests, type PersonRequests } from './person-requests.ts';
import { openPromptTurns, type PromptTurns, promptMessage } from './prompt-turns.ts';
import {
  COMMANDS_UPDATE,
  type EditorConversation,
  followConversation,
  type ReplyItem,
  type SessionState,
  sessionModes,
  textChunk,
  trackFacts,
} from './session-updates.ts';
import { withFinalCalls } from './tool-calls.ts';

/** A session that an editor has open. */
export type EditorSession = {
  /** Resolves once its state is known and, if requested, the conversation so far was sent. */
  ready: Promise<void>;
  /** Starts sending updates; called once the editor knows the session. */
  go(): void;
  prompt(prompt: readonly ContentBlock[]): Promise<PromptResponse>;
  /** Stops the run; waiting prompts end as cancelled. */
  cancel(): Promise<void>;
  modes(): SessionModeState;
  /** Sends the command that sets the mode for future tasks. */
  setMode(mode: string): Promise<void>;
  /** Ends the updates. The run continues. */
  close(): void;
};

export type SessionSetup = {
  client: Client;
  editor: AgentContext;
  /** Name of the session. */
  name: string;
  showsForms: boolean;
  /** Whether the conversation so far is sent first. */
  replay: boolean;
  /** Receives internal errors. */
  complain: (text: string) => void;
};

type OpenSession = SessionSetup & {
  folder: string;
  end: AbortController;
  turns: PromptTurns;
  requests: PersonRequests;
  conversation: EditorConversation;
  facts: (session: SessionState) => SessionUpdate[];
  send: (updates: readonly SessionUpdate[]) => Promise<void>;
  state: SessionState | undefined;
  /** Ids of messages that the editor shows itself. */
  own: Set<string>;
  /** Names of messages that were withdrawn before any daemon took them, by id. */
  withdrawn: Set<string>;
  /** Ids of the messages whose replies the editor has been told; emits each. */
  told: Set<string>;
  tells: EventEmitter;
  /** A reply that is held back, because the editor shows the same question as a form. */
  pendingReply: ReplyItem | null;
};

export function openEditorSession(setup: SessionSetup): EditorSession {
  const it = openParts(setup);
  let go: () => void = () => {};
  const isKnown = new Promise<void>((resolve) => {
    go = resolve;
  });
  const ready = new Promise<void>((resolve, reject) => {
    follow(it, resolve, isKnown).catch(reject);
  });
  ready.catch(() => undefined);
  const timer = setInterval(() => void askForChildren(it).catch(() => undefined), CHILDREN_POLL_MS);
  return {
    ready,
    go,
    prompt: (prompt) => sendPrompt(it, prompt),
    cancel: () => cancelRun(it),
    modes: () => sessionModes(it.state ?? { mode: null }),
    async setMode(mode) {
      await it.client.send(it.name, { command: `mode ${mode}` }, { mustExist: true });
    },
    close() {
      clearInterval(timer);
      it.end.abort();
      it.requests.withdrawAll();
      it.turns.markCancelled();
      it.turns.endCancelled();
    },
  };
}

function openParts(setup: SessionSetup): OpenSession {
  const { client, editor, name, showsForms, complain } = setup;
  const folder = client.folder(name);
  const own = new Set<string>();
  const it: OpenSession = {
    ...{ ...setup, folder, own, end: new AbortController(), turns: openPromptTurns(), facts: trackFacts() },
    conversation: followConversation(folder, (id) => own.has(id)),
    requests: openPersonRequests({
      ...{ client, editor, sessionId: name, folder, showsForms },
      onUnanswered: () => void leaveUnanswered(it),
      onError: (error) => complain(`The answer of the editor was not sent: ${String(error)}`),
    }),
    async send(updates) {
      for (const update of updates) await editor.notify(methods.client.session.update, { sessionId: name, update });
    },
    ...{ state: undefined, withdrawn: new Set(), told: new Set(), tells: new EventEmitter(), pendingReply: null },
  };
  return it;
}

/** The person dismissed the question: the turn is over, and the question can be answered elsewhere. */
async function leaveUnanswered(it: OpenSession): Promise<void> {
  await it.send(it.pendingReply ? it.conversation.reply(it.pendingReply) : []);
  it.pendingReply = null;
  if (it.state) it.turns.endFinished(it.state, it.requests.isOpen());
}

/** Sends updates until the session is closed or gone. Ends with an error, so that nothing waits forever. */
async function follow(it: OpenSession, onReady: () => void, isKnown: Promise<void>): Promise<never> {
  const { client, name, end, conversation, send, replay } = it;
  const before: SessionUpdate[] = [];
  try {
    for await (const item of client.watch(name, { fromStart: replay, signal: end.signal })) {
      if (it.state) await sendItem(it, item);
      else if (item.kind !== 'state' || item.event) {
        // The conversation so far, each call once. An open question is left out, since it is asked again.
        const isQuestion = item.kind === 'reply' && item.event.reply.reason === RUN_END.approval;
        before.push(...(item.kind === 'reply' && !isQuestion ? conversation.reply(item) : conversation.show(item)));
      } else {
        it.state = item.session;
        const facts = it.facts(item.session);
        // What a load sends comes before its answer; of a new session the editor does not know the name before.
        if (replay) await send([...withFinalCalls(before), ...facts, COMMANDS_UPDATE]);
        onReady();
        await isKnown;
        if (!replay) await send([COMMANDS_UPDATE, ...facts]);
        await askPerson(it, item.session);
      }
    }
    throw new UserError(
      `The session ${readableName(name)} is not open any more. It was closed, removed, archived or renamed.`,
    );
  } catch (error) {
    it.turns.fail(error);
    throw error;
  }
}

async function sendItem(it: OpenSession, item: Item): Promise<void> {
  const { turns, requests, conversation, send } = it;
  const { event, session } = item;
  it.state = session;
  if (item.kind === 'message' && it.withdrawn.has(item.event.id)) await sendStop(it);
  await send(conversation.show(item));
  if (!event) return;
  await send(it.facts(session));
  await askPerson(it, session);
  if (item.kind === 'reply') await takeReply(it, item);
  if (event.type !== 'reply.published') return;
  it.told.add(event.message);
  it.tells.emit(event.message);
  turns.endFinished(session, requests.isOpen());
}

async function takeReply(it: OpenSession, item: ReplyItem): Promise<void> {
  const { turns, requests, conversation, send } = it;
  const { message: id, reply } = item.event;
  const isError = reply.status === 'failed' || reply.status === 'rejected';
  it.pendingReply = reply.status === 'waiting' && requests.isOpen() ? item : null;
  if (!it.pendingReply && !(isError && turns.ids().includes(id))) await send(conversation.reply(item));
  turns.addReply(id, reply);
}

/** How often to look for calls of child sessions, which are not in the event log of their parent. */
const CHILDREN_POLL_MS = 500;

async function askPerson(it: OpenSession, session: SessionState): Promise<void> {
  const mayHaveChildren = Object.keys(session.children).length > 0;
  const found = mayHaveChildren ? await it.client.approvalRequests(it.name) : [];
  const children = found.filter((one) => one.session !== it.name);
  // A later event may have been sent meanwhile.
  if (it.state === session && !it.end.signal.aborted) it.requests.update(session, children);
}

async function askForChildren(it: OpenSession): Promise<void> {
  if (it.state && Object.keys(it.state.children).length > 0) await askPerson(it, it.state);
}

async function sendPrompt(it: OpenSession, prompt: readonly ContentBlock[]): Promise<PromptResponse> {
  const { client, name, turns, own } = it;
  const isServed = client.daemon() !== undefined;
  const { text, files, discard } = promptMessage(prompt);
  const id = randomUUID();
  own.add(id);
  const { response, isCancelled } = turns.begin(id);
  response.catch(() => undefined);
  try {
    await client.send(name, { id, ...(text !== '' && { text }), files }, { mustExist: true });
    // A cancel that arrived before the message was in the inbox found nothing to stop.
    if (isCancelled()) await sendStop(it);
  } catch (error) {
    turns.fail(error, id);
  } finally {
    discard();
  }
  const note = `No daemon is running for ${client.paths.root}. The message waits; start one with: agentctl start\n`;
  if (!isServed && turns.ids().includes(id)) await it.send([textChunk('agent_thought_chunk', note)]);
  return response;
}

/** How long a cancelled prompt waits for its run to stop. By then, the stop command is in the inbox in any case. */
const STOP_MS = 5000;

async function cancelRun(it: OpenSession): Promise<void> {
  const { client, folder, turns, requests, state } = it;
  const isPersonAsked = requests.isOpen();
  turns.markCancelled();
  requests.withdrawAll();
  const isServed = client.daemon() !== undefined;
  const left = turns.ids().filter((id) => {
    const isTaken = isServed || !withdrawFromInbox(folder, messageFileName(id));
    if (!isTaken) it.withdrawn.add(id);
    return isTaken;
  });
  if (state?.run || isPersonAsked || left.length > 0) {
    const stop = await sendStop(it);
    // All that is said about the turns comes before their end.
    if (isServed) await untilTold(it, [...left, stop]).catch(() => undefined);
  }
  turns.endCancelled();
}

async function untilTold({ told, tells, end }: OpenSession, messages: readonly string[]): Promise<void> {
  const signal = AbortSignal.any([end.signal, AbortSignal.timeout(STOP_MS)]);
  await Promise.all(messages.filter((id) => !told.has(id)).map((id) => once(tells, id, { signal })));
}

/** Sends the stop command; returns its id. */
async function sendStop({ client, name }: OpenSession): Promise<string> {
  return (await client.send(name, { command: 'stop' }, { mustExist: true })).id;
}
