import type { Config } from './config.ts';

/** The limits of a session's checkpoints, with every default filled in. */
export type CheckpointLimits = {
  /** Names, or paths below `work/`, that are left out; `*` stands for any part of a name. */
  exclude: readonly string[];
  /** How many are kept; 0: none is taken. */
  keep: number;
  maxFiles: number;
  maxFileBytes: number;
  /** Of all contents that a session keeps. */
  maxBytes: number;
  /** Of those of all sessions. */
  maxWorkspaceBytes: number;
};

const MEGABYTE = 1024 * 1024;
const CACHES = [
  'node_modules',
  '.venv',
  'venv',
  '__pycache__',
  '.cache',
  '.pytest_cache',
  '.mypy_cache',
  '.ruff_cache',
];
const EXCLUDED = [...CACHES, '.tox', '.npm', '.pnpm-store', '.yarn', '.gradle', '.turbo', '.next', '.parcel-cache'];

/**
 * What is kept of `work/`. Repositories of Git are always left out, as their files change together or are damaged.
 */
export function resolveCheckpoints({ checkpoints = {} }: Pick<Config, 'checkpoints'>): CheckpointLimits {
  return {
    exclude: ['.git', ...(checkpoints.exclude ?? EXCLUDED)],
    keep: checkpoints.keep ?? 50,
    maxFiles: checkpoints.max_files ?? 20_000,
    maxFileBytes: (checkpoints.max_file_mb ?? 100) * MEGABYTE,
    maxBytes: (checkpoints.max_mb ?? 1000) * MEGABYTE,
    maxWorkspaceBytes: (checkpoints.max_workspace_mb ?? 10_000) * MEGABYTE,
  };
}
