import type { PlanEntry, SessionModeState, SessionUpdate } from '@agentclientprotocol/sdk';
import type { SessionUpdate as SeenUpdate } from '../../client/index.ts';
import { SESSION_COMMANDS } from '../../client/inspect/session-details.ts';
import type { Plan, Step } from '../../protocol/session/plan.ts';
import { MODES } from '../../protocol/settings/run-options.ts';

/** A session as whoever watches it sees it. */
export type SessionState = Extract<SeenUpdate, { is: 'state' }>['session'];

/** The commands of a message, as an editor offers them behind a slash. */
export const COMMANDS_UPDATE: SessionUpdate = {
  sessionUpdate: 'available_commands_update',
  availableCommands: Object.entries(SESSION_COMMANDS).map(([name, { usage, description }]) => {
    const hint = usage.replace(/^\S+\s*/, '');
    return { name, description, ...(hint !== '' && { input: { hint } }) };
  }),
};

/** The choice that leaves the mode to the settings. */
const BY_SETTINGS = 'default';

/** The planning modes a person can choose, and the one that holds for the tasks to come. */
export const sessionModes = ({ mode }: Pick<SessionState, 'mode'>): SessionModeState => ({
  currentModeId: mode ?? BY_SETTINGS,
  availableModes: [BY_SETTINGS, ...MODES].map((id) => ({ id, name: id })),
});

/**
 * What changed of plan, title and mode since it was asked last; of a session that has none of them nothing is told at
 * first.
 */
export function trackFacts(): (session: SessionState) => SessionUpdate[] {
  let told = { steps: '[]', title: null as string | null, mode: null as string | null };
  let isFirst = true;
  return ({ plan, title, mode, at }) => {
    const before = told;
    told = { steps: JSON.stringify((plan?.steps ?? []).map(withoutCounters)), title, mode };
    const updates: SessionUpdate[] = [];
    if (told.steps !== before.steps) updates.push(planUpdate(plan));
    if (title !== before.title) updates.push({ sessionUpdate: 'session_info_update', title, updatedAt: at });
    // The answer to the request that opened the session has the first one.
    if (mode !== before.mode && !isFirst)
      updates.push({ sessionUpdate: 'current_mode_update', currentModeId: mode ?? BY_SETTINGS });
    isFirst = false;
    return updates;
  };
}

/** A step without what changes at each call of the model. */
const withoutCounters = ({ iterations: _, ...step }: Step): object => step;

/** ACP has three states of an entry. What it has no word for is said in the entry's text. */
const ENTRY_STATUS = {
  pending: 'pending',
  running: 'in_progress',
  completed: 'completed',
  skipped: 'completed',
  failed: 'completed',
  blocked: 'pending',
} as const satisfies Record<Step['status'], PlanEntry['status']>;

/** The whole plan; each entry has its step as it is in `_meta["agentd/step"]`, the update all else of the plan. */
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
