import { unquotedLines } from './prose.ts';
import { anyWordOf, wordPattern } from './step-words.ts';

const BRACKET = /[[\]【】［］]/g;
const OPENING = '[【［';
const PAIRS: ReadonlySet<string> = new Set(['[]', '【】', '［］']);
/** The distance at which words can still affect a tag, in characters. */
const CONTEXT = 200;

/** Text in brackets as its author wrote it: `[Done]`, `【完成】`, `［结束］`. Only `readTags` finds such tags. */
export class BracketTag {
  readonly line: string;
  /** Where its opening bracket stands. */
  readonly start: number;
  /** It stands inside another bracket, closed or not. */
  readonly isNested: boolean;
  /** The place after its closing bracket; undefined if it has none. */
  closedAt: number | undefined;

  constructor(line: string, start: number, isNested: boolean) {
    this.line = line;
    this.start = start;
    this.isNested = isNested;
  }

  /** The place after it: the end of the line if it is not closed. */
  get end(): number {
    return this.closedAt ?? this.line.length;
  }

  get raw(): string {
    return this.line.slice(this.start, this.end);
  }

  /** The text between the brackets, trimmed. */
  get inside(): string {
    return this.line.slice(this.start + 1, this.closedAt === undefined ? undefined : this.closedAt - 1).trim();
  }

  /** The text of the line before and after it, as far as it can affect the tag. */
  get before(): string {
    return this.line.slice(Math.max(0, this.start - CONTEXT), this.start);
  }

  get after(): string {
    return this.line.slice(this.end, this.end + CONTEXT);
  }
}

/** All brackets that are opened in a line, in order. A closing bracket of any kind closes the last one opened. */
export function readTags(line: string): BracketTag[] {
  const found: BracketTag[] = [];
  const open: BracketTag[] = [];
  for (const { 0: bracket, index } of line.matchAll(BRACKET)) {
    if (OPENING.includes(bracket)) {
      const tag = new BracketTag(line, index, open.length > 0);
      found.push(tag);
      open.push(tag);
    } else {
      const last = open.pop();
      if (last) last.closedAt = index + 1;
    }
  }
  return found;
}

/** A tag without brackets in it, of at most `most` characters, with two brackets that belong together. */
export function isPlainTag({ line, start, closedAt }: BracketTag, most = Number.POSITIVE_INFINITY): boolean {
  if (closedAt === undefined || closedAt - start > most + 2 || closedAt - start < 3) return false;
  const inside = line.slice(start + 1, closedAt - 1);
  return PAIRS.has(`${line.charAt(start)}${line.charAt(closedAt - 1)}`) && inside.search(BRACKET) < 0;
}

/** Whether it is a link label or an array index rather than a tag. */
export const isLinkOrIndex = ({ line, start, before, after }: BracketTag): boolean =>
  line[start] === '[' && (/^[([]|^:\s*(?:https?:|<|\/)/.test(after) || /(?:[A-Za-z0-9$\]]|\w_)$/.test(before));

/** Markdown's escape for a bracket that is not a link. */
const ESCAPED = /\\([[\]])/g;
/** Longer text in brackets is not a marker. */
const MAX_MARKER_LENGTH = 60;
/**
 * What may come before the tag that declares a step: a bullet, a number, a check box, emphasis. The gaps are bounded so
 * that a line of spaces takes no time.
 */
const BEFORE_DECLARATION = /^\s{0,40}(?:(?:[-*+•]|\d{1,4}[.)、])\s{0,9}(?:\[[ xX]\]\s{0,9})?)?(\*\*|__)?\s?$/u;
const STEP_DECLARATION =
  /^(?:step|步骤|步驟|ステップ|paso|schritt|étape)\s{0,9}[:：]?\s{0,9}#?\d{0,4}(?:\s?\/\s?\d{1,4})?$/iu;
/** The same with its words in the brackets: `[Step: 2. Draw the chart]`. `[Step: done]` declares nothing. */
const WORDED_DECLARATION =
  /^(?:step|步骤|步驟|ステップ|paso|schritt|étape)\s?[:：]\s?(?:\d{1,4}(?:[.):：]\s|、|\s[–—-]\s))?(\S.*)$/iu;
const STATUS_WORDS = wordPattern(
  () =>
    `^\\P{L}*(?:${anyWordOf('not')}\\s?|un|in)?(?:${anyWordOf('filler')})?${anyWordOf('done', 'open', 'failed', 'skipped', 'blocked', 'progress', 'waiting')}(?![\\p{L}\\s])`,
);
const CHECK_BOX = /^[xX]?$/;

/**
 * The tag of a line that declares a step, the emphasis that was opened before it, and the description if it stands in
 * the brackets; undefined if it has none.
 */
export function stepDeclarationOf(line: string): { tag: BracketTag; emphasis: string; words?: string } | undefined {
  if (!/^.{0,80}[[【［]/u.test(line)) return undefined;
  const tag = readTags(line).find(({ inside }) => !CHECK_BOX.test(inside));
  const start = tag?.closedAt === undefined ? null : BEFORE_DECLARATION.exec(tag.before);
  if (!tag || !start) return undefined;
  const found = { tag, emphasis: start[1] ?? '' };
  if (STEP_DECLARATION.test(tag.inside)) return found;
  const words = /^[\s*_.。]*$/u.test(tag.after) ? WORDED_DECLARATION.exec(tag.inside)?.[1] : undefined;
  return words === undefined || STATUS_WORDS().test(words) ? undefined : { ...found, words };
}

/** The lines in which a tag counts: no code, no quotation, no program output, no step declaration. */
export function linesWithTags(text: string): string[] {
  if (!/[[【［]/.test(text)) return [];
  return withoutTranscript(unquotedLines(text.replace(ESCAPED, '$1'))).filter((line) => !stepDeclarationOf(line));
}

/** Pasted program output: below a prompt or a heading that says so, up to the next empty line. */
const TRANSCRIPT = /^\s{0,9}(?:\$ \S|(?:tool|command|build|console|shell|program) (?:output|log)\s?[:：]\s{0,9}$)/i;
const withoutTranscript = (lines: readonly string[]): string[] => lines.filter(outsideTranscript());

/** Returns a function that tells, line by line, whether a line is outside pasted program output. */
export function outsideTranscript(): (line: string) => boolean {
  let isPrinted = false;
  return (line) => {
    isPrinted = line.trim() !== '' && (isPrinted || TRANSCRIPT.test(line));
    return !isPrinted;
  };
}

/** The tags in these lines that may be markers: short, and neither link labels nor array indices. */
export const findTags = (lines: readonly string[]): BracketTag[] =>
  lines.flatMap((line) => readTags(line).filter((tag) => isPlainTag(tag, MAX_MARKER_LENGTH) && !isLinkOrIndex(tag)));

/** Where the clause of a marker starts: a negation in an earlier clause does not reach it. */
const CLAUSE_START = /[.!?;:,…，。！？；：、—–]/;
/** Words that may come between a negation and the marker it negates: "cannot honestly call this [Done]". */
const LINK =
  '(?:yet|quite|really|fully|entirely|completely|honestly|truly|even|exactly|safely|to|be|been|being|it|this|that|step|task|call|called|mark|marked|reach|reached|consider|considered|claim|claimed|report|reported|declare|declared|as|at)';
/** A negation has at most one other word before the marker: "not [Done]", "have not yet reached [Done]". */
const DENIED = new RegExp(
  `(?:\\b(?:not|never|cannot|nicht|pas|jamais|nunca)|n['’]t)(?:\\s+${LINK}){0,6}(?:\\s+\\p{L}+)?[^\\p{L}\\p{N}]*$|\\b(?:no|non|kein|aún no)[^\\p{L}\\p{N}]*$`,
  'iu',
);
/** The same in scripts without spaces: "还没 [完成]", "并没有真正[完成]", "不能算[完成]", "是否已[完成]". */
const DENIED_CJK =
  /(?:未|没|沒|没有|沒有|尚未|不|不算|不能|无法|無法|别|別|不要|非|まだ|是否|是不是|能否|可否)(?:真正|真的|完全|全部|彻底|徹底|已经|已經|已|都)?(?:达到|達到|到|写|寫|能|算|说|說|称|稱)?\s*[*_]*$/u;
/** Close, but not there: "almost [Done]", "离 [完成] 还差一个文件", "部分[完成]". */
const NEARLY =
  /\b(?:almost|nearly|partially|partly|half|mostly|far from|close to|short of|soon|to be|fast|beinahe|teilweise|presque|casi)\s*[*_]*$|(?:离|離|距离|距離|即将|即將|快要|马上|馬上|将要|將要|接近|几乎|幾乎|差不多|(?:^|[大一仅僅只有])部分)\s*[*_]*$/iu;
/** The text talks about the marker: "write [Done]", "the [Done] marker", "ends with data: [DONE]". */
const MENTIONED =
  /\b(?:the|an?|with|(?:ha(?:ve|s|d)\s)written|(?<!\b(?:the|an?|my|its|your|this|that)\s)(?:say|says|said|write|wrote|print|output|emit|put|type|reply|respond|use|using)|reach|until|before|(?:definition|meaning|notion) of|einen?|le|la|el)\s*[*_]*$/iu;
/** The end of a stream of server-sent events, and the dots with which a program pads its line: "Linking ... [done]". */
const OF_A_PROGRAM = /(?:^|\s)data:\s?$|\s\.{3,}\s*$/u;
/** A promise: a modal and, within a few words, a verb with the marker as its object. */
const PROMISED =
  /(?:\b(?:will|would|shall|should|can|could|must|may|(?:need|have|has|going|want|asked|told|remember) to)|['’]ll)\s+(?:[\p{L}]+\s+){0,3}(?:say|write|mark|print|output|emit|put|add|type|reply|respond|report|call|declare|set)(?:\s+[\p{L}]+){0,3}[\s*_:：(]*$/iu;
const PROMISED_CJK =
  /(?:会|會|将|將|请|請|再|才|就|应|應|需要|可以)[^，。！？；]{0,6}(?:写|寫|输出|輸出|说|說|标|標|标记|標記|回复|回覆|打|用|加|发|發|注明|算)(?:上|出|下|为|為)?\s*[*_]*$/u;
/** A condition before the marker: "if all exist: [Done]". */
const CONDITION =
  /(?:^|[\s,，*_])(?:if|unless|as soon as|wenn|falls|sobald|si|dès que|cuando)\s[^.!?。]*$|(?:如果|若|假如|一旦|只有|除非|等到)[^。！？]*$/iu;
/** A time directly before the marker is a condition too: "once it is here: [Done]", "通过后：[完成]". */
const UPON =
  /^[^\p{L}\p{N}]*(?:once|when|whenever|after)\s[^,，:：→.!?]*(?:[,，:：–—-]|→|=>|->)[\s*_]*$|(?<![最然今])[后後时時]\s*[:：,，→]\s*[*_]*$/iu;
/** A condition after it in the same clause: "[Done] once they pass". */
const CONDITION_AFTER = /^[^\p{L}\p{N}]*(?:if|once|when|until|unless|as soon as|wenn|sobald|cuando|quand|si)\s\p{Ll}/u;
/** A negation or a question mark after it: "[Done] is not reached", "[完了]していない", "[Done]?" */
const DENIED_AFTER =
  /^[\s*_]*(?:[?？]|(?:is|was|has|have|does|do|can)(?:\s+not|n['’]t)\b|(?:not )?yet\b|了?吗|了?嗎|还差|還差|(?:し|では|じゃ)(?:ていない|てない|ない|ません|ていません))/iu;
/** The marker is the subject of a sentence: "[Done] will follow", "[Done] comes later", "[Done: step_2] later." */
const SPOKEN_OF =
  /^[\s*_]*(?:(?:will|would|shall|should|comes?|follows?|means?|must|may)\s\p{Ll}|(?:later|soon|tomorrow|afterwards)\s*(?:[.!,;]|$))/u;
/** "Is it [Done] yet?", "Is this step [Done] or not?" */
const ASKING = /^[^\p{L}\p{N}]*(?:is|are|was|were|do|does|did|can|could|should|shall|may|has|have|ist|sind|est)\s/iu;
const ASKED = /^[^.!?。！？]*[?？]/u;

/** Whether a tag is asserted: not negated, promised, conditional, asked or merely mentioned. */
export function isAssertedTag({ before, after }: Pick<BracketTag, 'before' | 'after'>): boolean {
  const sentence = before.split(/[.!?。！？…]\s*(?=\S)/).at(-1) ?? '';
  const clause = before.split(CLAUSE_START).at(-1) ?? '';
  const isUnasserted = [DENIED, DENIED_CJK, NEARLY, MENTIONED].some((pattern) => pattern.test(clause));
  if (isUnasserted || OF_A_PROGRAM.test(before) || DENIED_AFTER.test(after) || SPOKEN_OF.test(after)) return false;
  if (PROMISED.test(sentence) || PROMISED_CJK.test(sentence) || CONDITION.test(sentence)) return false;
  if (UPON.test(sentence) || (ASKING.test(sentence) && ASKED.test(after))) return false;
  return !CONDITION_AFTER.test(after);
}
