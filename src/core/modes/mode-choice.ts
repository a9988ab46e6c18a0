import { firstJsonObject } from '../../base/json.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { Mode } from '../../protocol/settings/run-options.ts';
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

/** What kind of work a message asks for, in the words of the question to the model, and the mode that does it. */
const MODE_OF_WORK = {
  simple: 'linear',
  complex: 'plan-act',
  branching: 'dag',
  emergent: 'todo',
  parts: 'map-reduce',
} as const satisfies Record<string, Mode>;

/**
 * The mode of a run whose mode is not chosen yet: a planner query asks the model once what kind of work it is. After
 * its answer, or its first failure to give one, the run has another mode and this one no longer applies.
 */
export const auto: ModePolicy = {
  ...linear,
  about: { use: 'letting agentd choose', workers: 'as the mode it chooses' },
  startsWithWork: false,
  declaredSteps: () => [],
  nextAction({ run }) {
    if (!run) return null;
    const failed = run.failure?.last;
    const answer =
      run.plannerQuery?.ask === 'choose'
        ? { text: run.plannerQuery.text }
        : failed && failed.kind !== 'aborted'
          ? { error: failed.error }
          : undefined;
    if (!answer) return { ask: 'choose' };
    return { record: [{ type: 'mode.chosen', ...chooseByModel(answer) }] };
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

/**
 * The mode in which a message's run starts. An explicit mode applies: in the message, else in the template, else by
 * `/mode`, else in the settings. A run in `auto` asks the model, except for a list of commands. A template has its
 * steps already: without a mode of its own it is worked through in order.
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
  if (asked !== 'auto' || !isCommandList(textWithoutCommand(message))) return { mode: asked };
  return { mode: 'linear', mode_reason: 'auto: simple: the message brings its own steps' };
}

const LIST_ITEM = /^\s*(?:\d{1,3}[.)]|[-*+])\s+(\S.*)$/;
const ENDS_WITH_COMMAND = /`[^`]+`[.;。；]?\s*$/;

/** Whether each item of its list ends with a command: such a message says all that is to be done. */
function isCommandList(text: string): boolean {
  const items = text.split('\n').flatMap((line) => LIST_ITEM.exec(line)?.[1] ?? []);
  return items.length > 0 && items.every((item) => ENDS_WITH_COMMAND.test(item));
}

/** The choice of the model's answer. An answer that is none of the words, or no answer, counts as "complex". */
function chooseByModel(answer: { text: string } | { error: string }): { mode: Mode; mode_reason: string } {
  const read = 'text' in answer ? parseWorkKind(answer.text) : undefined;
  const kind = read?.choice ?? 'complex';
  const fault =
    'error' in answer ? `the model gave no answer (${answer.error})` : "the model's answer names no kind of work";
  const why = read ? `the model's choice${read.reason}` : `by default, since ${fault}`;
  return { mode: MODE_OF_WORK[kind], mode_reason: `auto: ${kind}: ${why}` };
}

/** One of the words, as JSON with a reason or alone on the first line. Anything else is not an answer. */
function parseWorkKind(text: string): { choice: keyof typeof MODE_OF_WORK; reason: string } | undefined {
  const json = firstJsonObject(text);
  const given = typeof json === 'object' && json !== null ? json : {};
  const word = 'choice' in given ? String(given.choice) : (text.trim().split('\n')[0] ?? '');
  const bare = word
    .trim()
    .replace(/^[\s"'`*_.]+|[\s"'`*_.!。]+$/g, '')
    .toLowerCase();
  const reason = 'reason' in given && typeof given.reason === 'string' ? given.reason.trim() : '';
  return isWorkKind(bare)
    ? { choice: bare, reason: reason === '' ? '' : `; it says: ${reason.slice(0, 200)}` }
    : undefined;
}

const isWorkKind = (word: string): word is keyof typeof MODE_OF_WORK => Object.hasOwn(MODE_OF_WORK, word);
