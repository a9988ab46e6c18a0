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
} from './intent-phrases.ts';

type IntentKind = 'continue' | 'stop' | 'pause' | 'undo' | 'append' | 'correction' | 'command' | 'task';

export interface Intent {
  readonly kind: IntentKind;
  /** The text after the word, as typed: an instruction to continue with, or a command without its slash. */
  readonly rest?: string;
}

/** Plan statuses that the word alone resumes. */
const RESUMABLE_STATUSES: readonly string[] = ['paused', 'waiting', 'failed', 'cancelled'];

const MARK = '[\\s,，.。;；:：!！、~…—–-]';
/** The punctuation that separates a word from what follows: Latin marks need a space or another script after them. */
const BREAK = '(?:\\s*[，。；：！、…\\n]|\\s*[,.;:!](?=\\s|$|[^\\x00-\\x7F])|\\s+[—–-]+\\s|\\s*—)';
const wholePattern = (phrases: string): RegExp =>
  new RegExp(`^${MARK}*(?:(?:${OPENING})${MARK}*)*(?:${phrases})${MARK}*(?:(?:${CLOSING})${MARK}*)*$`, 'iu');
const leadingPattern = (phrases: string): RegExp =>
  new RegExp(`^${MARK}*(?:(?:${OPENING})${MARK}*)*(?:${phrases})(?:${BREAK})([\\s\\S]+)$`, 'iu');
const startingPattern = (phrases: string): RegExp => new RegExp(`^${MARK}*(?:${phrases})`, 'iu');

const WHOLE_STOP = wholePattern(STOP);
const WHOLE_PAUSE = wholePattern(PAUSE);
const WHOLE_UNDO = wholePattern(UNDO);
const LEADING_UNDO = leadingPattern(UNDO);
const WHOLE_CONTINUE = wholePattern(CONTINUE);
const LEADING_CONTINUE = leadingPattern(CONTINUE);
const CONTINUE_CJK = new RegExp(
  `^${MARK}*(?:(?:${OPENING})${MARK}*)*(?:${CONTINUE_INTO_CJK})(?!${OTHER_WORD_CJK})(?=\\S)([\\s\\S]+)$`,
  'u',
);
const CONTINUE_LATIN = new RegExp(
  `^${MARK}*(?:(?:${OPENING})${MARK}+)*(?:${CONTINUE_INTO_LATIN})\\s+((?:${LINK_LATIN})\\s[\\s\\S]+)$`,
  'iu',
);
const STARTS_APPEND = startingPattern(APPEND);
const STARTS_CORRECTION = startingPattern(CORRECTION);
const QUESTION_END = /[?？]\s*$|(?:吗|嗎|么|呢)[\s。.!！]*$/u;
/** "pausing please" with only politeness after it is not an instruction. */
const ONLY_POLITE = new RegExp(`^${MARK}*(?:(?:${CLOSING})${MARK}*)*$`, 'iu');

/**
 * What a plain message means, from its words alone. Only a message that says so as a whole stops, pauses, undoes or
 * continues; negations, questions and mentions are tasks. `planStatus` is the status of the session's plan: "continue"
 * counts only if that plan has stopped unfinished. Pure and total.
 */
export function classifyIntent(text: string, { planStatus }: { planStatus?: string | null | undefined } = {}): Intent {
  const typed = text.trim();
  if (typed.startsWith('/')) return { kind: 'command', rest: typed.slice(1) };
  const normalized = typed.normalize('NFC');
  const asks = QUESTION_END.test(normalized);
  if (!asks && WHOLE_STOP.test(collapseSpaces(normalized))) return { kind: 'stop' };
  if (!asks && WHOLE_PAUSE.test(collapseSpaces(normalized))) return { kind: 'pause' };
  return findUndo(normalized, asks) ?? findContinue(normalized, asks, planStatus) ?? findAddition(normalized, asks);
}

function findUndo(text: string, asks: boolean): Intent | undefined {
  if (!asks && WHOLE_UNDO.test(collapseSpaces(text))) return { kind: 'undo' };
  return intentWithRest('undo', LEADING_UNDO.exec(text)?.[1]);
}

function findContinue(text: string, asks: boolean, planStatus: string | null | undefined): Intent | undefined {
  if (!planStatus || !RESUMABLE_STATUSES.includes(planStatus)) return undefined;
  if (WHOLE_CONTINUE.test(collapseSpaces(text))) return asks ? undefined : { kind: 'continue' };
  const rest = LEADING_CONTINUE.exec(text)?.[1];
  if (rest !== undefined) return intentWithRest('continue', rest);
  return asks ? undefined : intentWithRest('continue', CONTINUE_CJK.exec(text)?.[1] ?? CONTINUE_LATIN.exec(text)?.[1]);
}

function findAddition(text: string, asks: boolean): Intent {
  if (STARTS_APPEND.test(text) && !asks) return { kind: 'append' };
  return { kind: STARTS_CORRECTION.test(text) ? 'correction' : 'task' };
}

function intentWithRest(kind: IntentKind, rest: string | undefined): Intent | undefined {
  if (rest === undefined) return undefined;
  return ONLY_POLITE.test(rest) ? { kind } : { kind, rest: rest.trim() };
}

const collapseSpaces = (text: string): string => text.replace(/\s+/g, ' ');
