import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, readlink, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { BrowserContext } from 'playwright-core';
import { z } from 'zod';
import { endGroup } from '../process/process-group.ts';

/** Where one session's browser keeps its things: a folder of the session outside of `work/`. */
export const profilePaths = (folder: string) => ({
  folder,
  /** What Chromium calls its user data directory. */
  data: join(folder, 'profile'),
  cookies: join(folder, 'cookies.json'),
  /** Its HOME: some of its parts write there whatever the profile is. */
  home: join(folder, 'home'),
  /** Files on their way in; empty between two calls. */
  incoming: join(folder, 'incoming'),
});
export type ProfilePaths = ReturnType<typeof profilePaths>;

/** PDFs are files to be had, not pages to be shown: the viewer has nothing that a snapshot could tell. */
const PREFERENCES = {
  plugins: { always_open_pdf_externally: true },
  credentials_enable_service: false,
  profile: { password_manager_enabled: false },
};

/** Makes the profile ready: its folders, its preferences, and nobody in it. */
export async function prepareProfile(paths: ProfilePaths): Promise<void> {
  await rm(paths.incoming, { recursive: true, force: true });
  for (const folder of [paths.folder, paths.home, paths.incoming, join(paths.data, 'Default')]) {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  }
  const preferences = join(paths.data, 'Default', 'Preferences');
  if (!existsSync(preferences)) await writeFile(preferences, JSON.stringify(PREFERENCES), { mode: 0o600 });
  await endOldBrowser(paths.data);
}

/**
 * Chromium locks its profile by a link `SingletonLock -> <host>-<pid>`, which stays behind where it is killed, and
 * which it believes for ever where the host has another name by now. The daemon is the only one who uses the profile,
 * so whoever holds it is a browser that an earlier daemon left: it is ended, and the lock goes.
 */
async function endOldBrowser(data: string): Promise<void> {
  const lock = await readlink(join(data, 'SingletonLock')).catch(() => undefined);
  if (lock === undefined) return;
  const [, host, pid] = /^(.*)-(\d+)$/.exec(lock) ?? [];
  if (host === hostname() && isBrowserOf(Number(pid), data)) await endGroup(Number(pid), AbortSignal.abort());
  for (const name of ['SingletonLock', 'SingletonSocket', 'SingletonCookie'])
    await rm(join(data, name), { force: true });
}

/**
 * Takes away what a browser wrote after its session's folder had been removed or moved, so that no session comes back
 * that is nothing but a profile. A folder with anything else in it is left as it is, also where that comes at this very
 * moment.
 */
export async function removeOrphanedProfile({ folder }: ProfilePaths): Promise<void> {
  const session = dirname(folder);
  const names = await readdir(session).catch(() => []);
  if (names.length !== 1 || names[0] !== basename(folder)) return;
  await rm(folder, { recursive: true, force: true });
  await rmdir(session).catch(() => undefined);
}

/** A process number may long be somebody else's: only one that was started for this very profile is ended. */
function isBrowserOf(pid: number, data: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(`--user-data-dir=${data}`);
  } catch {
    return false;
  }
}

const Cookie = z.object({
  name: z.string(),
  value: z.string(),
  domain: z.string(),
  path: z.string(),
  expires: z.number(),
  httpOnly: z.boolean(),
  secure: z.boolean(),
  sameSite: z.enum(['Strict', 'Lax', 'None']),
});
type Cookie = z.infer<typeof Cookie>;

/**
 * The cookies of a session, kept beside the profile: Chromium forgets those without a date at its end, and syncs all
 * others late.
 */
export type CookieJar = {
  /** Puts back what the profile lost. What it has by itself is newer, and stays. */
  restore(): Promise<void>;
  /** Writes what there is now, where it changed. */
  save(): Promise<void>;
};

export function openCookieJar(context: BrowserContext, file: string): CookieJar {
  let saved = '';
  const keyOf = ({ name, domain, path }: Cookie) => JSON.stringify([name, domain, path]);
  return {
    async restore() {
      const kept = z.array(Cookie).safeParse(
        await readFile(file, 'utf8')
          .then(JSON.parse)
          .catch(() => []),
      );
      const has = new Set((await context.cookies()).map(keyOf));
      const lost = (kept.data ?? []).filter((cookie) => !has.has(keyOf(cookie)));
      if (lost.length > 0) await context.addCookies(lost).catch(() => undefined);
    },
    async save() {
      const text = JSON.stringify(z.array(Cookie).parse(await context.cookies()));
      if (text === saved) return;
      await writeFile(`${file}.tmp`, text, { mode: 0o600 });
      await rename(`${file}.tmp`, file);
      saved = text;
    },
  };
}
