import { depthOf, rootOf } from './child-name.ts';
import { entryOf } from './keyed.ts';
import type { Message, Session } from './session.ts';
import { letGo } from './settled.ts';

/** Messages that wait to be told with the next task: the newest, and not more characters than a page or ten. */
const MOST_KEPT = 20;
const MOST_CHARACTERS = 20_000;

/**
 * Whether a message is an order: it names no sender, or one of `senders`; without that setting everybody's is. A child session hears
 * its own family, which speaks for the person.
 */
export function isOrder(session: string, from: string | undefined, senders: readonly string[] | undefined): boolean {
  if (from === undefined || senders === undefined || senders.includes(from)) return true;
  return depthOf(session) > 0 && rootOf(from) === rootOf(session);
}

/** A message that came while nothing ran and orders nothing waits to be told; what no longer fits beside it is let go. */
export function keptForLater(session: Session, { id }: Message): Pick<Session, 'uncarried' | 'messages'> {
  const all = [...session.uncarried, id];
  const isData = (one: string) => entryOf(session.messages, one)?.as === 'data';
  let room = MOST_CHARACTERS;
  const fits = all
    .filter(isData)
    .reverse()
    .filter((one, place) => {
      room -= entryOf(session.messages, one)?.text.length ?? 0;
      return place === 0 || (place < MOST_KEPT && room >= 0);
    });
  const gone = all.filter((one) => isData(one) && !fits.includes(one));
  return { uncarried: all.filter((one) => !gone.includes(one)), messages: letGo(session.messages, gone) };
}
