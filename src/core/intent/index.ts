import {
  APPEND,
  CLOSING,
  CONTINUE,
  CONTINUE_INTO_CJK,
  CONTINUE_INTO_LATIN,
  CORRECTION,
  LINK_LATIN,
  OPENING,
  OTHER_WORD_CJK,
  PAUSE,
  STOP,
  UNDO,
} from './phrases.ts';

type MessageKind = 'continue' | 'stop' | 'pause' | 'undo' | 'append' | 'correction' | 'command' | 'task';

export interface Intent {
  readonly kind: MessageKind;
  /** What follows the word, as it was typed: an instruction to go on with, or a command without its slash. */
  readonly rest?: string;
}

/** Resting plans that the word alone takes up again. */
const RESUMABLE: readonly string[] = ['paused', 'waiting', 'failed', 'cancelled'];

const MARK = '[\\s,，.。;；:：!！、~…—–-]';
/** A mark that separates a word from what follows: Latin ones need a space or another script behind them. */
const BREAK = '(?:\\s*[，。；：！、…\\n]|\\s*[,.;:!](?=\\s|$|[^\\x00-\\x7F])|\\s+[—–-]+\\s|\\s*—)';
const whole = (phrases: string): RegExp =>
  new RegExp(`^${MARK}*(?:(?:${OPENING})${MARK}*)*(?:${phrases})${MARK}*(?:(?:${CLOSING})${MARK}*)*$`, 'iu');
const leading = (phrases: string): RegExp =>
  new RegExp(`^${MARK}*(?:(?:${OPENING})${MARK}*)*(?:${phrases})(?:${BREAK})([\\s\\S]+)$`, 'iu');
const starting = (phrases: string): RegExp => new RegExp(`^${MARK}*(?:${phrases})`, 'iu');

const WHOLE_STOP = whole(STOP);
const WHOLE_PAUSE = whole(PAUSE);
const WHOLE_UNDO = whole(UNDO);
const LEADING_UNDO = leading(UNDO);
const WHOLE_CONTINUE = whole(CONTINUE);
const LEADING_CONTINUE = leading(CONTINUE);
const CONTINUE_CJK = new RegExp(
  `^${MARK}*(?:(?:${OPENING})${MARK}*)*(?:${CONTINUE_INTO_CJK})(?!${OTHER_WORD_CJK})(?=\\S)([\\s\\S]+)$`,
  'u',
);
const CONTINUE_LATIN = new RegExp(
  `^${MARK}*(?:(?:${OPENING})${MARK}+)*(?:${CONTINUE_INTO_LATIN})\\s+((?:${LINK_LATIN})\\s[\\s\\S]+)$`,
  'iu',
);
const STARTS_APPEND = starting(APPEND);
const STARTS_CORRECTION = starting(CORRECTION);
const ASKS = /[?？]\s*$|(?:吗|嗎|么|呢)[\s。.!！]*$/u;
/** "pausing please" with nothing but politeness behind it is no instruction. */
const ONLY_POLITE = new RegExp(`^${MARK}*(?:(?:${CLOSING})${MARK}*)*$`, 'iu');

/**
 * What a plain message means, from its words alone. Only a message that as a whole says so stops, pauses, undoes or
 * goes on; negations, questions and mentions are tasks. `planStatus` is the status of the session's plan: "continue"
 * is one only beside a plan that rests unfinished. Pure and total.
 */
export function classifyMessage(text: string, { planStatus }: { planStatus?: string | null | undefined } = {}): Intent {
  const typed = text.trim();
  if (typed.startsWith('/')) return { kind: 'command', rest: typed.slice(1) };
  const said = typed.normalize('NFC');
  const asks = ASKS.test(said);
  if (!asks && WHOLE_STOP.test(folded(said))) return { kind: 'stop' };
  if (!asks && WHOLE_PAUSE.test(folded(said))) return { kind: 'pause' };
  return undoIn(said, asks) ?? continueIn(said, asks, planStatus) ?? additionIn(said, asks);
}

function undoIn(said: string, asks: boolean): Intent | undefined {
  if (!asks && WHOLE_UNDO.test(folded(said))) return { kind: 'undo' };
  return withRest('undo', LEADING_UNDO.exec(said)?.[1]);
}

function continueIn(said: string, asks: boolean, planStatus: string | null | undefined): Intent | undefined {
  if (!planStatus || !RESUMABLE.includes(planStatus)) return undefined;
  if (WHOLE_CONTINUE.test(folded(said))) return asks ? undefined : { kind: 'continue' };
  const rest = LEADING_CONTINUE.exec(said)?.[1];
  if (rest !== undefined) return withRest('continue', rest);
  return asks ? undefined : withRest('continue', CONTINUE_CJK.exec(said)?.[1] ?? CONTINUE_LATIN.exec(said)?.[1]);
}

function additionIn(said: string, asks: boolean): Intent {
  if (STARTS_APPEND.test(said) && !asks) return { kind: 'append' };
  return { kind: STARTS_CORRECTION.test(said) ? 'correction' : 'task' };
}

function withRest(kind: MessageKind, rest: string | undefined): Intent | undefined {
  if (rest === undefined) return undefined;
  return ONLY_POLITE.test(rest) ? { kind } : { kind, rest: rest.trim() };
}

const folded = (said: string): string => said.replace(/\s+/g, ' ');
