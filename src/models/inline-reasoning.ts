/** What models put around their reasoning where the endpoint does not separate it from the answer. */
const TAGS = [
  { open: '<think>', close: '</think>' },
  { open: '<thinking>', close: '</thinking>' },
  { open: '<seed:think>', close: '</seed:think>' },
  { open: '[THINK]', close: '[/THINK]' },
] as const;

/** Removes the reasoning at the beginning of a streamed answer. */
export type ReasoningFilter = {
  /** The part of the answer that is certain by now. */
  add(delta: string): string;
  /** The rest, once nothing more comes. */
  end(): string;
};

/**
 * A marker such as `[Done]` that a model only considers must not count as one that it gives, and reasoning is no part
 * of a reply. The tags count where an answer begins: further on they are what the answer is about.
 */
export function openReasoningFilter(): ReasoningFilter {
  let held = '';
  let inside: string | null = null;
  let isPast = false;
  let hadReasoning = false;

  /** Moves on by one tag; false if more text is needed. */
  const advance = (): boolean => {
    if (inside !== null) {
      const at = held.indexOf(inside);
      held = at < 0 ? held.slice(1 - inside.length) : held.slice(at + inside.length);
      if (at >= 0) inside = null;
      return at >= 0;
    }
    const start = held.trimStart();
    const tag = TAGS.find(({ open }) => start.startsWith(open));
    if (tag) {
      hadReasoning = true;
      inside = tag.close;
      held = start.slice(tag.open.length);
      return true;
    }
    isPast = !TAGS.some(({ open }) => open.startsWith(start));
    return false;
  };
  const release = (): string => {
    const text = hadReasoning ? held.trimStart() : held;
    held = '';
    return text;
  };

  return {
    add(delta) {
      if (isPast) return delta;
      held += delta;
      while (advance());
      return isPast ? release() : '';
    },
    end: () => (inside === null ? release() : ''),
  };
}

const CLOSING_LINE = /^[ \t]*(?:<\/(?:think|thinking|seed:think)>|\[\/THINK\])\s*/m;

/**
 * The answer without reasoning of which only the end is marked: some chat templates begin it within the prompt. A tag
 * in a code block is what the answer is about.
 */
export function dropUnopenedReasoning(text: string): string {
  const found = CLOSING_LINE.exec(text);
  if (!found) return text;
  const before = text.slice(0, found.index);
  const isQuoted = before.split('```').length % 2 === 0 || TAGS.some(({ open }) => before.includes(open));
  return isQuoted ? text : text.slice(found.index + found[0].length);
}
