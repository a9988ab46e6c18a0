import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { errorCode, UserError } from '../../base/user-error.ts';

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

/** Files of autoconsent. The build copies them to where the built programs are; otherwise they are in the package. */
export function consentFiles() {
  const built = {
    library: new URL('./autoconsent/autoconsent.cjs.js', import.meta.url),
    rules: new URL('./autoconsent/compact-rules.json', import.meta.url),
  };
  if (existsSync(built.library)) return built;
  const { resolve } = createRequire(import.meta.url);
  return {
    library: resolve('@duckduckgo/autoconsent'),
    rules: resolve('@duckduckgo/autoconsent/rules/compact-rules.json'),
  };
}
