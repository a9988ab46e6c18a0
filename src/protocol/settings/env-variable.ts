import { z } from 'zod';

const MAX_NAME_LENGTH = 255;

/**
 * Whether a text can be the name of an environment variable. A key entered by mistake may look like one, so the value
 * of a setting that names a variable is never repeated in messages.
 */
export const isEnvVariableName = (text: string): boolean =>
  text.length <= MAX_NAME_LENGTH && /^[A-Za-z_][A-Za-z0-9_]*$/.test(text);

/** Shown instead of the value, which may be a secret. */
export const NOT_A_VARIABLE_NAME =
  'expected the name of an environment variable, such as OPENAI_API_KEY, never the key itself. The value does not look like one and is not shown';

/** The name of an environment variable. */
export const EnvVariableName = z.string().refine(isEnvVariableName, NOT_A_VARIABLE_NAME);

/**
 * A text without anything that looks like a key, including the characters around it: half a key can no longer be
 * recognised as one.
 */
export const maskKeys = (text: string): string =>
  text.replace(/[A-Za-z0-9_+/=-]{16,}/g, (run) =>
    (run.match(/[A-Za-z0-9_-]{16,}/g) ?? []).some(isKeyPart) ? '…' : run,
  );

const isKeyPart = (part: string): boolean =>
  (/\d/.test(part) && /[A-Za-z]/.test(part)) || /[A-Za-z0-9]{24,}/.test(part);

/** `${NAME}`, `${NAME:-default}`, and `${env:NAME}` as some programs write it. */
export const VARIABLE_REFERENCE = /\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}/g;
/** Names of secrets, in the environment and in the headers of an endpoint. */
export const SECRET_NAME_PATTERN = /KEY|TOKEN|SECRET|PASS|AUTH|CREDENTIAL/i;
