import * as fs from 'node:fs';

/** The least taken from the reserve at a time: space for the few lines that end a call. */
const PIECE_BYTES = 16 * 1024;

/**
 * Frees this many bytes by shortening the reserve of a workspace. False if nothing is left of it, or if it cannot be
 * shortened, as on a file system that became read-only.
 */
export function takeFromReserve(path: string, bytes: number): boolean {
  try {
    const { size } = fs.statSync(path);
    if (size === 0) return false;
    fs.truncateSync(path, Math.max(0, size - Math.max(PIECE_BYTES, bytes)));
    return true;
  } catch {
    return false;
  }
}
