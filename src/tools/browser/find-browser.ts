import { accessSync, constants, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isAbsolute, join } from 'node:path';
import { errorCode, UserError } from '../../base/user-error.ts';
import { trustedPathFolders } from '../../protocol/workspace/session-names.ts';

/** Program names of Chromium and compatible browsers on different systems. */
const PROGRAM_NAMES = [
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
  'chrome',
  'microsoft-edge',
];
const MAC_PATHS = [
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/** How to install a browser. */
const INSTALL_ADVICE =
  'A person can install it (Debian and Ubuntu: `apt-get install chromium`; Fedora: `dnf install chromium`; macOS: ' +
  '`brew install --cask chromium`) or name one with `browser.executable` in agentd.json. Until then web_fetch reads pages.';

/** Absolute path of the Chromium to use: the configured one, else the first known name in PATH. Throws UserError. */
export function findBrowser(named: string | undefined, env: NodeJS.ProcessEnv): string {
  if (named !== undefined) {
    if (isAbsolute(named) && canRun(named)) return named;
    throw new UserError(
      `\`browser.executable\` in agentd.json names \`${named}\`, which is no program with an absolute path.`,
    );
  }
  const folders = trustedPathFolders(env['PATH'] ?? '');
  const places = PROGRAM_NAMES.flatMap((name) => folders.map((folder) => join(folder, name)));
  const found = [...places, ...(process.platform === 'darwin' ? MAC_PATHS : [])].find(canRun);
  if (found === undefined) throw new UserError(`There is no Chromium on this machine. ${INSTALL_ADVICE}`);
  return found;
}

function canRun(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Throws UserError if playwright-core, which drives the browser, is not installed. Does not load it. */
export function requirePlaywright(): void {
  try {
    createRequire(import.meta.url).resolve('playwright-core');
  } catch (error) {
    if (errorCode(error) !== 'MODULE_NOT_FOUND') throw error;
    throw new UserError(
      'The browser tool needs the npm package playwright-core, which is not installed with agentd, since few need it. A person ' +
        'can install it beside agentd: `npm install -g playwright-core@1`. Until then web_fetch reads pages.',
    );
  }
}
