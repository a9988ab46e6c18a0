import type { EventBody } from '../../protocol/event.ts';
import type { Step } from '../../protocol/plan.ts';
import type { Session, Turn } from '../session.ts';

/** A planning mode: pure answers to what a plan gains and what is worked on next. */
export type Policy = {
  /** Steps that the answer at hand adds to the plan. */
  declare(session: Session, turn: Turn): EventBody[];
  /** The step to work on now; undefined where none is ready. */
  choose(session: Session): Step | undefined;
};
