import { errorCode, errorText, UserError } from '../../base/user-error.ts';

/**
 * An event log that cannot be trusted. Nothing was changed; the session waits for a person, all others continue.
 * `isOtherVersion`: its bytes are what somebody wrote, but this version cannot read them.
 */
export class CorruptLogError extends UserError {
  readonly file: string;
  readonly isOtherVersion: boolean;

  constructor(file: string, message: string, isOtherVersion = false) {
    super(`${file}: ${message}`);
    this.file = file;
    this.isOtherVersion = isOtherVersion;
  }
}

/** A later owner of the workspace writes to this event log. This writer must stop for good. */
export class FencedError extends UserError {
  constructor(file: string, theirs: number, ours: number) {
    super(
      `${file}: a daemon that took over the workspace (epoch ${theirs}) writes there; this one (epoch ${ours}) stops. Nothing was overwritten.`,
    );
  }
}

/** A file system error. `code` is its errno name, such as `ENOSPC`, so that the caller may wait for space. */
export class DiskError extends UserError {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const ERRNO_ADVICE: Record<string, string> = {
  ENOSPC: 'the disk is full. Free some space, then try again',
  EDQUOT: 'the disk quota is used up. Free some space, then try again',
  EFBIG: 'the file would be larger than this process may write. Raise the limit (ulimit -f)',
  EROFS: 'the file system is read-only. Mount it writable, then try again',
  EACCES: 'permission denied. Give this user access to it',
  EPERM: 'the operation is not permitted. Check the owner and the mount options',
  EIO: 'the disk reported an input/output error. Check the disk before you continue',
  EMFILE: 'this process has too many files open. Raise the limit (ulimit -n)',
  ENFILE: 'the system has too many files open. Close some programs',
  ENOTDIR: 'a part of the path is not a folder. Move that file away',
  EISDIR: 'it is a folder; expected a file',
  ELOOP: 'it is a symbolic link, and links are not followed here. Replace it by the real file or folder',
  ENAMETOOLONG: 'the name is too long. Use a shorter one',
  ENOENT: 'it does not exist. Was the folder removed or renamed?',
};

/** A system error reworded, with the path and the errno. Any other error is returned as it was. */
export function toDiskError(error: unknown, doing: string, path: string): unknown {
  const code = errorCode(error);
  if (code === undefined || error instanceof UserError || !/^E[A-Z0-9]+$/.test(code)) return error;
  return new DiskError(code, `Could not ${doing} ${path}: ${ERRNO_ADVICE[code] ?? errorText(error)} (${code}).`);
}

/** What is wrong where a folder is expected and something else is, also a link to a folder. */
export const notAFolder = (path: string): string =>
  `${path} must be a folder, but something else is there. Move it away; links are not followed.`;

/** Runs `job`; file system errors are thrown reworded. */
export function wrapDiskErrors<T>(doing: string, path: string, job: () => T): T {
  try {
    return job();
  } catch (error) {
    throw toDiskError(error, doing, path);
  }
}

/** The result of `job`, or undefined if the file does not exist. */
export function ifExists<T>(job: () => T): T | undefined {
  try {
    return job();
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}
