import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, readFile, readlink, rename, rm, rmdir, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { BrowserContext } from 'playwright-core';
import { z } from 'zod';
import { attempt } from '../../base/user-error.ts';
import { endGroup } from '../process/process-group.ts';

/** Where a session's browser keeps its files: a folder of the session outside `work/`. */
export const profilePaths = (folder: string) => ({
  folder,
  /** Chromium's user data directory. */
  data: join(folder, 'profile'),
  cookies: join(folder, 'cookies.json'),
  /** Exists while a browser uses the profile; contains the daemon's pid. */
  running: join(folder, 'running'),
  /** Its HOME: some parts of Chromium write there regardless of the profile. */
  home: join(folder, 'home'),
  /** Downloads in progress; empty between two calls. */
  incoming: join(folder, 'incoming'),
});
export type ProfilePaths = ReturnType<typeof profilePaths>;

/** PDFs are downloaded instead of shown: a snapshot of the built-in viewer contains no text. */
const PREFERENCES = {
  plugins: { always_open_pdf_externally: true },
  credentials_enable_service: false,
  profile: { password_manager_enabled: false },
};

/** Prepares the profile: creates its folders and preferences, and ends any browser still using it. */
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
 * Chromium locks its profile with a link `SingletonLock -> <host>-<pid>`. The link remains after a kill, and Chromium
 * trusts it forever if the host name has changed since. Only the daemon uses the profile, so a process that owns the
 * lock is a browser left by an earlier daemon: it is ended, and the lock is removed.
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
 * Removes what a browser wrote after its session's folder was removed or moved, so that no session reappears with
 * nothing but a profile. A folder with any other content is left alone, even if that content appears at this very
 * moment.
 */
export async function removeOrphanedProfile({ folder }: ProfilePaths): Promise<void> {
  const session = dirname(folder);
  const names = await readdir(session).catch(() => []);
  if (names.length !== 1 || names[0] !== basename(folder)) return;
  await rm(folder, { recursive: true, force: true });
  await rmdir(session).catch(() => undefined);
}

/** Whether a process was started with this profile; its pid may have been reused. */
function isBrowserOf(pid: number, data: string): boolean {
  return (
    attempt(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(`--user-data-dir=${data}`)) ?? false
  );
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
 * The cookies of a session, stored beside the profile: Chromium drops session cookies on exit and syncs all others
 * late.
 */
export type CookieJar = {
  /** Restores cookies the profile lost. Cookies already in the profile are newer and stay. */
  restore(): Promise<void>;
  /** Saves the current cookies if they changed. */
  save(): Promise<void>;
};

/** The cookie jar of a browser context, stored in `file`. */
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
