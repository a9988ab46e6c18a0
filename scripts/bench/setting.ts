/** The size of a bench: a quick check, the figures in the documentation, or also what takes very long. */
export type Size = 'quick' | 'usual' | 'all';

/** The options of every bench. */
export type Setting = {
  /** An existing empty folder for its workspaces. */
  folder: string;
  size: Size;
  /** For the daemon's Node.js only, for example to record a profile. */
  nodeFlags: string[];
};
