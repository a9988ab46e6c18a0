/** The name of the folder that holds the sessions of a workspace. */
const SESSIONS = '.sessions';

/** Whether a path lies in a session's folder: what is there, a model may have written. */
export const isInSession = (path: string): boolean => sessionsAbove(path) !== undefined;

/** The folder of all sessions on the way to a path in one of them; undefined where it is in none. */
export function sessionsAbove(path: string): string | undefined {
  const at = `${path}/`.indexOf(`/${SESSIONS}/`);
  return at < 0 ? undefined : path.slice(0, at + SESSIONS.length + 1);
}

/**
 * The folders of a PATH in which programs that run outside of the sandbox may be looked for: the same wherever one is, and no
 * session's. `npx` and `npm run`, called in a `work/`, put its `node_modules/.bin` first.
 */
export const programFolders = (path: string): string[] =>
  path.split(':').filter((folder) => folder.startsWith('/') && !isInSession(folder));

/** An environment for programs that run outside of the sandbox. */
export function withSafePath<Env extends Readonly<Record<string, string | undefined>>>(env: Env): Env {
  const path = env['PATH'];
  return path === undefined ? env : { ...env, PATH: programFolders(path).join(':') };
}
