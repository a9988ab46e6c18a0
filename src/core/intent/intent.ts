import { type Act, type Amount, type ClauseAct, readClause } from './acts.ts';
import { clausesOf, withoutQuotes } from './clauses.ts';
import { foldWord, type IntentLanguage, lexiconOf } from './lexicons.ts';

type IntentKind = 'continue' | 'stop' | 'pause' | 'undo' | 'append' | 'correction' | 'command' | 'task';

export interface Intent {
  readonly kind: IntentKind;
  /** `unclear`: it may mean one of the orders, and is not taken for one. */
  readonly certainty: 'clear' | 'unclear';
  /** What a task is about: a question, nothing (thanks, "ok"), work, or only that it is new ("a new task"). */
  readonly about?: 'question' | 'nothing' | 'work' | 'new';
  /** It brings back the plan that was shelved. */
  readonly isBack?: true;
  /**
   * The text beside the order, as typed: an instruction to continue with, why it is to stop, or a command without its
   * slash.
   */
  readonly rest?: string;
  /** The amount that a "continue" grants. */
  readonly amount?: Amount;
}

export type IntentContext = {
  /** The status of the session's plan: "continue" counts only if that plan has stopped unfinished. */
  readonly planStatus?: string | null | undefined;
  /** We have just said `say "continue"`: a short word such as "yes", "go" or "more" answers it. */
  readonly isAsked?: boolean;
  /** A plan is shelved: "back" means it, and "continue" if nothing else can go on. */
  readonly isShelved?: boolean;
};

/** Plan statuses that the word alone resumes. */
const RESUMABLE_STATUSES: readonly string[] = ['paused', 'waiting', 'failed', 'cancelled'];
/** A list of steps, or commands in backticks, is work, whatever words are in it: "1. Wait: `sleep 5`". */
const LISTS_WORK = /`[^`\n]+`|^\s*\d+[.)]\s[^\n]*\n\s*\d+[.)]\s/mu;
/** Longer messages are work, whatever words are in them. */
const LONGEST_ORDER = 400;
/** Up to so many words a message is looked at in every language of its script, for its misspellings. */
const FEW_WORDS = 12;
const LATIN: readonly IntentLanguage[] = ['en', 'es', 'pt', 'fr', 'de'];

/**
 * What a plain message means, from its words alone: an order is composed of clauses, each of which is an order only as
 * a whole. Negations, questions and mentions are tasks. Pure and total.
 */
export function classifyIntent(text: string, context: IntentContext = {}): Intent {
  const typed = text.trim();
  if (typed.startsWith('/')) return { kind: 'command', certainty: 'clear', rest: typed.slice(1) };
  const normalized = typed.normalize('NFC');
  const own = withoutQuotes(normalized);
  if (own.trim().length > LONGEST_ORDER || LISTS_WORK.test(normalized))
    return { kind: 'task', certainty: 'clear', about: 'work' };
  const clauses = clausesOf(own);
  const readings = languagesOf(own).map((language) => clauses.map((clause) => readClause(clause, language)));
  const fewest = Math.min(...readings.map(unknownWords));
  const bestOf = (mostUnknown: number): Intent =>
    readings
      .filter((read) => unknownWords(read) <= mostUnknown)
      .map((read) => interpret(read, normalized, context))
      .reduce((best, next) => (rank(next) > rank(best) ? next : best));
  const best = bestOf(fewest);
  return rank(best) > 0 ? best : bestOf(fewest + 1);
}

const unknownWords = (read: readonly ClauseAct[]): number =>
  read.reduce((sum, { tags }) => sum + (tags.match(/x/g)?.length ?? 0), 0);

/** Of the languages a message can be in, the one that makes most of it. */
function rank({ kind, certainty, about }: Intent): number {
  if (kind === 'task') return certainty === 'unclear' ? 2 : about === 'work' ? 0 : 1;
  return kind === 'append' || kind === 'correction' ? 3 : 4;
}

function languagesOf(text: string): readonly IntentLanguage[] {
  if (/\p{Script=Hangul}/u.test(text)) return ['ko'];
  if (/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(text)) return ['ja'];
  if (/\p{Script=Han}/u.test(text)) return ['zh', 'ja'];
  if (/\p{Script=Cyrillic}/u.test(text)) return ['ru'];
  const words = foldWord(text).split(/[^\p{L}\p{N}]+/u);
  if (words.length <= FEW_WORDS) return LATIN;
  return LATIN.filter((language) => language === 'en' || words.some((word) => lexiconOf(language).openers.has(word)));
}

const HALTS: ReadonlySet<Act> = new Set<Act>(['stop', 'pause', 'wait', 'dontGo']);
const GOES: ReadonlySet<Act> = new Set<Act>(['go', 'grant']);
const TURNS: ReadonlySet<Act> = new Set<Act>([...HALTS, ...GOES, 'dontStop']);
const ANSWERS: ReadonlySet<Act> = new Set<Act>(['yes', 'weakGo']);

function interpret(read: readonly ClauseAct[], text: string, context: IntentContext): Intent {
  const acts = read.map((one, at) =>
    isReported(read, at) || isEndOfGrant(read, at) ? { ...one, act: 'say' as const } : one,
  );
  const isResumable = RESUMABLE_STATUSES.includes(context.planStatus ?? '');
  if (context.isShelved && acts.some(({ act }) => act === 'back') && acts.every(({ act }) => CALLS_BACK.has(act)))
    return { kind: 'continue', certainty: 'clear', isBack: true };
  const turn = acts.findLast(({ act }) => TURNS.has(act));
  if (isResumable && turn && GOES.has(turn.act)) return resuming(acts, text);
  if (isResumable && context.isAsked && isShortAnswer(acts)) return { kind: 'continue', certainty: 'clear' };
  const undo = acts.find(({ act }) => act === 'undo');
  if (undo && !acts.some(({ act }) => act === 'question')) return withRest('undo', acts, undo, text);
  if (turn && HALTS.has(turn.act)) return halting(acts, text);
  if (turn && GOES.has(turn.act) && acts.some(({ act }) => HALTS.has(act)))
    return { kind: 'correction', certainty: 'unclear' };
  return working(acts, isResumable);
}

const CALLS_BACK: ReadonlySet<Act> = new Set<Act>(['back', 'filler', 'yes', 'no', 'go']);

/** After "he said" or a label the words are somebody else's. */
function isReported(read: readonly ClauseAct[], at: number): boolean {
  const before = read[at - 1];
  if (!before || !TURNS.has(read[at]?.act ?? 'say')) return false;
  if (/h[ofj]*$/.test(before.tags)) return true;
  return before.clause.isLabel && (before.act === 'say' || before.act === 'order');
}

/** "15 more rounds, then stop": where it ends. */
const isEndOfGrant = (read: readonly ClauseAct[], at: number): boolean =>
  read[at - 1]?.act === 'grant' && read[at]?.act === 'stop' && /^[lj]/.test(read[at]?.tags ?? '');

const isShortAnswer = (acts: readonly ClauseAct[]): boolean =>
  acts.some(({ act }) => ANSWERS.has(act)) &&
  acts.every(({ act }) => ANSWERS.has(act) || act === 'filler' || act === 'dontStop');

function resuming(acts: readonly ClauseAct[], text: string): Intent {
  const go = acts.find(({ act }) => GOES.has(act)) as ClauseAct;
  const last = acts.at(-1) as ClauseAct;
  if (last.act === 'question' && last !== go) return { kind: 'task', certainty: 'unclear', about: 'question' };
  const amount = acts.find((one) => one.amount)?.amount;
  return { ...withRest('continue', acts, go, text), ...(amount && { amount }) };
}

/** The instruction beside an order: what follows it, or the whole message if something stands before it. */
function withRest(kind: IntentKind, acts: readonly ClauseAct[], order: ClauseAct, text: string): Intent {
  const says = (one: ClauseAct) => one !== order && !['filler', 'yes', 'go', 'dontStop'].includes(one.act);
  const place = acts.indexOf(order);
  const before = acts.slice(0, place).some(says) || order.restAt === -1 || order.act === 'grant';
  const after = acts.slice(place + 1).some(says) || (order.restAt ?? -1) >= 0;
  if (!before && !after) return { kind, certainty: 'clear' };
  const from = before ? 0 : (order.restAt ?? order.clause.end);
  const rest = text
    .slice(from)
    .replace(/^[\s,，.。;；:：!！、~…—–-]+/u, '')
    .trim();
  return { kind, certainty: 'clear', rest };
}

function halting(acts: readonly ClauseAct[], text: string): Intent {
  const halts = acts.filter(({ act }) => HALTS.has(act));
  const place = acts.indexOf(halts[0] as ClauseAct);
  const after = acts.slice(place + 1).map(({ act }) => act);
  if (after.includes('rather')) return { kind: 'correction', certainty: 'clear' };
  if (after.some((act) => act === 'order' || act === 'also')) return { kind: 'correction', certainty: 'unclear' };
  const isStop = halts.some(({ act }) => act === 'stop' || act === 'dontGo');
  const isAlarm = halts.some(({ act, clause, tags }) => act === 'wait' && (clause.isExclaimed || /w.*w/.test(tags)));
  const saysWhy = acts.some(({ act, tags }) => (HALTS.has(act) ? GIVES_REASON.test(tags) : !SAYS_NOTHING.has(act)));
  return { kind: isStop || isAlarm ? 'stop' : 'pause', certainty: 'clear', ...(saysWhy && { rest: text }) };
}

const GIVES_REASON = /[swp].*[rRnT]/;
const SAYS_NOTHING: ReadonlySet<Act> = new Set<Act>(['filler', 'yes', 'no', 'weakGo']);

function working(acts: readonly ClauseAct[], isResumable: boolean): Intent {
  const kinds = acts.map(({ act }) => act);
  const isQuestion = kinds.includes('question');
  const words = acts.reduce((sum, { tags }) => sum + tags.length, 0);
  if ((!isQuestion && (kinds.includes('rather') || (kinds[0] === 'no' && kinds.includes('order')))) || isNot(acts))
    return { kind: 'correction', certainty: 'clear' };
  if (!isQuestion && kinds.find((act) => act !== 'filler') === 'also') return { kind: 'append', certainty: 'clear' };
  const said = acts.filter(({ act }) => act === 'say' || act === 'order');
  const doubtful =
    words <= 25 &&
    !isQuestion &&
    (said.some(({ tags }) => /^[fykjzl]*[swp]/.test(tags)) ||
      (isResumable &&
        (said.some(({ tags }) => /^[fykjzl]*[ceg]/.test(tags)) || kinds.some((act) => ANSWERS.has(act)))));
  const isNew = kinds.includes('newTask') || (kinds.includes('no') && said.length === 0);
  const about = isQuestion ? 'question' : said.length > 0 ? 'work' : isNew ? 'new' : 'nothing';
  return { kind: 'task', certainty: doubtful ? 'unclear' : 'clear', about };
}

/** "The end is on Friday, not on Thursday." */
const isNot = (acts: readonly ClauseAct[]): boolean =>
  acts.length > 1 && acts[0]?.act === 'say' && /^[N]x{1,3}$/.test(acts.at(-1)?.tags ?? '');
