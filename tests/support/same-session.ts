import { listed } from '../../src/core/grow.ts';
import { entriesOf, type Keyed } from '../../src/core/keyed.ts';
import type { Session } from '../../src/core/session.ts';

/** All of a session, whatever way its lists and maps grew: two that mean the same are deeply equal. */
export function bare(session: Session): unknown {
  const { messages, names, drops, conversation, ...plain } = session;
  return {
    ...plain,
    messages: sorted(messages),
    names: sorted(names),
    drops: sorted(drops),
    conversation: listed(conversation),
  };
}

const sorted = <T>(all: Keyed<T>) => entriesOf(all).sort(([a], [b]) => (a < b ? -1 : 1));
