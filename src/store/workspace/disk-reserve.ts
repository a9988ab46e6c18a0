import * as fs from 'node:fs';

/** Taken from the reserve at once: room for the few lines that end a call. */
const PIECE_BYTES = 16 * 1024;

/**
 * Frees room for so many bytes by making the reserve of a workspace shorter. False where nothing is left of it, or
 * where it cannot be made shorter, as on a file system that is read-only now.
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
