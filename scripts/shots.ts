/**
 * `npm run shots`: the pictures of the page in docs/web.md, taken in Chromium. The daemon, the server and the page are the real
 * ones; the model is that of the scenario `dag`.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { chromium, type Page } from 'playwright-core';
import { findBrowser } from '../src/tools/browser/find-browser.ts';
import { startServer } from './bench/children.ts';
import { setStage } from './demo/stage.ts';
import { scenarios } from './modes/scenario.ts';

/** Two pixels for one of CSS: sharp where a screen has twice as many. */
const LOOK = { viewport: { width: 1180, height: 940 }, deviceScaleFactor: 1.5 } as const;

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
try {
  const page = await browser.newPage(LOOK);
  await page.goto(`${server.url}/#token=${server.token}`);
  await page.getByRole('navigation').waitFor();
  await page.goto(`${server.url}/#/s/demo`);
  const plan = page.getByRole('region', { name: 'Plan' });
  await plan.locator('summary').first().click();
  await take(page, 'page');
  await plan.locator('summary').first().click();
  await plan.getByRole('button', { name: 'Graph' }).click();
  await plan.getByRole('group', { name: 'Graph' }).getByRole('link').first().waitFor();
  await take(page, 'page-graph');
} finally {
  await browser.close();
  await server.stop();
  await stage.end();
}

async function take(page: Page, name: string): Promise<void> {
  const path = `docs/${name}.png`;
  await page.evaluate('document.activeElement?.blur()');
  await page.screenshot({ path, animations: 'disabled' });
  console.log(`wrote ${path}`);
}
