import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { UserError } from '../protocol/errors.ts';
import { putInPlace, syncFolder } from './durable.ts';
import { inFolderLong } from './folder.ts';
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
  const inbox = { path: paths.inbox, make: true };
  const isNew = !fs.existsSync(paths.inbox);
  await inFolderLong(paths.folder, [inbox], (target) =>
    inFolderLong(paths.folder, [inbox, { path: paths.inboxStaging, make: true }], async (staging) => {
      const isPlaced = await putInPlace(staging.path(randomBytes(12).toString('hex')), target.path(name), content);
      // An inbox as new as this may be in a session that somebody made with mkdir a moment ago.
      if (isNew) for (const folder of [paths.folder, dirname(paths.folder)]) await syncFolder(folder);
      if (!isPlaced) {
        throw new UserError(`The inbox already has a message named ${name}. Nothing was sent; use another name.`);
      }
    }),
  );
}
