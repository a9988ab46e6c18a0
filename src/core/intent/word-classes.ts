/**
 * What a word can be in a message to an agent, each with the letter that stands for it in the grammar of `clauses.ts`.
 * A table of a language has a list of words and phrases for each; what is in none of them is `other`.
 */
export const WORD_CLASSES = {
  /** Ends the run: "stop", "never mind". */
  stop: 's',
  /** Halts it for a time: "pause". */
  pause: 'p',
  /** Halts it at once for a moment: "hold on". */
  wait: 'w',
  /** Goes on: "continue", "carry on". */
  go: 'c',
  /** Takes a step back: "undo", "reopen". */
  undo: 'u',
  /** The run, the work, or a pronoun for it. */
  it: 'o',
  /** When, where, how: "now", "for a moment". */
  now: 'j',
  /** Address, politeness, thanks, praise, hesitation: changes nothing. */
  filler: 'f',
  yes: 'y',
  no: 'z',
  /** Makes an order of what follows: "could you", "let's". */
  request: 'k',
  question: 'q',
  /** A condition that is not met yet: "if", "after". */
  if: 'i',
  until: 'T',
  /** Begins a reason: "it's", "you are". */
  because: 'r',
  and: 'l',
  /** Links the order to how it is to be done: "with", "from". */
  with: 'L',
  unit: 'b',
  minutes: 'b',
  hours: 'b',
  tokens: 'b',
  more: 'm',
  grant: 'v',
  limit: 'M',
  do: 'd',
  /** What is left of the plan. */
  rest: 'e',
  /** Another order: "use", "make". */
  order: 't',
  also: 'a',
  rather: 'R',
  /** Forbids: "don't". */
  dont: 'n',
  /** Denies: "isn't". */
  isnt: 'N',
  done: 'D',
  /** "Not done" in one word. */
  undone: 'U',
  step: 'S',
  mark: 'A',
  /** What is said or quoted follows: no order of its own. */
  report: 'h',
  /** Brings back the plan that was shelved: "go back". */
  back: 'B',
  /** "A new task", as the answer to our own question. */
  newTask: 'E',
  /** Goes on only as the answer to our own question: "go", "more". */
  weakGo: 'g',
  /** Phrases with one of the words above in another sense: "full stop". */
  other: 'x',
} as const;

export type WordClass = keyof typeof WORD_CLASSES;
/** The words of a language. */
export type LanguageWords = Readonly<Partial<Record<WordClass, string>>>;
