import type { Rules } from '../../protocol/config.ts';
import type { Consult, EventBody } from '../../protocol/event.ts';
import type { Step } from '../../protocol/plan.ts';
import type { Language } from '../language.ts';
import type { Why } from '../rest.ts';
import type { Session, Turn } from '../session.ts';

/** What a mode wants before the next iteration: something on record, a question beside the work, or a rest. */
export type Counsel = { record: EventBody[] } | { ask: Consult } | { rest: Why };

/** A planning mode: pure answers to where the steps come from, what is worked on next, and by whom. */
export type Policy = {
  /** The plan begins with the first call or declared step of the work itself; else `counsel` begins it. */
  readonly emerges: boolean;
  /** A step counts as done only where a tool was used in it. */
  readonly needsWork: boolean;
  /** All steps that are ready begin at once; else one at a time. */
  readonly together: boolean;
  /** Times a child may try a step. */
  readonly attempts: number;
  /** Steps that the answer at hand adds to the plan. */
  declare(session: Session, turn: Turn): EventBody[];
  /** The step to work on now; undefined where none is ready. */
  choose(session: Session): Step | undefined;
  /** Whether a step is given to a child session instead of being worked on here. */
  delegates(session: Session, step: Step, rules: Rules): boolean;
  counsel(session: Session, rules: Rules): Counsel | null;
  /** Its own words for a question beside the work, where the common ones do not fit. */
  readonly asks?: Readonly<Partial<Record<Consult, Readonly<Record<Language, string>>>>>;
};
