import type { ApprovedBy } from '../protocol/approval.ts';
import type { Question } from '../protocol/ask-call.ts';
import type { Consult, EventOf, MessageTemplate, RestStatus } from '../protocol/event.ts';
import type { Attached, ImageFile } from '../protocol/images.ts';
import type { FullLimits, Limits } from '../protocol/limits.ts';
import type { MessageOptions, Mode } from '../protocol/message.ts';
import type { CompletedBy, Plan, PlanSave, Step } from '../protocol/plan.ts';
import { NO_SEAL } from '../protocol/provenance.ts';
import type { Reply, Usage } from '../protocol/reply.ts';
import type { ChatMessage } from './chat.ts';
import type { TakenDrop } from './drops.ts';
import { type Grow, growing } from './grow.ts';
import { type Keyed, keyed } from './keyed.ts';
import type { Split } from './parts/split.ts';
import { NO_ROUNDS, type Rounds } from './rounds.ts';
import { isGroup } from './structure.ts';

/** What is known of the current plan beside what `plan.json` says. Another plan begins with none of it. */
export type PlanWork = {
  /** How often its open steps were replaced. */
  revisions: number;
  /** Steps that had failed, and calls that had asked for it, when it was revised last. */
  revisedFor: readonly string[];
  /** Stretches of work on it, for modes that rest where none of them completes anything. */
  rounds: Rounds;
  /** Failed steps in whose place a revision put others. */
  replaced: readonly string[];
  /** Steps that had ended when it was revised, or looked at and kept, last. */
  weighed: readonly string[];
  /** Child sessions that work on its steps, by step. */
  children: Readonly<Record<string, Child>>;
  /** The parts of the step with parts that began last. */
  split: Split | null;
  /** Ids of its steps that were closed, the last one last. */
  closed: readonly string[];
  /** Highest number given to a step, so that no id is used twice. */
  stepNo: number;
  /** A claim whose checks are being tried. */
  claim: Claim | null;
  /** What a person wrote or set of the steps, as `<step>:<field>`: the model leaves it alone. */
  theirs: readonly string[];
  /** Limits a person set in `plan.json`: they outlive the slice. */
  handLimits: Plan['limits'] | null;
  /** What `plan.json` said when a person saved it last, for each version of the plan a buffer began from; bounded. */
  saves: readonly PlanSave[];
};

export const FRESH_PLAN: PlanWork = {
  revisions: 0,
  revisedFor: [],
  rounds: NO_ROUNDS,
  replaced: [],
  weighed: [],
  children: {},
  split: null,
  closed: [],
  stepNo: 0,
  claim: null,
  theirs: [],
  handLimits: null,
  saves: [],
};

/** Everything a session's record means: the result of folding its events. Never changed in place. */
export type Session = PlanWork & {
  name: string;
  /** Last event folded in; 0 before the first. */
  seq: number;
  /** Wall time of that event. The core has no other clock. */
  at: string;
  title: string | null;
  messages: Keyed<Message>;
  /** Reply names in use, so that no two messages share one. */
  names: Keyed<true>;
  /** Dropped files that were taken, by `dropKey`. */
  drops: Keyed<TakenDrop>;
  /** Messages without a reply, in order. */
  unanswered: readonly string[];
  /** Received and not yet dealt with, in order. */
  queue: readonly string[];
  /** Part of a run, and in no answered model call yet. */
  uncarried: readonly string[];
  /** Committed replies that are not yet in `outbox/`. */
  unpublished: Readonly<Record<string, Reply>>;
  /** Plans that gave a step of this id to a child session, by step: each plan has child sessions of its own. */
  generations: Readonly<Record<string, number>>;
  /** What marks data and the daemon in messages from here on: drawn anew whenever a run begins or goes on. */
  seal: string;
  conversation: Grow<ChatMessage>;
  run: Run | null;
  turn: Turn | null;
  rest: Rest | null;
  /** What a person was asked by a call that is open until they answer: kept while the run waits, and gone with the call's end. */
  question: (Question & { call: string }) | null;
  plan: Plan | null;
  /** Paused plans that made room for another, by id. */
  setAside: Readonly<Record<string, Plan>>;
  /** What was kept beside each of them. */
  asideWork: Readonly<Record<string, PlanWork>>;
  /** The step that was asked whether it is done. */
  asked: string | null;
  /** Iterations of the current step that no longer count towards its timeout, since the model said it is not done. */
  patience: number;
  /** Earlier turns of the current step, for the judge; bounded. */
  trail: ReadonlyArray<Trace>;
  /** How often in a row each tool failed in the step at work; one that worked is not in it. */
  failing: Readonly<Record<string, number>>;
  /** What endpoints have shown to take at most, in tokens, by the model a run asked for ('' for the configured one). */
  windows: Readonly<Record<string, number>>;
  /** The step the model named as the next one. */
  next: string | null;
  /** What the next model call must be told, each with the event it comes from. */
  notices: readonly Notice[];
  /** Why the `plan.json` on disk could not be read, until it can. */
  planProblem: string | null;
  /** The mode a person set for the runs to come; null: that of the settings. */
  mode: Mode | null;
  setbacks: Setbacks;
  /** The last event that ended what ran in the background: jobs of turns up to it are over. 0: none. */
  jobsEnd: number;
  /** Calls that people are asked about. */
  approvals: Approvals;
  /** The last event at which a daemon ended in order and left something open; 0: none. */
  stopped: number;
};

/** What is known of daemons that were lost over the work at hand. */
export type Setbacks = {
  /** How many in a row are proven to be its doing: nothing else was at work, and it got no further in between. */
  count: number;
  /** What was said of the last one. */
  error: string | null;
  /** So many and it is set aside. */
  most: number;
  /** How often in a row runs were set aside. */
  shelved: number;
  /** Anything got further since the last recovery. */
  gotOn: boolean;
  /** At the last recovery a call was open: the model asking for another one is no progress yet. */
  inCall: boolean;
};

/** Daemons a message may cost before it is set aside (rule R20; mail systems call it a poison message). */
export const MOST_SETBACKS = 3;

export const NO_SETBACKS: Setbacks = {
  count: 0,
  error: null,
  most: MOST_SETBACKS,
  shelved: 0,
  gotOn: true,
  inCall: false,
};

/** News for the model, as facts; the prompt puts them into words. */
export type Notice = { seq: number } & (
  | { about: 'edit'; text: string }
  | { about: 'reopened'; step: string; said: string }
  | { about: 'again'; step: string; attempt: number; error: string }
  | { about: 'refused'; step: string; veto: string; evidence: string }
);

export type Approvals = {
  /** The highest number given. */
  count: number;
  /** The call that waits for a person. */
  open: Approval | null;
  /** The one that was decided last; its call runs, or is told no. */
  last: (Approval & { verdict: Verdict }) | null;
  /** How often each call was denied in the run at hand, by tool and arguments. */
  denied: Readonly<Record<string, number>>;
};

export const NO_APPROVALS: Approvals = { count: 0, open: null, last: null, denied: {} };

/** A call that was asked about. `id` 0: nobody was asked, a rule has denied it. */
export type Approval = {
  id: number;
  call: string;
  name: string;
  args: string;
  folder?: string;
  hash: string;
  why: string;
  shows: string;
  always: string | null;
  at: string;
  expires_at: string;
  /** The run that rests over it; null while that has not come to rest yet. */
  run: Run | null;
  /** Queued messages that were written before their sender could know of it: their words are no answer to it. */
  unseen: readonly string[];
};

export type Verdict = { decision: 'allow' | 'deny'; by: ApprovedBy; why: string; at: string };

export type Message = {
  id: string;
  /** Name of its reply file. */
  name: string;
  at: string;
  /** Empty once it was answered and no request needs it any more. */
  text: string;
  from?: string;
  command?: string;
  options?: MessageOptions;
  attachments?: string[];
  /** What the attachments were when it was taken. */
  files?: Attached[];
  /** Its sender gives no orders here: it is told to the model, and that is all. */
  as?: 'data';
  template?: MessageTemplate;
  sha256: string;
  /** It came while a run was on, so it may join that run. */
  during: boolean;
  replied: boolean;
};

export type Run = {
  message: string;
  since: string;
  /** How long calls of its family took, waiting for the endpoint included, by a clock that does not jump. */
  ms: number;
  mode: Mode;
  /** Why this mode, where the daemon chose it. */
  modeReason: string | undefined;
  model: string | undefined;
  limits: FullLimits;
  /** Id of a paused plan this run leaves alone. */
  beside: string | undefined;
  spent: { iterations: number; tokens: number; cost: number | null };
  /** Answers in a row without a tool call and without a step being closed, while steps were open. */
  quiet: number;
  repeat: { key: string; count: number; call: string };
  /** `silent_ms`: from the first of these failures to the last. */
  failure: { silent_ms: number; last: EventOf<'model.failed'> } | null;
  /** The paused plan that made room for this run's own. */
  aside: { id: string; goal: string } | null;
  agent: string | undefined;
  folder: string | undefined;
  /** The question beside the work that was answered last, and how often it was asked in a row. */
  consult: { ask: Consult; tries: number; text: string } | null;
  /** Exit status of the last command that ran; null: none ran, or it did not end by itself. */
  exit: number | null;
};

/** What a child session is asked, and how far it is. */
export type Child = {
  child: string;
  step: string;
  /** The how-manieth plan gave it this step; without it the first. */
  generation?: number;
  attempt: number;
  /** Attempts made before its step was begun anew: they are no part of its budget. */
  before: number;
  /** What it may spend at most until it replies; null where nobody said. */
  given: Limits | null;
  /** When it replied last. */
  at: string;
  /** The message whose reply is waited for. */
  awaiting: string;
  /** Messages sent so far, so that no id is used twice. */
  sent: number;
  /**
   * `halting`: told to stop, its reply is still to come; `held`: it has replied, and the run has rested since; `over`: the step
   * began anew since its reply.
   */
  state: 'working' | 'halting' | 'replied' | 'held' | 'over';
  /** How it was told to halt last, while it does. */
  halted?: string;
  /** It was told something since it was given this attempt: what it lost of that it cannot make up for. */
  told?: true;
  /** What people had said when its question was put to them: that answers something else. */
  saidBefore?: readonly string[];
  /** When it was given something to do last. */
  since?: string;
  /** The folder under `work/` it has as its own. */
  folder?: string;
  reply: Reply | null;
};

/** What of a turn the judge looks back at. */
export type Trace = {
  text: string;
  tools: string[];
  args: string[] /** files the tools wrote, under `work/` */;
  files: string[];
};

export type Turn = {
  seq: number;
  /** The step at work when the model was asked: what the answer speaks of where it names none. */
  step: string | null;
  /** A person spoke just before it. */
  userTurn: boolean;
  text: string;
  calls: readonly Call[];
  /** A step was closed by this answer: it closes no other. */
  advanced: boolean;
  /** A claim of this answer was refused or a question asked: it is not judged again. */
  judged: boolean;
  /** Its claim was not believed, and why. */
  refused: { step: string; evidence: string } | null;
  /** It said that the step cannot go on without something. */
  blocked: boolean;
  /** Descriptions this answer declared that were added. */
  declared: readonly string[];
};

/** A step said to be done, and how its checks came out so far, in the order of its `done_when`. */
export type Claim = {
  /** Where its checks have their keys from: never used twice. */
  seq: number;
  step: string;
  tier: CompletedBy;
  evidence: string;
  result: string;
  to: string | undefined;
  attachments: readonly string[];
  checks: ReadonlyArray<{ state: 'started' | 'ended'; ok: boolean; text: string } | undefined>;
};

export type Call = {
  key: string;
  id: string;
  name: string;
  args: string;
  /** Its main argument: a path, a command. */
  main: string;
  state: 'asked' | 'started' | 'finished' | 'interrupted';
  replay: 'safe' | 'never';
  ok: boolean;
  /** First words of its output. */
  head: string;
  /** What the model is shown of it when all calls of its answer have ended. */
  images?: readonly ImageFile[];
};

export type Rest = {
  message: string;
  status: RestStatus;
  reason: string;
  text: string;
  seq: number;
  beside: boolean;
  /** The plan that rests with it. */
  plan: string | null;
  /** Wall time. A record folded by an earlier version may not have it. */
  at?: string;
  spent: Usage;
  mode: Mode | undefined;
  modeReason: string | undefined;
  agent: string | undefined;
  folder: string | undefined;
  exit: number | null;
  /** Files under `work/` that its reply brings along. */
  files?: readonly string[];
};

export function emptySession(name: string): Session {
  return {
    name,
    seq: 0,
    at: '',
    title: null,
    messages: keyed(),
    names: keyed(),
    drops: keyed(),
    unanswered: [],
    queue: [],
    uncarried: [],
    unpublished: {},
    generations: {},
    ...FRESH_PLAN,
    seal: NO_SEAL,
    conversation: growing(),
    run: null,
    turn: null,
    rest: null,
    question: null,
    plan: null,
    setAside: {},
    asideWork: {},
    asked: null,
    patience: 0,
    trail: [],
    failing: {},
    windows: {},
    next: null,
    notices: [],
    planProblem: null,
    mode: null,
    setbacks: NO_SETBACKS,
    jobsEnd: 0,
    approvals: NO_APPROVALS,
    stopped: 0,
  };
}

/** The plan the current run works on: none while it answers beside a paused one. */
export function activePlan(session: Session): Plan | null {
  return session.run && !session.run.beside && session.plan?.status === 'running' ? session.plan : null;
}

/**
 * The step at work in this conversation. One that a `spawn` call gave to a child session is worked on elsewhere, and a group only
 * in its parts.
 */
export function runningStep(plan: Plan | null): Step | undefined {
  return plan?.steps.find(
    (step) => step.status === 'running' && step.call === undefined && !isGroup(plan.steps, step.id),
  );
}

/** How a session stands to a new message: the columns of the table in `answers.ts`. */
export type Standing = 'none' | 'running' | 'waiting' | 'paused' | 'completed' | 'failed';

/** A run that rests keeps its say until another one has ended with an answer; an open plan outlives what is answered beside it. */
export function standing(session: Session): Standing {
  if (session.run) return 'running';
  const open = session.plan && (session.plan.status === 'paused' || session.plan.status === 'waiting');
  if (open && (!session.rest || session.rest.status === 'done'))
    return session.plan?.status === 'waiting' ? 'waiting' : 'paused';
  if (session.plan?.status === 'completed' && session.rest?.plan === session.plan.id) return 'completed';
  switch (session.rest?.status) {
    case undefined:
      return 'none';
    case 'done':
      return session.plan
        ? session.plan.status === 'failed' || session.plan.status === 'cancelled'
          ? 'failed'
          : 'completed'
        : 'none';
    case 'paused':
      return 'paused';
    case 'waiting':
      return 'waiting';
    case 'failed':
    case 'cancelled':
      return 'failed';
  }
}

/** What is kept of the current plan where it makes room for another. */
export function planWork(session: Session): PlanWork {
  const { revisions, revisedFor, rounds, replaced, weighed, children, split, closed, stepNo } = session;
  const { theirs, handLimits, saves } = session;
  return {
    revisions,
    revisedFor,
    rounds,
    replaced,
    weighed,
    children,
    split,
    closed,
    stepNo,
    // Checks that were under way are tried anew.
    claim: null,
    theirs,
    handLimits,
    saves,
  };
}
