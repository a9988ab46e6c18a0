import type { CheckpointReason } from '../../protocol/session/checkpoint.ts';
import type { EventBody, PlannerQuery } from '../../protocol/session/event.ts';
import type { MessageFile } from '../../protocol/session/message.ts';
import type { TurnCall } from '../session/run-state.ts';

/** Everything a session can ask for. The list is closed: a mode that needs another entry needs another design. */
export type Decision =
  /** log these events and decide again */
  | { do: 'record'; events: EventBody[] }
  /** find out which of these files exist, and decide again: the end of a run attaches them to its reply */
  | { do: 'look'; files: string[] }
  /** put the committed reply to this message into the outbox */
  | { do: 'publish'; message: string }
  /**
   * call the model, not before `notBefore` (ISO time), for the work or for a planner query; it delivers these messages
   */
  | { do: 'think'; deliver: string[]; notBefore: string | null; plannerQuery?: PlannerQuery }
  /** ask the model what this queued message means, in a request of its own without tools */
  | { do: 'interpret'; message: string }
  /** run this call; if it is already started, a daemon died in it: run it again only if `replay` is safe */
  | { do: 'act'; call: TurnCall }
  /**
   * take a checkpoint of `work/`, which no call of the session is using; for a message that restores files, of what is
   * there before
   */
  | { do: 'save'; why: CheckpointReason; steps: string[]; concurrent: boolean; message?: string; needed: number[] }
  /** make files in `work/` what they were at a checkpoint; begun again after a crash, it has the same outcome */
  | { do: 'restore'; message: string; checkpoint: number; rescue: number; paths: string[]; changedUntil?: number }
  /** send a child session this message, not before `notBefore` (ISO time) */
  | { do: 'send'; step: string; child: string; attempt: number; notBefore: string | null; message: ChildMessage }
  /** nothing, until something is dropped or a time has come */
  | { do: 'idle'; due?: DueEvents };

/**
 * Events to log if nothing else has happened by a time (ISO). The core has no clock: the engine waits for it. `later`:
 * times that may come after it, each of which has begun to run as well.
 */
export type DueEvents = { at: string; later?: readonly string[]; events: EventBody[] };

/** A message to a child session; the id is made of the step and the attempt, so sending it again changes nothing. */
export type ChildMessage = MessageFile & { id: string };
