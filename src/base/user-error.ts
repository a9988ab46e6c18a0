/**
 * An error that a person can fix. Its message says what was expected, what was found and what to do; it is shown
 * without a stack.
 */
export class UserError extends Error {
  /** Exit code of the command that ends with this error; see docs/cli.md. */
  readonly exit: number;

  constructor(message: string, exit = 1) {
    super(message);
    this.name = new.target.name;
    this.exit = exit;
  }
}

/** What was given with a command, such as a name or a parameter, is invalid: an invalid command line. */
export class InvalidArgument extends UserError {
  constructor(message: string) {
    super(message, 2);
  }
}

/** The text of anything thrown. */
export function errorText(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The errno name (`ENOSPC`) of a system error, if it is one. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}

const DISK_FULL_CODES = new Set(['ENOSPC', 'EDQUOT']);

/** Whether a write failed for lack of space, on the disk or in a quota. */
export const isDiskFull = (error: unknown): boolean => DISK_FULL_CODES.has(errorCode(error) ?? '');

const FILE_LIMIT_CODES = new Set(['EMFILE', 'ENFILE']);

/** Whether a file could not be opened for lack of file descriptors, which says nothing about the file itself. */
export const isFileLimit = (error: unknown): boolean => FILE_LIMIT_CODES.has(errorCode(error) ?? '');

/** What `read` returns; undefined if it throws, whatever the reason. For what is used only if it is there. */
export function attempt<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** The first complaint of a schema, as `path: message`; `whole`: what stands for an empty path. */
export function firstIssue(
  error: { issues: ReadonlyArray<{ path: readonly PropertyKey[]; message: string }> } | undefined,
  whole = '',
): string {
  const [issue] = error?.issues ?? [];
  return `${issue?.path.map(String).join('.') || whole}: ${issue?.message ?? 'it is not valid'}`;
}
