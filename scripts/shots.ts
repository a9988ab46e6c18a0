/**
 * `npm run shots`: takes the screenshots of the page in docs/web.md with Chromium, and writes what they show as text.
 * Daemon, server and page are real; the model is that of the scenario `dag`.
 *
 * The states that people meet are in docs/page/, each a session prepared for it.
 *
 *   npm run shots -- --check     takes none; fails where the page no longer shows that text
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium, type Locator, type Page } from 'playwright-core';
import { findBrowser } from '../src/tools/browser/find-browser.ts';
import { startServer } from './bench/children.ts';
import { setStage } from './demo/stage.ts';
import { scenarios } from './modes/scenario.ts';
import { shootStates } from './shots/shoot-states.ts';

/** A scale factor for sharp pictures on high-density screens. */
const LOOK = { viewport: { width: 1280, height: 800 }, deviceScaleFactor: 1, locale: 'en' } as const;
/** The text of the screenshots; unlike pixels, it is the same on every machine. */
const SHOWN = 'docs/page-shots.txt';
const isCheck = process.argv.includes('--check');

const dag = scenarios().get('dag');
if (!dag) throw new Error('Expected a scenario dag in tests/modes/scenarios/.');
const stage = setStage(dag.config);
const answers = join(stage.workspace, 'script.json');
writeFileSync(answers, JSON.stringify(dag.script));
await stage.start('--model', `scripted:${answers}`);
stage.drop('1.md', dag.message);
await stage.follow('1.md');
const server = await startServer(stage.workspace);
const browser = await chromium.launch({ executablePath: findBrowser(undefined, process.env), args: ['--no-sandbox'] });
const shown: string[] = [];
try {
  const page = await browser.newPage(LOOK);
  await page.goto(`${server.url}/#token=${server.token}`);
  await page.getByRole('navigation').waitFor();
  await page.goto(`${server.url}/#/s/demo`);
  const plan = page.getByRole('region', { name: 'Plan' });
  const list = page.getByRole('navigation', { name: 'Sessions' });
  await list.getByRole('link', { name: 'demo' }).waitFor();
  // Only the last entry is compared: earlier ones are not visible, and concurrent steps come in any order.
  const reply = page.getByRole('log').getByRole('article').last();
  await reply.locator('time').waitFor();
  await plan.locator('summary').first().click();
  await plan.getByText('…', { exact: true }).waitFor({ state: 'detached' });
  await take(page, 'page', [
    list,
    page.locator('main > header'),
    page.locator('.tabs'),
    plan,
    reply,
    page.locator('.composer'),
  ]);
  await plan.locator('summary').first().click();
  await plan.getByRole('button', { name: 'Graph' }).click();
  await plan.getByRole('group', { name: 'Graph' }).getByRole('link').first().waitFor();
  await take(page, 'page-graph', [plan]);
  if (!isCheck) await shootStates(browser);
} finally {
  await browser.close();
  await server.stop();
  await stage.end();
}

const text = shown.join('\n');
if (!isCheck) writeFileSync(SHOWN, text);
else if (existsSync(SHOWN) && readFileSync(SHOWN, 'utf8') === text) console.log(`The page shows what ${SHOWN} says.`);
else {
  spawnSync('diff', ['-u', SHOWN, '-'], { input: text, stdio: ['pipe', 'inherit', 'inherit'] });
  console.error(`The page no longer shows what ${SHOWN} says: take the pictures again with "npm run shots".`);
  process.exitCode = 1;
}

/** `parts`: the parts whose text is kept. */
async function take(page: Page, name: string, parts: readonly Locator[]): Promise<void> {
  const path = `docs/${name}.png`;
  await page.evaluate('document.activeElement?.blur()');
  const texts = await Promise.all(parts.map((part) => part.ariaSnapshot()));
  shown.push(`# ${name}.png\n${withoutMeasures(texts.join('\n'))}\n`);
  if (isCheck) return;
  await page.screenshot({ path, animations: 'disabled' });
  console.log(`wrote ${path}`);
}

/** Removes times, durations and folders, which differ in each run. */
function withoutMeasures(text: string): string {
  return text
    .replaceAll(stage.workspace, 'WORKSPACE')
    .replace(/event \d+ \(.+?UTC\)/g, 'event N (TIME)')
    .replace(/\d+:\d\d\s[AP]M/g, 'TIME')
    .replace(/ \d+s$/gm, '')
    .replace(/[\d.]+ (?:ms|sec|min)\b/g, 'DURATION')
    .replace(/[\d.]+K? tokens/g, 'TOKENS');
}
