import { mapGet } from '../../base/collections.ts';
import { escapeControls, escapeInvisible, legible } from '../../base/strings.ts';
import { attempt } from '../../base/user-error.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import type { Plan } from '../../protocol/session/plan.ts';
import type { Reply, ReplyStatus, UserQuestion } from '../../protocol/session/reply.ts';
import type { Language, Rules } from '../../protocol/settings/effective-settings.ts';
import { currentStepIndex } from '../plan/plan-steps.ts';
import { countCompletedSteps } from '../plan/step-graph.ts';
import { sessionDepth } from '../session/child-session.ts';
import type { Message } from '../session/session-messages.ts';
import { detectLanguage, sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';
import { parseCommand } from './commands.ts';
import { REPLY_WORDING } from './reply-wording.ts';

/** The event of one reply, before it has its place in the log. */
export type ReplyCommitted = Extract<EventBody, { type: 'reply.committed' }>;

type ReplyFacts = {
  status: ReplyStatus;
  text: string;
  reason?: string;
  usage?: Reply['usage'];
  plan?: Plan | null;
  exit?: number;
  proof?: string[];
  question?: UserQuestion;
  /** Files under `work/` that existed when the run ended. */
  attachments?: string[];
  approval?: number;
};

/** The one reply to a message, as an event. Unreported faults in `plan.json` and the event log are reported here. */
export function replyEvent(session: Session, id: string, facts: ReplyFacts, language: Language): ReplyCommitted {
  const { status, text, reason, usage = null, exit, proof, question, approval, attachments = [] } = facts;
  const plan = facts.plan === undefined ? session.plan : facts.plan;
  const wording = REPLY_WORDING[language];
  const notes = [
    ...(session.planProblem ? [wording.planNote(session.planProblem)] : []),
    ...(session.unreportedCuts.length > 0 ? [wording.cutNote(session.unreportedCuts)] : []),
  ];
  const note = status === 'rejected' ? '' : notes.map((one) => `\n\n${one}`).join('');
  return {
    type: 'reply.committed',
    message: id,
    reply: {
      id: mapGet(session.messages, id)?.name ?? id,
      in_reply_to: id,
      session: session.name,
      status,
      // A question must not hide anything from the person who answers it.
      text: boundedText((status === 'waiting' ? legible(text) : text) + note),
      ...(reason !== undefined && { reason }),
      ...(question && { question: { text: question.text, choices: question.choices } }),
      plan: plan && planFacts(plan),
      usage,
      ...(exit !== undefined && { exit }),
      ...(proof && { proof }),
      ...(approval !== undefined && { approval }),
      attachments,
    },
  };
}

/** Characters of a reply. No model's answer comes near; a client polling an outbox reads all of it. */
const MAX_REPLY_CHARS = 1_000_000;

const boundedText = (text: string): string =>
  text.length > MAX_REPLY_CHARS ? `${text.slice(0, MAX_REPLY_CHARS)}\n[… cut here: ${text.length} characters]` : text;

/** A free name for a reply to no message, of the same kind as that of the reply `like`. */
export function standInReplyName(session: Session, about: string, like: string): string {
  const ending = /(?:\.msg)?\.[A-Za-z0-9]+$/.exec(like)?.[0] ?? '.md';
  const isTaken = (name: string) => (mapGet(session.replyNames, name) ?? mapGet(session.messages, name)) !== undefined;
  for (let n = 1; ; n++) {
    const name = `${about}${n > 1 ? `-${n}` : ''}${ending}`;
    if (!isTaken(name)) return name;
  }
}

/**
 * The reply of a run that goes on without a message: its own message's if that still waits for one, else that of a
 * stand-in, since a reply cannot be sent twice.
 */
export function standInMessage(
  session: Session,
  about: string,
  message: string | undefined,
): { message?: string; name?: string } {
  const asked = mapGet(session.messages, message ?? '');
  if (!asked?.isReplied) return {};
  const name = standInReplyName(session, about, asked.name);
  return { message: name, name };
}

function planFacts(plan: Plan): Reply['plan'] {
  const current = plan.steps[currentStepIndex(plan.steps)];
  const open = current && (current.status === 'running' || current.status === 'pending');
  return {
    id: plan.id,
    completed: countCompletedSteps(plan),
    total: plan.steps.length,
    current: open ? current.description : null,
  };
}

/**
 * The content of a reply file: JSON for a JSON message, else Markdown with the same fields in front matter. Invisible
 * characters are escaped in JSON and in the front matter, and read back unchanged. In the text of Markdown, which
 * people print in a terminal, controls stay escaped.
 */
export function formatReplyFile(reply: Reply): string {
  if (/\.json$/i.test(reply.id)) return `${escapeInvisible(JSON.stringify(reply, null, 2))}\n`;
  const { text, ...facts } = reply;
  const lines = Object.entries(facts).map(
    ([key, value]) => `${key}: ${typeof value === 'string' ? yamlString(value) : JSON.stringify(value)}`,
  );
  return `---\n${escapeInvisible(lines.join('\n'))}\n---\n\n${escapeControls(text)}\n`;
}

/** A string that YAML reads back unchanged: plain if that is safe, else as JSON, which YAML includes. */
function yamlString(value: string): string {
  return /^[A-Za-z_][\w.-]*$/.test(value) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(value)
    ? value
    : JSON.stringify(value);
}

/** The longest name in bytes that a file system takes, and the longest that gets a number. */
const MAX_NAME_BYTES = 255;
const NUMBERED_NAME_BYTES = 230;

/**
 * A name that no other message's reply has: `1.md`, then `1-2.md`, `1-3.md`. A free name is never changed, however
 * long: a frontend waits for the reply under the name of its message.
 */
export function freeReplyName(wanted: string, taken: (name: string) => boolean): string {
  if (byteLength(wanted) <= MAX_NAME_BYTES && !taken(wanted)) return wanted;
  const name = fitFileName(wanted);
  if (!taken(name)) return name;
  const dot = name.search(/(?:\.msg)?\.[^.]*$/);
  const [stem, ending] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ''];
  const numbered = (n: number) => `${stem}-${n}${ending}`;
  // Doubling, then halving: a name used a hundred thousand times takes 34 lookups.
  let [low, high] = [1, 2];
  for (; taken(numbered(high)); high *= 2) low = high;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (taken(numbered(middle))) low = middle;
    else high = middle;
  }
  return numbered(high);
}

/** The name cut in the middle if it leaves no room for a number, with its ending kept. */
function fitFileName(name: string): string {
  if (byteLength(name) <= NUMBERED_NAME_BYTES) return name;
  const points = [...name];
  const ending = points.slice(-20).join('');
  let stem = '';
  for (const point of points.slice(0, -20)) {
    if (byteLength(stem + point + ending) > NUMBERED_NAME_BYTES) break;
    stem += point;
  }
  return stem + ending;
}

const byteLength = (text: string): number => new TextEncoder().encode(text).length;

export function replyInWords(
  session: Session,
  message: Message,
  rules: Rules,
  text: (words: (typeof REPLY_WORDING)[Language], language: Language) => string,
  status: ReplyStatus = 'done',
): EventBody[] {
  const language = replyLanguage(session, message, rules);
  const words = REPLY_WORDING[language];
  const planned = message.planned ? [words.planned(message.planned.when, message.planned.schedule)] : [];
  const said = [text(words, language), ...planned].filter((part) => part !== '').join('\n\n');
  return [replyEvent(session, message.id, { status, text: said }, language)];
}

/** A command has no language of its own; its reply uses that of the plan. */
export function replyLanguage(session: Session, message: Message, rules: Rules): Language {
  return parseCommand(message) ? sessionLanguage(session, rules) : (rules.language ?? detectLanguage(message.text));
}

/** The most names looked up on disk; a listing of a whole tree does not offer its files. */
const MAX_FILES_NAMED = 200;
/** Code points of a text that are searched for names. */
const MAX_SEARCHED_CHARS = 100_000;

/**
 * Files a reply may attach, as `work/x`: those its text names, then those of the steps closed in this run; for a child
 * session, those of its whole plan, since nobody saw its earlier replies. The caller checks whether they exist. Pure.
 */
export function findReplyAttachments(session: Session, text: string): string[] {
  const { run, plan, name } = session;
  if (!run) return [];
  const since = sessionDepth(name) > 0 ? '' : run.startedAt;
  const steps = (run.besidePlan ? [] : (plan?.steps ?? [])).filter((step) => (step.completed_at ?? '') >= since);
  const ofSteps = steps.flatMap((step) => step.attachments ?? []).flatMap((path) => pathsUnderWork(path));
  return [...new Set([...filesNamedIn(text, run.folder), ...ofSteps])].slice(0, MAX_FILES_NAMED);
}

const FENCED_CODE = /^(?:```|~~~)[\s\S]*?^(?:```|~~~)[^\n]*$/gm;
const BACKTICKED = /`([^`\n]{1,500})`/g;
const LINK_TARGET = /\]\(([^\n()]{1,500}(?:\([^\n()]{0,100}\)[^\n()]{0,500})?)\)/g;
const PLAIN_PATH = /(?<![A-Za-z0-9_./:~\\-])work\/[^\s`"'<>()[\]{}|*,;，。；：、！？“”‘’》）】]{1,300}/g;

/**
 * Paths under `work/` that a text names: in backticks, in Markdown links and images, or as plain words that start with
 * `work/`.
 */
export function filesNamedIn(text: string, folder?: string): string[] {
  const prose = [...text.slice(0, 2 * MAX_SEARCHED_CHARS)]
    .slice(0, MAX_SEARCHED_CHARS)
    .join('')
    .replace(FENCED_CODE, '\n');
  const quoted = [...prose.matchAll(BACKTICKED)].map((match) => match[1] ?? '');
  const linked = [...prose.matchAll(LINK_TARGET)].flatMap((match) => linkTargets(match[1] ?? ''));
  const words = prose.replace(BACKTICKED, ' ').replace(LINK_TARGET, '] ');
  const plain = [...words.matchAll(PLAIN_PATH)].flatMap((match) => withoutTrailingMarks(match[0]));
  const found = [...quoted, ...linked, ...plain].flatMap((name) => pathsUnderWork(name, folder));
  return [...new Set(found)].slice(0, MAX_FILES_NAMED);
}

/** The target of a link: without its title, and with percent escapes decoded. */
function linkTargets(inside: string): string[] {
  const target = /^\s*<([^<>]*)>/.exec(inside)?.[1] ?? inside.trim().replace(/\s+["'(].*$/, '');
  return attempt(() => [...new Set([target, decodeURIComponent(target)])]) ?? [target];
}

/** A plain word may be followed by a full stop, or directly by Chinese or Japanese words. */
function withoutTrailingMarks(word: string): string[] {
  const bare = word.replace(/[.:!?…]+$/u, '');
  const short = /^.*?\.[A-Za-z0-9]{1,8}(?=[^\x21-\x7e])/u.exec(bare)?.[0];
  return [...new Set([bare, ...(short === undefined ? [] : [short])])];
}

/**
 * The path under `work/` that a name means, if any: no absolute path, no URL, nothing that leads up. Names in a child's
 * own folder are relative to that folder, or to `work/`.
 */
function pathsUnderWork(name: string, folder?: string): string[] {
  const plain = name.trim().replace(/^(?:\.\/+)+/, '');
  if (/^[/~\\]|:\/\//.test(plain) || /\p{Cc}|\ufffd/u.test(plain)) return [];
  const isWhole = /^work\/+/.test(plain);
  const parts = plain
    .replace(/^work\/+/, '')
    .split('/')
    .filter((part) => part !== '' && part !== '.');
  if (parts.length === 0 || parts.includes('..')) return [];
  const path = parts.join('/');
  const places = [
    ...(folder === undefined ? [] : [`work/${folder}/${path}`]),
    ...(folder === undefined || isWhole ? [`work/${path}`] : []),
  ];
  // The file system may have normalised the name differently.
  return places.flatMap((place) => [...new Set([place, place.normalize('NFC'), place.normalize('NFD')])]);
}
