import { listItems, mapEntries, type PersistentMap } from '../../src/base/collections.ts';
import type { Session } from '../../src/core/session/session-state.ts';

/** All of a session, whatever way its lists and maps grew: two that mean the same are deeply equal. */
export function bare(session: Session): unknown {
  const { messages, replyNames, takenDrops, conversation, ...plain } = session;
  return {
    ...plain,
    messages: sorted(messages),
    names: sorted(replyNames),
    drops: sorted(takenDrops),
    conversation: listItems(conversation),
  };
}

const sorted = <T>(all: PersistentMap<T>) => mapEntries(all).sort(([a], [b]) => (a < b ? -1 : 1));
