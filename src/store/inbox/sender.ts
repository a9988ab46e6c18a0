import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { basename, dirname } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import { linkIfFree, placeNewFile, syncFolder } from '../fs/durable-write.ts';
import { withOpenFile } from '../fs/file-reads.ts';
import { type OpenFolder, statInFolder, withFolderAsync } from '../fs/open-folder.ts';
import { toDiskError, wrapDiskErrors } from '../fs/store-errors.ts';
import { freeName, safeName, sessionPaths } from '../layout/layout.ts';

/**
 * Drops a message safely: when this returns, the complete file is durably in the inbox, and the sender need not keep
 * it. `name` should contain `.msg.`, so that it is taken at once. Throws UserError if the name is taken; the message
 * that has it is not changed.
 */
export async function dropMessage(
  sessionFolder: string,
  { name, content }: { name: string; content: string },
): Promise<void> {
  const paths = sessionPaths(sessionFolder);
  if (name === '' || /^\.|[/\0]/.test(name)) {
    throw new UserError(
      `Expected a plain file name that does not begin with a dot for the message, got ${JSON.stringify(name)}.`,
    );
  }
  const inbox = { path: paths.inbox, make: true };
  const isNew = !fs.existsSync(paths.inbox);
  await withFolderAsync(paths.folder, [inbox], (target) =>
    withFolderAsync(paths.folder, [inbox, { path: paths.inboxStaging, make: true }], async (staging) => {
      const isPlaced = await placeNewFile(staging.path(randomBytes(12).toString('hex')), target.path(name), content);
      // A new inbox may be in a session that was created with mkdir a moment ago.
      if (isNew) for (const folder of [paths.folder, dirname(paths.folder)]) await syncFolder(folder);
      if (!isPlaced) {
        throw new UserError(`The inbox already has a message named ${name}. Not sent; use another name.`);
      }
    }),
  );
}

/**
 * Puts a complete, durable copy of a file into `inbox/.files/`, for a message dropped after it. Returns the entry for
 * its `attachments`, `.files/<name>`. Throws UserError if `source` is not a regular file.
 */
export async function attachFile(sessionFolder: string, source: string): Promise<string> {
  const paths = sessionPaths(sessionFolder);
  const inbox = { path: paths.inbox, make: true };
  assertAttachable(source);
  return withFolderAsync(paths.folder, [inbox, { path: paths.inboxStaging, make: true }], (staging) =>
    withFolderAsync(paths.folder, [inbox, { path: paths.inboxFiles, make: true }], (files) =>
      copyToInboxFiles(source, staging.path(randomBytes(12).toString('hex')), files),
    ),
  );
}

/**
 * Puts bytes into `inbox/.files/` as a complete, durable file of this or a similar free name, as `attachFile` does. If
 * `pieces` throws, the error is passed on and nothing is left behind.
 */
export async function attachBytes(
  sessionFolder: string,
  name: string,
  pieces: AsyncIterable<Uint8Array>,
): Promise<string> {
  const paths = sessionPaths(sessionFolder);
  const inbox = { path: paths.inbox, make: true };
  return withFolderAsync(paths.folder, [inbox, { path: paths.inboxStaging, make: true }], (staging) =>
    withFolderAsync(paths.folder, [inbox, { path: paths.inboxFiles, make: true }], (files) =>
      placeInInboxFiles(name, staging.path(randomBytes(12).toString('hex')), files, async (staged) => {
        const file = await fs.promises.open(staged, 'wx', 0o600);
        try {
          for await (const piece of pieces) await file.writeFile(piece);
          await file.datasync();
        } finally {
          await file.close();
        }
      }),
    ),
  );
}

const copyToInboxFiles = (source: string, staged: string, files: OpenFolder): Promise<string> =>
  placeInInboxFiles(basename(source), staged, files, async () =>
    wrapDiskErrors('copy', source, () => {
      fs.copyFileSync(source, staged, fs.constants.COPYFILE_EXCL | fs.constants.COPYFILE_FICLONE);
      fs.chmodSync(staged, 0o600);
      withOpenFile(staged, fs.fdatasyncSync);
    }),
  );

/** Puts the file that `write` creates under a free name in `files`; the staged file is removed in any case. */
async function placeInInboxFiles(
  wanted: string,
  staged: string,
  files: OpenFolder,
  write: (staged: string) => Promise<void>,
): Promise<string> {
  try {
    await write(staged);
    for (;;) {
      const isTaken = (name: string) => statInFolder(files, name) !== undefined;
      const name = freeName(safeName(wanted), isTaken);
      // Another sender may have taken the name since it was checked.
      if (linkIfFree(staged, files.path(name))) return `.files/${name}`;
    }
  } catch (error) {
    throw toDiskError(error, 'write to', files.displayPath);
  } finally {
    fs.rmSync(staged, { force: true });
    await syncFolder(files.path('.'));
  }
}

/** Throws UserError if a path is not a readable regular file. */
export function assertAttachable(source: string): void {
  const stat = wrapDiskErrors('attach', source, () => fs.statSync(source, { throwIfNoEntry: false }));
  if (!stat) throw new UserError(`Could not attach ${source}: there is no such file. Check its name and folder.`);
  if (!stat.isFile())
    throw new UserError(`${source} is not a regular file. Attach a file; pack a folder into an archive first.`);
  wrapDiskErrors('attach', source, () => fs.accessSync(source, fs.constants.R_OK));
}

const CROCKFORD_DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const RANDOM_BITS = 80n;

/**
 * Creates ids of 26 characters that sort by time and never repeat or go back within one generator, even if the clock
 * does: 48 bits of milliseconds, 80 random bits, incremented within one millisecond (the ULID specification,
 * github.com/ulid/spec).
 */
export function createUlidGenerator(now: () => Date, random: (bytes: number) => Buffer = randomBytes): () => string {
  let last = -1n;
  return () => {
    const time = BigInt(now().getTime());
    const fresh = (time << RANDOM_BITS) | BigInt(`0x${random(10).toString('hex')}`);
    last = time > last >> RANDOM_BITS ? fresh : last + 1n;
    return encodeCrockford(last);
  };
}

function encodeCrockford(value: bigint): string {
  let text = '';
  for (let rest = value; text.length < 26; rest >>= 5n) text = CROCKFORD_DIGITS[Number(rest & 31n)] + text;
  return text;
}
