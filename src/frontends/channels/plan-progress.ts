import { createMutex } from '../../base/async.ts';
import { truncate } from '../../base/strings.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { ChannelConversation } from '../../protocol/settings/channels.ts';
import { type ChannelContext, keyOf } from './channel.ts';

/** At most one edit in this time, in ms: services limit them. */
const EDIT_EVERY_MS = 2000;
/** Steps shown of a long plan, around those that are worked on. */
const MAX_STEPS = 30;

/** A message with the plan as a check list, edited as the plan changes. */
export type ChannelProgress = {
  /** A run begins: it gets a message of its own. */
  begin(): void;
  /** The plan may have changed. */
  touch(): void;
  stop(): void;
};

/** Nothing depends on this message, so an edit that fails is left out: the next one shows the same. */
export function startChannelProgress(
  { client, name, channel, signal }: Pick<ChannelContext, 'client' | 'name' | 'channel' | 'signal'>,
  state: ChannelConversation,
  save: () => Promise<void>,
): ChannelProgress {
  const { conversation, session } = state;
  const oneByOne = createMutex();
  let timer: NodeJS.Timeout | undefined;
  let shownAt = Number.NEGATIVE_INFINITY;
  let run = 0;
  let isOver = false;

  async function show(): Promise<void> {
    const mine = run;
    const { plan, seq } = (await client.show(session)).session;
    if (!plan || plan.steps.length === 0 || isOver) return;
    const text = truncate(describePlan(plan), channel.maxChars);
    const before = state.progress;
    // A plan that is over before it was shown once is in the reply.
    const isOpen = plan.status === 'running' || plan.status === 'waiting' || plan.status === 'paused';
    if (before?.text === text || !(before || isOpen)) return;
    const out = { text, buttons: [] };
    const key = keyOf(name, session, plan.id, `${seq}`);
    const handle = before?.handle ?? (await channel.send(conversation, { ...out, key }, signal));
    if (before) await channel.edit?.(conversation, handle, out, signal);
    // Meanwhile another run may have begun.
    if (mine !== run) return;
    state.progress = { handle, text };
    await save();
  }

  function due(): void {
    timer = undefined;
    shownAt = performance.now();
    oneByOne(show).catch(() => undefined);
  }

  return {
    begin() {
      run += 1;
      state.progress = null;
    },
    touch() {
      if (isOver || !channel.edit) return;
      timer ??= setTimeout(due, Math.max(0, shownAt + EDIT_EVERY_MS - performance.now()));
    },
    stop() {
      isOver = true;
      clearTimeout(timer);
    },
  };
}

const SIGNS = { pending: '☐', running: '▶', completed: '☑', failed: '✗', blocked: '⏸', skipped: '–' } as const;

/** A plan as text: its title or what was asked for, and a line for each step. */
function describePlan({ title, goal, steps, status }: Plan): string {
  const worked = steps.findIndex((one) => one.status === 'running' || one.status === 'pending');
  const first = Math.max(0, Math.min(worked - 3, steps.length - MAX_STEPS));
  const shown = steps.slice(first, first + MAX_STEPS);
  const done = steps.filter((one) => one.status === 'completed').length;
  const left = steps.length - shown.length;
  return [
    `${truncate(title ?? goal.split('\n')[0] ?? goal, 120)} (${done}/${steps.length}${status === 'running' ? '' : `, ${status}`})`,
    ...shown.map((step) => `${SIGNS[step.status]} ${truncate(step.description, 150)}`),
    ...(left > 0 ? [`… and ${left} more`] : []),
  ].join('\n');
}
