import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { parseJsonOrWhy } from '../../base/json.ts';
import { sha256 } from '../../base/sha256.ts';
import { InvalidArgument, UserError } from '../../base/user-error.ts';
import { parseCommand } from '../../core/messages/commands.ts';
import { commandInfo } from '../../core/messages/message-table.ts';
import type { Session } from '../../core/session/session-state.ts';
import { AccessToken, TokenFile } from '../../protocol/workspace/daemon-files.ts';
import { placeNewFile, replaceFile, stagingName } from '../../store/fs/durable-write.ts';
import { cachedRead, readTextFile, statIfExists } from '../../store/fs/file-reads.ts';
import { wrapDiskErrors } from '../../store/fs/store-errors.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { DaemonState } from '../sessions/client-errors.ts';

const TOKEN_BYTES = 32;
const TOKEN = /^[\w-]{43,}$/;

/**
 * The token that a program presents to a server of this workspace, from `.agentd/token`. If there is none, one of 256
 * random bits is created, durably and with mode 0600. Throws UserError if others may read the file, or if it contains
 * no token.
 */
export async function readAccessToken({ token: path }: WorkspacePaths): Promise<string> {
  if (!statIfExists(path)) await placeNewFile(join(dirname(path), stagingName()), path, `${newToken()}\n`);
  assertPrivate(path);
  const token = wrapDiskErrors('read', path, () => fs.readFileSync(path, 'utf8')).trim();
  if (TOKEN.test(token)) return token;
  throw new UserError(`${path} holds no token of 43 characters or more. Delete it; the next server creates a new one.`);
}

const newToken = (): string => randomBytes(TOKEN_BYTES).toString('base64url');

function assertPrivate(path: string): void {
  const stat = statIfExists(path);
  if (stat?.isFile() && (stat.mode & 0o077) === 0) return;
  throw new UserError(`${path} must be a file that only its owner can read. Run: chmod 600 ${path}`);
}

/** The tokens of other people and programs, in `.agentd/tokens.json`. Each throws UserError if the file is invalid. */
export type AccessTokens = {
  list(): AccessToken[];
  /** Returns the token, which is not kept anywhere. Throws UserError if the name is taken. */
  add(token: Pick<AccessToken, 'name' | 'role' | 'sessions'>): Promise<string>;
  /** Throws UserError if there is none of that name. */
  remove(name: string): Promise<void>;
  /** Whose token this is, by the current file; undefined: nobody's. */
  find(token: string): AccessToken | undefined;
};

/** The file is read again whenever it has changed. */
export function openAccessTokens({ tokens: path }: WorkspacePaths): AccessTokens {
  const clocks = { now: () => new Date(), elapsed: () => performance.now() };
  const read = cachedRead(path, clocks, () => readTokens(path));
  const save = (tokens: AccessToken[]) =>
    replaceFile(path, `${JSON.stringify({ version: 1, tokens } satisfies TokenFile, null, 2)}\n`, { durable: true });
  return {
    list: read,
    async add(given) {
      const known = readTokens(path);
      if (known.some(({ name }) => name === given.name))
        throw new UserError(
          `There is already a token for ${given.name}. Remove it first: agentctl token remove ${given.name}`,
        );
      const token = newToken();
      const entry = { ...given, sha256: sha256(token), created_at: clocks.now().toISOString() };
      const checked = AccessToken.safeParse(entry);
      if (!checked.success) throw new InvalidArgument(`No token was added: ${describeIssue(checked.error)}.`);
      await save([...known, checked.data]);
      return token;
    },
    async remove(wanted) {
      const known = readTokens(path);
      const rest = known.filter(({ name }) => name !== wanted);
      if (rest.length === known.length)
        throw new UserError(`There is no token for ${JSON.stringify(wanted)}. See: agentctl token list`);
      await save(rest);
    },
    find(token) {
      const hash = sha256(token);
      return read().find(({ sha256 }) => sha256 === hash);
    },
  };
}

function readTokens(path: string): AccessToken[] {
  const text = readTextFile(path);
  if (text === undefined) return [];
  assertPrivate(path);
  const parsed = parseJsonOrWhy(text);
  if (!parsed.ok) throw new UserError(`${path} is not JSON: ${parsed.why}. ${HOW_TO_FIX}`);
  const checked = TokenFile.safeParse(parsed.value);
  if (checked.success) return checked.data.tokens;
  throw new UserError(`${path} is invalid: ${describeIssue(checked.error)}. ${HOW_TO_FIX}`);
}

const HOW_TO_FIX = 'Until it is fixed, only the token in .agentd/token works.';

type SchemaFault = { issues: ReadonlyArray<{ path: readonly PropertyKey[]; message: string }> };

const describeIssue = ({ issues: [issue] }: SchemaFault): string =>
  [...(issue?.path ?? []).map(String), issue?.message ?? 'something else'].join(': ');

/** The role that the command of a message needs, and why, if more than to send messages. */
export function roleOfCommand({ text = '', command }: { text?: string | undefined; command?: string | undefined }) {
  const order = parseCommand({ text, ...(command !== undefined && { command }) });
  const needs = commandInfo(order?.name)?.needs;
  return needs?.bare && order?.rest.trim() === '' ? undefined : needs;
}

/**
 * The socket through which a person uses the browser that they took over; `from` is the sender of their messages.
 * Throws `DaemonState` if they do not have it.
 */
export function findBrowserSocket(
  { browserSocket }: WorkspacePaths,
  { name, browserHold: hold }: Session,
  from: string | undefined,
): string {
  if (hold && hold.from === (from ?? null)) return browserSocket(name);
  const holder = hold ? (hold.from ?? 'The owner of the workspace') : 'The agent';
  throw new DaemonState(`${holder} has the browser of ${name}. Take it over first: /browser take`);
}
