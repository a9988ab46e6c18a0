import { errorText, UserError } from '../protocol/errors.ts';

/**
 * A pattern as a person or a model wrote it: with `u`, for \p{…}; without it where only that makes the pattern wrong, as for a
 * needless backslash. `what` names it in the complaint.
 */
export function compile(source: string, what: string): RegExp {
  try {
    return new RegExp(source, 'u');
  } catch {
    try {
      return new RegExp(source);
    } catch (error) {
      throw new UserError(`${what} is not a JavaScript regular expression: ${errorText(error)}.`);
    }
  }
}
