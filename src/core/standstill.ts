import type { Rules } from '../protocol/config.ts';
import type { Plan, Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import type { Why } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import { runningStep, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { openSteps } from './steps.ts';

/** Tries named of the item at work. */
const LAST_TRIED = 3;

/** Work that goes on and completes nothing comes to rest: which items are open, and what was tried of late. */
export function standstill(session: Session, plan: Plan, rules: Rules): Why {
  const words = SAYINGS[sessionLanguage(session, rules)];
  const items = openSteps(plan).map((step) =>
    words.stillOpen(step.description, step.attempts ?? 1, step.iterations ?? 0, triedIn(session, plan, step)),
  );
  return {
    status: 'paused',
    reason: 'stagnation',
    text: [words.standstill(session.rounds.quiet), ...items].join('\n'),
  };
}

/** The last calls in an item, and what its earlier tries failed of. */
function triedIn({ trail, turn }: Session, plan: Plan, step: Step): string {
  const calls = [
    ...trail.flatMap((trace) => trace.tools.map((name, n) => `${name} ${trace.args[n] ?? ''}`)),
    ...(turn?.calls ?? []).map((call) => `${call.name} ${call.main}`),
  ].map((call) => clip(call.replace(/\s+/g, ' ').trim(), 100));
  const own = runningStep(plan)?.id === step.id ? [...new Set(calls)].slice(-LAST_TRIED) : [];
  return [...own, ...(step.error ? [clip(step.error, 200)] : [])].join('; ');
}
