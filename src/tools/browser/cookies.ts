import { readFile, rename, writeFile } from 'node:fs/promises';
import type { BrowserContext } from 'playwright-core';
import { z } from 'zod';

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

/** The cookies of a session, kept beside the profile: Chromium forgets those without a date at its end, and syncs all others late. */
export type CookieJar = {
  /** Puts back what the profile lost. What it has by itself is newer, and stays. */
  restore(): Promise<void>;
  /** Writes what there is now, where it changed. */
  save(): Promise<void>;
};

export function cookieJar(context: BrowserContext, file: string): CookieJar {
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
