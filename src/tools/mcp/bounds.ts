import * as fs from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { UserError } from '../../protocol/errors.ts';
import { isInSession } from '../../protocol/program-path.ts';
import { isInside, realAt } from '../paths.ts';
import type { Server } from '../sandbox-port.ts';

/** What the session's `work/` is called in the texts of an entry. */
export const WORK_VARIABLE = 'AGENTD_WORK';

/** Where a server is started and what it sees, as its entry says it, with all variables filled in. */
export type Wanted = { cwd?: string | undefined; read: string[]; write: string[] };

/** What of the file system a server is given. */
export type Bounds = Pick<Server, 'cwd' | 'read' | 'write' | 'work'>;

/** Variables that say where programs, their parts or their settings are. */
const LEADS_TO_CODE =
  /^(?:PATH|HOME|ENV|BASH_ENV|CLASSPATH|PERL5LIB|RUBYLIB|NODE_PATH|NODE_OPTIONS|(?:GIT|XDG|LD|DYLD|PIP|UV|NPM)_.*|PYTHON.*|npm_.*)$/;

/**
 * Looks at the folders of a server's entry. A model writes to `work/`: a server that was started there, or found its programs or
 * settings there, would run what the model wrote, with what the entry grants. Throws UserError that names the key.
 */
export function boundsOf(
  name: string,
  { cwd, read, write }: Wanted,
  { work, home }: { work: string; home: string },
): Bounds {
  const own = [resolve(work), realAt(work)];
  const isModels = (path: string) =>
    isInSession(path) || own.some((folder) => folder !== undefined && isInside(folder, path));
  const place = (key: string, text: string) => {
    const path = absolute(name, key, text, home);
    return { path, real: realAt(path), isWork: own.includes(path) };
  };
  const granted = (key: 'read' | 'write', texts: string[]) =>
    texts.map((text) => {
      const { path, real, isWork } = place(key, text);
      if (isWork) return undefined;
      if (isModels(path) || isModels(real ?? path)) {
        throw new UserError(
          `mcpServers.${name}.${key}: \`${text}\` lies in a session's folder. Of those a server is only given the \`work/\` ` +
            `of its own session, whole: \`\${${WORK_VARIABLE}}\`.`,
        );
      }
      if (real === undefined && key === 'read') throw notThere(name, key, text);
      return path;
    });
  const [reads, writes] = [granted('read', read), granted('write', write)];
  const folders = (paths: Array<string | undefined>) => paths.filter((path) => path !== undefined);
  return {
    cwd: startIn(),
    read: folders(reads),
    write: folders(writes),
    work: [...reads, ...writes].includes(undefined) ? { path: work, writable: writes.includes(undefined) } : undefined,
  };

  function startIn(): string | undefined {
    const isWritten = (path: string) => folders(writes).some((folder) => isInside(realAt(folder) ?? folder, path));
    if (cwd === undefined) return isWritten(realAt(home) ?? home) ? '/' : undefined;
    const { path, real } = place('cwd', cwd);
    if (isModels(path) || isModels(real ?? path)) {
      throw new UserError(
        `mcpServers.${name}.cwd: \`${cwd}\` lies in a session's folder, where the model writes: what it puts there ` +
          '(node_modules, .npmrc, a module) would be run. Name a folder of your own, or leave it out.',
      );
    }
    if (real === undefined || !fs.statSync(real).isDirectory()) throw notThere(name, 'cwd', cwd);
    if (isWritten(real)) {
      throw new UserError(
        `mcpServers.${name}.cwd: \`${cwd}\` lies in a folder of its \`write\`: what the server was made to write there would ` +
          'be run at its next start. Leave `cwd` out, and give it the folder as an argument.',
      );
    }
    return path;
  }
}

/** Throws UserError where a program, or a variable that leads to one, names what a model may have written. */
export function checkPrograms(name: string, command: string, own: Record<string, string>): void {
  const refuse = (key: string, text: string) => {
    throw new UserError(
      `mcpServers.${name}.${key}: \`${text}\` lies in a session's folder, where the model writes. ` +
        'Keep what is run in a folder of your own.',
    );
  };
  if (isAbsolute(command) && (isInSession(command) || isInSession(realAt(command) ?? ''))) refuse('command', command);
  for (const [key, text] of Object.entries(own)) {
    if (!LEADS_TO_CODE.test(key)) continue;
    const parts = [text, ...text.split(/[:=\s]/)];
    if (parts.some((part) => isInSession(part) || isInSession(realAt(part) ?? ''))) refuse(`env.${key}`, text);
  }
}

function absolute(name: string, key: string, text: string, home: string): string {
  const path = text === '~' || text.startsWith('~/') ? join(home, text.slice(1)) : text;
  if (isAbsolute(path)) return resolve(path);
  throw new UserError(
    `mcpServers.${name}.${key}: wanted an absolute path, or one that begins with ~/, came \`${text}\`.`,
  );
}

function notThere(name: string, key: string, text: string): UserError {
  return new UserError(
    `mcpServers.${name}.${key}: \`${text}\` is not there${key === 'cwd' ? ', or is no folder' : ''}.`,
  );
}
