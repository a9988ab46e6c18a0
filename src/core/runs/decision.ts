import type { EventBody, PlannerQuery } from '../../protocol/session/event.ts';
import type { MessageFile } from '../../protocol/session/message.ts';
import type { TurnCall } from '../session/run-state.ts';

/**
 * Everything a session can want of the world. The list is closed: a mode that needs another entry needs another design.
 */
export type Decision =
  /** put these on record and decide anew */
  | { do: 'record'; events: EventBody[] }
  /** put the committed reply of this message into the outbox */
  | { do: 'publish'; message: string }
  /**
   * call the model, not before `notBefore` (ISO time), for the work or beside it; it is the first to carry these
   * messages
   */
  | { do: 'think'; deliver: string[]; notBefore: string | null; consult?: PlannerQuery }
  /**
   * run this call; one that was started and has no end was open when a daemon died: run it again only where that is
   * safe
   */
  | { do: 'act'; call: TurnCall }
  /** give a child session this message, not before `notBefore` (ISO time) */
  | { do: 'send'; step: string; child: string; attempt: number; notBefore: string | null; message: ChildMessage }
  /** nothing, until something is dropped, or a time has come */
  | { do: 'rest'; due?: DueEvents };

/**
 * What is put on record where nothing else has happened at a time (ISO). The core has no clock: whoever has one waits
 * for it.
 */
export type DueEvents = { at: string; events: EventBody[] };

/** A message to a child session; the id is made of the step and the attempt, so sending it again changes nothing. */
export type ChildMessage = MessageFile & { id: string };
