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
  line[start] === '[' && (/^[([]|^:\s*(?:https?:|<|\/)/.test(after) || /[A-Za-z0-9_$\]]$/.test(before));
