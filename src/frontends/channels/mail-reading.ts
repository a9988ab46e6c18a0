import type { ParsedMail } from 'mailparser';
import { sha256 } from '../../base/sha256.ts';

/** What a mail is to the channel. `refused`: why it is not taken at all, and not answered. */
export type MailReading =
  | { refused: string }
  | { from: string; label: string; id: string; root: string; subject: string; text: string };

/** What the channel knows of its own side. `authserv`: the server whose word about senders counts. */
export type MailSide = { address: string; authserv: string };

/**
 * Reads a mail. Refused are those of programs, of lists and of bounces, since an answer to one may begin a loop, and
 * those whose sender was not verified: anybody can write any name into `From`.
 */
export function readMail(mail: ParsedMail, { address, authserv }: MailSide): MailReading {
  const senders = mail.from?.value ?? [];
  const from = senders[0]?.address?.toLowerCase();
  if (senders.length !== 1 || from === undefined) return { refused: 'it has no single sender' };
  if (from === address.toLowerCase()) return { refused: 'it is of the channel itself' };
  const automatic = whyAutomatic(mail, from);
  if (automatic !== undefined) return { refused: automatic };
  if (!isVerified(headerLines(mail, 'authentication-results'), authserv, from))
    return { refused: `${authserv} has not verified its sender` };
  const references = typeof mail.references === 'string' ? [mail.references] : (mail.references ?? []);
  const subject = mail.subject?.trim() ?? '';
  const id = mail.messageId ?? `<${hashOf(mail.date?.toISOString() ?? '', subject, mail.text ?? '')}@none>`;
  const root = references[0] ?? mail.inReplyTo ?? id;
  const words = ownWords(mail.text ?? '');
  // The first mail of a thread may say in its subject alone what is wanted.
  const text = root === id && !words.startsWith(subject) ? `${subject}\n\n${words}`.trim() : words;
  return { ...{ from, label: senders[0]?.name || from, id, root, subject, text } };
}

const hashOf = (...parts: string[]) => sha256(JSON.stringify(parts)).slice(0, 32);

/** The values of a header, from the first line to the last. */
const headerLines = ({ headerLines: lines }: ParsedMail, name: string): string[] =>
  lines
    .filter(({ key }) => key === name)
    .map(({ line }) =>
      line
        .slice(name.length + 1)
        .replace(/\s+/g, ' ')
        .trim(),
    );

function whyAutomatic(mail: ParsedMail, from: string): string | undefined {
  const first = (name: string) => headerLines(mail, name)[0]?.toLowerCase();
  const submitted = first('auto-submitted');
  if (submitted !== undefined && !submitted.startsWith('no')) return 'it was sent by a program';
  if (/^(?:bulk|list|junk|auto_reply)/.test(first('precedence') ?? '')) return 'it was sent to many';
  if (['list-id', 'list-unsubscribe', 'feedback-id'].some((name) => first(name) !== undefined))
    return 'it is of a list';
  if (first('x-autoreply') !== undefined || first('x-autorespond') !== undefined) return 'it was sent by a program';
  if (/^(?:mailer-daemon|postmaster|no-?reply|bounces?)[@+-]/.test(from)) return 'it is of a mail server';
  if (first('return-path') === '<>' || /^multipart\/report/.test(first('content-type') ?? '')) return 'it is a bounce';
  return undefined;
}

/**
 * Whether the receiving server has verified the domain of `From`: by DMARC, or by a DKIM signature of that domain
 * (RFC 8601). It removes such headers of others, so that all that bear its name are its own.
 */
export function isVerified(results: readonly string[], authserv: string, from: string): boolean {
  const domain = from.slice(from.lastIndexOf('@') + 1);
  return results.some((line) => {
    // Comments can hold anything.
    const [server = '', ...methods] = line
      .replace(/\([^()]*\)/g, ' ')
      .toLowerCase()
      .split(';');
    if (server.trim().split(' ')[0] !== authserv.toLowerCase()) return false;
    return methods.some((method) => {
      const words = method.trim().split(/\s+/);
      if (words[0] === 'dmarc=pass') {
        const of = resultOf(words, 'header.from');
        return of === undefined || of === domain;
      }
      const signer = resultOf(words, 'header.d') ?? resultOf(words, 'header.i')?.replace(/^.*@/, '');
      return words[0] === 'dkim=pass' && signer === domain;
    });
  });
}

const resultOf = (words: readonly string[], name: string): string | undefined =>
  words
    .find((word) => word.startsWith(`${name}=`))
    ?.slice(name.length + 1)
    .replaceAll('"', '');

/** How mail programs introduce what they quote, in the languages most of them come in. */
const INTRODUCTION =
  /^(?:on\b.*\bwrote|am\b.*\bschrieb\b.*|le\b.*\ba écrit|el\b.*\bescribió|.*(?:写道|寫道)|.*<[^<>\s]+@[^<>\s]+>.*)\s*[:：]$/i;
const FORWARDED = /^(?:-{3,}\s*(?:original message|ursprüngliche nachricht|原始邮件|原始郵件)\s*-{3,}|_{20,})$/i;
/** A signature is short; `-- ` further up may be meant. */
const MAX_SIGNATURE_LINES = 12;

/**
 * What the sender wrote: without the mail it answers, below or above, and without the signature. Quoted lines between
 * their own stay, since they say what those are about.
 */
export function ownWords(text: string): string {
  let lines = text.replace(/\r\n/g, '\n').split('\n');
  const forwarded = lines.findIndex((line) => FORWARDED.test(line.trim()));
  if (forwarded > 0) lines = lines.slice(0, forwarded);
  const signed = lines.findLastIndex((line) => /^--\s?$/.test(line));
  const isSignature = signed >= 0 && lines.length - signed <= MAX_SIGNATURE_LINES;
  if (isSignature && !lines.slice(signed).some((line) => line.startsWith('>'))) lines = lines.slice(0, signed);
  const isQuoted = (line: string) => line.startsWith('>') || line.trim() === '';
  let end = lines.length;
  while (end > 0 && isQuoted(lines[end - 1] ?? '')) end -= 1;
  const introduction = introductionAt(lines, end - 1);
  const hasQuote = lines.slice(end).some((line) => line.startsWith('>'));
  if (hasQuote) lines = lines.slice(0, introduction ?? end);
  else {
    // The answer may be below it.
    const start = lines.findIndex(
      (line) => !isQuoted(line) && introductionAt(lines, lines.indexOf(line)) === undefined,
    );
    if (lines.slice(0, Math.max(0, start)).some((line) => line.startsWith('>'))) lines = lines.slice(start);
  }
  return lines.join('\n').trim();
}

/** Where an introduction begins that ends in this line: some programs break it in two. */
function introductionAt(lines: readonly string[], last: number): number | undefined {
  const line = (lines[last] ?? '').trim();
  const before = (lines[last - 1] ?? '').trim();
  if (before !== '' && INTRODUCTION.test(`${before} ${line}`)) return last - 1;
  return INTRODUCTION.test(line) ? last : undefined;
}
