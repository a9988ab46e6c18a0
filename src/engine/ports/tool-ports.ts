import type { ImageFile } from '../../protocol/session/message.ts';
import type { SessionReach } from '../../protocol/workspace/daemon-files.ts';
import type { BrowserState } from '../../protocol/workspace/handover.ts';

export type Toolbox = {
  /** The tools currently offered; `refresh` may change the list. */
  readonly specs: ToolSpec[];
  /**
   * Awaited before each model call: updates tools from other sources, within a bounded time. Returns the problems with
   * them, in words for the model. Throws only the signal's reason.
   */
  refresh(caller: ToolCaller): Promise<string[]>;
  /** `safe`: running it twice is the same as once, so a call that was open at a crash runs again. */
  replayPolicy(name: string): 'safe' | 'never';
  /**
   * Whether this call may run, by the current settings; runs nothing. A call that would be rejected for its arguments
   * may. Throws only the signal's reason.
   */
  checkPermission(call: { name: string; args: string }, caller: ToolCaller): Promise<Permission>;
  /**
   * Runs one call. Arguments that do not parse or do not fit, an unknown name, a failing program: all are results with
   * `ok: false` in words the model can act on. Throws only if the signal was aborted (its reason) or on a bug.
   */
  run(call: { name: string; args: string }, context: ToolContext): Promise<ToolResult>;
  /**
   * The result of a call started by an earlier daemon: the recorded result, or, if it still runs, its result when it
   * ends. Null if nobody knows. Never starts it again. Throws the signal's reason if aborted: the call has then ended.
   */
  resume(call: { name: string; args: string }, context: ToolContext): Promise<ToolResult | null>;
  /** Ends whatever still runs of a call whose end is in the log. `runs`: it could not be ended. */
  endLeftovers(folder: string): Promise<'nothing' | 'ended' | 'runs'>;
};

// --- the model
// --------------------------------------------------------------------------------------------------------

export type ToolSpec = {
  name: string;
  description: string;
  /** JSON Schema of the arguments. */
  parameters: Record<string, unknown>;
  /** What it is for, in one line: it is offered by that alone, and called through `more_tools`. */
  line?: string;
};

// --- the tools
// --------------------------------------------------------------------------------------------------------

/**
 * `exit`: for a command, its exit status; null if it did not end by itself. `images`: shown to a model with vision;
 * paths relative to the call's own `work`. `sha256`: of the file that it wrote.
 */
export type ToolResult = { ok: boolean; text: string; exit?: number | null; images?: ImageFile[]; sha256?: string };

export type ToolContext = {
  /** Absolute path of the session's `work/`: all a tool may touch, besides what the person allowed to be read. */
  work: string;
  /** The `work/` that contains it, if it is a folder of it: rules may name files from there, too. */
  top?: string;
  /** Aborted when a person stops the run or the daemon shuts down: the tool ends with everything it started. */
  signal: AbortSignal;
  /**
   * Absolute path of a folder for this call alone, outside of `work/`; a tool that needs it creates it. It is removed
   * later.
   */
  folder: string;
  /** Reads more of an output that was too long to show. */
  blob: (hash: string) => Promise<string | undefined>;
  /** The sessions that may be searched: those that everybody may see who has a part in the run; all if left out. */
  reach?: SessionReach;
  /** How many jobs may run at once; the default if left out. */
  jobs?: number;
  /**
   * What the rules say of other arguments, if a call leads to more: a redirect, another page. `tool`: the one that
   * would do it, if not this one.
   */
  permits?: (args: string, tool?: string) => Permission;
  /** The tools that the model may call, for one that names another; those with a schema if left out. */
  offered?: readonly string[];
  /** For `resume`: false if the rules no longer allow the call to start. Results are returned, nothing is started. */
  mayBegin?: boolean;
};

/** Whether a call may run. `rule`: the question comes from a rule, not from a default. */
export type Permission =
  | { is: 'allow' }
  | { is: 'deny'; why: string }
  | {
      is: 'ask';
      why: string;
      rule: boolean;
      /** The call in readable form, and the rule that would allow calls like it. */
      display: string;
      always: string;
    };

/**
 * Who makes the call. `work`: as in `ToolContext`, resolved when it is needed. `top`: the `work/` that contains it, if
 * it is a child session's own folder.
 */
export type ToolCaller = { work: () => Promise<string>; top?: () => Promise<string>; signal: AbortSignal };

/** The browser of a session, which a person may take over and use through a socket. */
export type BrowserControl = {
  readonly state: BrowserState;
  /**
   * Opens it to the person who has it, over a socket, once the agent's call under way has ended. Nothing happens if it
   * is open to them already.
   */
  give(): void;
  /** They no longer have it. Nothing happens if they have not. */
  takeBack(): void;
};

/**
 * Commands that continue after the call that started them, and outlive the daemon. None of these functions throws for a
 * problem with a job.
 */
export type Jobs = {
  /** Jobs that have ended since the last report to the model, as lines for it. */
  listUnreported(): string[];
  /** The model has received this news. */
  markAllReported(): void;
  /** The running jobs, in words for a person. */
  listRunning(): string[];
  /** Ends jobs started by turns up to this event; returns which. Idempotent. */
  end(upto: number): Promise<string[]>;
};
