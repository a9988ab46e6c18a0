import type { Rules } from '../../protocol/config.ts';
import type { Consult, EventBody } from '../../protocol/event.ts';
import type { Step } from '../../protocol/plan.ts';
import type { Language } from '../language.ts';
import type { Why } from '../rest.ts';
import type { Call, Session, Turn } from '../session.ts';

/** What a mode wants before the next iteration: something on record, a look at the disk, a question beside the work, or a rest. */
export type Counsel = { record: EventBody[] } | { act: Call } | { ask: Consult } | { rest: Why };

/** How the plan of a mode begins, where a planner makes it. */
export type Beginning = {
  /** Answers of the planner that may be unreadable before the daemon goes on without it. */
  readonly tries: number;
  /** Most steps a plan begins with. */
  readonly first: number;
  /** The steps of a run whose planner never made any. */
  fallback(language: Language, goal: string): Step[];
};

/** A planning mode: pure answers to where the steps come from, what is worked on next, and by whom. */
export type Policy = {
  /** The plan begins with the first call or declared step of the work itself; else `counsel` begins it. */
  readonly emerges: boolean;
  /** A step counts as done only where a tool was used in it. */
  readonly needsWork: boolean;
  /** All steps that are ready begin at once; else one at a time. */
  readonly together: boolean;
  /** Parts of a step begin as others of them end, and work in folders of their own; without this, those begun together are waited for. */
  readonly slides?: boolean;
  /** Times a child may try a step. */
  readonly attempts: number;
  /** Most steps that may be open. */
  readonly most: number;
  /** As many open steps have the model asked to merge or close some; without it, never. */
  readonly crowded?: number;
  /** How often the open steps of one plan may be planned anew. */
  readonly replans: number;
  /** How the planner's plan begins; without it, by the common rule. */
  readonly begins?: Beginning;
  /** Seconds until the next try, for each try so far. */
  readonly pauseS?: number;
  /** Steps that the answer at hand adds to the plan. */
  declare(session: Session, turn: Turn): EventBody[];
  /** The step to work on now; undefined where none is ready. */
  choose(session: Session): Step | undefined;
  /** Whether a step is given to a child session instead of being worked on here. */
  delegates(session: Session, step: Step, rules: Rules): boolean;
  counsel(session: Session, rules: Rules): Counsel | null;
  /** Its own words for a question beside the work, where the common ones do not fit. */
  readonly asks?: Readonly<Partial<Record<Consult, Readonly<Record<Language, string>>>>>;
  /** What it tells the model that does the work, beside the plan. */
  readonly tells?: Readonly<Record<Language, string>>;
};
