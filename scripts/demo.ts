/**
 * `npm run demo`: a typical task on a fresh machine, with a real daemon, real files, real tools, the built-in runbook
 * model and a small web site on loopback. Nothing is faked, and nothing outside a scratch folder is touched.
 *
 *   npm run demo                a runbook that pauses half-way and is continued
 *   npm run demo -- dag         a planning mode at work, with a scripted model
 *   npm run demo -- browser     reports behind a cookie banner, with a scripted model; needs Chromium
 */
import { browserDemo } from './demo/browser.ts';
import { modeDemo } from './demo/mode.ts';
import { runbookDemo } from './demo/runbook.ts';
import { scenarios } from './modes/scenario.ts';

const [name] = process.argv.slice(2);
const known = scenarios();
const scenario = known.get(name ?? '');
if (name === undefined) await runbookDemo();
else if (name === 'browser') await browserDemo();
else if (scenario) await modeDemo(scenario);
else {
  console.error(`There is no demo "${name}". Expected none, or one of ${['browser', ...known.keys()].join(', ')}.`);
  process.exitCode = 2;
}
