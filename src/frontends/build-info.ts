import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { packageVersion } from './command-line.ts';

/** What `scripts/build.mjs` notes about a build; both are null where there was no git. */
const BuildNote = z.object({ commit: z.string().nullable(), date: z.string().nullable() });

/** For people: the version, and of which commit and day it is, as in `0.1.0 (1a2b3c4d5e, 2026-11-28)`. */
export function versionWithCommit(): string {
  const { commit, date } = readBuildNote();
  return commit === null || date === null ? packageVersion() : `${packageVersion()} (${commit}, ${date})`;
}

/** The same place from `src/` and from `dist/`; only a build by hand has none. */
function readBuildNote(): z.infer<typeof BuildNote> {
  try {
    return BuildNote.parse(JSON.parse(readFileSync(new URL('../../dist/build.json', import.meta.url), 'utf8')));
  } catch {
    return { commit: null, date: null };
  }
}
