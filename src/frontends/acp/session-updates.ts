import { join } from 'node:path';
import type { PlanEntry, SessionModeState, SessionUpdate } from '@agentclientprotocol/sdk';
import type { SessionUpdate as SeenUpdate } from '../../client/index.ts';
import { SESSION_COMMANDS, withoutDoneMarkers } from '../../client/inspect/session-details.ts';
import type { Event } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import { MODES } from '../../protocol/settings/run-options.ts';
import { trackToolCalls } from './tool-calls.ts';

/** The state of a session as `client.watch` reports it. */
export type SessionState = Extract<SeenUpdate, { is: 'state' }>['session'];

/** The message commands, for the editor's slash menu. */
export const COMMANDS_UPDATE: SessionUpdate = {
  sessionUpdate: 'available_commands_update',
  availableCommands: Object.entries(SESSION_COMMANDS).map(([name, { usage, description }]) => {
    const hint = usage.replace(/^\S+\s*/, '');
    return { name, description, ...(hint !== '' && { input: { hint } }) };
  }),
};

/** The mode choice that leaves it to the settings. */
const BY_SETTINGS = 'default';

/** The planning modes a person can choose, and the one for future tasks. */
export const sessionModes = ({ mode }: Pick<SessionState, 'mode'>): SessionModeState => ({
  currentModeId: mode ?? BY_SETTINGS,
  availableModes: [BY_SETTINGS, ...MODES].map((id) => ({ id, name: id })),
});

/** Returns the changes of plan, title and mode since the last call; the first call compares with an empty session. */
export function trackFacts(): (session: SessionState) => SessionUpdate[] {
  let sent = { steps: '[]', title: null as string | null, mode: null as string | null };
  let isFirst = true;
  return ({ plan, title, mode, at }) => {
    const before = sent;
    sent = { steps: JSON.stringify((plan?.steps ?? []).map(withoutCounters)), title, mode };
    const updates: SessionUpdate[] = [];
    if (sent.steps !== before.steps) updates.push(planUpdate(plan));
    if (title !== before.title) updates.push({ sessionUpdate: 'session_info_update', title, updatedAt: at });
    // The first mode is in the answer to the request that opened the session.
    if (mode !== before.mode && !isFirst)
      updates.push({ sessionUpdate: 'current_mode_update', currentModeId: mode ?? BY_SETTINGS });
    isFirst = false;
    return updates;
  };
}

/** A step without the counters that change with each model call. */
const withoutCounters = ({ iterations: _, ...step }: Step): object => step;

/** ACP has three states for an entry. Others are named in the entry's text. */
const ENTRY_STATUS = {
  pending: 'pending',
  running: 'in_progress',
  completed: 'completed',
  skipped: 'completed',
  failed: 'completed',
  blocked: 'pending',
} as const satisfies Record<Step['status'], PlanEntry['status']>;

/** The whole plan. `_meta["agentd/step"]` of each entry has the full step; the update has the plan's other fields. */
function planUpdate(plan: Plan | null): SessionUpdate {
  const depths = new Map<string, number>();
  const entries = (plan?.steps ?? []).map((step): PlanEntry => {
    const depth = step.parent === undefined ? 0 : (depths.get(step.parent) ?? 0) + 1;
    depths.set(step.id, depth);
    return {
      content: `${'– '.repeat(depth)}${statusNote(step)}${step.description}`,
      priority: 'medium',
      status: ENTRY_STATUS[step.status],
      _meta: { 'agentd/step': step },
    };
  });
  const { steps: _, ...rest } = plan ?? { steps: [] };
  return { sessionUpdate: 'plan', entries, _meta: { 'agentd/plan': plan && rest } };
}

function statusNote({ status, error }: Step): string {
  if (status !== 'skipped' && status !== 'failed' && status !== 'blocked') return '';
  return `(${status}${error === undefined ? '' : `: ${error}`}) `;
}

/** A conversation as updates: text is sent once, a call when it appears and then as it changes. */
export type Conversation = {
  /** Text of the model call in flight. */
  live(text: string): SessionUpdate[];
  event(event: Event): SessionUpdate[];
  /** The part of a reply that has not been shown since the last message. */
  reply(reply: Reply): SessionUpdate[];
};

/** `isOwn`: whether the editor shows the message of this id itself. */
export function followConversation(folder: string, isOwn: (id: string) => boolean): Conversation {
  const calls = trackToolCalls(join(folder, 'work'));
  /** Commands from the editor's buttons. Neither they nor their replies are shown in the conversation. */
  const orders = new Set<string>();
  let streamed = '';
  let shown = '';
  let lastAnswer = '';
  let isNewAnswer = false;

  const say = (text: string): SessionUpdate[] => {
    if (text === '') return [];
    const gap = isNewAnswer && shown.trim() !== '' ? '\n\n' : '';
    isNewAnswer = false;
    shown += text;
    return [textChunk('agent_message_chunk', gap + text)];
  };
  /** Ends a model call and returns the text not streamed yet. `text` is null if the answer was not for people. */
  const endAnswer = (text: string | null): SessionUpdate[] => {
    const already = streamed;
    streamed = '';
    if (text !== null) lastAnswer = text.trim();
    const updates = say(text === null ? '' : text.startsWith(already) ? text.slice(already.length) : text);
    isNewAnswer = true;
    return updates;
  };

  return {
    live(text) {
      streamed += text;
      return say(text);
    },
    event(event) {
      switch (event.type) {
        case 'message.received': {
          const order = /^\/?(stop|mode|approve|deny)\b/i.exec(event.command ?? '')?.[1]?.toLowerCase();
          if (order === 'stop' || order === 'mode') orders.add(event.id);
          if (order !== undefined) return [];
          shown = lastAnswer = '';
          if (isOwn(event.id)) return [];
          const command = event.command === undefined ? '' : `/${event.command.replace(/^\//, '')} `;
          return [textChunk('user_message_chunk', `${command}${inlineText(event.body)}`.trim())];
        }
        case 'model.answered':
          // An answer to a planner query is not shown; what follows from it is.
          return [
            ...endAnswer(event.planner_query ? null : withoutDoneMarkers(event.text)),
            ...calls.updatesFor(event),
          ];
        case 'model.failed':
          return [
            ...endAnswer(null),
            ...(event.retry_at ? [textChunk('agent_thought_chunk', `The model failed: ${event.error}\n`)] : []),
          ];
        default:
          return calls.updatesFor(event);
      }
    },
    reply({ text, in_reply_to: message }) {
      // A reply is often the model's text followed by the daemon's.
      const rest = text.startsWith(lastAnswer) ? text.slice(lastAnswer.length).trim() : text;
      if (orders.has(message) || withoutSpaces(shown).includes(withoutSpaces(rest))) return [];
      isNewAnswer = true;
      return say(rest);
    },
  };
}

const withoutSpaces = (text: string): string => text.replace(/\s+/g, '');

export const textChunk = (
  sessionUpdate: 'user_message_chunk' | 'agent_message_chunk' | 'agent_thought_chunk',
  text: string,
): SessionUpdate => ({ sessionUpdate, content: { type: 'text', text } });
