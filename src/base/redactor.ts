/** A value that must not be written, and the name written in its place. */
export type Secret = { name: string; value: string };

export type Redactor = {
  /** The text without any of the secrets: each is replaced by `[redacted: NAME]`. */
  text(text: string): string;
  /** For a text that arrives in pieces: returns what can be released. A possible beginning of a secret is held back. */
  stream(): (piece: string) => string;
};

/** Shorter values occur in ordinary text. */
export const MIN_SECRET_LENGTH = 8;

/** Removes secrets from texts: as they are, as JSON and URLs encode them, and in base64, even within a longer value. */
export function createRedactor(secrets: readonly Secret[]): Redactor {
  const names = new Map<string, string>();
  for (const { name, value } of secrets) {
    const plain = value.trim();
    if (plain.length < MIN_SECRET_LENGTH) continue;
    for (const form of encodedForms(plain)) if (!names.has(form)) names.set(form, name);
  }
  // Longest first, since one may be part of another.
  const forms = [...names.keys()].sort((a, b) => b.length - a.length);
  if (forms.length === 0) return { text: (text) => text, stream: () => (piece) => piece };
  const any = new RegExp(forms.map((form) => form.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')).join('|'), 'g');
  const byFirst = new Map<number, string[]>();
  for (const form of forms) byFirst.set(form.charCodeAt(0), [...(byFirst.get(form.charCodeAt(0)) ?? []), form]);
  const text = (given: string): string => given.replace(any, (form) => `[redacted: ${names.get(form) ?? ''}]`);
  return { text, stream: () => createRedactingStream(text, any, { all: forms, byFirst }) };
}

/** Longest first; and by the code of their first character, since a stream looks them up for every piece. */
type EncodedForms = { all: readonly string[]; byFirst: ReadonlyMap<number, readonly string[]> };

function createRedactingStream(text: Redactor['text'], any: RegExp, forms: EncodedForms): (piece: string) => string {
  let pending = '';
  return (piece) => {
    const all = pending + piece;
    let from = all.length - pendingLength(all, forms);
    // A complete secret is replaced whole, even if its end might start another one.
    for (const { 0: form, index } of all.matchAll(any)) {
      if (index < from) from = Math.max(from, index + form.length);
    }
    pending = all.slice(from);
    return text(all.slice(0, from));
  };
}

/** How many characters at the end may be the beginning of a secret. */
function pendingLength(text: string, forms: EncodedForms): number {
  const longest = (forms.all[0]?.length ?? 1) - 1;
  for (let at = Math.max(0, text.length - longest); at < text.length; at++) {
    const some = forms.byFirst.get(text.charCodeAt(at));
    const size = text.length - at;
    if (some?.some((form) => form.length > size && form.startsWith(text.slice(at)))) return size;
  }
  return 0;
}

function encodedForms(value: string): Set<string> {
  const url = encodeURIComponent(value);
  const plain = [value, JSON.stringify(value).slice(1, -1), url, url.replaceAll('%20', '+'), lowercaseEscapes(url)];
  return new Set([...plain, ...base64Forms(value)].filter((form) => form.length >= MIN_SECRET_LENGTH));
}

const lowercaseEscapes = (url: string): string => url.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase());

/**
 * The base64 of a value, and the part of it that stays the same whatever surrounds the value: it depends on the offset
 * within a group of three bytes.
 */
function base64Forms(value: string): string[] {
  const bytes = new TextEncoder().encode(value);
  const within = [0, 1, 2].map((shift) => {
    const from = Math.ceil((shift * 8) / 6);
    const to = Math.floor(((shift + bytes.length) * 8) / 6);
    return base64([...new Uint8Array(shift), ...bytes]).slice(from, to);
  });
  const all = [base64(bytes), ...within];
  return [...all, ...all.map((one) => one.replaceAll('+', '-').replaceAll('/', '_'))];
}

const base64 = (bytes: Iterable<number>): string => btoa(String.fromCharCode(...bytes));
