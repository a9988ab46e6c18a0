import { z } from 'zod';

const MAX_NAME_LENGTH = 64;
/** A run of letters and digits this long, with both in it, is part of a key rather than a word. */
const MIN_KEY_PART_LENGTH = 16;
const MAX_WORD_LENGTH = 24;

/**
 * Whether a text looks like the name of an environment variable, and not like the key that should be in one:
 * `OPENAI_API_KEY`, not
 * `sk-4f…`, `gsk_Ab3…` or `AIzaSy…`.
 */
export function isEnvVariableName(text: string): boolean {
  if (text.length > MAX_NAME_LENGTH || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(text)) return false;
  const isMixed = /[a-z]/.test(text) && /[A-Z]/.test(text);
  if (isMixed && /\d/.test(text)) return false;
  return text.split('_').every((part) => part.length < (/\d/.test(part) ? MIN_KEY_PART_LENGTH : MAX_WORD_LENGTH));
}

/** Said in place of what came, which may be a secret. */
export const NOT_A_VARIABLE_NAME =
  'wanted the name of an environment variable, such as OPENAI_API_KEY, never the key itself. What came does not look like one and is not repeated';

/** The name of an environment variable. */
export const EnvVariableName = z.string().refine(isEnvVariableName, NOT_A_VARIABLE_NAME);

/**
 * A text without what looks like a key in it, and without what belongs to that key: half a key is not known as one any
 * more.
 */
export const maskKeys = (text: string): string =>
  text.replace(/[A-Za-z0-9_+/=-]{16,}/g, (run) =>
    (run.match(/[A-Za-z0-9_-]{16,}/g) ?? []).some(isKeyPart) ? '…' : run,
  );

const isKeyPart = (part: string): boolean =>
  (/\d/.test(part) && /[A-Za-z]/.test(part)) || /[A-Za-z0-9]{24,}/.test(part);

/** `${NAME}`, `${NAME:-default}`, and `${env:NAME}` as some programs write it. */
export const VARIABLE_REFERENCE = /\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}/g;
/** What a secret is called: in the environment, in the headers of an endpoint. */
export const SECRET_NAME_PATTERN = /KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL/i;
