import type { ChangeCounts, CheckpointReason, FileChange } from '../../protocol/session/checkpoint.ts';

/** Checkpoints of the session's `work/`, or of a folder in it. */
export type Checkpoints = {
  /** Whether the settings ask for them. */
  readonly isOn: boolean;
  /**
   * Takes a checkpoint. One that would equal the last is not written: the last is returned. Durable when it returns.
   * Throws UserError or DiskError if it cannot be written, and the signal's reason; `work/` is never changed.
   */
  save(order: SaveOrder, signal: AbortSignal): Promise<SavedCheckpoint>;
  /**
   * Makes `work/`, or these paths in it, what they were at a checkpoint; takes one of what is there first. Writes only
   * what differs. Durable when it returns. Throws UserError, with nothing changed, if the checkpoint cannot be read or
   * something that no checkpoint has would be lost. Repeating it after a crash completes it.
   */
  restore(order: RestoreOrder, signal: AbortSignal): Promise<ChangeCounts>;
};

export type SaveOrder = {
  why: CheckpointReason;
  steps: readonly string[];
  /** The open plan: its checkpoints are removed last. */
  plan: string | null;
  concurrent: boolean;
  /** The folder under `work/` that the session works in. */
  folder?: string | undefined;
  /** The last checkpoint that the log knows: numbers are not used again. */
  last: number;
  /** Checkpoints that must not be removed for this one. */
  needed: readonly number[];
};

/** `checkpoint` 0: `work/` is empty, and nothing was written. `files`: the first changes. */
export type SavedCheckpoint = {
  checkpoint: number;
  counts: ChangeCounts;
  files: FileChange[];
  leftOut: number;
};

export type RestoreOrder = {
  checkpoint: number;
  /** Paths below `work/`; empty: all of it. */
  paths: readonly string[];
  /** A later checkpoint: only what differs between the two is restored. */
  changedUntil?: number | undefined;
  save: SaveOrder;
};
