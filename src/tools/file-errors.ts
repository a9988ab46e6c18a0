import { errorCode, errorText, UserError } from '../protocol/errors.ts';

const WORDS: Record<string, string> = {
  ENOENT: 'is not there; list_files shows what is',
  ENOTDIR: 'has a file on its way where a folder is needed',
  EEXIST: 'has a file on its way where a folder is needed',
  EISDIR: 'is a folder, not a file',
  EACCES: 'is closed to this user',
  EPERM: 'is closed to this user',
  EROFS: 'is on a disk that cannot be written',
  ENOSPC: 'could not be written: the disk is full',
  EDQUOT: 'could not be written: the quota is used up',
  ELOOP: 'goes through a link, or through too many of them',
  ENAMETOOLONG: 'is too long a name',
  ENXIO: 'is a socket or a pipe, not a file',
};

/** A fault of the file system as the model is told of it: about the path it asked for, without errno names. */
export function inWords(error: unknown, shown: string): unknown {
  const words = WORDS[errorCode(error) ?? ''];
  if (error instanceof UserError || !errorCode(error)) return error;
  return new UserError(`\`${printable(shown)}\` ${words ?? `cannot be used: ${errorText(error)}`}.`);
}

/** A name on one line, whatever characters it has in it. */
export function printable(name: string): string {
  return name.replace(/[\u0000-\u001f\u007f]/g, (character) => JSON.stringify(character).slice(1, -1));
}

/** A size for a person or a model to compare: exact. */
export function bytesInWords(bytes: number): string {
  return bytes === 1 ? '1 byte' : `${bytes} bytes`;
}
