import { join } from 'node:path';
import {
  type AgentContext,
  type CreateElicitationResponse,
  methods,
  type PermissionOption,
  type RequestPermissionRequest,
} from '@agentclientprotocol/sdk';
import { propertyOf } from '../../base/collections.ts';
import { escapeInvisible } from '../../base/strings.ts';
import { approvalMessage } from '../../client/actions/messaging.ts';
import type { ApprovalRequest, Client } from '../../client/index.ts';
import { NotFound } from '../../client/sessions/client-errors.ts';
import type { UserQuestion } from '../../protocol/session/reply.ts';
import type { ApprovalDecision } from '../../protocol/settings/permissions.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import type { SessionState } from './session-updates.ts';
import { describeCall } from './tool-calls.ts';

/** Requests to the person in the editor. The first answer counts, whether from here, a file or another chat. */
export type PersonRequests = {
  /** Sends new requests and withdraws those that are settled. `children`: calls of child sessions. */
  update(session: SessionState, children: readonly ApprovalRequest[]): void;
  /** Whether a request is open here. */
  isOpen(): boolean;
  /** Withdraws all requests. */
  withdrawAll(): void;
};

export type RequestContext = {
  client: Client;
  editor: AgentContext;
  sessionId: string;
  folder: string;
  /** The editor can show a form for a question. */
  showsForms: boolean;
  /** Called if the person dismissed a request, or if the editor could not show it. */
  onUnanswered: () => void;
  onError: (error: unknown) => void;
};

/** `key` identifies the question or call for good, so that an answer cannot count for another one. */
type PersonRequest = { key: string; ask(signal: AbortSignal): Promise<(() => Promise<void>) | null> };

export function openPersonRequests(context: RequestContext): PersonRequests {
  const open = new Map<string, { isOver: boolean; withdrawn: AbortController }>();

  const ask = async (request: PersonRequest): Promise<void> => {
    const entry = { isOver: false, withdrawn: new AbortController() };
    open.set(request.key, entry);
    // If the editor does not know the method, or is gone, the request can be answered elsewhere.
    const answer = await request.ask(entry.withdrawn.signal).catch(() => null);
    if (open.get(request.key) !== entry || entry.isOver) return;
    if (answer) return answer();
    entry.isOver = true;
    context.onUnanswered();
  };

  return {
    update(session, children) {
      const wanted = requestsFor(context, session, children);
      for (const [key, { withdrawn }] of open) {
        if (wanted.some((one) => one.key === key)) continue;
        open.delete(key);
        withdrawn.abort();
      }
      for (const request of wanted) if (!open.has(request.key)) ask(request).catch(context.onError);
    },
    isOpen: () => [...open.values()].some(({ isOver }) => !isOver),
    withdrawAll() {
      for (const entry of open.values()) {
        entry.isOver = true;
        entry.withdrawn.abort();
      }
    },
  };
}

/** Everything that can be answered now. A call can be answered once its run has ended to wait for it. */
function requestsFor(
  context: RequestContext,
  { run, runEnd, approvals: { open }, question }: SessionState,
  children: readonly ApprovalRequest[],
): PersonRequest[] {
  const isIdle = run === null;
  const own = isIdle && open ? [{ ...open, session: context.sessionId, tool: open.name }] : [];
  return [
    ...own.map((one) => permissionRequest(context, one, one)),
    ...children.map((one) => permissionRequest(context, one)),
    ...(isIdle && question && runEnd?.status === 'waiting' && context.showsForms
      ? [questionRequest(context, question.call, question)]
      : []),
  ];
}

type AskedCall = Omit<ApprovalRequest, 'problem'>;

/** `call`: the call itself, if it belongs to the session that the editor has open. */
function permissionRequest(
  { client, editor, sessionId, folder }: RequestContext,
  { session, id, hash, tool, display, why, always, expires_at }: AskedCall,
  call?: { call: string; name: string; args: string },
): PersonRequest {
  const key = `approval ${session} ${id} ${hash}`;
  const shown = call
    ? describeCall(call, join(folder, 'work'))
    : {
        ...describeCall({ call: key, name: tool, args: '{}' }, ''),
        title: `${readableName(session)}: ${display}`,
        rawInput: display,
      };
  const words = escapeInvisible(`${why}\n\n${display}`);
  const params: RequestPermissionRequest = {
    sessionId,
    toolCall: {
      ...{ ...shown, title: escapeInvisible(shown.title) },
      content: [...(shown.content ?? []), { type: 'content', content: { type: 'text', text: words } }],
    },
    options: permissionOptions(always),
    _meta: { 'agentd/approval': { session, id, hash, why, always, expires_at } },
  };
  return {
    key,
    async ask(signal) {
      const { outcome } = await editor.request(methods.client.session.requestPermission, params, untilAborted(signal));
      if (outcome.outcome !== 'selected') return null;
      const decision = DECISIONS.find((one) => one === outcome.optionId) ?? 'deny';
      return async () => {
        try {
          const asked = await client.approvalRequest(session, id);
          await client.send(session, approvalMessage(asked, hash, decision), { mustExist: true });
        } catch (error) {
          // It was just decided elsewhere, or its session is gone.
          if (!(error instanceof NotFound)) throw error;
        }
      };
    },
  };
}

const DECISIONS: readonly ApprovalDecision[] = ['allow', 'always'];

const permissionOptions = (always: string | null): PermissionOption[] => [
  { optionId: 'allow', name: 'Allow once', kind: 'allow_once' },
  ...(always === null ? [] : [{ optionId: 'always', name: `Always allow ${always}`, kind: 'allow_always' as const }]),
  { optionId: 'deny', name: 'Deny', kind: 'reject_once' },
];

/** On abort, the request is withdrawn and its answer no longer awaited. */
const untilAborted = (signal: AbortSignal) => ({ cancellationSignal: signal, stopWaitingOnCancel: true });

function questionRequest(
  { client, editor, sessionId }: RequestContext,
  call: string,
  { text, choices }: UserQuestion,
): PersonRequest {
  const words = { type: 'string' as const, title: choices.length > 0 ? 'Or in your own words' : 'Answer' };
  const choice = { type: 'string' as const, title: 'Answer', enum: [...choices] };
  const schema = {
    type: 'object' as const,
    properties: choices.length > 0 ? { choice, words } : { words },
    ...(choices.length === 0 && { required: ['words'] }),
  };
  return {
    key: `question ${call}`,
    async ask(signal) {
      const form = { mode: 'form', sessionId, message: text, requestedSchema: schema } as const;
      const answer = wordsOf(await editor.request(methods.client.elicitation.create, form, untilAborted(signal)));
      if (answer === undefined) return null;
      return async () => void (await client.send(sessionId, { text: answer }, { mustExist: true }));
    },
  };
}

/** A person's answer in a form: their own text if there is one, else their choice. */
function wordsOf(response: CreateElicitationResponse): string | undefined {
  if (response.action !== 'accept') return undefined;
  const content = propertyOf(response, 'content');
  const given = ['words', 'choice'].map((key) => propertyOf(content, key));
  return given.find((one): one is string => typeof one === 'string' && one.trim() !== '')?.trim();
}
