import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { UserError } from '../protocol/errors.ts';
import { ownFolder, putInPlace } from './durable.ts';
import { sessionPaths } from './layout.ts';

/**
 * Drops a message the safe way: when this returns, the file is in the inbox, whole and durable, and the sender may forget it.
 * `name` should hold `.msg.`, so that it is taken at once. Throws UserError where the name is taken; the other sender's
 * message is left as it is.
 */
export async function dropMessage(
  sessionFolder: string,
  { name, content }: { name: string; content: string },
): Promise<void> {
  const paths = sessionPaths(sessionFolder);
  if (name === '' || /^\.|[/\0]/.test(name)) {
    throw new UserError(
      `A message needs a plain file name that does not begin with a dot; ${JSON.stringify(name)} is none.`,
    );
  }
  for (const folder of [paths.inbox, paths.inboxStaging]) ownFolder(folder);
  const staging = join(paths.inboxStaging, randomBytes(12).toString('hex'));
  if (!(await putInPlace(staging, join(paths.inbox, name), content))) {
    throw new UserError(`The inbox already has a message named ${name}. Nothing was sent; use another name.`);
  }
}
