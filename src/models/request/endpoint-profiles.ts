import { z } from 'zod';
import { RequestStyle } from './request-style.ts';

/** What is known of a model at an address: learned from its refusals and answers, or by `agentctl doctor --ask`. */
export const EndpointProfile = z.object({
  style: RequestStyle.optional(),
  /** False: the endpoint refuses images for this model. */
  images: z.literal(false).optional(),
  window: z.int().min(1).optional(),
  /** Answers come in pieces. */
  streams: z.boolean().optional(),
  /** Answers report their tokens. */
  usage: z.boolean().optional(),
  /** How it called tools when it was asked to, and whether several at once. */
  tools: z.enum(['native', 'text', 'none']).optional(),
  parallel: z.boolean().optional(),
});
export type EndpointProfile = z.infer<typeof EndpointProfile>;

const ProfileFile = z.object({ version: z.literal(1), endpoints: z.record(z.string(), z.unknown()) });

/**
 * Profiles by address and model. A cache, never an authority: it may be deleted, one of another version or a damaged
 * one is ignored, and whatever turns out to be wrong is learned again.
 */
export type EndpointProfiles = {
  get(address: string, model: string): EndpointProfile;
  /** Adds to a profile; writes only if that changes anything. */
  note(address: string, model: string, facts: Partial<EndpointProfile>): void;
  forget(address: string, model: string): void;
};

/** The oldest are dropped beyond this. */
const MAX_PROFILES = 200;

/** Opens the profiles in a text; `write` gets the whole text after each change and may fail unnoticed. */
export function openProfiles(text: string | undefined, write: (text: string) => void): EndpointProfiles {
  const known = new Map<string, EndpointProfile>(readProfiles(text));
  const save = (): void => {
    for (const key of [...known.keys()].slice(0, -MAX_PROFILES)) known.delete(key);
    write(`${JSON.stringify({ version: 1, endpoints: Object.fromEntries(known) }, null, 2)}\n`);
  };
  return {
    get: (address, model) => known.get(keyOf(address, model)) ?? {},
    note(address, model, facts) {
      const key = keyOf(address, model);
      const before = known.get(key) ?? {};
      const after = { ...before, ...facts };
      if (JSON.stringify(before) === JSON.stringify(after)) return;
      known.delete(key);
      known.set(key, after);
      save();
    },
    forget(address, model) {
      if (known.delete(keyOf(address, model))) save();
    },
  };
}

/** Profiles that are kept in memory only. */
export const unsavedProfiles = (): EndpointProfiles => openProfiles(undefined, () => undefined);

/** Without the query, which may hold a key. */
function keyOf(address: string, model: string): string {
  const { origin, pathname } = new URL(address);
  return `${origin}${pathname.replace(/\/+$/, '')} ${model}`;
}

function readProfiles(text: string | undefined): Array<[string, EndpointProfile]> {
  try {
    const file = ProfileFile.parse(JSON.parse(text ?? ''));
    return Object.entries(file.endpoints).flatMap(([key, value]): Array<[string, EndpointProfile]> => {
      const profile = EndpointProfile.safeParse(value);
      return profile.success ? [[key, profile.data]] : [];
    });
  } catch {
    return [];
  }
}
