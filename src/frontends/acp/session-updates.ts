import { join } from 'node:path';
import type { PlanEntry, SessionModeState, SessionUpdate } from '@agentclientprotocol/sdk';
import type { SessionUpdate as SeenUpdate } from '../../client/index.ts';
import { SESSION_COMMANDS } from '../../client/inspect/session-details.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { MODES } from '../../protocol/settings/run-options.ts';
import { trackToolCalls } from './tool-calls.ts';

/** The state of a session as `client.watch` reports it. */
export type SessionState = SeenUpdate['session'];

/** The message commands, for the editor's slash menu. */
export const COMMANDS_UPDATE: SessionUpdate = {
  sessionUpdate: 'available_commands_update',
  availableCommands: Array.from(SESSION_COMMANDS, ([name, { usage, help }]) => {
    const hint = usage.replace(/^\S+\s*/, '');
    return { name, description: help, ...(hint !== '' && { input: { hint } }) };
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

/** A conversation as updates: a call when it appears and then as it changes. */
export type EditorConversation = {
  /** All but replies, which may be held back. */
  show(item: SeenUpdate): SessionUpdate[];
  /** What a reply adds to the answers before it. */
  reply(item: ReplyItem): SessionUpdate[];
};

export type ReplyItem = Extract<SeenUpdate, { kind: 'reply' }>;

/** `isOwn`: whether the editor shows the message of this id itself. */
export function followConversation(folder: string, isOwn: (id: string) => boolean): EditorConversation {
  const calls = trackToolCalls(join(folder, 'work'));
  /** Commands from the editor's buttons. Neither they nor their replies are shown in the conversation. */
  const orders = new Set<string>();
  /** Whether a text was sent since the last message, and whether the next one begins a paragraph. */
  let [hasText, isParagraph] = [false, false];

  const say = (text: string, begins: boolean): SessionUpdate[] => {
    if (text === '') return [];
    const gap = hasText && (begins || isParagraph) ? '\n\n' : '';
    [hasText, isParagraph] = [true, false];
    return [textChunk('agent_message_chunk', gap + text)];
  };

  return {
    show(item) {
      switch (item.kind) {
        case 'text':
          return say(item.text, item.begins);
        case 'message': {
          const { event } = item;
          const order = /^\/?(stop|mode|approve|deny)\b/i.exec(event.command ?? '')?.[1]?.toLowerCase();
          if (order === 'stop' || order === 'mode') orders.add(event.id);
          if (order !== undefined) return [];
          hasText = false;
          if (isOwn(event.id)) return [];
          const command = event.command === undefined ? '' : `/${event.command.replace(/^\//, '')} `;
          return [textChunk('user_message_chunk', `${command}${inlineText(event.body)}`.trim())];
        }
        case 'answer':
        case 'call':
        case 'call ended':
          return calls.updatesFor(item.event);
        case 'notice':
          if (item.event.type !== 'model.failed' || !item.event.retry_at) return [];
          return [textChunk('agent_thought_chunk', `The model failed: ${item.event.error}\n`)];
        // The plan, which is sent as a whole, has the steps.
        case 'step':
        case 'reply':
        case 'state':
          return [];
        default:
          return item satisfies never;
      }
    },
    reply({ event, text }) {
      if (orders.has(event.message)) return [];
      const updates = say(text, true);
      isParagraph = true;
      return updates;
    },
  };
}

export const textChunk = (
  sessionUpdate: 'user_message_chunk' | 'agent_message_chunk' | 'agent_thought_chunk',
  text: string,
): SessionUpdate => ({ sessionUpdate, content: { type: 'text', text } });
