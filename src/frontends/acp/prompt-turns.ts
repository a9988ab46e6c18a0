import { type PromptResponse, RequestError, type StopReason } from '@agentclientprotocol/sdk';
import type { Event } from '../../protocol/session/event.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import { RUN_END } from '../../protocol/session/run-end.ts';
import type { SessionState } from './session-updates.ts';

/** How a run or a message ended. */
type Outcome = Pick<Reply, 'status' | 'text' | 'reason'>;

type PromptTurn = {
  /** The reply to its message, which does not end it where the run goes on. */
  reply?: Reply;
  isCancelled: boolean;
  resolve: (response: PromptResponse) => void;
  reject: (error: unknown) => void;
};

/** The prompts of a session that the editor waits for, by the id of their message. */
export type PromptTurns = {
  ids(): string[];
  begin(id: string): { response: Promise<PromptResponse>; isCancelled: () => boolean };
  /** After each event. `isPersonAsked`: a person is being asked in the editor, so what waits for the answer goes on. */
  event(event: Event, session: SessionState, isPersonAsked: boolean): void;
  /** The same without an event: a person left a question open. */
  endFinished(session: SessionState, isPersonAsked: boolean): void;
  /** From now on they end as cancelled, whatever their run comes to. */
  markCancelled(): void;
  /** Ends those that are marked. */
  endCancelled(): void;
  /** Ends them, or the one of this id, with an error. */
  fail(error: unknown, id?: string): void;
};

export function openPromptTurns(): PromptTurns {
  const turns = new Map<string, PromptTurn>();
  const end = (id: string, answer: (turn: PromptTurn) => void) => {
    const turn = turns.get(id);
    turns.delete(id);
    if (turn) answer(turn);
  };
  const endFinished = (session: SessionState, isPersonAsked: boolean) => {
    for (const [id, { reply, isCancelled }] of turns) {
      if (!reply) continue;
      const goesOn = reply.status === 'waiting' || reply.status === 'joined';
      if (!goesOn) end(id, (turn) => respond(turn, reply));
      // One that is marked as cancelled waits until the run has stopped.
      else if (!session.run && !isPersonAsked && !isCancelled)
        end(id, (turn) => respond(turn, session.runEnd ?? { ...reply, status: 'done' }));
    }
  };
  return {
    ids: () => [...turns.keys()],
    begin(id) {
      let turn: PromptTurn | undefined;
      const response = new Promise<PromptResponse>((resolve, reject) => {
        turn = { isCancelled: false, resolve, reject };
        turns.set(id, turn);
      });
      return { response, isCancelled: () => turn?.isCancelled === true };
    },
    event(event, session, isPersonAsked) {
      const turn = event.type === 'reply.committed' ? turns.get(event.message) : undefined;
      if (turn && event.type === 'reply.committed') turn.reply = event.reply;
      if (event.type === 'reply.published') endFinished(session, isPersonAsked);
    },
    endFinished,
    markCancelled() {
      for (const turn of turns.values()) turn.isCancelled = true;
    },
    endCancelled() {
      for (const [id, { isCancelled }] of turns)
        if (isCancelled) end(id, ({ resolve }) => resolve({ stopReason: 'cancelled' }));
    },
    fail(error, id) {
      for (const one of id === undefined ? [...turns.keys()] : [id]) end(one, ({ reject }) => reject(error));
    },
  };
}

/** Of the range that JSON-RPC leaves to servers. */
const RUN_FAILED = -32_000;

function respond({ isCancelled, resolve, reject }: PromptTurn, { status, text, reason }: Outcome): void {
  if (isCancelled) resolve({ stopReason: 'cancelled' });
  else if (status === 'failed' || status === 'rejected') reject(new RequestError(RUN_FAILED, text, { status, reason }));
  else resolve({ stopReason: stopReasonOf(status, reason), _meta: { 'agentd/end': { status, reason } } });
}

/** ACP has no stop reason for a run that waits or was paused: the turn ends, and the text of the reply says why. */
function stopReasonOf(status: Outcome['status'], reason: string | undefined): StopReason {
  if (status === 'cancelled' || (status === 'paused' && reason === RUN_END.stopped)) return 'cancelled';
  return status === 'paused' && reason === RUN_END.limit ? 'max_turn_requests' : 'end_turn';
}
