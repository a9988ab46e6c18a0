import type { ImageFile } from '../../protocol/session/message.ts';

export type Toolbox = {
  /** What is offered now; it may be another list after each `ready`. */
  readonly specs: ToolSpec[];
  /**
   * Awaited before each call of the model: tools that come from elsewhere are brought up to date, in a bounded time.
   * Answers with what is amiss with them, in words for the model. Throws only the signal's reason.
   */
  refresh(caller: ToolCaller): Promise<string[]>;
  /** `safe`: running it twice is the same as once, so a call that was open at a crash runs again. */
  replayPolicy(name: string): 'safe' | 'never';
  /**
   * Whether this call may run, by the settings as they are now; runs nothing. One that would end with a complaint about
   * its arguments may. Throws only the signal's reason.
   */
  checkPermission(call: { name: string; args: string }, caller: ToolCaller): Promise<Permission>;
  /**
   * Runs one call. Arguments that do not parse or do not fit, an unknown name, a failing program: all are results with
   * `ok: false` in words the model can act on. Throws only where the signal was aborted (its reason) or on a bug.
   */
  run(call: { name: string; args: string }, context: ToolContext): Promise<ToolResult>;
  /**
   * What became of a call that a daemon began which is no more: its recorded result, or, where it still runs, its
   * result when it ends. Null where nobody knows. Never begins it again. Throws the signal's reason where that was
   * aborted: the call has ended.
   */
  resume(call: { name: string; args: string }, context: ToolContext): Promise<ToolResult | null>;
  /** Ends whatever still runs of a call whose end is on record. `runs`: it could not be ended. */
  endLeftovers(folder: string): Promise<'nothing' | 'ended' | 'runs'>;
};

// --- the model
// --------------------------------------------------------------------------------------------------------

export type ToolSpec = {
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  parameters: Record<string, unknown>;
};

// --- the tools
// --------------------------------------------------------------------------------------------------------

/**
 * `exit`: of a command, its exit status; null where it did not end by itself. `images`: shown to a model that sees,
 * paths relative to the call's own `work`.
 */
export type ToolResult = { ok: boolean; text: string; exit?: number | null; images?: ImageFile[] };

export type ToolContext = {
  /** Absolute path of the session's `work/`: all a tool may touch, besides what the person allowed to be read. */
  work: string;
  /** Aborted when a person stops the run or the daemon goes down: the tool ends with everything it started. */
  signal: AbortSignal;
  /**
   * Absolute path of a folder for this call alone, outside of `work/`; whoever needs it makes it. It is taken away
   * later.
   */
  folder: string;
  /** Reads on in an output that was too long to show. */
  blob: (hash: string) => Promise<string | undefined>;
  /** How many jobs may run at once; left out: as many as by default. */
  jobs?: number;
  /**
   * What the rules say of the same tool with other arguments, where a call leads on to more: a redirect, another page.
   */
  permits?: (args: string) => Permission;
  /** For `resume`: false where the rules no longer let the call begin. What ran is told, nothing is begun. */
  mayBegin?: boolean;
};

/** Whether a call may run. `rule`: a rule says that it is asked about, not a default. */
export type Permission =
  | { is: 'allow' }
  | { is: 'deny'; why: string }
  | {
      is: 'ask';
      why: string;
      rule: boolean;
      /** The call as a person reads it, and the rule that would allow calls like it. */
      shows: string;
      always: string;
    };

/**
 * Who asks for something of the tools. `work`: as in `ToolContext`, found when it is needed. `top`: the `work/` that it
 * lies in, where it is a folder of its own for a child session.
 */
export type ToolCaller = { work: () => Promise<string>; top?: () => Promise<string>; signal: AbortSignal };

/**
 * Commands that go on after the call that began them, and outlive the daemon. None of these throws for what is wrong
 * with a job.
 */
export type Jobs = {
  /** Jobs that have ended since the model was told last, in lines for it. */
  listUnreported(): string[];
  /** The model has been told this news. */
  markAllReported(): void;
  /** Those that run, in words for a person. */
  listRunning(): string[];
  /** Ends those that were begun by turns up to this event; answers which. Repeating it changes nothing. */
  end(upto: number): Promise<string[]>;
};
