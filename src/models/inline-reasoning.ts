/** The tags around a model's reasoning if the endpoint does not separate it from the answer. */
const TAGS = [
  { open: '<think>', close: '</think>' },
  { open: '<thinking>', close: '</thinking>' },
  { open: '<seed:think>', close: '</seed:think>' },
  { open: '[THINK]', close: '[/THINK]' },
] as const;

/** Removes the reasoning at the beginning of a streamed answer. */
export type ReasoningFilter = {
  /** Adds text; returns what is certain to be answer. */
  add(delta: string): string;
  /** The rest, at the end of the stream. */
  end(): string;
};

/**
 * A marker such as `[Done]` in the reasoning must not count as a statement, and reasoning does not belong in a reply.
 * Tags only count at the beginning of an answer; further on they belong to its content.
 */
export function openReasoningFilter(): ReasoningFilter {
  let held = '';
  let inside: string | null = null;
  let isPast = false;
  let hadReasoning = false;

  /** Processes text up to the next tag; false if more text is needed. */
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
 * Removes reasoning that has only a closing tag, because some chat templates put the opening tag into the prompt. A tag
 * in a code block belongs to the answer.
 */
export function dropUnopenedReasoning(text: string): string {
  const found = CLOSING_LINE.exec(text);
  if (!found) return text;
  const before = text.slice(0, found.index);
  const isQuoted = before.split('```').length % 2 === 0 || TAGS.some(({ open }) => before.includes(open));
  return isQuoted ? text : text.slice(found.index + found[0].length);
}
