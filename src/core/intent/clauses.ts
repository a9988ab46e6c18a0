/** A part of a message between two marks of punctuation, and where it stands in it. */
export type Clause = {
  readonly text: string;
  readonly start: number;
  readonly end: number;
  /** A question mark follows. */
  readonly isAsked: boolean;
  readonly isExclaimed: boolean;
  /** A colon follows: it announces what comes. */
  readonly isLabel: boolean;
};

/** Stands for what is quoted: the words in it are not the person's. */
const QUOTED = '\uFFFC';

const QUOTE_MARKS =
  /"[^"\n]*"|“[^”\n]*”|„[^“”\n]*[“”]|«[^»\n]*»|「[^」\n]*」|『[^』\n]*』|《[^》\n]*》|```[\s\S]*?(?:```|$)|`[^`\n]+`/g;
const QUOTED_MAIL = [
  /^[ \t]*>.*$/gm,
  /^(?:On|Am|Le|El|Em|Il) .{4,120}(?:wrote|schrieb|écrit|escribió|escreveu|ha scritto)[^\n]{0,60}:\s*$/gim,
  /^.{0,80}(?:写道|寫道|пишет|написал[аи]?|님이 작성)\s*[:：]\s*$/gm,
  /^-{3,} ?(?:Original Message|Forwarded message|Ursprüngliche Nachricht|Message d'origine|原始邮件)[\s\S]*$/im,
  /^-- \n[\s\S]*$/m,
  /^Sent from my .*$/gim,
];
/** Faces made of punctuation, and emoji that only colour what is said. */
const FACES = /(?<=^|\s)[:;=8]['-]?[)(DPpO/|*](?=\s|$)|\^_*\^|[xX]D(?=\s|$)/g;

/** Blanks out what is not the person's own words now; every other character keeps its place. */
export function withoutQuotes(text: string): string {
  const blank = (found: string) => found.replace(/[^\n]/g, ' ');
  const own = QUOTED_MAIL.reduce((so, pattern) => so.replace(pattern, blank), text);
  return own.replace(FACES, blank).replace(QUOTE_MARKS, (found) => QUOTED.repeat(found.length));
}

/** Latin marks part clauses only before a space, the end, or another script: "resume.pdf" is one word. */
const BREAK = /[。！？；，、…\n！？：]+|[.,;:!?]+(?=\s|$|[^\p{ASCII}]|["')\]*_])|[!?]+|\s[—–-]+\s|—|\s\(|（/gu;

/** The clauses of a text without quotes. */
export function clausesOf(text: string): Clause[] {
  const clauses: Clause[] = [];
  let start = 0;
  const add = (end: number, mark: string) => {
    const part = text.slice(start, end);
    const isAsked = /[?？]/.test(mark);
    if (part.trim() !== '')
      clauses.push({ text: part, start, end, isAsked, isExclaimed: /[!！]/.test(mark), isLabel: /[:：]/.test(mark) });
  };
  for (const found of text.matchAll(BREAK)) {
    add(found.index, found[0]);
    start = found.index + found[0].length;
  }
  add(text.length, '');
  return clauses;
}
