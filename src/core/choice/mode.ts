import type { Rules } from '../../protocol/config.ts';
import { MODES, type Mode } from '../../protocol/message.ts';
import { modeOrder, spokenText } from '../commands.ts';
import { jsonIn } from '../planner/json.ts';
import type { Message, Session } from '../session.ts';
import { CHOICES, type Choice, ruleOn } from './rules.ts';
import type { WorkSigns } from './signs.ts';

/** Modes for a kind of work, the best first; `linear` is always there. */
function candidates(choice: Choice, signs: WorkSigns): readonly string[] {
  switch (choice) {
    case 'simple':
      return ['linear'];
    case 'emergent':
      return ['todo'];
    case 'parts':
      return ['map-reduce', 'dag', 'plan-act'];
    case 'complex': {
      if (signs.parts.length > 0) return ['map-reduce', 'dag', 'plan-act'];
      const branches = signs.together.length > 0 || signs.condition.length > 0;
      return branches ? ['dag', 'plan-act'] : ['plan-act', 'dag'];
    }
    default:
      return choice satisfies never;
  }
}

/**
 * The mode for a kind of work, among those in `among`: an order of actions goes to plan-act, conditions and things done at the same
 * time to dag, many parts of one kind to map-reduce, a way that is to be found to todo. A kind whose mode is switched off
 * counts as complex.
 */
export function modeFor(choice: Choice, signs: WorkSigns, among: readonly string[]): { choice: Choice; mode: string } {
  const mode = candidates(choice, signs).find((one) => one === 'linear' || among.includes(one));
  if (mode !== undefined) return { choice, mode };
  if (choice === 'complex') return { choice, mode: 'linear' };
  return modeFor('complex', signs, among);
}

/** A choice as it goes on record. */
export type Chosen = { mode: Mode; mode_reason: string };

/**
 * The mode a message's run begins in. One that somebody asked for stands: in the message, else in the template, else by `/mode`, else in
 * the settings. `auto` is settled by rules where they agree; where they do not, the run begins as `auto`. A template has its
 * steps already: without a mode of its own it is worked through in order.
 */
export function startMode(session: Session, message: Message, rules: Rules): { mode: Mode; mode_reason?: string } {
  const order = modeOrder(message);
  const own = message.options?.mode ?? (order?.is === 'run' ? order.mode : undefined);
  const { template } = message;
  if (template && 'text' in template) {
    const mode = own ?? template.mode ?? 'linear';
    return { mode: mode === 'auto' ? 'linear' : mode };
  }
  const asked = own ?? session.mode ?? rules.mode;
  if (asked !== 'auto') return { mode: asked };
  return chosenByRules(spokenText(message), rules.modes) ?? { mode: 'auto' };
}

/** What the rules choose for a message. Null: they disagree, and the model is asked. */
function chosenByRules(text: string, among: readonly Mode[]): Chosen | null {
  const { choice, why, signs } = ruleOn(text);
  return choice === null ? null : chosen(choice, signs, among, why);
}

/** What the model's answer chooses. An answer that is none of the words, or none at all, counts as "complex". */
export function chosenByModel(
  text: string,
  among: readonly Mode[],
  answer: { text: string } | { error: string },
): Chosen {
  const { why, signs } = ruleOn(text);
  const read = 'text' in answer ? choiceIn(answer.text) : undefined;
  if (read) return chosen(read.choice, signs, among, `the model's choice, asked because of ${why}${read.reason}`);
  const fault =
    'error' in answer ? `the model gave no answer (${answer.error})` : `the model's answer names no kind of work`;
  return chosen('complex', signs, among, `by default, since ${fault}; asked because of ${why}`);
}

function chosen(said: Choice, signs: WorkSigns, among: readonly Mode[], why: string): Chosen {
  const { choice, mode } = modeFor(said, signs, among);
  const off = choice === said ? '' : ` (${said}, whose mode is switched off)`;
  return { mode: MODES.find((one) => one === mode) ?? 'linear', mode_reason: `auto: ${choice}${off}: ${why}` };
}

/** One of the words, as JSON with a reason or as the first line by itself. Anything else is no answer. */
function choiceIn(text: string): { choice: Choice; reason: string } | undefined {
  const json = jsonIn(text);
  const given = typeof json === 'object' && json !== null ? json : {};
  const word = 'choice' in given ? String(given.choice) : (text.trim().split('\n')[0] ?? '');
  const bare = word
    .trim()
    .replace(/^[\s"'`*_.]+|[\s"'`*_.!。]+$/g, '')
    .toLowerCase();
  const choice = CHOICES.find((one) => one === bare);
  const reason = 'reason' in given && typeof given.reason === 'string' ? given.reason.trim() : '';
  return choice && { choice, reason: reason === '' ? '' : `; it says: ${reason.slice(0, 200)}` };
}
