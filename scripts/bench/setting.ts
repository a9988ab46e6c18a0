/** How much of a bench is wanted: to see that it works, what the documentation tells of, or also what takes very long. */
export type Size = 'quick' | 'usual' | 'all';

/** What every bench is told. */
export type Setting = {
  /** Where its workspaces go; there and empty. */
  folder: string;
  size: Size;
  /** For the daemon's Node.js alone; a profile is asked for with them. */
  nodeFlags: string[];
};
