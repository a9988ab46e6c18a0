import { mapGet } from '../../base/collections.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { MODES, type Mode } from '../../protocol/settings/run-options.ts';
import { firstJsonObject } from '../detect/answer-reading.ts';
import { parseModeCommand, textWithoutCommand } from '../messages/commands.ts';
import type { Message } from '../session/session-messages.ts';
import { activePlan } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { dag } from './dag.ts';
import { mapReduce } from './map-reduce.ts';
import type { ModePolicy } from './mode-policy.ts';
import { linear } from './mode-policy.ts';
import { planAct } from './plan-act.ts';
import { todo } from './todo.ts';
import { ruleOnWorkKind, WORK_KINDS, type WorkKind, type WorkSignals } from './work-kind.ts';

/**
 * The mode of a run that the rules could not classify: a planner query asks the model once what kind of work it is.
 * After its answer, or its first failure to give one, the run has another mode and this one no longer applies.
 */
export const auto: ModePolicy = {
  ...linear,
  startsWithWork: false,
  declaredSteps: () => [],
  nextAction({ run, messages }, rules) {
    if (!run) return null;
    const failed = run.failure?.last;
    const answer =
      run.plannerQuery?.ask === 'choose'
        ? { text: run.plannerQuery.text }
        : failed && failed.kind !== 'aborted'
          ? { error: failed.error }
          : undefined;
    if (!answer) return { ask: 'choose' };
    const task = textWithoutCommand(mapGet(messages, run.message) ?? { text: '' });
    return { record: [{ type: 'mode.chosen', ...chooseByModel(task, rules.modes, answer) }] };
  },
};

/** All modes. */
export const MODE_POLICIES: Readonly<Record<Mode, ModePolicy>> = {
  linear,
  'plan-act': planAct,
  todo,
  dag,
  'map-reduce': mapReduce,
  auto,
};

/** The mode of the active plan, else of a run that has none yet. */
export function currentPolicy(session: Session): ModePolicy {
  return MODE_POLICIES[activePlan(session)?.mode ?? session.run?.mode ?? 'linear'];
}

/** Modes for a kind of work, best first; `linear` is always included. */
function modeCandidates(choice: WorkKind, signals: WorkSignals): readonly string[] {
  switch (choice) {
    case 'simple':
      return ['linear'];
    case 'emergent':
      return ['todo'];
    case 'parts':
      return ['map-reduce', 'dag', 'plan-act'];
    case 'complex': {
      if (signals.parts.length > 0) return ['map-reduce', 'dag', 'plan-act'];
      const branches = signals.parallel.length > 0 || signals.conditions.length > 0;
      return branches ? ['dag', 'plan-act'] : ['plan-act', 'dag'];
    }
    default:
      return choice satisfies never;
  }
}

/**
 * The mode for a kind of work, out of `among`: ordered actions go to plan-act, conditions and simultaneous work to dag,
 * many items of one kind to map-reduce, open-ended work to todo. A kind whose mode is switched off counts as complex.
 */
export function modeForWork(
  choice: WorkKind,
  signals: WorkSignals,
  among: readonly string[],
): { choice: WorkKind; mode: string } {
  const mode = modeCandidates(choice, signals).find((one) => one === 'linear' || among.includes(one));
  if (mode !== undefined) return { choice, mode };
  if (choice === 'complex') return { choice, mode: 'linear' };
  return modeForWork('complex', signals, among);
}

/** A choice as it is logged. */
export type ChosenMode = { mode: Mode; mode_reason: string };

/**
 * The mode in which a message's run starts. An explicit mode applies: in the message, else in the template, else by
 * `/mode`, else in the settings. `auto` is resolved by rules if they agree; if not, the run starts as `auto`. A
 * template has its steps already: without a mode of its own it is worked through in order.
 */
export function initialMode(session: Session, message: Message, rules: Rules): { mode: Mode; mode_reason?: string } {
  const command = parseModeCommand(message);
  const own = message.options?.mode ?? (command?.is === 'run' ? command.mode : undefined);
  const { template } = message;
  if (template && 'text' in template) {
    const mode = own ?? template.mode ?? 'linear';
    return { mode: mode === 'auto' ? 'linear' : mode };
  }
  const asked = own ?? session.mode ?? rules.mode;
  if (asked !== 'auto') return { mode: asked };
  return chooseByRules(textWithoutCommand(message), rules.modes) ?? { mode: 'auto' };
}

/** The choice of the rules for a message. Null: they disagree, and the model is asked. */
function chooseByRules(text: string, among: readonly Mode[]): ChosenMode | null {
  const { choice, why, signals } = ruleOnWorkKind(text);
  return choice === null ? null : toChosenMode(choice, signals, among, why);
}

/** The choice of the model's answer. An answer that is none of the words, or no answer, counts as "complex". */
function chooseByModel(text: string, among: readonly Mode[], answer: { text: string } | { error: string }): ChosenMode {
  const { why, signals } = ruleOnWorkKind(text);
  const read = 'text' in answer ? parseWorkKind(answer.text) : undefined;
  if (read)
    return toChosenMode(read.choice, signals, among, `the model's choice, asked because of ${why}${read.reason}`);
  const fault =
    'error' in answer ? `the model gave no answer (${answer.error})` : `the model's answer names no kind of work`;
  return toChosenMode('complex', signals, among, `by default, since ${fault}; asked because of ${why}`);
}

function toChosenMode(kind: WorkKind, signals: WorkSignals, among: readonly Mode[], why: string): ChosenMode {
  const { choice, mode } = modeForWork(kind, signals, among);
  const off = choice === kind ? '' : ` (${kind}, whose mode is switched off)`;
  return { mode: MODES.find((one) => one === mode) ?? 'linear', mode_reason: `auto: ${choice}${off}: ${why}` };
}

/** One of the words, as JSON with a reason or alone on the first line. Anything else is not an answer. */
function parseWorkKind(text: string): { choice: WorkKind; reason: string } | undefined {
  const json = firstJsonObject(text);
  const given = typeof json === 'object' && json !== null ? json : {};
  const word = 'choice' in given ? String(given.choice) : (text.trim().split('\n')[0] ?? '');
  const bare = word
    .trim()
    .replace(/^[\s"'`*_.]+|[\s"'`*_.!。]+$/g, '')
    .toLowerCase();
  const choice = WORK_KINDS.find((one) => one === bare);
  const reason = 'reason' in given && typeof given.reason === 'string' ? given.reason.trim() : '';
  return choice && { choice, reason: reason === '' ? '' : `; it says: ${reason.slice(0, 200)}` };
}
