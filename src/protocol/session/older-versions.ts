import { getOwn } from '../../base/collections.ts';
import type { Event } from './event.ts';

/**
 * What events may have that an older release does not know: types, and values of fields. It serves no session with such
 * an event, and changes nothing there. Once a session has one, it cannot go back to that release.
 */
type Unknown = { types: readonly string[]; values: Readonly<Record<string, readonly string[]>> };

/** Not in the golden log of 0.1.0; `npm run docs` writes this list. */
const TYPES_SINCE_FIRST = [
  'session.forked',
  'message.interpreted',
  'meaning.asked',
  'model.set',
  'child.asked',
  'work.saved',
  'work.restored',
];

/** By build, as `versionWithCommit` says it, newest first. A new value is added to each. */
const UNKNOWN_TO_OLDER: Readonly<Record<string, Unknown>> = {
  '0.1.0 (e5cde7ea8c, 2026-11-28)': {
    types: TYPES_SINCE_FIRST,
    values: {
      by: ['agent', 'text'],
      tier: ['agent', 'text'],
      completed_by: ['agent', 'text'],
      kind: ['budget'],
      when: ['apart'],
    },
  },
};

/** The build before this version, which may have the same number. */
export const [OLDER_RELEASE = ''] = Object.keys(UNKNOWN_TO_OLDER);

/** The fields in which such a value may be deeper in an event. */
const DEEPER = ['step', 'steps', 'changes', 'options'];

/** What in an event that release does not know, such as `work.saved`; undefined if it can read it. */
export function unknownTo(release: string, event: Event): string | undefined {
  const { types = [], values = {} } = getOwn(UNKNOWN_TO_OLDER, release) ?? {};
  if (types.includes(event.type)) return event.type;
  const found = findValue(event, values);
  return found && `${event.type} with ${found}`;
}

function findValue(part: unknown, values: Unknown['values']): string | undefined {
  if (typeof part !== 'object' || part === null) return undefined;
  for (const [key, value] of Object.entries(part)) {
    if (typeof value === 'string' && getOwn(values, key)?.includes(value)) return `${key} "${value}"`;
    const deeper = Array.isArray(part) || DEEPER.includes(key) ? findValue(value, values) : undefined;
    if (deeper !== undefined) return deeper;
  }
  return undefined;
}
