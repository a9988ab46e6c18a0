import { mapGet } from '../base/collections.ts';
import { openSessionFolders, readSession } from '../client/sessions/session-folders.ts';
import type { SpendingBook } from '../daemon/host/spending.ts';
import type { Spending } from '../engine/ports/session-ports.ts';
import { scheduleOfMessage } from '../protocol/schedules/schedule.ts';
import type { PeriodBudgets } from '../protocol/settings/budgets.ts';
import { rootSessionOf, type WorkspacePaths } from '../store/index.ts';

type Origin = { id: string; from?: string | undefined };

export type SessionSpendingOptions = {
  paths: WorkspacePaths;
  book: SpendingBook;
  /** The budgets in the `session.json` that applies. */
  own: () => PeriodBudgets | undefined;
  /** The configured model, for runs that name none. */
  model: () => string | undefined;
};

/**
 * The spending of one session. The calls of a child session count for the session at the top of its family, and for the
 * sender of the message which that one works on.
 */
export function openSessionSpending(name: string, { paths, book, own, model }: SessionSpendingOptions): Spending {
  const root = rootSessionOf(name);
  const folders = openSessionFolders(paths);

  async function originOf(message: Origin): Promise<Origin> {
    if (root === name) return message;
    // Its own message is one of its parent's.
    if (!folders.has(root)) return { id: message.id };
    const { run, runEnd, messages } = await readSession(folders.get(root));
    return mapGet(messages, (run ?? runEnd)?.message ?? '') ?? { id: message.id };
  }

  return {
    async reserve({ tokens, cost, model: named, message }, signal) {
      const { id, from } = await originOf(message);
      const schedule = scheduleOfMessage(id);
      const source = {
        ...{ session: root, model: named || (model() ?? 'unknown') },
        ...(from !== undefined && { sender: from }),
        ...(schedule !== undefined && { schedule }),
      };
      return book.reserve({ tokens, cost, source, own: own() }, signal);
    },
  };
}
