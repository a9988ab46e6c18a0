import type { Rules } from '../protocol/config.ts';
import { isDaemonBlock, partsOfMessage } from '../protocol/provenance.ts';
import { clip } from '../protocol/recorded.ts';
import type { ChatMessage } from './chat.ts';
import { completedSteps } from './completed.ts';
import { WORDING } from './prompt/wording.ts';
import { activePlan, type Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';
import { sentencesOf } from './text/sentences.ts';
import { windowOf } from './window.ts';

/** Longest line of a request or an answer, in code points. */
const REQUEST = 400;
const ANSWER = 300;
/** A condition longer than this is a task of its own. */
const CONDITION = 300;
/** Characters of the whole; and for each token of a small window, which makes about a tenth of it. */
const LONGEST = 12_000;
const PER_TOKEN = 0.4;

/** Said of how something is to be done, rather than what: kept as it was typed. */
const CONDITIONS =
  /\b(?:must|never|always|only|don['’]t|do not|at most|at least|no more than|no less than|without|limits?|budget|deadline|maximum|minimum|except|unless|make sure)\b|不要|不能|不得|不许|必须|必須|务必|只能|只要|最多|至少|别|禁止|除非|确保/i;

/**
 * What older turns came to, by rules alone: what people asked, shortened but with every condition they made as they typed it; what
 * they were answered, shortened. Goal, finished steps and the plan are told with each request anyway; here stand the notes on its
 * steps and the plans beside it. An earlier gist is carried on.
 */
export function gistOf(session: Session, old: readonly ChatMessage[], rules: Rules): string {
  const words = WORDING[sessionLanguage(session, rules)];
  const most = Math.min(LONGEST, Math.floor(windowOf(session, rules) * PER_TOKEN));
  const lines = fitted(old.flatMap(linesOf), most);
  return [words.earlier, ...lines, ...standing(session)].join('\n');
}

type Line = { worth: number; text: string };

const PERSON = '- person: ';
const YOU = '- you: ';
/** Who gives no orders. */
const OTHER = '- other: ';

function linesOf(message: ChatMessage): Line[] {
  if (message.role === 'user')
    return isDaemonBlock(message.content) ? message.content.split('\n').flatMap(known) : [asked(message.content)];
  if (message.role === 'tool' && message.by === 'person') return [asked(message.content)];
  if (message.role !== 'assistant' || message.tool_calls || !message.content) return [];
  return [{ worth: 0, text: YOU + clip(oneLine(message.content), ANSWER) }];
}

/** A line of an earlier gist. */
function known(text: string): Line[] {
  if (text.startsWith(YOU) || text.startsWith(OTHER)) return [{ worth: 0, text }];
  return text.startsWith(PERSON) ? [{ worth: CONDITIONS.test(text) ? 2 : 1, text }] : [];
}

/** In what the daemon says of a message; only the name of a template may come before it. */
const FROM = /^(?:template [^;]*; )?(from (?:"(?:[^"\\]|\\.)*"|[^;,]*))/;

function asked(message: string): Line {
  const { note, text: content, isData } = partsOfMessage(message);
  const sender = FROM.exec(note)?.[1] ?? '';
  if (isData) return { worth: 0, text: `${OTHER}(${sender}) ${clip(oneLine(content), REQUEST)}` };
  const start = clip(oneLine(content), REQUEST);
  const conditions = content
    .split('\n')
    .flatMap(sentencesOf)
    .filter((sentence) => CONDITIONS.test(sentence) && sentence.length <= CONDITION)
    .map(oneLine)
    .filter((sentence) => !start.includes(sentence));
  const text = [PERSON + (sender && `(${sender}) `) + start, ...conditions.map((sentence) => `“${sentence}”`)].join(
    ' ',
  );
  return { worth: CONDITIONS.test(text) ? 2 : 1, text };
}

/** As many lines as fit: the oldest answers go first, then the oldest requests, those with a condition last. */
function fitted(lines: Line[], most: number): string[] {
  let size = lines.reduce((sum, line) => sum + line.text.length + 1, 0);
  const gone = new Set<Line>();
  for (const worth of [0, 1, 2])
    for (const line of lines) {
      if (size <= most) break;
      if (line.worth !== worth) continue;
      gone.add(line);
      size -= line.text.length + 1;
    }
  return lines.filter((line) => !gone.has(line)).map((line) => line.text);
}

/** What people wrote down and no block of the daemon repeats. Told anew each time, so that it is what holds now. */
function standing(session: Session): string[] {
  const notes = (activePlan(session)?.steps ?? []).flatMap((step) =>
    step.notes && (step.status === 'pending' || step.status === 'running')
      ? [`* ${step.id}, notes: ${clip(oneLine(step.notes), REQUEST)}`]
      : [],
  );
  const limits = session.handLimits ? [`* limits: ${JSON.stringify(session.handLimits)}`] : [];
  const plans = Object.values(session.setAside).map(
    (plan) => `* ${plan.id}, paused: ${clip(oneLine(plan.goal), 200)} (${completedSteps(plan)}/${plan.steps.length})`,
  );
  return [...notes, ...limits, ...plans.slice(-5)];
}

const oneLine = (text: string): string => text.replace(/\s+/g, ' ').trim();
