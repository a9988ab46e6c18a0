import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import { placeNewFile, stagingName } from '../../store/fs/durable-write.ts';
import { statIfExists } from '../../store/fs/file-reads.ts';
import { wrapDiskErrors } from '../../store/fs/store-errors.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';

const TOKEN_BYTES = 32;
const TOKEN = /^[\w-]{43,}$/;

/**
 * The token that a program presents to a server of this workspace, from `.agentd/token`. If there is none, one of 256
 * random bits is created, durably and with mode 0600. Throws UserError if others may read the file, or if it contains
 * no token.
 */
export async function readAccessToken({ token: path }: WorkspacePaths): Promise<string> {
  if (!statIfExists(path))
    await placeNewFile(join(dirname(path), stagingName()), path, `${randomBytes(TOKEN_BYTES).toString('base64url')}\n`);
  const stat = statIfExists(path);
  if (!stat?.isFile() || (stat.mode & 0o077) !== 0)
    throw new UserError(`${path} must be a file that only its owner can read. Run: chmod 600 ${path}`);
  const token = wrapDiskErrors('read', path, () => fs.readFileSync(path, 'utf8')).trim();
  if (TOKEN.test(token)) return token;
  throw new UserError(`${path} holds no token of 43 characters or more. Delete it; the next server creates a new one.`);
}
