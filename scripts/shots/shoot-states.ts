import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Browser } from 'playwright-core';
import { startServer } from '../bench/children.ts';
import { setStage } from '../demo/stage.ts';
import { drop, PREPARED, startPreparedModel } from './states.ts';

const FOLDER = 'docs/page';
/** How long a session takes to come to its state. */
const SETTLE_MS = 2500;

/** Takes a picture of each prepared session, of the list and of a new session: `docs/page/NAME.webp`. */
export async function shootStates(browser: Browser): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  const model = await startPreparedModel();
  const stage = setStage({ permissions: [{ ask: 'web_fetch' }] });
  process.env['OPENAI_API_KEY'] ??= 'none';
  await stage.start('--base-url', model.url, '--model', 'prepared');
  for (const { name, task, most } of PREPARED) {
    drop(stage.workspace, name, '1.msg.json', {
      text: task,
      ...(most && { options: { limits: { iterations: most } } }),
    });
    await pause(300);
  }
  await pause(SETTLE_MS);
  for (const { name, later, settings } of PREPARED) {
    if (later !== undefined) drop(stage.workspace, name, '2.msg.json', { text: later });
    if (settings !== undefined) writeFileSync(join(stage.workspace, '.sessions', name, 'session.json'), settings);
  }
  await pause(2 * SETTLE_MS);
  const server = await startServer(stage.workspace);
  const shoot = async (name: string, hash: string, width: number, colorScheme: 'light' | 'dark') => {
    const viewport = { width, height: width === 390 ? 844 : 800 };
    const context = await browser.newContext({ viewport, colorScheme, locale: 'en', reducedMotion: 'reduce' });
    const page = await context.newPage();
    await page.goto(`${server.url}/#token=${server.token}`);
    await page.getByRole('navigation').first().waitFor();
    await page.goto(`${server.url}/${hash}`);
    await pause(1800);
    const devtools = await context.newCDPSession(page);
    const options = { format: 'webp', quality: 72 } as const;
    const { data } = await devtools.send('Page.captureScreenshot', options);
    writeFileSync(join(FOLDER, `${name}.webp`), Buffer.from(data, 'base64'));
    await context.close();
    console.log(`wrote ${FOLDER}/${name}.webp`);
  };
  try {
    for (const { name, width } of PREPARED)
      await shoot(name, `#/s/${name}`, width, name === 'site' || name === 'survey' ? 'dark' : 'light');
    await shoot('list', '#/', 390, 'light');
    await shoot('new', '#/new', 1280, 'light');
    await shoot('step', '#/s/q3-receipts/run/step_1', 1280, 'light');
    await shoot('phone', '#/s/q3-receipts', 390, 'light');
  } finally {
    await server.stop();
    await stage.end();
    model.close();
  }
}
