import { readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CallFolders } from '../engine/ports.ts';
import { inWords } from './errors.ts';
import { type Clocks, openUnchanged } from './unchanged.ts';

/** Keys as the engine makes them: `12.0`, `12.check0`, `12.parts0`. Nothing else may become part of a path. */
const KEY = /^\d+\.(?:check|parts)?\d+$/;

/** The folders of calls in a session's `tools/`. */
export function openCallFolders(root: string, clocks: Clocks): CallFolders {
  const empty = openUnchanged(root, clocks);
  const folder = (call: string): string => {
    if (!KEY.test(call)) throw new Error(`${JSON.stringify(call)} is no key of a call.`);
    return join(root, call);
  };
  return {
    folder,
    // At once: there are none or a few, and the way to another thread and back takes ten times as long as the look.
    async list() {
      if (empty.holds()) return [];
      const keep = empty.look();
      const calls = readdirSync(root).filter((name) => KEY.test(name));
      if (calls.length === 0) keep();
      return calls;
    },
    async remove(call) {
      try {
        await rm(folder(call), { recursive: true, force: true });
      } catch (error) {
        throw inWords(error, 'delete', folder(call));
      }
    },
  };
}
