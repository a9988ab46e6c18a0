import { oneLine, truncate } from '../../base/strings.ts';
import { isDaemonBlock, parseUserMessage } from '../../protocol/session/prompt-tags.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import { countCompletedSteps } from '../plan/step-graph.ts';
import type { ChatMessage } from '../session/session-messages.ts';
import { activePlan, contextWindowOf, sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { splitSentences } from '../text/prose.ts';
import { MODEL_WORDING } from './model-wording.ts';

/** Longest line of a request or an answer, in code points. */
const MAX_REQUEST_LINE = 400;
const MAX_ANSWER_LINE = 300;
/** A longer condition is a task of its own. */
const MAX_CONDITION = 300;
/** Characters of the whole summary; and per token of a small window, about a tenth of it. */
const MAX_SUMMARY_CHARS = 12_000;
const CHARS_PER_TOKEN = 0.4;

/** Words about how something is to be done, rather than what: kept as typed. */
const CONDITION_WORDS =
  /\b(?:must|never|always|only|don['’]t|do not|at most|at least|no more than|no less than|without|limits?|budget|deadline|maximum|minimum|except|unless|make sure)\b|不要|不能|不得|不许|必须|必須|务必|只能|只要|最多|至少|别|禁止|除非|确保/i;

/**
 * A summary of older turns, by rules alone: people's requests, shortened, but with every condition as they typed it;
 * the answers, shortened. Goal, finished steps and the plan are in each request anyway; the summary has the notes on
 * the plan's steps and the other plans. An earlier summary is carried over.
 */
export function summarizeTurns(session: Session, old: readonly ChatMessage[], rules: Rules): string {
  const words = MODEL_WORDING[sessionLanguage(session, rules)];
  const most = Math.min(MAX_SUMMARY_CHARS, Math.floor(contextWindowOf(session, rules) * CHARS_PER_TOKEN));
  const all = old.flatMap(summaryLines);
  const lines = fitLines(all, most);
  const outputs = old.filter((message) => message.role === 'tool' && message.by === undefined).length;
  const gone = all.length - lines.length + leftOutBefore(old, words);
  const notice = gone + outputs > 0 ? [words.leftOut(gone, outputs)] : [];
  return [words.earlier, ...notice, ...lines, ...standingFacts(session)].join('\n');
}

type SummaryLine = { worth: number; text: string };

const PERSON_PREFIX = '- person: ';
const MODEL_PREFIX = '- you: ';
/** Senders who may not give orders. */
const OTHER_PREFIX = '- other: ';

function summaryLines(message: ChatMessage): SummaryLine[] {
  if (message.role === 'user')
    return isDaemonBlock(message.content)
      ? message.content.split('\n').flatMap(earlierSummaryLines)
      : [requestLine(message.content)];
  if (message.role === 'tool' && message.by === 'person') return [requestLine(message.content)];
  if (message.role !== 'assistant' || !message.content) return [];
  // What was said between calls goes first.
  const worth = message.tool_calls ? -1 : 0;
  return [{ worth, text: MODEL_PREFIX + truncate(oneLine(message.content), MAX_ANSWER_LINE) }];
}

/** How many lines the earlier summaries among these messages had left out. */
function leftOutBefore(old: readonly ChatMessage[], words: typeof MODEL_WORDING.en): number {
  const [before = '', after = ''] = words.leftOut(0, 0).split('0');
  return old
    .filter((message) => message.role === 'user' && isDaemonBlock(message.content))
    .flatMap((message) => (message.content ?? '').split('\n'))
    .filter((line) => line.startsWith(before) && line.includes(after))
    .reduce((sum, line) => sum + Number(/\d+/.exec(line)?.[0] ?? 0), 0);
}

/** A line of an earlier summary. */
function earlierSummaryLines(text: string): SummaryLine[] {
  if (text.startsWith(MODEL_PREFIX) || text.startsWith(OTHER_PREFIX)) return [{ worth: 0, text }];
  return text.startsWith(PERSON_PREFIX) ? [{ worth: CONDITION_WORDS.test(text) ? 2 : 1, text }] : [];
}

/** In the daemon's note on a message; only the name of a template may come before it. */
const SENDER_NOTE = /^(?:template [^;]*; )?(from (?:"(?:[^"\\]|\\.)*"|[^;,]*))/;

function requestLine(message: string): SummaryLine {
  const { note, text: content, isData } = parseUserMessage(message);
  const sender = SENDER_NOTE.exec(note)?.[1] ?? '';
  if (isData) return { worth: 0, text: `${OTHER_PREFIX}(${sender}) ${truncate(oneLine(content), MAX_REQUEST_LINE)}` };
  const start = truncate(oneLine(content), MAX_REQUEST_LINE);
  const conditions = content
    .split('\n')
    .flatMap(splitSentences)
    .filter((sentence) => CONDITION_WORDS.test(sentence) && sentence.length <= MAX_CONDITION)
    .map(oneLine)
    .filter((sentence) => !start.includes(sentence));
  const text = [
    PERSON_PREFIX + (sender && `(${sender}) `) + start,
    ...conditions.map((sentence) => `“${sentence}”`),
  ].join(' ');
  return { worth: CONDITION_WORDS.test(text) ? 2 : 1, text };
}

/**
 * As many lines as fit: the oldest answers are dropped first, then the oldest requests, those with a condition last.
 */
function fitLines(lines: SummaryLine[], most: number): string[] {
  let size = lines.reduce((sum, line) => sum + line.text.length + 1, 0);
  const gone = new Set<SummaryLine>();
  for (const worth of [-1, 0, 1, 2])
    for (const line of lines) {
      if (size <= most) break;
      if (line.worth !== worth) continue;
      gone.add(line);
      size -= line.text.length + 1;
    }
  return lines.filter((line) => !gone.has(line)).map((line) => line.text);
}

/** What people wrote down and no block of the daemon repeats. Rebuilt each time, so that it is up to date. */
function standingFacts(session: Session): string[] {
  const notes = (activePlan(session)?.steps ?? []).flatMap((step) =>
    step.notes && (step.status === 'pending' || step.status === 'running')
      ? [`* ${step.id}, notes: ${truncate(oneLine(step.notes), MAX_REQUEST_LINE)}`]
      : [],
  );
  const named = session.limitsByPerson ?? {};
  const limits = Object.keys(named).length > 0 ? [`* limits: ${JSON.stringify(named)}`] : [];
  const plans = Object.values(session.shelvedPlans).map(
    (plan) =>
      `* ${plan.id}, paused: ${truncate(oneLine(plan.goal), 200)} (${countCompletedSteps(plan)}/${plan.steps.length})`,
  );
  return [...notes, ...limits, ...plans.slice(-5)];
}
