import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { quoteForShell } from '../../base/strings.ts';

/** The workspace of commands that name none: `$AGENTD_WORKSPACE`, else `~/.workspace`. An absolute path. */
export const defaultWorkspace = (env: NodeJS.ProcessEnv = process.env): string =>
  resolve(env['AGENTD_WORKSPACE'] || join(homedir(), '.workspace'));

/** A command line of agentctl to copy. It names the workspace unless that is the default. */
export function commandLine(root: string, [command = '', ...words]: readonly string[]): string {
  const flag = root === defaultWorkspace() ? [] : ['--workspace', root];
  return ['agentctl', command, ...[...flag, ...words].map(quoteForShell)].join(' ');
}
